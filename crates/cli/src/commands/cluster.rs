//! The cluster that a command looks at, as arguments: manifests, or a live one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use operator_bounds::host::Host;
use operator_bounds::live::{Cluster, Connection};
use operator_bounds::manifests::Manifests;
use operator_bounds::policy::Policy;
use operator_bounds::source::Source;

#[derive(Args)]
pub(crate) struct ClusterSource {
    /// Cluster state: a file or directory of YAML and JSON manifests, including Lists and `.gz`
    #[arg(long, value_name = "DIR|FILE", conflicts_with_all = ["kubeconfig", "context"])]
    cluster: Option<PathBuf>,
    #[command(flatten)]
    live: LiveCluster,
}

/// A live cluster.
#[derive(Args)]
pub(crate) struct LiveCluster {
    /// Kubeconfig of a live cluster [default with --context: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig of a live cluster [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl LiveCluster {
    fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The cluster, where one was named.
    pub(crate) fn connect(&self) -> anyhow::Result<Option<Cluster>> {
        if !self.is_given() {
            return Ok(None);
        }
        Ok(Some(Cluster::connect(&self.connection())?))
    }

    fn connection(&self) -> Connection<'_> {
        Connection { kubeconfig: self.kubeconfig.as_deref(), context: self.context.as_deref() }
    }
}

impl ClusterSource {
    /// Refuses what makes no sense without a cluster.
    pub(crate) fn needed_for(&self, flag: &str) -> anyhow::Result<()> {
        if self.cluster.is_none() && !self.live.is_given() {
            bail!("{flag} needs a cluster: --cluster, --kubeconfig or --context");
        }
        Ok(())
    }

    /// The manifests, where they were named.
    pub(crate) fn dump(&self) -> Option<&Path> {
        self.cluster.as_deref()
    }

    /// The live cluster that was named, or else the current one, as for kubectl.
    pub(crate) fn current(&self) -> anyhow::Result<Cluster> {
        Ok(Cluster::connect(&self.live.connection())?)
    }

    /// What is in it at this moment; nothing where nothing was named.
    pub(crate) fn snapshot(&self) -> anyhow::Result<Manifests> {
        match (&self.cluster, self.live.connect()?) {
            (Some(path), _) => Ok(Manifests::load(path)?),
            (None, Some(live)) => Ok(live.snapshot()?),
            (None, None) => Ok(Manifests::default()),
        }
    }

    /// What answers; nothing is in there where nothing was named.
    pub(crate) fn source(&self) -> anyhow::Result<Arc<dyn Source>> {
        if let Some(live) = self.live.connect()? {
            return Ok(Arc::new(live));
        }
        Ok(Arc::new(self.cluster.as_deref().map(Manifests::load).transpose()?.unwrap_or_default()))
    }

    /// A host that answers from there.
    pub(crate) fn host(&self, policy: &Policy) -> anyhow::Result<Host> {
        Ok(policy.host_on(self.source()?))
    }
}
