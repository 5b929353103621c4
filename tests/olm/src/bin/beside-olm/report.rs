//! Cases, and what is printed of them.

use std::time::Instant;

use futures::future::LocalBoxFuture;
use futures::{StreamExt, stream};

/// What a case says besides that it holds: figures.
pub(crate) type Said = Option<String>;
/// A sentence, and what shows it.
pub(crate) type Case<W> = (&'static str, for<'w> fn(&'w W) -> LocalBoxFuture<'w, anyhow::Result<Said>>);

/// OLM waits most of the time; so do cases.
const AT_ONCE: usize = 6;

/// Counts, and what did not hold.
#[derive(Default)]
pub(crate) struct Report {
    held: usize,
    failures: Vec<String>,
    lines: Vec<String>,
}

impl Report {
    /// Runs the cases whose sentence begins like this, some at a time.
    pub(crate) async fn run<W>(&mut self, world: &W, cases: &[Case<W>], beginning: &str) {
        let wanted = cases.iter().filter(|(sentence, _)| sentence.starts_with(beginning));
        let outcomes = wanted.map(|(sentence, case)| async move {
            let began = Instant::now();
            (*sentence, case(world).await, began.elapsed())
        });
        let mut outcomes = stream::iter(outcomes.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
        while let Some((sentence, outcome, took)) = outcomes.next().await {
            match outcome {
                Ok(said) => self.held(&format!("{sentence} ({:.0} s)", took.as_secs_f64()), said),
                Err(error) => self.failed(sentence, &format!("{error:#}")),
            }
        }
    }

    /// One that holds.
    pub(crate) fn held(&mut self, sentence: &str, said: Said) {
        self.held += 1;
        println!("ok    {sentence}{}", said.map(|said| format!(": {said}")).unwrap_or_default());
    }

    /// One that does not.
    pub(crate) fn failed(&mut self, sentence: &str, why: &str) {
        let why: String = why.lines().map(|line| format!("      {line}\n")).collect();
        println!("FAIL  {sentence}\n{why}");
        self.failures.push(sentence.to_owned());
    }

    /// A line for the summary.
    pub(crate) fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Prints the summary. True if nothing failed.
    pub(crate) fn finish(&self) -> bool {
        println!("==> beside OLM");
        self.lines.iter().for_each(|line| println!("{line}"));
        println!("{} cases hold, {} FAILED", self.held, self.failures.len());
        self.failures.iter().for_each(|sentence| println!("  {sentence}"));
        self.failures.is_empty()
    }
}
