//! `check`: a verdict for each object.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use operator_bounds::check::explanation::Explanation;
use operator_bounds::check::github::Github;
use operator_bounds::check::html::Html;
use operator_bounds::check::json::Json;
use operator_bounds::check::junit::Junit;
use operator_bounds::check::report::{Emitter, Summary, printable};
use operator_bounds::check::sarif::Sarif;
use operator_bounds::check::table::Table;
use operator_bounds::check::verdict::{Detail, Sender, Status};
use operator_bounds::check::{self, CheckError};
use operator_bounds::documents::FileError;
use operator_bounds::engine::Limits;
use operator_bounds::policy::Policy;

use super::NOT_COVERED;
use super::cluster::ClusterSource;
use super::settings::Settings;
use crate::FAILED;

/// Longer than the policy server waits: a build server may be slow, and a verdict is worth waiting for.
pub(super) const SECONDS: u64 = 30;

#[derive(Args)]
pub(crate) struct Check {
    /// Files, directories, bundles (directories, .tar.gz, images as `oci://REFERENCE`), or `-` for standard input
    #[arg(required = true, value_name = "FILE|DIR|BUNDLE")]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    cluster: ClusterSource,
    /// Judge against the cluster as it is: the given files do not count as applied
    #[arg(long)]
    cluster_only: bool,
    /// Namespace for bundles and for objects without one [default: that of the only OperatorGroup]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// User who creates the objects [default: none, as in the background audit, which skips the boundary guard]
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,
    /// Group of that user; can be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
    #[command(flatten)]
    settings: Settings,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Table, value_name = "FORMAT")]
    output: Output,
    /// File to write to [default: standard output]
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    /// Explain the verdict on one object step by step: Kind/namespace/name, Kind/name or name
    #[arg(long, value_name = "OBJECT", conflicts_with = "output")]
    explain: Option<String>,
    /// Continue if something cannot be read; the report says what is missing
    #[arg(long)]
    keep_going: bool,
}

/// How a report is written.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people, on a terminal
    Table,
    /// For programs
    Json,
    /// For code scanners and editors
    Sarif,
    /// For build servers
    Junit,
    /// Annotations for GitHub Actions
    Github,
    /// A self-contained page
    Html,
}

pub(crate) fn run(arguments: &Check) -> anyhow::Result<ExitCode> {
    if arguments.cluster_only {
        arguments.cluster.needed_for("--cluster-only")?;
    }
    let policy = Policy::embedded(Limits { seconds: Some(SECONDS), ..Limits::default() })?;
    let settings = arguments.settings.read_for(&policy)?;
    let check = check::Check {
        inputs: arguments.inputs.clone(),
        cluster: arguments.cluster.snapshot()?,
        cluster_only: arguments.cluster_only,
        namespace: arguments.namespace.clone(),
        sender: Sender { user: arguments.user.clone(), groups: arguments.groups.clone() },
        keep_going: arguments.keep_going,
        only: arguments.explain.clone(),
    };
    let (mut emitter, detail) = emitter(arguments);
    let mut out = Destination::open(arguments.output_file.as_deref())?;
    match check::run(check, &policy, &settings, detail, emitter.as_mut(), &mut out) {
        Ok(summary) => {
            out.keep()?;
            Ok(code(&summary))
        }
        Err(CheckError::Problems(problems)) => {
            for problem in &problems {
                eprintln!("{}", printable(&problem.to_string()));
            }
            Err(CheckError::Problems(problems).into())
        }
        Err(error) => Err(error.into()),
    }
}

fn emitter(arguments: &Check) -> (Box<dyn Emitter>, Detail) {
    if arguments.explain.is_some() {
        return (Box::new(Explanation), Detail::Everything);
    }
    match arguments.output {
        Output::Table => (Box::new(table(arguments)), Detail::Verdict),
        Output::Json => (Box::new(Json::default()), Detail::Missing),
        Output::Sarif => (Box::new(Sarif::default()), Detail::Missing),
        Output::Junit => (Box::new(Junit::default()), Detail::Missing),
        Output::Github => (Box::new(Github), Detail::Missing),
        Output::Html => (Box::new(Html::default()), Detail::Everything),
    }
}

/// Colours and line breaks are for terminals only.
fn table(arguments: &Check) -> Table {
    let is_terminal = arguments.output_file.is_none() && io::stdout().is_terminal();
    if !is_terminal {
        return Table::default();
    }
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let width = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    Table { colour: !no_colour, width }
}

fn code(summary: &Summary) -> ExitCode {
    if summary.count(Status::Unknown) > 0 {
        ExitCode::from(FAILED)
    } else if summary.count(Status::Refused) > 0 {
        ExitCode::from(NOT_COVERED)
    } else {
        ExitCode::SUCCESS
    }
}

/// Standard output, or a file that only appears once it is complete.
pub(super) enum Destination {
    Standard(BufWriter<io::Stdout>),
    File { writer: BufWriter<File>, temporary: PathBuf, path: PathBuf },
}

impl Destination {
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Destination::Standard(BufWriter::new(io::stdout()))) };
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.part", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let file = File::create_new(&temporary).map_err(|error| FileError::new(&temporary, error))?;
        Ok(Destination::File { writer: BufWriter::new(file), temporary, path: path.to_owned() })
    }

    pub(super) fn keep(mut self) -> anyhow::Result<()> {
        self.flush()?;
        if let Destination::File { temporary, path, .. } = &self {
            fs::rename(temporary, path).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if let Destination::File { temporary, .. } = self {
            // Gone already when the report was kept.
            _ = fs::remove_file(temporary);
        }
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::Standard(writer) => writer.write(bytes),
            Destination::File { writer, .. } => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Destination::Standard(writer) => writer.flush(),
            Destination::File { writer, .. } => writer.flush(),
        }
    }
}
