//! Workflow commands of GitHub Actions: annotations at the lines of a pull request.

use std::io::{self, Write};
use std::path::Path;

use super::places::Place;
use super::report::{Emitter, Summary, printable};
use super::sarif::text;
use super::verdict::{Finding, Status};

/// Annotations, and a last line for the log.
#[derive(Debug, Default)]
pub struct Github;

impl Emitter for Github {
    fn finding(&mut self, out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        let level = match finding.status {
            Status::Refused | Status::Unknown => "error",
            Status::Warned => "warning",
            Status::Unbounded => "notice",
            Status::Bounded | Status::Admitted | Status::NotJudged => return Ok(()),
        };
        let title = format!("{} {}", finding.name, finding.status.word());
        let missing = finding.explained.as_ref().map(super::explain::Explained::missing).unwrap_or_default();
        if missing.is_empty() {
            return command(out, level, &finding.file, finding.place, &title, &text(finding));
        }
        for missing in missing {
            let message = format!("asks for more than its boundary allows. Missing {}", missing.text);
            command(out, level, &finding.file, missing.place, &title, &message)?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
        for problem in &summary.problems {
            let (line, column) = problem.place.unwrap_or((1, 1));
            let at = |number| usize::try_from(number).unwrap_or(1);
            let place = Place { line: at(line), column: at(column) };
            command(out, "error", &problem.path, place, "not read", &problem.reason)?;
        }
        writeln!(out, "{}", summary.describe())
    }
}

fn command(out: &mut dyn Write, level: &str, file: &Path, place: Place, title: &str, message: &str) -> io::Result<()> {
    let file = property(&file.display().to_string());
    let Place { line, column } = place;
    writeln!(out, "::{level} file={file},line={line},col={column},title={}::{}", property(title), data(message))
}

/// A line break would end the command, and the next line could be a command of its own.
fn data(text: &str) -> String {
    printable(&text.replace('%', "%25")).replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_a_command_of_its_own() {
        assert_eq!(data("50%\n::error::x\r"), "50%25%0A::error::x\\r");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
    }
}
