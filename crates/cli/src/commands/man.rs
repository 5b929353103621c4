//! `man`: the manual pages, one for each command.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory};

use crate::Cli;

#[derive(Args)]
pub(crate) struct Man {
    /// Directory to write the pages to
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Man) -> anyhow::Result<ExitCode> {
    let directory = || arguments.directory.display().to_string();
    fs::create_dir_all(&arguments.directory).with_context(directory)?;
    clap_mangen::generate_to(Cli::command(), &arguments.directory).with_context(directory)?;
    Ok(ExitCode::SUCCESS)
}
