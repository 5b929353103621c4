//! `completion`: what a shell needs to complete commands and options.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::plugin::Called;
use super::print;
use crate::Cli;

#[derive(Args)]
pub(crate) struct Completion {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Completion) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), Called::now().completed(), &mut script);
    print(String::from_utf8(script)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
