//! `make e2e`: admission end to end, on a real API server. See README.md.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod authorizer;
mod complete;
mod differential;
mod draw;
mod host;
mod live;
mod measure;
mod registration;
mod replay;
mod report;
mod scanner;
mod scenario;
mod serve;
mod state;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use test_kubewarden::Module;
use test_support::{self as support, case};
use tokio::signal::unix::{SignalKind, signal};

use crate::host::Kind;
use crate::report::Report;

const USAGE: &str =
    "e2e PROGRAM [scenarios [BEGINNING] | live [BEGINNING] | differential [SEED] | measure] [--policy-server] [--verbose]

PROGRAM is test-webhook. Without a part, the first three run. With --policy-server the real one answers the webhooks, with the
module pulled from a registry by its digest; otherwise PROGRAM does.";

struct Arguments {
    program: PathBuf,
    /// None for all of them.
    part: Option<String>,
    argument: String,
    policy_server: bool,
    verbose: bool,
}

fn arguments() -> Option<Arguments> {
    let (flags, words): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with('-'));
    let mut words = words.into_iter();
    let program = words.next()?.into();
    let (part, argument) = (words.next(), words.next().unwrap_or_default());
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    Some(Arguments { program, part, argument, policy_server: has("--policy-server"), verbose: has("--verbose") })
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
            eprintln!("end to end: {error:#}");
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
    // Only where it is asked for: it takes its time, and asserts nothing.
    if arguments.part.as_deref() == Some("measure") {
        return measure::run(report).await;
    }
    let kind = kind(arguments).await?;
    if wanted("scenarios") {
        replay::run(&kind, &arguments.argument, report).await?;
    }
    if wanted("live") {
        live::run(&kind, &arguments.argument, report).await?;
    }
    if wanted("differential") {
        differential::run(&arguments.argument, report).await?;
    }
    Ok(())
}

async fn kind(arguments: &Arguments) -> anyhow::Result<Kind> {
    if !arguments.policy_server {
        return Ok(Kind::Serve(arguments.program.clone()));
    }
    let program = test_parts::find("policy-server")?.context("there is no policy-server to test with")?;
    Ok(Kind::PolicyServer { program, module: Module::publish().await? })
}
