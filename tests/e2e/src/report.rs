//! What is printed at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::scenario::Skip;

/// Counts, and what did not agree.
#[derive(Default)]
pub(crate) struct Report {
    agreed: usize,
    skipped: BTreeMap<Skip, Vec<String>>,
    lines: Vec<String>,
    failures: Vec<String>,
    times: Vec<String>,
}

impl Report {
    pub(crate) fn skipped(&mut self, name: &str, skip: Skip, why: &str) {
        let why: String = why.chars().take(300).collect();
        self.skipped.entry(skip).or_default().push(format!("{name} {why}").trim().to_owned());
    }

    pub(crate) fn replayed(&mut self, name: &str, problems: &[String], response: &Value) {
        if problems.is_empty() {
            self.agreed += 1;
        } else {
            self.failed(&format!("scenario {name}"), &format!("{}\n{response:#}", problems.join("\n")));
        }
    }

    pub(crate) fn failed(&mut self, what: &str, why: &str) {
        println!("FAIL  {what}\n{}", indented(why));
        self.failures.push(what.to_owned());
    }

    /// A line for the summary.
    pub(crate) fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(crate) fn took(&mut self, what: &str, time: Duration) {
        self.times.push(format!("{what} {:.0} s", time.as_secs_f64()));
    }

    /// Holds the number of replayed scenarios to a minimum: a runner that skips everything agrees with everything.
    pub(crate) fn at_least(&mut self, fewest: usize) {
        if self.agreed < fewest {
            let why = format!("only {} agree, at least {fewest} are wanted", self.agreed);
            self.failed("scenarios", &why);
        }
    }

    /// Prints the summary. True if nothing failed.
    pub(crate) fn finish(&self, verbose: bool) -> bool {
        println!("==> end to end");
        let replayed = self.agreed + self.failures.iter().filter(|what| what.starts_with("scenario ")).count();
        let skipped: usize = self.skipped.values().map(Vec::len).sum();
        if replayed + skipped > 0 {
            println!("scenarios: {replayed} replayed on the API server, {} agree; {skipped} skipped:", self.agreed);
        }
        for (skip, names) in &self.skipped {
            println!("  {:4}  {skip}", names.len());
            for name in names.iter().filter(|_| verbose) {
                println!("        {name}");
            }
        }
        for line in &self.lines {
            println!("{line}");
        }
        println!("time: {}", self.times.join(", "));
        if self.failures.is_empty() {
            println!("end to end: everything agrees");
        } else {
            println!("end to end: {} FAILED", self.failures.len());
            self.failures.iter().for_each(|what| println!("  {what}"));
        }
        self.failures.is_empty()
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("      {line}\n")).collect()
}
