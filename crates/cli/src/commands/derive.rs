//! `derive`: the RBAC that an operator needs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use bounds::group::Targets;
use clap::Args;
use operator_bounds::derive::{self, Purpose};
use operator_bounds::manifests::Manifests;
use operator_bounds::policy::Policy;

use super::print;

#[derive(Args)]
pub(crate) struct Derive {
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

pub(crate) fn run(arguments: &Derive) -> anyhow::Result<ExitCode> {
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
