//! `operator-bounds`: the policy on the command line.

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use bounds::group::Targets;
use clap::{Args, Parser, Subcommand};
use operator_bounds::admission::{AdmissionResponse, Request};
use operator_bounds::derive::{self, Purpose};
use operator_bounds::diff;
use operator_bounds::documents::{self, FileError};
use operator_bounds::engine::Limits;
use operator_bounds::host::Exchange;
use operator_bounds::manifests::Manifests;
use operator_bounds::policy::Policy;
use operator_bounds::replay;
use serde_json::Value;
use serde_json::value::RawValue;

/// The exit code when something is not covered.
const NOT_COVERED: u8 = 1;
/// The exit code when no answer could be given.
const FAILED: u8 = 2;

/// Judge operators by the identity their administrator chose for them, without a cluster.
///
/// The policy that is published for Kubewarden is built in and runs in the engine that Kubewarden uses.
#[derive(Parser)]
#[command(name = "operator-bounds", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Evaluate one admission request and print the AdmissionResponse as JSON
    ///
    /// Exit code 0 when it was evaluated, whatever the verdict, and 2 when it could not be.
    #[command(after_long_help = "Examples:
  operator-bounds eval --request-path request.json --cluster manifests/
  operator-bounds eval --request-path - --settings-path s.yaml --cluster dump.yaml < review.json

What the policy looks up, in a dump:
  kubectl get -A -o yaml operatorgroups,csv,ns,sa > dump.yaml       (OLM v1: clusterextensions,ns,sa)
  kubectl get -A -o yaml roles,rolebindings,clusterroles,clusterrolebindings > rbac.yaml")]
    Eval {
        #[command(flatten)]
        evaluation: Evaluation,
        /// How the answer is printed
        #[arg(long, value_enum, default_value_t = Output::Json, value_name = "FORMAT")]
        output: Output,
    },
    /// Write the kwctl replay file for exactly the look-ups that an evaluation makes
    ///
    /// Exit code 0 when it was evaluated, whatever the verdict, and 2 when it could not be.
    #[command(after_long_help = "Example:
  operator-bounds session --request-path request.json --cluster manifests/ --output session.yaml
  kwctl run --allow-context-aware --request-path request.json \\
    --replay-host-capabilities-interactions session.yaml annotated-policy.wasm")]
    Session {
        #[command(flatten)]
        evaluation: Evaluation,
        /// Where to write it [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print the rules that are requested and not granted
    ///
    /// Both files hold Roles, ClusterRoles, ClusterServiceVersions, Lists of them, or a bare list of rules, as YAML or
    /// JSON. Exit code 0 when everything is covered, 1 when not, and 2 when it could not be told.
    #[command(after_long_help = "Examples:
  operator-bounds diff granted-role.yaml operator.clusterserviceversion.yaml
  operator-bounds diff --jsonl < pairs.jsonl     # {\"owner\":[rules],\"requested\":[rules]} a line")]
    Diff(Diff),
    /// Print the RBAC that lets an operator install under a service account, ready to apply
    ///
    /// Everything the ClusterServiceVersion asks for, what OLM adds to it, and what OLM itself needs of the account.
    #[command(after_long_help = "Examples:
  operator-bounds derive etcd.clusterserviceversion.yaml --for serviceaccount team-a/installer | kubectl apply -f -
  operator-bounds derive csv.yaml --for serviceaccount team-a/installer --target team-b --target team-c
  operator-bounds derive csv.yaml --for serviceaccount team-a/installer --missing --cluster dump.yaml
  operator-bounds derive bundle/ --for synthetic my-extension | kubectl apply -f -")]
    Derive(Derive),
}

#[derive(Args)]
struct Derive {
    /// The ClusterServiceVersion, as YAML or JSON; with `--for synthetic` the directory of a bundle as well
    #[arg(value_name = "CSV|BUNDLE")]
    csv: PathBuf,
    /// For whom: `serviceaccount NAMESPACE/NAME`, or `synthetic NAME` for a ClusterExtension without an account
    #[arg(long = "for", num_args = 2, value_names = ["KIND", "NAME"], required = true)]
    purpose: Vec<String>,
    /// How the OperatorGroup targets namespaces
    #[arg(long, value_enum, default_value_t = InstallMode::OwnNamespace, value_name = "MODE")]
    install_mode: InstallMode,
    /// A namespace that the OperatorGroup targets; may be given several times
    #[arg(long = "target", value_name = "NAMESPACE", value_delimiter = ',')]
    targets: Vec<String>,
    /// Only what the account does not hold yet
    #[arg(long, requires = "cluster")]
    missing: bool,
    /// The cluster: a file or a directory of YAML and JSON manifests, Lists and `.gz` included
    #[arg(long, value_name = "DIR|FILE")]
    cluster: Option<PathBuf>,
}

/// As OLM names them.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
enum InstallMode {
    OwnNamespace,
    SingleNamespace,
    MultiNamespace,
    AllNamespaces,
}

/// How an answer is printed.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    /// One line of JSON, as kwctl prints it
    Json,
    /// For people
    Text,
}

#[derive(Args)]
struct Evaluation {
    /// The admission request, or a whole AdmissionReview, as JSON; `-` for standard input
    #[arg(long, value_name = "FILE")]
    request_path: PathBuf,
    /// The policy's settings, as YAML or JSON [default: none, every setting has a default]
    #[arg(long, value_name = "FILE", conflicts_with = "settings_json")]
    settings_path: Option<PathBuf>,
    /// The policy's settings, as JSON
    #[arg(long, value_name = "JSON")]
    settings_json: Option<String>,
    /// The cluster: a file or a directory of YAML and JSON manifests, Lists and `.gz` included
    #[arg(long, value_name = "DIR|FILE")]
    cluster: PathBuf,
    /// Run the decisions natively instead of the built-in module
    #[arg(long, hide = true)]
    native: bool,
    /// Seconds before the evaluation is ended; 0 for never
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = 2)]
    time_limit: u64,
}

#[derive(Args)]
struct Diff {
    /// The rules that are held
    #[arg(required_unless_present = "jsonl")]
    granted: Option<PathBuf>,
    /// The rules that are wanted
    #[arg(required_unless_present = "jsonl")]
    requested: Option<PathBuf>,
    /// Read a pair a line from standard input and answer each with a line
    #[arg(long, conflicts_with_all = ["granted", "requested"])]
    jsonl: bool,
    /// Only measure how long the pairs take
    #[arg(long, hide = true, requires = "jsonl", value_name = "ROUNDS")]
    bench: Option<u32>,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Eval { evaluation, output } => eval(&evaluation, output),
        Command::Session { evaluation, output } => session(&evaluation, output.as_deref()),
        Command::Diff(diff) => run_diff(&diff),
        Command::Derive(derive) => run_derive(&derive),
    };
    result.unwrap_or_else(|error| {
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

fn eval(evaluation: &Evaluation, output: Output) -> anyhow::Result<ExitCode> {
    let (response, _) = evaluate(evaluation)?;
    match output {
        Output::Json => print(&serde_json::to_string(&response)?)?,
        Output::Text => print(&text(&response))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The answer as a client of the API server would print it.
fn text(response: &AdmissionResponse) -> String {
    let mut lines: Vec<String> =
        response.warnings.iter().flatten().map(|warning| format!("Warning: {warning}")).collect();
    let status = response.status.as_ref();
    match (response.allowed, status.and_then(|status| status.code)) {
        (true, _) => lines.push("admitted".to_owned()),
        (false, Some(code)) => lines.push(format!("refused ({code})")),
        (false, None) => lines.push("refused".to_owned()),
    }
    lines.extend(status.and_then(|status| status.message.clone()));
    lines.join("\n")
}

fn session(evaluation: &Evaluation, output: Option<&Path>) -> anyhow::Result<ExitCode> {
    let (_, exchanges) = evaluate(evaluation)?;
    let yaml = replay::session(&exchanges)?;
    match output {
        Some(path) => fs::write(path, yaml).map_err(|error| FileError::new(path, error))?,
        None => print(yaml.trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The response to the request, and the look-ups it took.
fn evaluate(evaluation: &Evaluation) -> anyhow::Result<(AdmissionResponse, Vec<Exchange>)> {
    let request = read_request(&evaluation.request_path)?;
    let settings = read_settings(evaluation)?;
    let manifests = Arc::new(Manifests::load(&evaluation.cluster)?);
    let seconds = Some(evaluation.time_limit).filter(|&seconds| seconds > 0);
    let limits = Limits { seconds, ..Limits::default() };
    let policy = if evaluation.native { Policy::native()? } else { Policy::embedded(limits)? };
    let checked = policy.validate_settings(&settings)?;
    if !checked.valid {
        bail!("the settings are not valid: {}", checked.message.unwrap_or_default());
    }
    let host = Arc::new(policy.host(&manifests));
    let response = policy.validate(&request.json, &settings, &host)?;
    Ok((AdmissionResponse::new(&request, response)?, host.exchanges()))
}

fn read_request(path: &Path) -> Result<Request, FileError> {
    let fail = |error: io::Error| FileError::new(path, error);
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(fail)?;
        return Request::parse(Path::new("standard input"), &bytes);
    }
    Request::parse(path, &fs::read(path).map_err(fail)?)
}

fn read_settings(evaluation: &Evaluation) -> anyhow::Result<Box<RawValue>> {
    let settings = match (&evaluation.settings_path, &evaluation.settings_json) {
        (Some(path), _) => match documents::read(path)?.as_mut_slice() {
            [] => Value::Object(serde_json::Map::new()),
            [settings] => settings.take(),
            _ => bail!(FileError::new(path, "more than one document")),
        },
        (None, Some(json)) => serde_json::from_str(json).context("--settings-json")?,
        (None, None) => Value::Object(serde_json::Map::new()),
    };
    Ok(RawValue::from_string(settings.to_string())?)
}

fn run_diff(arguments: &Diff) -> anyhow::Result<ExitCode> {
    match (&arguments.granted, &arguments.requested, arguments.bench) {
        (Some(granted), Some(requested), _) => {
            let excess = diff::excess(&diff::rules(granted)?, &diff::rules(requested)?);
            if excess.is_empty() {
                return Ok(ExitCode::SUCCESS);
            }
            print(&excess.join("\n"))?;
            return Ok(ExitCode::from(NOT_COVERED));
        }
        (_, _, Some(rounds)) => {
            let timing = diff::bench(io::stdin().lock(), rounds).context("standard input")?;
            print(&serde_json::to_string(&timing)?)?;
        }
        _ => diff::stream(io::stdin().lock(), io::stdout().lock()).context("standard input")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_derive(arguments: &Derive) -> anyhow::Result<ExitCode> {
    let [kind, name] = arguments.purpose.as_slice() else { bail!("--for takes a kind and a name") };
    if kind == "synthetic" {
        if arguments.missing || !arguments.targets.is_empty() {
            bail!("--missing and --target are for service accounts: OLM v1 installs for all namespaces");
        }
        print(derive::derive_synthetic(&derive::read_bundle(&arguments.csv)?, name)?.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some((namespace, account)) = name.split_once('/').filter(|_| kind == "serviceaccount") else {
        bail!("--for {kind} {name}: expected `--for serviceaccount NAMESPACE/NAME` or `--for synthetic NAME`");
    };
    let targets = match arguments.install_mode {
        InstallMode::AllNamespaces if arguments.targets.is_empty() => Targets::All,
        InstallMode::AllNamespaces => bail!("--target makes no sense with --install-mode AllNamespaces"),
        InstallMode::OwnNamespace | InstallMode::SingleNamespace | InstallMode::MultiNamespace => {
            Targets::Namespaces(arguments.targets.iter().cloned().collect())
        }
    };
    let purpose = Purpose { namespace: namespace.to_owned(), account: account.to_owned(), targets };
    let manifests = arguments.cluster.as_deref().map(Manifests::load).transpose()?.unwrap_or_default();
    let host = Arc::new(Policy::native()?.host(&Arc::new(manifests)));
    let csv = derive::read_csv(&arguments.csv)?;
    print(derive::derive(&csv, &purpose, &host, arguments.missing)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Unlike `println!`, a closed pipe is an error here and not a crash.
fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{text}")?;
    output.flush()
}
