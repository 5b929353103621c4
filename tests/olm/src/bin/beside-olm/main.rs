//! `make olm-tests`: the real OLM beside the policy in the real policy-server. See README.md.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod derive;
mod report;
mod v0;
mod v1;
mod world;
mod writes;

use std::path::PathBuf;
use std::process::ExitCode;

use test_olm::{OlmV0, OlmV1};
use tokio::signal::unix::{SignalKind, signal};

use crate::report::Report;

const USAGE: &str = "beside-olm PROGRAM [v0 | v1 | v1.10] [BEGINNING] [--all] [--writes=FILE]

PROGRAM is operator-bounds, which derives the RBAC. Without a part, the first two run, with --all the third too. With a BEGINNING only the cases whose sentence
begins like this. With --all every real operator, and not a sample. With --writes a page of what OLM wrote.";

/// What is asked for.
pub(crate) struct Arguments {
    pub(crate) program: PathBuf,
    part: Option<String>,
    pub(crate) beginning: String,
    pub(crate) all: bool,
    writes: Option<PathBuf>,
}

fn arguments() -> Option<Arguments> {
    let (flags, words): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word.starts_with('-'));
    let mut words = words.into_iter();
    let program = words.next()?.into();
    let (part, beginning) = (words.next(), words.next().unwrap_or_default());
    let all = flags.iter().any(|flag| flag == "--all");
    let writes = flags.iter().find_map(|flag| flag.strip_prefix("--writes=")).map(PathBuf::from);
    Some(Arguments { program, part, beginning, all, writes })
}

/// Whatever ends this, what was started is ended with it: all of it is dropped on the way out.
#[tokio::main]
async fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match report(&arguments).await {
        Ok(report) if report.finish() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("beside OLM: {error:#}");
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
    let mut sections = Vec::new();
    if test_parts::find("policy-server")?.is_none() {
        test_parts::not_run("nothing was tried beside the real OLM: there is no policy-server");
        return Ok(());
    }
    if wanted("v0") {
        if OlmV0::is_there()? {
            sections.push(v0::run(arguments, report).await?);
        } else {
            test_parts::not_run("nothing was tried beside OLM v0: it is not there");
        }
    }
    if wanted("v1") {
        if OlmV1::is_there(None)? {
            sections.push(v1::run(arguments, report).await?);
        } else {
            test_parts::not_run("nothing was tried beside OLM v1: it is not there");
        }
    }
    if wanted("v1.10") && (arguments.all || arguments.part.is_some()) {
        if OlmV1::is_there(Some(v1::early::VERSION))? {
            v1::early::run(arguments, report).await?;
        } else {
            test_parts::not_run("nothing was tried beside OLM v1.10: it is not there");
        }
    }
    arguments.writes.as_ref().map_or(Ok(()), |path| writes::write(path, &sections))
}
