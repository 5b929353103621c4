//! The report for a terminal: an overview with a line for each operator, then what there is to say about some of them.

use std::io::{self, Write};

use bounds::rbac::{Rule, Scope};

use crate::check::report::{counted, one_line, printable};

use super::admin::Admin;
use super::settings::Source;
use super::{Audited, Origin, Outcome, Report, Verdict, commands};

/// More rules of one operator than these are counted.
const SHOWN: usize = 12;
const HEADS: [&str; 6] = ["VERDICT", "OPERATOR", "BOUNDED BY", "MISSING", "ADMIN", "PROPOSAL"];
/// The columns that give way where there is little room, and what is left to them.
const YIELDING: [(usize, usize); 2] = [(2, 16), (1, 24)];

/// How to write for this terminal.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// With colours.
    pub colour: bool,
    /// Columns of the terminal; none where lines are not broken.
    pub width: Option<usize>,
    /// What people type to run this program.
    pub program: &'static str,
}

impl Table {
    /// Writes the report.
    pub fn write(self, out: &mut dyn Write, report: &Report) -> io::Result<()> {
        let mut page = Page { table: self, out };
        page.overview(report)?;
        for audited in &report.audited {
            page.details(audited)?;
        }
        page.proposals(report)?;
        page.surplus(report)?;
        page.unread(report)?;
        page.notes(report)?;
        page.summary(report)
    }
}

struct Page<'o> {
    table: Table,
    out: &'o mut dyn Write,
}

/// The name as kubectl would have it.
fn short(audited: &Audited) -> String {
    let name = &audited.name;
    let place = if name.namespace.is_empty() { "clusterextension" } else { &name.namespace };
    one_line(&format!("{place}/{}", name.name))
}

fn bounded_by(audited: &Audited) -> String {
    if audited.bounds.is_empty() {
        return if audited.verdict == Verdict::Unknown { "?" } else { "nothing" }.to_owned();
    }
    let names = audited.bounds.iter().map(|bound| bound.label.split_once(' ').map_or(&*bound.label, |(_, name)| name));
    one_line(&names.collect::<Vec<_>>().join(", "))
}

fn row(audited: &Audited) -> [String; 6] {
    let missing = match audited.missing_rules() {
        0 => "-".to_owned(),
        count => counted(count, "rule"),
    };
    let admin = match (audited.is_admin(), audited.is_admin_known) {
        (true, _) => "yes",
        (false, true) => "no",
        (false, false) => "?",
    };
    let proposal = match &audited.proposal {
        Some(Outcome::Proven { .. }) => "bounded",
        Some(Outcome::Impossible(_)) => "none",
        None => "-",
    };
    [
        audited.verdict.word().to_owned(),
        short(audited),
        bounded_by(audited),
        missing,
        admin.to_owned(),
        proposal.to_owned(),
    ]
}

impl Page<'_> {
    fn overview(&mut self, report: &Report) -> io::Result<()> {
        if report.audited.is_empty() {
            return Ok(());
        }
        let rows: Vec<[String; 6]> = report.audited.iter().map(row).collect();
        let widths = self.widths(&rows);
        self.line(&HEADS.map(str::to_owned), &widths, "1")?;
        for (row, audited) in rows.iter().zip(&report.audited) {
            self.line(row, &widths, colour(audited))?;
        }
        writeln!(self.out)
    }

    /// As wide as the widest entry; what does not fit is taken from the names.
    fn widths(&self, rows: &[[String; 6]]) -> [usize; 6] {
        let mut widths = HEADS.map(str::len);
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for (column, least) in YIELDING {
            let total: usize = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
            let over = total.saturating_sub(self.table.width.unwrap_or(usize::MAX));
            widths[column] = widths[column].saturating_sub(over).max(least.min(widths[column]));
        }
        widths
    }

    fn line(&mut self, row: &[String; 6], widths: &[usize; 6], colour: &str) -> io::Result<()> {
        let mut text = String::new();
        for (number, (cell, width)) in row.iter().zip(widths).enumerate() {
            let cell = format!("{:<width$}", shortened(cell, *width));
            let is_painted = number == 0 || colour == "1" || (number == 4 && row[4] == "yes");
            text.push_str(&if is_painted { self.paint(colour, &cell) } else { cell });
            text.push_str("  ");
        }
        writeln!(self.out, "{}", text.trim_end())
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.table.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// What there is to say about an operator; nothing where the overview says it all.
    fn details(&mut self, audited: &Audited) -> io::Result<()> {
        let is_plain =
            audited.verdict == Verdict::Unbounded && matches!(audited.proposal, Some(Outcome::Proven { .. }));
        let has_borrowed = audited.holds.iter().any(|holding| holding.origin == Origin::Borrowed);
        let is_fine = matches!(audited.verdict, Verdict::Bounded | Verdict::Exempt) || is_plain;
        if is_fine && !audited.is_admin() && audited.notes.is_empty() && !has_borrowed {
            return Ok(());
        }
        let verdict = self.paint(colour(audited), audited.verdict.word());
        writeln!(self.out, "{}: {verdict}", self.paint("1", &short(audited)))?;
        if !audited.why.is_empty() {
            self.text(2, &audited.why)?;
        }
        for bound in &audited.bounds {
            let is = bound.admin.first().map(|admin| format!(", which is cluster-admin itself: it {}", admin.how));
            self.text(2, &format!("bounded by {} ({}){}", bound.label, bound.by, is.unwrap_or_default()))?;
        }
        self.missing(audited)?;
        for admin in &audited.admin {
            self.admin(admin)?;
        }
        self.borrowed(audited)?;
        match &audited.proposal {
            Some(Outcome::Impossible(_)) if !audited.admin.is_empty() => {
                self.text(2, "no boundary is proposed: one that allows this would be cluster-admin too")?;
            }
            Some(Outcome::Impossible(reason)) => self.text(2, &format!("no boundary is proposed: {reason}"))?,
            _ => {}
        }
        for note in &audited.notes {
            self.text(2, &format!("note: {note}"))?;
        }
        writeln!(self.out)
    }

    fn missing(&mut self, audited: &Audited) -> io::Result<()> {
        for missing in &audited.missing {
            self.text(2, &format!("{} lacks {}", missing.label, missing.scope))?;
            self.rules(4, missing.rules.iter())?;
        }
        Ok(())
    }

    fn admin(&mut self, admin: &Admin) -> io::Result<()> {
        self.text(2, &format!("cluster-admin: {admin}"))?;
        for right in &admin.rights {
            let place = if right.scope == Scope::Cluster { String::new() } else { format!(", {}", right.scope) };
            self.text(4, &format!("{}  ({}{place})", right.rule, right.from))?;
        }
        Ok(())
    }

    fn borrowed(&mut self, audited: &Audited) -> io::Result<()> {
        for holding in audited.holds.iter().filter(|holding| holding.origin == Origin::Borrowed) {
            self.text(2, &format!("borrowed: {}", holding.why))?;
            self.rules(4, holding.rules.iter())?;
        }
        Ok(())
    }

    fn rules<'r>(&mut self, indent: usize, rules: impl ExactSizeIterator<Item = &'r Rule<'static>>) -> io::Result<()> {
        let more = rules.len().saturating_sub(SHOWN);
        for rule in rules.take(SHOWN) {
            self.text(indent, &rule.to_string())?;
        }
        match more {
            0 => Ok(()),
            more => self.text(indent, &format!("… and {} more: --output json has them all", counted(more, "rule"))),
        }
    }

    fn proposals(&mut self, report: &Report) -> io::Result<()> {
        if report.proposals.is_empty() {
            return Ok(());
        }
        self.head("Proposed and proven: with these applied, the policy calls them bounded")?;
        for proposal in &report.proposals {
            let names: Vec<String> = proposal.bounds.iter().map(|name| one_line(&name.name)).collect();
            self.text(2, &format!("{} for {}", proposal.boundary, names.join(", ")))?;
            let takes: Vec<String> = proposal
                .settings
                .iter()
                .map(|change| format!("{}.{}: {}", change.section, change.setting, change.to))
                .collect();
            let takes =
                if takes.is_empty() { String::new() } else { format!("; it takes the setting {}", takes.join(", ")) };
            self.text(4, &format!("{}{takes}", proposal.file))?;
        }
        writeln!(self.out)
    }

    fn surplus(&mut self, report: &Report) -> io::Result<()> {
        if report.surplus.is_empty() {
            return Ok(());
        }
        self.head("Boundaries that hold more than what they bound needs")?;
        for surplus in &report.surplus {
            self.text(2, &surplus.label)?;
            for admin in &surplus.admin {
                self.text(4, &format!("is cluster-admin, and so bounds nothing: it {}", admin.how))?;
            }
            for unused in &surplus.unused {
                let place = unused.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}"));
                self.text(4, &format!("{} by {}{}", unused.role, unused.binding, place.unwrap_or_default()))?;
                self.rules(6, unused.rules.iter())?;
            }
        }
        writeln!(self.out)
    }

    fn unread(&mut self, report: &Report) -> io::Result<()> {
        if report.unread.is_empty() {
            return Ok(());
        }
        self.head("Not read, so this report is incomplete")?;
        for unread in &report.unread {
            let place = unread.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}"));
            let (kind, place) = (unread.kind, place.unwrap_or_default());
            let needs =
                if unread.is_forbidden { format!(" (it takes list on {})", unread.qualified()) } else { String::new() };
            self.text(2, &format!("{kind}{place}{needs}: {}. {}", unread.meaning, unread.reason))?;
        }
        let commands = commands::grant(&report.unread, report.user.as_deref());
        if !commands.is_empty() {
            self.text(2, "Somebody who may can grant it:")?;
            // Commands are never broken: they are for pasting.
            for command in commands {
                writeln!(self.out, "    {}", printable(&command))?;
            }
        }
        writeln!(self.out)
    }

    fn notes(&mut self, report: &Report) -> io::Result<()> {
        let policy = policy_note(report);
        for note in std::iter::once(&policy).chain(&report.notes) {
            self.text(0, &format!("note: {note}"))?;
        }
        Ok(())
    }

    fn summary(&mut self, report: &Report) -> io::Result<()> {
        self.text(0, &describe(report))?;
        if !report.proposals.is_empty() {
            let program = self.table.program;
            self.text(0, &format!("To review the proposals as files: {program} audit --write DIR"))?;
        }
        Ok(())
    }

    fn head(&mut self, text: &str) -> io::Result<()> {
        let painted = self.paint("1", &format!("{text}:"));
        writeln!(self.out, "{painted}")
    }

    /// A text, broken where the terminal ends; its own lines stay lines.
    fn text(&mut self, indent: usize, text: &str) -> io::Result<()> {
        for line in printable(text).lines() {
            self.broken(indent, line)?;
        }
        Ok(())
    }

    fn broken(&mut self, indent: usize, line: &str) -> io::Result<()> {
        let own = indent + line.len() - line.trim_start().len();
        let room = self.table.width.unwrap_or(usize::MAX).max(own + 30);
        let mut written = format!("{:own$}", "");
        let mut is_fresh = true;
        for word in line.trim_start().split(' ') {
            let used = written.chars().count();
            if !is_fresh && used + 1 + word.chars().count() > room {
                writeln!(self.out, "{}", written.trim_end())?;
                written = format!("{:1$}", "", own + 2);
                is_fresh = true;
            }
            // Two spaces are no reason to begin a line with one.
            if !is_fresh {
                written.push(' ');
            } else if word.is_empty() {
                continue;
            }
            written.push_str(word);
            is_fresh = false;
        }
        writeln!(self.out, "{}", written.trim_end())
    }
}

/// What was judged with, and what that means.
pub(super) fn policy_note(report: &Report) -> String {
    match report.rules.source {
        Source::Given => "judged with the settings that were given".to_owned(),
        Source::Cluster => {
            let names: Vec<String> = report
                .rules
                .registrations
                .iter()
                .map(|registration| format!("{} ({})", registration.name, registration.mode))
                .collect();
            format!("judged with the settings of the policy as it is registered: {}", names.join(", "))
        }
        Source::Defaults => {
            "the policy is not registered in this cluster: judged with its defaults. An OperatorGroup's account \
                             bounds what OLM does with it, and nothing else"
                .to_owned()
        }
    }
}

/// The report in one sentence.
#[must_use]
pub fn describe(report: &Report) -> String {
    let extensions = report.audited.iter().filter(|audited| audited.name.namespace.is_empty()).count();
    let mut text = counted(report.audited.len() - extensions, "operator");
    if extensions > 0 {
        text = format!("{text} and {}", counted(extensions, "extension"));
    }
    let admins = report.audited.iter().filter(|audited| audited.is_admin()).count();
    let counts = Verdict::ALL.into_iter().filter(|verdict| report.count(*verdict) > 0);
    let mut counts: Vec<String> =
        counts.map(|verdict| format!("{} {}", report.count(verdict), verdict.word())).collect();
    if admins > 0 {
        counts.push(format!("{admins} cluster-admin in effect"));
    }
    let proposed: usize = report.proposals.iter().map(|proposal| proposal.bounds.len()).sum();
    if proposed > 0 {
        counts.push(format!("a boundary proposed and proven for {proposed}"));
    }
    if !counts.is_empty() {
        text = format!("{text}: {}", counts.join(", "));
    }
    if !report.unread.is_empty() {
        text = format!("{text}; NOT READ: {}, so this report is incomplete", counted(report.unread.len(), "kind"));
    }
    text
}

fn colour(audited: &Audited) -> &'static str {
    match audited.verdict {
        _ if audited.is_admin() && audited.verdict != Verdict::Exempt => "1;31",
        Verdict::Unbounded | Verdict::Exceeds | Verdict::Refused => "33",
        Verdict::Unknown => "35",
        Verdict::Bounded => "32",
        Verdict::Exempt => "2",
    }
}

/// A text that fits, with its middle left out: names begin with a namespace and end with a version.
fn shortened(text: &str, width: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= width {
        return text.to_owned();
    }
    let left = width.saturating_sub(1).div_ceil(2);
    let right = width.saturating_sub(1) - left;
    let start: String = letters[..left].iter().collect();
    let end: String = letters[letters.len() - right..].iter().collect();
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(width: usize) -> String {
        let mut out = Vec::new();
        let mut page = Page { table: Table { colour: false, width: Some(width), program: "x" }, out: &mut out };
        let row = [
            "unbounded",
            "a-namespace-with-a-long-name/an-operator-with-a-long-name.v1.2.3",
            "a-namespace-with-a-long-name/installer",
            "12 rules",
            "yes",
            "bounded",
        ];
        let rows = [row.map(str::to_owned)];
        let widths = page.widths(&rows);
        page.line(&rows[0], &widths, "1").unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_give_way_until_the_overview_fits_the_terminal() {
        assert_eq!(overview(80), "unbounded  a-namespace-…name.v1.2.3  a-namesp…staller  12 rules  yes    bounded\n");
        assert!(overview(80).trim_end().chars().count() <= 80);
        assert!(
            overview(200).contains("a-namespace-with-a-long-name/an-operator-with-a-long-name.v1.2.3  a-namespace")
        );
    }

    #[test]
    fn a_long_name_keeps_its_beginning_and_its_end() {
        assert_eq!(shortened("operators/etcdoperator.v0.9.4", 29), "operators/etcdoperator.v0.9.4");
        assert_eq!(shortened("operators/etcdoperator.v0.9.4", 15), "operato….v0.9.4");
        assert_eq!(shortened("abc", 1), "…");
    }
}
