//! `diff`: what is requested and not granted.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use operator_bounds::diff;

use super::{NOT_COVERED, print};

#[derive(Args)]
pub(crate) struct Diff {
    /// The rules that are held
    #[arg(required_unless_present = "jsonl")]
    granted: Option<PathBuf>,
    /// The rules that are wanted
    #[arg(required_unless_present = "jsonl")]
    requested: Option<PathBuf>,
    /// Read a pair a line from standard input and answer each with a line
    #[arg(long, conflicts_with_all = ["granted", "requested"])]
    jsonl: bool,
    /// Only measure how long the pairs take
    #[arg(long, hide = true, requires = "jsonl", value_name = "ROUNDS")]
    bench: Option<u32>,
}

pub(crate) fn run(arguments: &Diff) -> anyhow::Result<ExitCode> {
    match (&arguments.granted, &arguments.requested, arguments.bench) {
        (Some(granted), Some(requested), _) => {
            let excess = diff::excess(&diff::rules(granted)?, &diff::rules(requested)?);
            if excess.is_empty() {
                return Ok(ExitCode::SUCCESS);
            }
            print(&excess.join("\n"))?;
            return Ok(ExitCode::from(NOT_COVERED));
        }
        (_, _, Some(rounds)) => {
            let timing = diff::bench(io::stdin().lock(), rounds).context("standard input")?;
            print(&serde_json::to_string(&timing)?)?;
        }
        _ => diff::stream(io::stdin().lock(), io::stdout().lock()).context("standard input")?,
    }
    Ok(ExitCode::SUCCESS)
}
