//! SARIF 2.1.0, which code scanners and editors read.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::places::Place;
use super::report::{Emitter, Summary, uri};
use super::verdict::{Finding, Status};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// A SARIF log with one run.
#[derive(Debug, Default)]
pub struct Sarif {
    any: bool,
    /// The rules that had something to say.
    rules: BTreeSet<String>,
}

impl Emitter for Sarif {
    fn start(&mut self, out: &mut dyn Write) -> io::Result<()> {
        write!(
            out,
            "{{\"$schema\":\"{SCHEMA}\",\"version\":\"2.1.0\",\"runs\":[{{\"columnKind\":\"unicodeCodePoints\",\"results\":["
        )
    }

    fn finding(&mut self, out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        let level = match finding.status {
            Status::Refused | Status::Unknown => "error",
            Status::Warned => "warning",
            Status::Unbounded => "note",
            Status::Bounded | Status::Admitted | Status::NotJudged => return Ok(()),
        };
        let rule = match finding.status {
            Status::Unknown => "could-not-tell",
            Status::Warned if !finding.exceeds() => "warning",
            _ => finding.reason.as_str(),
        };
        self.rules.insert(rule.to_owned());
        let missing = finding.explained.as_ref().map(super::explain::Explained::missing).unwrap_or_default();
        if missing.is_empty() {
            return self.result(out, &result(finding, rule, level, &text(finding), finding.place));
        }
        for missing in missing {
            let message = format!("{} asks for more than its boundary allows. Missing {}", finding.name, missing.text);
            self.result(out, &result(finding, rule, level, &message, missing.place))?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
        let rules: Vec<Value> = self.rules.iter().map(|rule| descriptor(rule)).collect();
        let driver = json!({
            "name": "operator-bounds", "version": env!("CARGO_PKG_VERSION"), "semanticVersion": env!("CARGO_PKG_VERSION"),
            "informationUri": env!("CARGO_PKG_REPOSITORY"), "rules": rules});
        let notifications: Vec<Value> = summary
            .problems
            .iter()
            .map(|problem| {
                let (line, column) = problem.place.unwrap_or((1, 1));
                let place = Place { line: as_usize(line), column: as_usize(column) };
                json!({"level": "error", "message": {"text": problem.reason},
                    "locations": [location(&problem.path, place)]})
            })
            .collect();
        let invocation =
            json!({"executionSuccessful": summary.is_complete(), "toolExecutionNotifications": notifications});
        writeln!(out, "\n],\"tool\":{},\"invocations\":[{invocation}]}}]}}", json!({"driver": driver}))
    }
}

impl Sarif {
    fn result(&mut self, out: &mut dyn Write, result: &Value) -> io::Result<()> {
        let separator = if std::mem::replace(&mut self.any, true) { "," } else { "" };
        write!(out, "{separator}\n{result}")
    }
}

fn result(finding: &Finding, rule: &str, level: &str, message: &str, place: Place) -> Value {
    let mut location = location(&finding.file, place);
    let logical = format!("{}/{}/{}", finding.name.kind, finding.name.namespace, finding.name.name);
    location["logicalLocations"] = json!([{"fullyQualifiedName": logical, "kind": "object"}]);
    json!({"ruleId": rule, "level": level, "message": {"text": message}, "locations": [location]})
}

fn location(file: &Path, place: Place) -> Value {
    json!({"physicalLocation": {
        "artifactLocation": {"uri": uri(file)},
        "region": {"startLine": place.line.max(1), "startColumn": place.column.max(1)}}})
}

fn descriptor(rule: &str) -> Value {
    let short = match rule {
        "exceeds" => "It asks for more than its boundary allows",
        "exceeds-but-mode-is-warn" => "It asks for more than its boundary allows, which the settings only warn about",
        "unbounded" | "no-operator-group" => "Nothing bounds it",
        "could-not-tell" => "Cannot determine whether it stays within its boundary",
        "warning" => "The policy admits it with a warning",
        _ => "The policy refuses it",
    };
    json!({"id": rule, "shortDescription": {"text": short}, "helpUri": concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/check.md")})
}

/// What there is to say about an object as a whole.
pub(super) fn text(finding: &Finding) -> String {
    let mut lines: Vec<String> = finding.message.iter().cloned().collect();
    lines.extend(finding.warnings.iter().cloned());
    lines.extend(finding.remark());
    if lines.is_empty() { finding.status.word().to_owned() } else { lines.join("\n") }
}

fn as_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
