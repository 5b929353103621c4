//! The report for programs.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::report::{Emitter, Summary};
use super::verdict::{Finding, Status};

/// One JSON object: `objects`, `problems`, `summary`.
#[derive(Debug, Default)]
pub struct Json {
    any: bool,
}

impl Emitter for Json {
    fn start(&mut self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{{\"objects\":[")
    }

    fn finding(&mut self, out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        let separator = if std::mem::replace(&mut self.any, true) { "," } else { "" };
        write!(out, "{separator}\n{}", object(finding))
    }

    fn finish(&mut self, out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
        let problems: Vec<Value> = summary
            .problems
            .iter()
            .map(|problem| {
                let (line, column) = problem.place.unzip();
                json!({"file": problem.path.display().to_string(), "line": line, "column": column, "reason": problem.reason})
            })
            .collect();
        let mut counts: Value = Status::ALL.into_iter().map(|status| (status.word(), summary.count(status))).collect();
        counts["objects"] = summary.objects().into();
        counts["files"] = summary.files.into();
        counts["complete"] = summary.is_complete().into();
        writeln!(out, "\n],\"problems\":{},\"summary\":{counts}}}", Value::from(problems))
    }
}

fn object(finding: &Finding) -> Value {
    let missing: Option<Vec<Value>> = finding.explained.as_ref().map(|explained| {
        let entry = |missing: super::explain::Missing| {
            json!({"line": missing.place.line, "column": missing.place.column, "text": missing.text})
        };
        explained.missing().into_iter().map(entry).collect()
    });
    json!({
        "kind": finding.name.kind, "namespace": finding.name.namespace, "name": finding.name.name,
        "file": finding.file.display().to_string(), "line": finding.place.line, "column": finding.place.column,
        "status": finding.status.word(), "reason": finding.reason, "code": finding.code,
        "message": finding.message, "warnings": finding.warnings, "facts": finding.facts, "missing": missing,
    })
}
