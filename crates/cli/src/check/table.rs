//! The report for a terminal: a line for each object, and below it what there is to say.

use std::io::{self, Write};

use super::report::{Emitter, Summary, one_line, printable};
use super::verdict::{Finding, Status};

/// Where the second column begins.
const INDENT: usize = 11;

/// How to write for this terminal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Table {
    /// With colours.
    pub colour: bool,
    /// Columns of the terminal; none where lines are not broken.
    pub width: Option<usize>,
}

impl Table {
    fn paint(self, status: Status, text: &str) -> String {
        let code = match status {
            Status::Refused | Status::Unknown => "1;31",
            Status::Warned | Status::Unbounded => "33",
            Status::Bounded => "32",
            Status::Admitted | Status::NotJudged => "2",
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A text below a line, broken where the terminal ends.
    fn below(self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        for line in printable(text).lines() {
            let own = line.len() - line.trim_start().len();
            let mut indent = INDENT + own;
            let room = self.width.unwrap_or(usize::MAX).max(indent + 30);
            let mut used = 0;
            for word in line.trim_start().split(' ') {
                let length = word.chars().count() + 1;
                if used == 0 || used + length > room {
                    if used > 0 {
                        writeln!(out)?;
                        indent = INDENT + own + 2;
                    }
                    write!(out, "{:indent$}{word}", "")?;
                    used = indent + length;
                } else {
                    write!(out, " {word}")?;
                    used += length;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

impl Emitter for Table {
    fn finding(&mut self, out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        if finding.status == Status::NotJudged {
            return Ok(());
        }
        let word = self.paint(finding.status, &format!("{:<9}", finding.status.word()));
        let place = format!("{}:{}", finding.file.display(), finding.place.line);
        writeln!(out, "{word}  {}  {}", finding.name, one_line(&place))?;
        if let Some(message) = &finding.message {
            self.below(out, message)?;
        }
        for warning in &finding.warnings {
            self.below(out, &format!("warning: {warning}"))?;
        }
        match finding.remark() {
            Some(remark) if finding.status == Status::Unbounded => self.below(out, &remark),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
        for problem in &summary.problems {
            let word = self.paint(Status::Unknown, &format!("{:<9}", "not read"));
            writeln!(out, "{word}  {}", one_line(&problem.to_string()))?;
        }
        writeln!(out, "{}", summary.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_where_the_terminal_ends_and_lose_no_word() {
        let text = "  in namespace a\n    apiGroups: [apps]  resources: [deployments, statefulsets]  verbs: [get, list, watch]";
        let mut out = Vec::new();
        Table { colour: false, width: Some(60) }.below(&mut out, text).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.lines().all(|line| line.chars().count() <= 60), "{out}");
        assert_eq!(out.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
    }
}
