//! `audit`: one look at a cluster.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use bounds::decide::message::shell;
use clap::Args;
use operator_bounds::audit::files::SETTINGS_FILE;
use operator_bounds::audit::seen::Seen;
use operator_bounds::audit::settings::Rules;
use operator_bounds::audit::table::Table;
use operator_bounds::audit::{self, Report, files, html, json};
use operator_bounds::check::report::counted;
use operator_bounds::engine::Limits;
use operator_bounds::policy::Policy;
use serde_json::Value;

use super::NOT_COVERED;
use super::check::{Destination, SECONDS};
use super::cluster::ClusterSource;
use super::plugin::Called;
use super::settings::Settings;
use crate::FAILED;

#[derive(Args)]
pub(crate) struct Audit {
    /// Only the operators of this namespace, and the extensions that install into it [default: all]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The operators of all namespaces, which is the default
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    cluster: ClusterSource,
    #[command(flatten)]
    settings: Settings,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Table, value_name = "FORMAT")]
    output: Output,
    /// File to write to [default: standard output]
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    /// Write the proposed boundaries into this directory, which must be new or empty
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
}

/// How a report is written.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people, on a terminal
    Table,
    /// For programs
    Json,
    /// A self-contained page
    Html,
}

pub(crate) fn run(arguments: &Audit) -> anyhow::Result<ExitCode> {
    if let Some(directory) = &arguments.write {
        files::prepare(directory)?;
    }
    let report = report(arguments)?;
    let mut out = Destination::open(arguments.output_file.as_deref())?;
    match arguments.output {
        Output::Table => table(arguments).write(&mut out, &report)?,
        Output::Json => json::write(&mut out, &report)?,
        Output::Html => html::write(&mut out, &report)?,
    }
    out.keep()?;
    if let Some(directory) = &arguments.write {
        write(&report, directory)?;
    }
    Ok(code(&report))
}

fn report(arguments: &Audit) -> anyhow::Result<Report> {
    let policy = Policy::embedded(Limits { seconds: Some(SECONDS), ..Limits::default() })?;
    let given: Option<Value> = if arguments.settings.is_given() {
        Some(serde_json::from_str(arguments.settings.read_for(&policy)?.get())?)
    } else {
        None
    };
    let namespace = arguments.namespace.as_deref();
    let (mut seen, live) = if let Some(path) = arguments.cluster.dump() {
        (Seen::dump(path)?, None)
    } else {
        let live = arguments.cluster.current()?;
        (Seen::live(&live, namespace), Some(live))
    };
    if let Some(namespace) = namespace.filter(|namespace| !seen.may_have(namespace)) {
        bail!("there is no namespace {namespace}");
    }
    let rules = Rules::choose(given.as_ref(), &seen.manifests).map_err(|reason| {
        anyhow!(
            "the settings of the policy as it is registered cannot be used: {reason}; name others with --settings-path"
        )
    })?;
    if let Some(live) = live {
        seen.read_releases(&live, &rules.v1.olm_v1_namespaces());
    }
    Ok(audit::run(&policy, seen, rules, namespace))
}

/// Colours and line breaks are for terminals only.
fn table(arguments: &Audit) -> Table {
    let program = Called::now().typed();
    if arguments.output_file.is_some() || !io::stdout().is_terminal() {
        return Table { colour: false, width: None, program };
    }
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let width = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    Table { colour: !no_colour, width, program }
}

fn write(report: &Report, directory: &Path) -> anyhow::Result<()> {
    if report.proposals.is_empty() {
        eprintln!("note: there is nothing to propose, so nothing was written to {}", directory.display());
        return Ok(());
    }
    let written = files::write(report, directory)?;
    let place = shell(&directory.display().to_string());
    eprintln!(
        "note: {} were written to {place}. Review them, then: kubectl apply -f {place}",
        counted(written.len(), "file")
    );
    if written.iter().any(|file| file == SETTINGS_FILE) {
        eprintln!("note: the policy needs other settings for them: {}", directory.join(SETTINGS_FILE).display());
    }
    Ok(())
}

fn code(report: &Report) -> ExitCode {
    if !report.is_complete() {
        ExitCode::from(FAILED)
    } else if report.has_findings() {
        ExitCode::from(NOT_COVERED)
    } else {
        ExitCode::SUCCESS
    }
}
