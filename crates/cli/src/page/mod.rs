//! A self-contained page for hundreds of operators: an overview, the worst first, in which each folds open to what it asks for
//! against what it may have.
//!
//! Everything in a manifest is untrusted, so every text goes through [`text`] or [`attribute`], and the page's own script and
//! style are the only ones that its security policy lets run. Tags that HTML closes by itself are left open: there are tens of
//! thousands of them.

pub(crate) mod matrix;

use std::collections::BTreeSet;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::check::report::{counted, printable};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Up to so many are opened from the start.
const OPEN: usize = 2;

/// The page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// `operator-bounds check`.
    pub(crate) title: &'static str,
    /// The report in one sentence.
    pub(crate) lead: String,
    /// What could not be read.
    pub(crate) problems: Vec<String>,
    /// What else has to be known.
    pub(crate) notes: Vec<String>,
    /// The objects; the worst come first.
    pub(crate) cards: Vec<Card>,
    /// The heads of the columns between the name and `cluster-admin`.
    pub(crate) last: &'static str,
    /// Sections that come after the objects.
    pub(crate) sections: Vec<Section>,
}

/// An object: a row of the overview, which folds open.
#[derive(Debug, Default)]
pub(crate) struct Card {
    /// The lowest comes first.
    pub(crate) rank: (usize, bool),
    pub(crate) verdict: &'static str,
    /// The name that people tell it by.
    pub(crate) name: String,
    /// Its namespace, or its kind where that is not what everybody expects.
    pub(crate) place: String,
    /// Who bounds it.
    pub(crate) boundary: String,
    /// How many rules are missing.
    pub(crate) missing: usize,
    /// In which ways it is cluster-admin in effect; none where that is not known.
    pub(crate) admin: Option<Vec<&'static str>>,
    /// What the last column says.
    pub(crate) last: String,
    /// What is inside, as HTML.
    pub(crate) body: String,
    /// The scopes of the matrices in it.
    pub(crate) scopes: BTreeSet<String>,
}

/// Something that comes after the objects.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// As HTML.
    pub(crate) body: String,
}

impl Page {
    /// Writes the page.
    pub(crate) fn write(mut self, out: &mut dyn Write) -> io::Result<()> {
        // Stable: otherwise in the order in which they came.
        self.cards.sort_by_key(|card| card.rank);
        let policy = format!(
            "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
            digest(STYLE),
            digest(SCRIPT)
        );
        let lead = text(&self.lead);
        writeln!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>{}: {lead}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#objects\">Skip to the objects</a>\n\
             <header><h1>{}</h1><button type=\"button\" id=\"theme\" hidden>Dark</button><p>{lead}</p></header>",
            self.title, self.title
        )?;
        self.problems(out)?;
        self.counts(out)?;
        self.filters(out)?;
        self.overview(out)?;
        for section in &self.sections {
            writeln!(
                out,
                "<section id=\"{}\" class=\"more\">\n<h2>{}</h2>\n{}</section>",
                section.id,
                text(&section.title),
                section.body
            )?;
        }
        self.notes(out)?;
        writeln!(out, "<script>{SCRIPT}</script>\n</body>\n</html>")
    }

    /// What could not be read comes first: without it the report is incomplete.
    fn problems(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let items: String = self.problems.iter().map(|problem| format!("<li>{}</li>", text(problem))).collect();
        writeln!(
            out,
            "<section class=\"problems\" role=\"alert\"><h2><span class=\"badge unknown\">not read</span> This report is incomplete</h2>\
             <ul>{items}</ul></section>"
        )
    }

    /// How many there are of each verdict.
    fn counts(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for card in &self.cards {
            match counts.iter_mut().find(|(verdict, _)| *verdict == card.verdict) {
                Some((_, count)) => *count += 1,
                None => counts.push((card.verdict, 1)),
            }
        }
        let admins = self.cards.iter().filter(|card| card.admin.as_ref().is_some_and(|ways| !ways.is_empty())).count();
        let mut items: String = counts
            .iter()
            .map(|(verdict, count)| format!("<li class=\"{verdict}\"><strong>{count}</strong> {verdict}</li>"))
            .collect();
        if admins > 0 {
            items.push_str(&format!("<li class=\"admin\"><strong>{admins}</strong> cluster-admin in effect</li>"));
        }
        writeln!(out, "<ul class=\"counts\" aria-label=\"Verdicts\">{items}</ul>")
    }

    fn filters(&self, out: &mut dyn Write) -> io::Result<()> {
        let option = |value: &str| format!("<option value=\"{}\">{}</option>", attribute(value), text(value));
        let mut verdicts: Vec<&str> = Vec::new();
        for card in &self.cards {
            if !verdicts.contains(&card.verdict) {
                verdicts.push(card.verdict);
            }
        }
        let verdicts: String = verdicts.into_iter().map(option).collect();
        let scopes: BTreeSet<&str> = self.cards.iter().flat_map(|card| &card.scopes).map(String::as_str).collect();
        let scopes: String = scopes.into_iter().map(option).collect();
        writeln!(
            out,
            "<form id=\"filters\" class=\"filters\" role=\"search\" hidden>\n\
             <label>Name or resource <input id=\"text\" type=\"search\" autocomplete=\"off\"></label>\n\
             <label>Verdict <select id=\"status\"><option value=\"\">all</option>{verdicts}</select></label>\n\
             <label>Cluster-admin <select id=\"admin\"><option value=\"\">all</option><option>yes</option><option>no</option></select></label>\n\
             <label>Scope <select id=\"scope\"><option value=\"\">all</option>{scopes}</select></label>\n\
             <label>Permissions <select id=\"cells\"><option value=\"\">all</option><option>missing</option>\
             <option>covered</option><option>implied</option></select></label>\n\
             <span class=\"buttons\"><button type=\"button\" id=\"open\">Open all</button> <button type=\"button\" id=\"close\">Close all</button></span>\n\
             <output id=\"shown\" aria-live=\"polite\"></output>\n</form>\n\
             <ul class=\"legend\" aria-label=\"Legend\"><li><span class=\"key c\"></span> covered</li>\
             <li><span class=\"key m\"></span> missing</li><li><span class=\"key h\"></span> held, and nothing bounds it</li>\
             <li><span class=\"key i\">–</span> not asked for by the operator itself: OLM adds it, or an account holds it</li></ul>"
        )
    }

    fn overview(&self, out: &mut dyn Write) -> io::Result<()> {
        let last = if self.last.is_empty() { String::new() } else { format!("<span>{}</span>", self.last) };
        let wide = if self.last.is_empty() { "" } else { " six" };
        writeln!(
            out,
            "<main id=\"objects\" class=\"overview{wide}\">\n\
             <div class=\"heads\" aria-hidden=\"true\"><span>Verdict</span><span>Operator</span><span>Bounded by</span>\
             <span>Missing</span><span>Cluster-admin</span>{last}</div>\n\
             <p id=\"nothing\" hidden>Nothing matches.</p>"
        )?;
        let open = if self.cards.len() <= OPEN { " open" } else { "" };
        for (number, card) in self.cards.iter().enumerate() {
            self.card(out, number, card, open)?;
        }
        writeln!(out, "</main>")
    }

    fn card(&self, out: &mut dyn Write, number: usize, card: &Card, open: &str) -> io::Result<()> {
        let missing = match card.missing {
            0 => "<span class=\"none\">–</span>".to_owned(),
            count => format!("<span class=\"bad\">{}</span>", counted(count, "rule")),
        };
        let (admin, word) = match card.admin.as_deref() {
            Some([]) => ("<span class=\"none\">no</span>".to_owned(), "no"),
            Some(ways) => (format!("<span class=\"bad\">yes: {}</span>", ways.join(", ")), "yes"),
            None => ("<span class=\"none\">–</span>".to_owned(), ""),
        };
        let zero = if card.missing == 0 { " zero" } else { "" };
        let last = if self.last.is_empty() {
            String::new()
        } else {
            format!("<span><span class=\"label\">{} </span>{}</span>", self.last.to_lowercase(), card.last)
        };
        writeln!(
            out,
            "<details class=\"object\" id=\"o{number}\" data-status=\"{0}\" data-admin=\"{word}\"{open}><summary>\
             <span class=\"badge {0}\">{0}</span><span class=\"name\"><bdi>{1}</bdi> <small>{4}</small></span>\
             <span class=\"boundary\"><span class=\"label\">bounded by </span><bdi>{2}</bdi></span>\
             <span class=\"lacks{zero}\"><span class=\"label\">missing </span>{missing}</span>\
             <span class=\"is-admin\"><span class=\"label\">cluster-admin </span>{admin}</span>{last}</summary>\n\
             <div class=\"inside\">\n{3}</div></details>",
            card.verdict,
            text(&card.name),
            text(&card.boundary),
            card.body,
            text(&card.place)
        )
    }

    fn notes(&self, out: &mut dyn Write) -> io::Result<()> {
        let items: String = self.notes.iter().map(|note| format!("<li>{}</li>", text(note))).collect();
        if !items.is_empty() {
            writeln!(out, "<section class=\"more\"><h2>Notes</h2><ul>{items}</ul></section>")?;
        }
        Ok(())
    }
}

/// Manifests with a button that copies them. Where each rule comes from is in the matrix: here it would be half of the page.
pub(crate) fn paste(id: &str, title: &str, what: &str, yaml: &str) -> String {
    let content: Vec<&str> = yaml.lines().filter(|line| !line.starts_with('#')).collect();
    format!(
        "<details class=\"paste\"><summary>{}</summary><button type=\"button\" data-copies=\"{id}\" hidden \
         aria-label=\"Copy {}\">Copy</button><pre id=\"{id}\" tabindex=\"0\">{}</pre></details>\n",
        text(title),
        attribute(what),
        text(&content.join("\n"))
    )
}

fn digest(content: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(content.as_bytes())))
}

/// A text between tags. It is printable, and opens no tag.
pub(crate) fn text(text: &str) -> String {
    escaped(text, false)
}

/// A text between double quotes.
pub(crate) fn attribute(text: &str) -> String {
    escaped(text, true)
}

fn escaped(text: &str, quoted: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' if quoted => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_opens_a_tag_or_ends_an_attribute() {
        assert_eq!(text("<b a=\"x\">&\u{1b}'"), "&lt;b a=\"x\"&gt;&amp;\\u{1b}'");
        assert_eq!(attribute("\"><script>"), "&quot;&gt;&lt;script&gt;");
    }
}
