//! `operator-bounds`: the policy on the command line.

mod commands;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use commands::Command;
use commands::plugin::{self, Called};

/// The exit code when no answer could be given.
const FAILED: u8 = 2;

/// Check operators against the identity their administrator chose for them, with or without a cluster.
///
/// The policy published for Kubewarden is embedded and runs in the engine that Kubewarden uses.
#[derive(Parser)]
#[command(name = "operator-bounds", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let called = Called::now();
    let ran = if called == Called::Completer {
        plugin::complete(&Cli::command())
    } else {
        let matches = called.name(Cli::command()).get_matches();
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).command.run()
    };
    ran.unwrap_or_else(|error| {
        // Whoever closed the pipe has seen enough.
        let is_pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        if !error.chain().filter_map(|cause| cause.downcast_ref()).any(is_pipe) {
            let has_colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let label = if has_colour { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
            eprintln!("{label} {error:#}");
        }
        ExitCode::from(FAILED)
    })
}
