//! JUnit's XML, which build servers read: a test case for each object.

use std::io::{self, Write};

use super::report::{Emitter, Summary, printable};
use super::sarif::text;
use super::verdict::{Finding, Status};

/// The counts come first in the file, so the cases wait until all of them are known.
#[derive(Debug, Default)]
pub struct Junit {
    cases: String,
}

impl Emitter for Junit {
    fn finding(&mut self, _out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        let body = match finding.status {
            Status::Refused => outcome("failure", &finding.reason, finding),
            Status::Unknown => outcome("error", "could-not-tell", finding),
            Status::NotJudged => "<skipped/>".to_owned(),
            Status::Warned | Status::Unbounded => format!("<system-out>{}</system-out>", xml(&text(finding))),
            Status::Bounded | Status::Admitted => String::new(),
        };
        self.case(&finding.file.display().to_string(), &finding.name.to_string(), finding.place.line, &body);
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
        for problem in &summary.problems {
            let line = problem.place.map_or(1, |(line, _)| line);
            let message = xml(&problem.to_string());
            let body = format!("<error type=\"not-read\" message=\"{message}\">{message}</error>");
            self.case(&problem.path.display().to_string(), "reading", usize::try_from(line).unwrap_or(1), &body);
        }
        let counts = format!(
            "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
            summary.objects() + summary.problems.len(),
            summary.count(Status::Refused),
            summary.count(Status::Unknown) + summary.problems.len(),
            summary.count(Status::NotJudged)
        );
        writeln!(
            out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"operator-bounds\" {counts}>\n\
             <testsuite name=\"operator-bounds check\" {counts}>\n{}</testsuite>\n</testsuites>",
            self.cases
        )
    }
}

impl Junit {
    fn case(&mut self, file: &str, name: &str, line: usize, body: &str) {
        let file = xml(file);
        self.cases.push_str(&format!(
            "<testcase classname=\"{file}\" name=\"{}\" file=\"{file}\" line=\"{line}\">{body}</testcase>\n",
            xml(name)
        ));
    }
}

fn outcome(element: &str, kind: &str, finding: &Finding) -> String {
    let text = text(finding);
    let first = text.lines().next().unwrap_or_default();
    let mut body = format!("{}:{}\n{text}", finding.file.display(), finding.place.line);
    for missing in finding.explained.iter().flat_map(super::explain::Explained::missing) {
        body.push_str(&format!("\n{}:{}: missing {}", finding.file.display(), missing.place.line, missing.text));
    }
    format!("<{element} type=\"{}\" message=\"{}\">{}</{element}>", xml(kind), xml(first), xml(&body))
}

/// A text for XML 1.0 or HTML, in an element or an attribute. Characters that they cannot hold are written as escapes.
pub(super) fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push_str("&#10;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::xml;

    #[test]
    fn no_text_breaks_out_of_xml() {
        assert_eq!(xml("a<b>&\"'\n\u{1b}\0"), "a&lt;b&gt;&amp;&quot;&#39;&#10;\\u{1b}\\u{0}");
    }
}
