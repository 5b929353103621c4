//! `gate`: judges InstallPlans of OLM v0 that wait for approval as a whole, and approves those that stay in bounds.
//!
//! It reads, and it approves; it holds no other identity's token. [`look`] examines one namespace; [`watch`] detects
//! when that is necessary, and [`queue`] decides whose turn it is.

mod cluster;
mod look;
mod olm;
mod queue;
mod tell;
mod verdict;
mod watch;
mod world;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bounds::read::yaml;
use bounds::settings::{AuthorizerSetting, Settings};
use clap::Args;
use futures::future::try_join_all;
use kube::{Api, Client, Config};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::health::{self, Ready};
use crate::leader::{self, Leader, Term};
use crate::shutdown::Stop;
use look::{Gate, Outcome};
use watch::Watched;

/// The number of concurrent looks, so that one that takes long does not hold up other namespaces.
const WORKERS: usize = 4;
/// How long one look may take: it makes a few dozen requests to the API server at most.
const LONGEST: Duration = Duration::from_mins(2);
/// How often the length of the queue is recorded.
const NOTED: Duration = Duration::from_secs(5);

/// Approve InstallPlans of OLM v0 that stay in bounds, and say of the others what they lack
///
/// In namespaces labelled operator-bounds/approve=within-bounds, plans that wait for approval are approved when everything in
/// them is within the rights of the service account of their OperatorGroup. With operator-bounds/approve=no-wider, upgrades are
/// approved that ask for nothing that the installed version does not declare. Every other plan waits, with the annotation
/// operator-bounds/waits-because and Events that say why.
#[derive(Debug, Args)]
pub struct Options {
    /// The settings of the policy, in YAML or JSON: plans are judged by them
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,

    /// Where /metrics, /healthz and /readyz are served
    #[arg(long, default_value = "0.0.0.0:8080", value_name = "ADDRESS:PORT")]
    pub probes: SocketAddr,

    /// The namespace of the Lease by which one replica acts at a time
    #[arg(long, env = "POD_NAMESPACE", default_value = "operator-bounds", value_name = "NAME")]
    pub lease_namespace: String,

    /// How long another replica waits for one that is gone
    #[arg(long, default_value = "15", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub lease_duration: u64,

    /// What this replica is called in the Lease; a number that no other process has is added
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub identity: Option<String>,
}

/// Runs until it is told to stop, or until another replica takes over.
pub async fn run(options: Options, stop: Stop) -> anyhow::Result<()> {
    let settings = read_settings(options.settings.as_deref())?;
    let client = Client::try_from(Config::infer().await.context("how to reach the API server")?)?;
    let metrics = Metrics::default();
    let ready = Ready::not_yet("starting");
    health::serve(options.probes, metrics.registry(), ready.clone()).await?;
    let identity = leader::identity(options.identity.as_deref())?;
    let leases = Api::namespaced(client.clone(), &options.lease_namespace);
    let leader = Leader::new(leases, identity.clone(), Duration::from_secs(options.lease_duration));
    // A replica on standby counts as ready.
    ready.set(Ok(()));
    tracing::info!(identity, "standing by");
    let term = tokio::select! {
        term = leader.acquire() => term,
        () = stop.clone().told() => return Ok(()),
    };
    tracing::info!(identity, "acting");
    metrics.acting.set(1);
    tokio::select! {
        ended = act(client, settings, term.clone(), &metrics, &ready, stop) => {
            leader.release(&term).await;
            ended
        }
        // The next replica is already active, or will be in a moment: this one starts over from scratch.
        lost = leader.keep(&term) => Err(lost.into()),
    }
}

fn read_settings(path: Option<&Path>) -> anyhow::Result<Settings> {
    let Some(path) = path else { return Ok(Settings::default()) };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let json = yaml::to_json(&text).map_err(anyhow::Error::msg).with_context(|| path.display().to_string())?;
    let mut settings = Settings::read(&json).map_err(anyhow::Error::msg).with_context(|| path.display().to_string())?;
    if settings.authorizer != AuthorizerSetting::Rbac {
        // An access review is a write, and the gate writes nothing but approvals.
        tracing::warn!("authorizer: access-review is for the policy; the gate judges by RBAC objects");
        settings.authorizer = AuthorizerSetting::Rbac;
    }
    Ok(settings)
}

#[derive(Default)]
struct Metrics {
    verdicts: Family<Outcome, Counter>,
    acting: Gauge,
    queue: Gauge,
}

impl Metrics {
    fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("operator_bounds_gate");
        registry.register("verdicts", "Verdicts on plans, by what became of them", self.verdicts.clone());
        registry.register("acting", "Whether this replica acts", self.acting.clone());
        registry.register("queue", "Namespaces that wait for a look", self.queue.clone());
        registry
    }
}

/// Watches, judges and approves until it is told to stop.
async fn act(
    client: Client,
    settings: Settings,
    term: Term,
    metrics: &Metrics,
    ready: &Ready,
    stop: Stop,
) -> anyhow::Result<()> {
    ready.set(Err("the cluster was not read in full yet".to_owned()));
    let watched = Watched::default();
    let mut watches = JoinSet::new();
    let seen = watch::start(&client, &watched, &mut watches);
    tokio::select! {
        all = try_join_all(seen) => { all.context("a watch has ended")?; }
        () = stop.clone().told() => return Ok(()),
    }
    ready.set(Ok(()));
    tracing::info!(namespaces = watched.world().gated().len(), "the cluster was read");
    let gate = Arc::new(Gate { client, watched, settings, term, verdicts: metrics.verdicts.clone() });
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(Arc::clone(&gate), stop.clone()));
    }
    let noting = async {
        loop {
            metrics.queue.set(i64::try_from(gate.watched.queue.len()).unwrap_or(i64::MAX));
            sleep(NOTED).await;
        }
    };
    tokio::select! {
        () = noting => Ok(()),
        _ = watches.join_next() => bail!("a watch has ended"),
        // Each worker finishes its current look.
        () = async { while workers.join_next().await.is_some() {} } => Ok(()),
    }
}

async fn work(gate: Arc<Gate>, stop: Stop) {
    let queue = Arc::clone(&gate.watched.queue);
    loop {
        let namespace = tokio::select! {
            namespace = queue.take() => namespace,
            () = stop.clone().told() => return,
        };
        let again = match timeout(LONGEST, gate.look(&namespace)).await {
            Ok(Ok(again)) => again,
            Ok(Err(error)) => {
                tracing::warn!(%namespace, %error, "a look at a namespace failed, and will be repeated");
                true
            }
            Err(_) => {
                tracing::warn!(%namespace, "a look at a namespace took too long, and will be repeated");
                true
            }
        };
        queue.done(&namespace, again);
    }
}
