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
    /// Rules that are granted
    #[arg(required_unless_present = "jsonl")]
    granted: Option<PathBuf>,
    /// Rules that are requested
    #[arg(required_unless_present = "jsonl")]
    requested: Option<PathBuf>,
    /// Read one pair per line from standard input and answer each with one line
    #[arg(long, conflicts_with_all = ["granted", "requested"])]
    jsonl: bool,
}

pub(crate) fn run(arguments: &Diff) -> anyhow::Result<ExitCode> {
    let (Some(granted), Some(requested)) = (&arguments.granted, &arguments.requested) else {
        diff::stream(io::stdin().lock(), io::stdout().lock()).context("standard input")?;
        return Ok(ExitCode::SUCCESS);
    };
    let excess = diff::excess(&diff::rules(granted)?, &diff::rules(requested)?);
    if excess.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    print(&excess.join("\n"))?;
    Ok(ExitCode::from(NOT_COVERED))
}
