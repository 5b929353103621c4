//! `session`: the kwctl replay file of an evaluation.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use operator_bounds::documents::FileError;
use operator_bounds::replay;

use super::evaluation::{Evaluation, evaluate};
use super::print;

#[derive(Args)]
pub(crate) struct Session {
    #[command(flatten)]
    evaluation: Evaluation,
    /// File to write to [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Session) -> anyhow::Result<ExitCode> {
    let (_, exchanges) = evaluate(&arguments.evaluation)?;
    let yaml = replay::session(&exchanges)?;
    match &arguments.output {
        Some(path) => fs::write(path, yaml).map_err(|error| FileError::new(path, error))?,
        None => print(yaml.trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}
