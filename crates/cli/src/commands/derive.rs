//! `derive`: the RBAC that an operator needs.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use bounds::decide::{Lookups, writes};
use bounds::olm::{ClusterExtension, SYNTHETIC_ACCOUNT, Targets};
use bounds::rbac::{Grant, Scope};
use bounds::settings::{Phase, known_releases, shipped};
use clap::Args;
use operator_bounds::derive::bundle::{Bundle, Object};
use operator_bounds::derive::manifest::{self, Manifests as Applied};
use operator_bounds::derive::need::Needs;
use operator_bounds::derive::v1::Sender;
use operator_bounds::derive::{self, Installer, Whom, live, roles, unused, upgrade, v0, v1};
use operator_bounds::policy::Policy;
use serde_json::Value;

use super::cluster::ClusterSource;
use super::print;

#[derive(Args)]
pub(crate) struct Derive {
    /// The bundle: a directory, an archive (.tar.gz), or the ClusterServiceVersion alone, as YAML or JSON; for an upgrade, the
    /// version that is there before the one that comes; and the ClusterExtension that installs it
    #[arg(value_name = "BUNDLE|CSV|EXTENSION", required_unless_present = "extension")]
    paths: Vec<PathBuf>,
    /// OLM v1, instead of a bundle: an extension that is in the cluster. Prints what it lacks for the release that was refused, by
    /// its conditions, or for the one that is installed
    #[arg(long, value_name = "NAME", conflicts_with_all = ["paths", "olm", "install_mode", "targets", "namespace", "unused", "with_account"])]
    extension: Option<String>,
    /// Identity to grant to: `serviceaccount NAMESPACE/NAME`, or `synthetic NAME` for a ClusterExtension without an account
    /// [default: the one the ClusterExtension names]
    #[arg(long = "for", num_args = 2, value_names = ["KIND", "NAME"])]
    purpose: Vec<String>,
    /// OLM version that installs it [default: v1 for a synthetic user or a ClusterExtension, otherwise v0]
    #[arg(long, value_enum, value_name = "VERSION")]
    olm: Option<Olm>,
    /// How the OperatorGroup targets namespaces, or what the extension watches [default: `OwnNamespace` for v0, `AllNamespaces`
    /// for v1]
    #[arg(long, value_enum, value_name = "MODE")]
    install_mode: Option<InstallMode>,
    /// Namespace that the OperatorGroup targets, or that the extension watches; can be repeated
    #[arg(long = "target", value_name = "NAMESPACE", value_delimiter = ',')]
    targets: Vec<String>,
    /// OLM v1: namespace that the extension installs into [default: the ClusterExtension's, or the account's; without
    /// either, everything is granted cluster-wide]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// OLM v1: release that is running, of OLM v1 (1.11) or of `OpenShift` (4.20). Up to 1.10, OLM itself acts as the identity,
    /// including reads and watches; from 1.11 on, the policy bounds what OLM writes
    #[arg(long, value_parser = release, default_value = "1.11", value_name = "RELEASE")]
    release: Phase,
    /// Print only what is not held yet
    #[arg(long, conflicts_with = "unused")]
    missing: bool,
    /// Print what is held but needed neither by these operators nor by those installed in the account's namespace
    #[arg(long)]
    unused: bool,
    /// Also print the service account
    #[arg(long, conflicts_with = "unused")]
    with_account: bool,
    #[command(flatten)]
    cluster: ClusterSource,
    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Yaml, value_name = "FORMAT")]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Olm {
    V0,
    V1,
}

/// As OLM names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
enum InstallMode {
    OwnNamespace,
    SingleNamespace,
    MultiNamespace,
    AllNamespaces,
}

/// What a release makes of the account.
fn release(text: &str) -> Result<Phase, String> {
    shipped(text).ok_or_else(|| format!("not a release that is known: {}", known_releases()))
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// With comments that say where each rule comes from
    Yaml,
    /// A List
    Json,
}

pub(crate) fn run(arguments: &Derive) -> anyhow::Result<ExitCode> {
    if let Some(extension) = &arguments.extension {
        return run_for_extension(arguments, extension);
    }
    let mut bundle = Bundle::read(&arguments.paths)?;
    let old = upgrade::take_old(&mut bundle, &arguments.paths);
    let (whom, installer) = purpose(arguments, &bundle)?;
    for warning in unsupported(&bundle, &installer) {
        eprintln!("warning: {warning}");
    }
    for (flag, is_given) in [("--missing", arguments.missing), ("--unused", arguments.unused)] {
        if is_given {
            arguments.cluster.needed_for(flag)?;
        }
    }
    let host = arguments.cluster.host(&Policy::native()?)?;
    let lookups = Lookups::new(&host);
    let name = manifest::name(&whom, &bundle);
    if arguments.unused {
        if let (Whom::Account { namespace, .. }, Installer::Group(_)) = (&whom, &installer) {
            bundle.csvs.extend(unused::installed(&lookups, namespace)?);
        }
        let found = unused::of(&lookups, &whom, &derive::needs(&bundle, &installer, &lookups)?)?;
        print(&match arguments.output {
            Output::Yaml => unused::yaml(&found).trim_end().to_owned(),
            Output::Json => serde_json::to_string_pretty(&found)?,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut needs = derive::needs(&bundle, &installer, &lookups)?;
    warn_of_writes(&needs, &installer);
    let held = if arguments.missing { derive::grant(&lookups, &whom)? } else { Grant::default() };
    let old = old.map(|old| derive::needs(&old, &installer, &lookups).map(|needed| (old, needed))).transpose()?;
    if let Some((_, needed)) = &old {
        needs.0.extend(upgrade::putting_away(needed, &needs).0);
    }
    let mut roles = roles::of(&needs, &held);
    if let Some((old, needed)) = &old {
        let version = old.csvs.first().map_or("the old version", Object::name);
        upgrade::mark(&mut roles, needed, version);
        for line in upgrade::no_longer_needed(needed, &needs) {
            eprintln!("note: no longer needed after the upgrade from {version}: {line}");
        }
    }
    let applied = Applied { whom: &whom, name, with_account: arguments.with_account, roles: &roles };
    print_applied(arguments, &applied)
}

/// What an extension that is there lacks, still.
fn run_for_extension(arguments: &Derive, extension: &str) -> anyhow::Result<ExitCode> {
    arguments.cluster.needed_for("--extension")?;
    let policy = Policy::native()?;
    let source = arguments.cluster.source()?;
    let Some(missing) = live::missing(&policy, &source, extension)? else {
        eprintln!("note: ClusterExtension {extension} lacks nothing for the release that is installed");
        return Ok(ExitCode::SUCCESS);
    };
    let whom = match arguments.purpose.as_slice() {
        [kind, name] => whom(kind, name)?,
        _ => missing.whom,
    };
    let host = policy.host_on(source);
    let roles = roles::of(&missing.needs, &derive::grant(&Lookups::new(&host), &whom)?);
    // Beside what was granted for other versions, not over it.
    let name = format!("{}-{}", manifest::name(&whom, &Bundle::default()), missing.bundle);
    let applied = Applied { whom: &whom, name, with_account: false, roles: &roles };
    print_applied(arguments, &applied)
}

fn print_applied(arguments: &Derive, applied: &Applied<'_>) -> anyhow::Result<ExitCode> {
    print(&match arguments.output {
        Output::Yaml => applied.yaml().trim_end().to_owned(),
        Output::Json => serde_json::to_string_pretty(&applied.json())?,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// For whom, and what installs: by the arguments, and by the extension where there is one.
fn purpose(arguments: &Derive, bundle: &Bundle) -> anyhow::Result<(Whom, Installer)> {
    let extension = bundle.extension.as_ref();
    let text = extension.map(|extension| extension.value.to_string());
    let parsed: Option<ClusterExtension<'_>> =
        text.as_deref().map(|text| bounds::read::json::read(text, "")).transpose()?;
    let whom = match arguments.purpose.as_slice() {
        [kind, name] => whom(kind, name)?,
        _ => of_extension(parsed.as_ref())?,
    };
    let is_v1 = match (arguments.olm, &whom) {
        (Some(olm), _) => olm == Olm::V1,
        (None, whom) => matches!(whom, Whom::Synthetic { .. }) || extension.is_some(),
    };
    if !is_v1 {
        let Whom::Account { namespace, .. } = &whom else { bail!("OLM v0 supports only service accounts") };
        let targets = targets(arguments, InstallMode::OwnNamespace, namespace)?;
        return Ok((whom.clone(), Installer::Group(v0::Group { namespace: namespace.clone(), targets })));
    }
    let spoken = parsed.as_ref().map(|extension| extension.namespace().to_owned()).filter(|name| !name.is_empty());
    let namespace = arguments.namespace.clone().or(spoken).or_else(|| match &whom {
        Whom::Account { namespace, .. } => Some(namespace.clone()),
        Whom::Synthetic { .. } => None,
    });
    let name = match (&whom, extension) {
        (_, Some(extension)) => extension.name().to_owned(),
        (Whom::Synthetic { extension }, None) => extension.clone(),
        (Whom::Account { name, .. }, None) => name.clone(),
    };
    let mut targets = targets(arguments, InstallMode::AllNamespaces, namespace.as_deref().unwrap_or_default())?;
    if let (Some(watched), None) = (extension.and_then(watched), arguments.install_mode) {
        targets = Targets::Namespaces(BTreeSet::from([watched]));
    }
    let sender = if arguments.release == Phase::Required { Sender::Identity } else { Sender::Controller };
    Ok((whom, Installer::Extension(v1::Extension { name, namespace, targets, sender })))
}

fn whom(kind: &str, name: &str) -> anyhow::Result<Whom> {
    match (kind, name.split_once('/')) {
        ("synthetic", None) if !name.is_empty() => Ok(Whom::Synthetic { extension: name.to_owned() }),
        ("serviceaccount", Some((namespace, account))) if !namespace.is_empty() && !account.is_empty() => {
            Ok(Whom::Account { namespace: namespace.to_owned(), name: account.to_owned() })
        }
        _ => bail!("--for {kind} {name}: expected `--for serviceaccount NAMESPACE/NAME` or `--for synthetic NAME`"),
    }
}

fn of_extension(extension: Option<&ClusterExtension<'_>>) -> anyhow::Result<Whom> {
    let Some(extension) = extension else {
        bail!(
            "no identity to grant to: use `--for serviceaccount NAMESPACE/NAME` or `--for synthetic NAME`, or also pass the ClusterExtension"
        );
    };
    Ok(match extension.account()?.filter(|name| *name != SYNTHETIC_ACCOUNT) {
        Some(name) => Whom::Account { namespace: extension.namespace().to_owned(), name: name.to_string() },
        None => Whom::Synthetic { extension: extension.metadata.name.to_string() },
    })
}

/// The namespace that the extension's configuration makes the operator watch.
fn watched(extension: &Object) -> Option<String> {
    let watched = extension.value.pointer("/spec/config/inline/watchNamespace").and_then(Value::as_str)?;
    Some(watched.to_owned()).filter(|name| !name.is_empty())
}

fn targets(arguments: &Derive, otherwise: InstallMode, own: &str) -> anyhow::Result<Targets> {
    let named: BTreeSet<String> = arguments.targets.iter().cloned().collect();
    let mode = arguments.install_mode.unwrap_or(match (otherwise, named.len()) {
        (otherwise, 0) => otherwise,
        _ => InstallMode::MultiNamespace,
    });
    match (mode, named.len()) {
        (InstallMode::AllNamespaces, 0) => Ok(Targets::All),
        (InstallMode::AllNamespaces, _) => bail!("--target cannot be combined with --install-mode AllNamespaces"),
        (InstallMode::SingleNamespace | InstallMode::MultiNamespace, 0) => {
            bail!("--install-mode {mode:?} needs a --target")
        }
        (InstallMode::SingleNamespace, 2..) => bail!("--install-mode SingleNamespace takes exactly one --target"),
        (InstallMode::OwnNamespace, 0) if own.is_empty() => bail!("--install-mode OwnNamespace needs a --namespace"),
        (InstallMode::OwnNamespace, 0) => Ok(Targets::Namespaces(BTreeSet::from([own.to_owned()]))),
        (InstallMode::OwnNamespace | InstallMode::SingleNamespace | InstallMode::MultiNamespace, _) => {
            Ok(Targets::Namespaces(named))
        }
    }
}

/// Operators that say that they cannot be installed like this.
fn unsupported(bundle: &Bundle, installer: &Installer) -> Vec<String> {
    let (targets, own) = match installer {
        Installer::Group(group) => (&group.targets, Some(&group.namespace)),
        Installer::Extension(extension) => (&extension.targets, extension.namespace.as_ref()),
    };
    let mode = match targets {
        Targets::All => InstallMode::AllNamespaces,
        Targets::Namespaces(targets) if targets.len() > 1 => InstallMode::MultiNamespace,
        Targets::Namespaces(targets) if targets.first() == own => InstallMode::OwnNamespace,
        Targets::Namespaces(_) => InstallMode::SingleNamespace,
    };
    let mut warnings = Vec::new();
    for csv in &bundle.csvs {
        let modes = csv.value.pointer("/spec/installModes").and_then(Value::as_array);
        let of = |wanted: bool| modes.into_iter().flatten().filter(move |entry| entry["supported"] == wanted);
        let name = format!("{mode:?}");
        if of(false).any(|entry| entry["type"] == name.as_str()) {
            let supported: Vec<&str> = of(true).filter_map(|entry| entry["type"].as_str()).collect();
            let supported = if supported.is_empty() { "none".to_owned() } else { supported.join(", ") };
            warnings.push(format!(
                "{} does not support {name}, so OLM will not install it in this mode. It supports {supported}",
                csv.name()
            ));
        }
    }
    warnings
}

/// Says before the policy does that an OperatorGroup's account should not hold this.
fn warn_of_writes(needs: &Needs, installer: &Installer) {
    let wide = needs.0.iter().filter(|need| need.scope == Scope::Cluster).map(|need| &need.rule);
    let written = writes::written(&wide.collect::<Vec<_>>());
    if let (Installer::Group(_), false) = (installer, written.is_empty()) {
        let lines: Vec<String> = written.iter().map(ToString::to_string).collect();
        eprintln!(
            "warning: the account would write what is always OLM's, which the policy refuses unless operatorGroups.clusterWrites \
             is warn or off: {}",
            lines.join("; ")
        );
    }
}
