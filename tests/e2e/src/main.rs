//! `make e2e`: admission end to end, on a real API server. See README.md.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../../support/case.rs"]
#[allow(clippy::panic, dead_code)] // a part of it is for those who run scenarios offline
mod case;
#[path = "../../support/expected.rs"]
#[allow(dead_code)]
mod expected;
#[path = "../../support/mod.rs"]
mod support;

mod api;
mod audit;
mod authorizer;
mod complete;
mod differential;
mod draw;
mod live;
mod registration;
mod replay;
mod report;
mod scenario;
mod serve;
mod shipped;
mod state;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use crate::report::Report;

const USAGE: &str = "e2e PROGRAM [scenarios [BEGINNING] | live [BEGINNING] | differential [SEED]] [--verbose]

PROGRAM is operator-bounds. Without a part, all three run.";

struct Arguments {
    program: PathBuf,
    /// None for all of them.
    part: Option<String>,
    argument: String,
    verbose: bool,
}

fn arguments() -> Option<Arguments> {
    let (flags, words): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with('-'));
    let mut words = words.into_iter();
    let program = words.next()?.into();
    let (part, argument) = (words.next(), words.next().unwrap_or_default());
    let verbose = flags.iter().any(|flag| flag == "--verbose");
    Some(Arguments { program, part, argument, verbose })
}

/// Whatever ends this, what was started is ended with it: all of it is dropped on the way out.
#[tokio::main]
async fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match report(&arguments).await {
        Ok(report) if report.finish(arguments.verbose) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("end to end: {error:?}");
            ExitCode::from(2)
        }
    }
}

async fn report(arguments: &Arguments) -> anyhow::Result<Report> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut report = Report::default();
    let result = tokio::select! {
        result = run(arguments, &mut report) => result,
        _ = interrupted.recv() => Err(anyhow::anyhow!("interrupted: what was started is stopped again")),
        _ = terminated.recv() => Err(anyhow::anyhow!("terminated: what was started is stopped again")),
    };
    result.map(|()| report)
}

async fn run(arguments: &Arguments, report: &mut Report) -> anyhow::Result<()> {
    let wanted = |part: &str| arguments.part.as_deref().is_none_or(|wanted| wanted == part);
    if wanted("scenarios") {
        replay::run(&arguments.program, &arguments.argument, report).await?;
    }
    if wanted("live") {
        live::run(&arguments.program, &arguments.argument, report).await?;
    }
    if wanted("differential") {
        differential::run(&arguments.argument, report).await?;
    }
    Ok(())
}
