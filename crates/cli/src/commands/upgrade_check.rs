//! `upgrade-check`: which ClusterExtensions block a move to another release of OLM v1.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use bounds::cluster::{CLUSTER_EXTENSIONS, Get, List, Resource, SERVICE_ACCOUNTS};
use bounds::settings::Phase;
use clap::Args;
use operator_bounds::documents::FileError;
use operator_bounds::host::HostError;
use operator_bounds::live::Cluster;
use operator_bounds::source::Source;
use operator_bounds::syntax;
use operator_bounds::upgrade_check::edit::{self, Edit};
use operator_bounds::upgrade_check::extension::{self, Written};
use operator_bounds::upgrade_check::files::{self, Manifest};
use operator_bounds::upgrade_check::release::Release;
use operator_bounds::upgrade_check::replace::replace;
use operator_bounds::upgrade_check::verdict::{self, Verdict};
use serde::Serialize;

use super::cluster::LiveCluster;
use super::print;

/// The exit code when something blocks the move.
const BLOCKED: u8 = 1;
/// The exit code when something could not be read.
const UNKNOWN: u8 = 2;

#[derive(Args)]
pub(crate) struct UpgradeCheck {
    /// Manifests: files, directories of YAML and JSON, Lists included
    #[arg(value_name = "PATH", required_unless_present_any = ["kubeconfig", "context"])]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    live: LiveCluster,
    /// Target release of OLM v1 (1.11) or of `OpenShift` (4.20), as it shipped; or tech-preview, as it was designed
    #[arg(long, value_name = "RELEASE", required_unless_present = "to_crd")]
    to: Option<Release>,
    /// Instead of --to: a file with the `CustomResourceDefinition` of `ClusterExtensions` of the target release
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    to_crd: Option<PathBuf>,
    /// Current release; if given, the report also says what changes for each extension
    #[arg(long, value_name = "RELEASE")]
    from: Option<Release>,
    /// Edit the manifests in place, preserving comments and formatting; a live cluster is never changed
    #[arg(long, requires = "paths")]
    fix: bool,
    /// With --fix: service account to set where one is required
    #[arg(long, value_name = "NAME", requires = "fix")]
    service_account: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Everything that was found.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    to: String,
    /// What was planned for that release and is not so.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_as_planned: Option<String>,
    extensions: usize,
    findings: Vec<Finding>,
    problems: Vec<String>,
}

/// One extension that is reported.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    extension: String,
    /// Where it is written; nothing in a live cluster.
    #[serde(flatten)]
    place: Option<FilePlace>,
    #[serde(flatten)]
    verdict: Verdict,
    /// Whether --fix has changed the manifest.
    fixed: bool,
    /// Why it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_fixed: Option<String>,
}

#[derive(Serialize)]
struct FilePlace {
    file: PathBuf,
    line: usize,
    column: usize,
}

pub(crate) fn run(arguments: &UpgradeCheck) -> anyhow::Result<ExitCode> {
    let to = match (&arguments.to, &arguments.to_crd) {
        (Some(release), _) => release.clone(),
        (None, Some(file)) => Release::of_definition(file)?,
        (None, None) => bail!("which release comes? --to RELEASE or --to-crd FILE"),
    };
    let (manifests, problems) = files::find(&arguments.paths);
    let mut report = Report {
        to: to.to_string(),
        not_as_planned: to.not_as_planned(),
        extensions: 0,
        findings: Vec::new(),
        problems: problems.iter().map(ToString::to_string).collect(),
    };
    for manifest in &manifests {
        if let Err(error) = check(arguments, &to, manifest, &mut report) {
            report.problems.push(error.to_string());
        }
    }
    if let Some(cluster) = arguments.live.connect()?
        && let Err(error) = check_live(arguments, &to, &cluster, &mut report)
    {
        report.problems.push(format!("{}: {error:#}", cluster.url()));
    }
    print(&match arguments.output {
        Output::Text => text(&report),
        Output::Json => serde_json::to_string_pretty(&report)?,
    })?;
    let blocked = report.findings.iter().any(|finding| finding.verdict.blocks && !finding.fixed);
    Ok(match (report.problems.is_empty(), blocked) {
        (false, _) => ExitCode::from(UNKNOWN),
        (true, true) => ExitCode::from(BLOCKED),
        (true, false) => ExitCode::SUCCESS,
    })
}

/// Looks at one file, and changes it if that is wanted. Either all its changes are written or none.
fn check(arguments: &UpgradeCheck, to: &Release, manifest: &Manifest, report: &mut Report) -> Result<(), FileError> {
    let documents = syntax::parse(&manifest.text).map_err(|broken| FileError {
        path: manifest.path.clone(),
        place: Some((broken.line as u64, broken.column as u64)),
        reason: format!(
            "mentions ClusterExtensions but is not valid YAML: {}. If it is a template, check its rendered output",
            broken.reason
        ),
    })?;
    let mut edits: Vec<Edit> = Vec::new();
    let first = report.findings.len();
    for written in documents.iter().flat_map(extension::all) {
        report.extensions += 1;
        let Some(verdict) = verdict::of(&written, arguments.from.as_ref(), to) else { continue };
        let mut finding = Finding::of(&written, verdict);
        finding.place = Some(place(&written, manifest));
        if let (true, Some(change)) = (arguments.fix, finding.verdict.edit) {
            match edit::of(&manifest.text, &written, change, arguments.service_account.as_deref()) {
                Ok(edit) => {
                    edits.push(edit);
                    finding.fixed = true;
                }
                Err(reason) => finding.not_fixed = Some(reason),
            }
        }
        report.findings.push(finding);
    }
    if edits.is_empty() {
        return Ok(());
    }
    let after = edit::apply(&manifest.text, edits);
    let written = replace(&manifest.path, manifest.text.as_bytes(), after.as_bytes(), &manifest.root);
    if written.is_err() {
        report.findings[first..].iter_mut().for_each(|finding| finding.fixed = false);
    }
    written
}

/// Looks at the extensions of a live cluster, and at their accounts where the release that comes needs them.
fn check_live(arguments: &UpgradeCheck, to: &Release, cluster: &Cluster, report: &mut Report) -> anyhow::Result<()> {
    let extensions = Resource { masks: &["spec"], ..CLUSTER_EXTENSIONS };
    let list = List { resource: extensions, namespace: None };
    let answer = String::from_utf8(cluster.list(&(&list).into())?)?;
    let documents = syntax::parse(&answer).map_err(|broken| anyhow::anyhow!(broken.reason))?;
    for written in documents.iter().flat_map(extension::all) {
        report.extensions += 1;
        let is_used = to.phase == Phase::Required && !written.is_synthetic();
        let account = written.account.as_deref().filter(|_| is_used);
        let verdict = match account {
            Some(account) if !account_exists(cluster, &written.namespace, account)? => {
                Some(verdict::account_missing(&written, account, to))
            }
            _ => verdict::of(&written, arguments.from.as_ref(), to),
        };
        report.findings.extend(verdict.map(|verdict| Finding::of(&written, verdict)));
    }
    Ok(())
}

fn account_exists(cluster: &Cluster, namespace: &str, name: &str) -> Result<bool, HostError> {
    let get = Get { resource: SERVICE_ACCOUNTS, namespace: Some(namespace), name };
    match cluster.get(&(&get).into()) {
        Ok(_) => Ok(true),
        Err(HostError::NotFound(_)) => Ok(false),
        Err(other) => Err(other),
    }
}

fn place(written: &Written<'_>, manifest: &Manifest) -> FilePlace {
    let node = written.place.entry.map_or(written.node, |(key, _)| key);
    FilePlace { file: manifest.path.clone(), line: node.line, column: node.column }
}

impl Finding {
    fn of(written: &Written<'_>, verdict: Verdict) -> Self {
        Finding { extension: written.name.clone(), place: None, verdict, fixed: false, not_fixed: None }
    }
}

fn text(report: &Report) -> String {
    let mut lines: Vec<String> = report.not_as_planned.iter().map(|text| format!("note: {text}")).collect();
    for finding in &report.findings {
        let Finding { extension, verdict, .. } = finding;
        let place = match &finding.place {
            Some(FilePlace { file, line, column }) => format!("{}:{line}:{column}: ", file.display()),
            None => String::new(),
        };
        let label = match (finding.fixed, verdict.blocks) {
            (true, _) => "fixed",
            (false, true) => "blocks",
            (false, false) => "note",
        };
        lines.push(format!("{place}{label}: ClusterExtension {extension}: {}", verdict.why));
        if !finding.fixed {
            lines.push(format!("  {}", verdict.change));
        }
        lines.extend(finding.not_fixed.iter().map(|reason| format!("  not fixed: {reason}")));
    }
    lines.extend(report.problems.iter().map(|problem| format!("error: {problem}")));
    let count = |test: &dyn Fn(&Finding) -> bool| report.findings.iter().filter(|finding| test(finding)).count();
    lines.push(format!(
        "{} ClusterExtensions: {} blocking {}, {} fixed, {} notes; {} files could not be read",
        report.extensions,
        count(&|finding| finding.verdict.blocks && !finding.fixed),
        report.to,
        count(&|finding| finding.fixed),
        count(&|finding| !finding.verdict.blocks),
        report.problems.len()
    ));
    lines.join("\n")
}
