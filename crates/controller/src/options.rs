//! The command line.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Parser, Subcommand};
use kube::core::Selector;

use crate::scope::{Scope, parse_selector};

/// Carries out the installs of OLM v0 with the service account of their OperatorGroup.
///
/// It acts nowhere until it is told where: --install-plans, and the namespaces by name or by label. OLM must leave those
/// alone.
#[derive(Debug, Parser)]
#[command(name = "operator-bounds-controller", version)]
pub struct Options {
    #[command(subcommand)]
    /// Something else than running.
    pub command: Option<Command>,

    /// Carry out approved InstallPlans, and what belongs to that: OperatorGroups and ClusterServiceVersions
    #[arg(long)]
    pub install_plans: bool,

    /// In these namespaces (`*`: in all)
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub namespaces: Vec<String>,

    /// In the namespaces that have these labels: key=value, key!=value, key, !key
    #[arg(long, value_name = "SELECTOR", value_parser = parse_selector)]
    pub label_selector: Option<Selector>,

    /// Where /metrics, /healthz and /readyz are served
    #[arg(long, default_value = "0.0.0.0:8080", value_name = "ADDRESS:PORT")]
    pub listen: SocketAddr,

    /// The namespace of the Lease by which replicas agree on who acts (default: the one it runs in)
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME")]
    pub lease_namespace: Option<String>,

    /// What this replica is called in the Lease
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub identity: Option<String>,

    /// How long a replica that is gone blocks the others
    #[arg(long, default_value = "15", value_name = "SECONDS", value_parser = seconds)]
    pub lease_duration: Duration,

    /// Logs for people instead of JSON
    #[arg(long)]
    pub log_text: bool,
}

/// Something else than running.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the RBAC that the controller needs for itself
    Rbac,
}

impl Options {
    /// Where to act.
    #[must_use]
    pub fn scope(&self) -> Scope {
        if !self.install_plans {
            return Scope::default();
        }
        Scope { namespaces: self.namespaces.clone(), selector: self.label_selector.clone() }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 3..) => Ok(Duration::from_secs(seconds)),
        _ => Err("must be a number of seconds, at least 3".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_done_until_it_is_told() {
        let scope = |arguments: &[&str]| {
            let name = ["operator-bounds-controller"];
            Options::try_parse_from(name.iter().chain(arguments)).unwrap().scope()
        };
        assert!(scope(&[]).namespaces.is_empty());
        assert!(scope(&["--namespaces", "a,b"]).namespaces.is_empty());
        assert_eq!(scope(&["--install-plans", "--namespaces", "a,b"]).namespaces, ["a", "b"]);
        assert!(scope(&["--install-plans"]).selector.is_none());
        assert!(scope(&["--install-plans", "--label-selector", "team=a"]).selector.is_some());
    }
}
