//! A self-contained page: what each operator asks for against what it may have.
//!
//! Everything in a manifest is untrusted, so every text goes through [`esc`], and the page's own script and style are the
//! only ones that its security policy lets run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bounds::rbac::{Scope, Target};
use sha2::{Digest, Sha256};

use super::explain::{Asked, Bound, Cover, Explained, Weight, atoms};
use super::junit::xml as esc;
use super::report::{Emitter, Summary};
use super::verdict::{Finding, Status};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The verbs that everybody knows, in the order in which everybody says them.
const VERBS: [&str; 9] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "*"];

/// The page. What it filters by comes first, so the objects wait until all of them are known.
#[derive(Debug, Default)]
pub struct Html {
    objects: String,
    statuses: BTreeSet<Status>,
    scopes: BTreeSet<Scope>,
    count: usize,
}

impl Emitter for Html {
    fn finding(&mut self, _out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        if finding.status != Status::NotJudged {
            self.statuses.insert(finding.status);
            self.count += 1;
            self.object(finding);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
        let policy = format!(
            "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
            digest(STYLE),
            digest(SCRIPT)
        );
        writeln!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>operator-bounds: {}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#objects\">Skip to the objects</a>\n\
             <header><h1>operator-bounds check</h1><button type=\"button\" id=\"theme\" hidden>Dark</button><p>{}</p></header>",
            esc(&summary.describe()),
            esc(&summary.describe())
        )?;
        problems(out, summary)?;
        self.filters(out)?;
        writeln!(
            out,
            "<main id=\"objects\">\n<p id=\"nothing\" hidden>Nothing matches.</p>\n{}</main>\n<script>{SCRIPT}</script>\n\
             </body>\n</html>",
            self.objects
        )
    }
}

fn digest(content: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(content.as_bytes())))
}

/// What could not be read comes first: without it the report is incomplete.
fn problems(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    if summary.problems.is_empty() {
        return Ok(());
    }
    let items: String =
        summary.problems.iter().map(|problem| format!("<li>{}</li>", esc(&problem.to_string()))).collect();
    writeln!(
        out,
        "<section class=\"problems\" role=\"alert\"><h2><span class=\"badge unknown\">not read</span> This report is incomplete</h2><ul>{items}</ul></section>"
    )
}

impl Html {
    fn filters(&self, out: &mut dyn Write) -> io::Result<()> {
        let option = |value: &str| format!("<option value=\"{0}\">{0}</option>", esc(value));
        let statuses: String = self.statuses.iter().map(|status| option(status.word())).collect();
        let scopes: String = self.scopes.iter().map(|scope| option(&scope.to_string())).collect();
        writeln!(
            out,
            "<form id=\"filters\" class=\"filters\" role=\"search\" hidden>\n\
             <label>Name or resource <input id=\"text\" type=\"search\" autocomplete=\"off\"></label>\n\
             <label>Verdict <select id=\"status\"><option value=\"\">all</option>{statuses}</select></label>\n\
             <label>Scope <select id=\"scope\"><option value=\"\">all</option>{scopes}</select></label>\n\
             <label>Permissions <select id=\"cells\"><option value=\"\">all</option><option>missing</option>\
             <option>covered</option><option>implied</option></select></label>\n\
             <output id=\"shown\" aria-live=\"polite\"></output>\n</form>\n\
             <ul class=\"legend\" aria-label=\"Legend\"><li><span class=\"key covered\">✓</span> covered</li>\
             <li><span class=\"key missing\">✗</span> missing</li>\
             <li><span class=\"key implied\">–</span> implied by what OLM does for the operator</li></ul>"
        )
    }

    fn object(&mut self, finding: &Finding) {
        let status = finding.status.word();
        let name = finding.name.to_string();
        let place = format!("{}:{}", finding.file.display(), finding.place.line);
        self.objects.push_str(&format!(
            "<section class=\"object\" data-status=\"{status}\" data-text=\"{}\">\n<h2><span class=\"badge {status}\">{status}</span> \
             <bdi>{}</bdi></h2>\n<p class=\"where\"><bdi>{}</bdi></p>\n",
            esc(&format!("{name} {place}").to_lowercase()),
            esc(&name),
            esc(&place)
        ));
        if let Some(remark) = finding.remark() {
            self.objects.push_str(&format!("<p class=\"by\">{}</p>\n", esc(&remark)));
        }
        for bound in finding.explained.iter().flat_map(|explained| &explained.boundaries) {
            self.objects.push_str(&boundary(bound));
        }
        if let Some(message) = &finding.message {
            self.objects.push_str(&format!("<pre class=\"message\">{}</pre>\n", esc(message)));
        }
        for warning in &finding.warnings {
            self.objects.push_str(&format!("<p class=\"warning\">{}</p>\n", esc(warning)));
        }
        if let Some(explained) = &finding.explained {
            for (scope, rows) in matrix(explained) {
                self.objects.push_str(&table(&scope, &rows, &name));
                self.scopes.insert(scope);
            }
        }
        if let Some(rbac) = &finding.rbac {
            self.objects.push_str(&paste(rbac, self.count, &name));
        }
        self.objects.push_str("</section>\n");
    }
}

fn boundary(bound: &Bound) -> String {
    let through: Vec<String> =
        bound.grants.iter().map(|grant| format!("{} → {} {}", grant.binding, grant.role, grant.scope)).collect();
    let holds =
        if through.is_empty() { "holds nothing here".to_owned() } else { format!("holds {}", through.join("; ")) };
    format!("<p class=\"by\">Boundary: {} ({}); it {}</p>\n", esc(&bound.label), esc(&bound.by), esc(&holds))
}

/// The RBAC to apply, with a button that copies it.
fn paste(rbac: &str, number: usize, name: &str) -> String {
    format!(
        "<div class=\"bar\"><h3>RBAC that is missing</h3><button type=\"button\" data-copies=\"rbac-{number}\" hidden \
         aria-label=\"Copy the RBAC for {}\">Copy</button></div>\n<pre id=\"rbac-{number}\" tabindex=\"0\">{}</pre>\n",
        esc(name),
        esc(rbac)
    )
}

/// What becomes of one verb on one resource.
#[derive(Debug, Default)]
struct Cell {
    missing: bool,
    /// Whether the operator itself asks for it somewhere.
    declared: bool,
    notes: BTreeSet<String>,
}

/// A row: the resource and its group, and a cell for each verb.
type Rows = BTreeMap<(String, String), BTreeMap<String, Cell>>;

fn matrix(explained: &Explained) -> BTreeMap<Scope, Rows> {
    let mut scopes: BTreeMap<Scope, Rows> = BTreeMap::new();
    for asked in &explained.asked {
        for weight in &asked.atoms {
            for atom in atoms(std::slice::from_ref(&weight.rule)) {
                let row = match atom.target {
                    Target::Url(url) => (url.to_owned(), "URL".to_owned()),
                    Target::Resource { group, resource, name } => {
                        let resource = name.map_or(resource.to_owned(), |name| format!("{resource} named {name}"));
                        (resource, if group.is_empty() { "core".to_owned() } else { group.to_owned() })
                    }
                };
                let rows = scopes.entry(asked.scope.clone()).or_default();
                let cell = rows.entry(row).or_default().entry(atom.verb.to_owned()).or_default();
                cell.missing |= weight.is_missing();
                cell.declared |= asked.source.is_some();
                cell.notes.insert(note(explained, asked, weight));
            }
        }
    }
    scopes
}

/// Where it is asked for, and what covers it.
fn note(explained: &Explained, asked: &Asked, weight: &Weight) -> String {
    let asked_by = match (&asked.source, &asked.why) {
        (Some(source), _) => format!("line {}: {}", asked.place.line, source.path()),
        (None, Some(why)) => why.clone(),
        (None, None) => "implied".to_owned(),
    };
    let covers = explained.boundaries.iter().zip(&weight.covered).map(|(bound, cover)| match cover {
        Cover::Missing => format!("{} does not hold it", bound.label),
        Cover::By { grant, .. } => {
            bound.grants.get(*grant).map_or("covered".to_owned(), |grant| format!("covered by {}", grant.role))
        }
        Cover::Honored => format!("{} may escalate or bind", bound.label),
        Cover::Review => "covered according to the API server".to_owned(),
    });
    format!("{asked_by}; {}", covers.collect::<Vec<_>>().join("; "))
}

fn table(scope: &Scope, rows: &Rows, name: &str) -> String {
    let used: BTreeSet<&str> = rows.values().flat_map(|cells| cells.keys().map(String::as_str)).collect();
    let known = VERBS.into_iter().filter(|verb| used.contains(verb));
    let verbs: Vec<&str> = known.chain(used.iter().copied().filter(|verb| !VERBS.contains(verb))).collect();
    let scope = esc(&scope.to_string());
    let head: String = verbs.iter().map(|verb| format!("<th scope=\"col\">{}</th>", esc(verb))).collect();
    let body: String = rows.iter().map(|(row, cells)| line(row, cells, &verbs)).collect();
    format!(
        "<div class=\"scope\" data-scope=\"{scope}\">\n<h3>{scope}</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Permissions of {0} {scope}\">\n<table>\n<caption>What {0} asks for {scope}</caption>\n\
         <thead><tr><th scope=\"col\">resource</th>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n</div>\n",
        esc(name)
    )
}

fn line((resource, group): &(String, String), cells: &BTreeMap<String, Cell>, verbs: &[&str]) -> String {
    let has = |what: &str, test: &dyn Fn(&Cell) -> bool| {
        if cells.values().any(test) { format!(" has-{what}") } else { String::new() }
    };
    let classes = has("missing", &|cell| cell.missing)
        + &has("covered", &|cell| !cell.missing)
        + &has("implied", &|cell| !cell.declared);
    let cells: String = verbs.iter().map(|verb| cells.get(*verb).map_or("<td></td>".to_owned(), square)).collect();
    format!(
        "<tr class=\"{}\" data-text=\"{}\"><th scope=\"row\"><bdi>{}</bdi> <small><bdi>{}</bdi></small></th>{cells}</tr>\n",
        classes.trim_start(),
        esc(&format!("{resource} {group}").to_lowercase()),
        esc(resource),
        esc(group)
    )
}

fn square(cell: &Cell) -> String {
    let (class, sign) = if cell.missing { ("missing", "✗") } else { ("covered", "✓") };
    let (implied, note) = if cell.declared { ("", "") } else { (" implied", ", implied") };
    let notes: Vec<String> = cell.notes.iter().map(|note| esc(note)).collect();
    format!(
        "<td class=\"{class}{implied}\" title=\"{}\"><span aria-hidden=\"true\">{sign}</span><span class=\"unseen\">{class}{note}</span></td>",
        notes.join("&#10;")
    )
}
