//! The report: verdict by verdict, with a summary at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use crate::documents::FileError;

use super::verdict::{Finding, Status};

/// A way of writing a report. Verdicts are written as they come, so that their number does not matter.
pub trait Emitter {
    /// What comes before the first verdict.
    fn start(&mut self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// A verdict.
    fn finding(&mut self, out: &mut dyn Write, finding: &Finding) -> io::Result<()>;

    /// What comes after the last one.
    fn finish(&mut self, out: &mut dyn Write, summary: &Summary) -> io::Result<()>;
}

/// How it all went.
#[derive(Debug, Default)]
pub struct Summary {
    /// The verdicts, counted.
    pub counts: BTreeMap<Status, usize>,
    /// What could not be read.
    pub problems: Vec<FileError>,
    /// The files that were read.
    pub files: usize,
}

impl Summary {
    /// How many there are of a status.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.counts.get(&status).copied().unwrap_or_default()
    }

    /// How many objects there are.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.counts.values().sum()
    }

    /// Whether everything that was given was read and judged.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.problems.is_empty() && self.count(Status::Unknown) == 0
    }

    /// In one sentence.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = format!("{} in {}", counted(self.objects(), "object"), counted(self.files, "file"));
        let counts: Vec<String> = Status::ALL
            .into_iter()
            .filter(|status| self.count(*status) > 0)
            .map(|status| format!("{} {}", self.count(status), status.word()))
            .collect();
        if !counts.is_empty() {
            _ = write!(text, ": {}", counts.join(", "));
        }
        if !self.problems.is_empty() {
            _ = write!(text, "; NOT READ: {}, so this report is incomplete", counted(self.problems.len(), "problem"));
        }
        text
    }
}

/// `1 object`, `2 objects`.
#[must_use]
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A text that is safe to print on a terminal: manifests are untrusted, including the names in them.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (character.is_control() && character != '\n') || turns {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// The same on one line, for formats in which a line break has a meaning.
#[must_use]
pub fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}

/// A path as a relative URI: what SARIF and web pages want.
#[must_use]
pub fn uri(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut uri = if path.is_absolute() { "file://".to_owned() } else { String::new() };
    for byte in text.strip_prefix("./").unwrap_or(&text).bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_reaches_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\r\u{202e}c\n"), "a\\u{1b}[31mb\\r\\u{202e}c\n");
    }

    #[test]
    fn a_path_becomes_a_uri() {
        assert_eq!(uri(Path::new("./a b/ü.yaml")), "a%20b/%C3%BC.yaml");
        assert_eq!(uri(Path::new("/tmp/x.yaml")), "file:///tmp/x.yaml");
    }

    #[test]
    fn a_summary_counts_and_never_hides_what_is_missing() {
        let mut summary = Summary { files: 2, ..Summary::default() };
        summary.counts.insert(Status::Refused, 1);
        summary.counts.insert(Status::Bounded, 2);
        assert_eq!(summary.describe(), "3 objects in 2 files: 1 refused, 2 bounded");
        summary.problems.push(FileError::new(Path::new("x"), "y"));
        assert!(summary.describe().ends_with("; NOT READ: 1 problem, so this report is incomplete"));
        assert!(!summary.is_complete());
    }
}
