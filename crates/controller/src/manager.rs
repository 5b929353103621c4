//! Starts everything, and stops it in good order.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{FutureExt, Stream, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::controller::{Action, Config as ControllerConfig, Controller};
use kube::runtime::reflector::Store;
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::apply::Kinds;
use crate::backoff::{Backoff, key};
use crate::context::{Context, Own};
use crate::error::Error;
use crate::events::Events;
use crate::http::{self, Ready};
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::scoped::{Account, ScopedClients};
use crate::stores::{Stores, Touched};
use crate::{NAME, csv, install_plan, operator_group};

/// Changes that come together are looked at together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(295);
/// How many objects of a kind are worked on at once.
const CONCURRENCY: u16 = 8;

/// Runs until the process is told to stop, or another replica has taken over.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let mut config =
        Config::infer().await.context("no way to reach an API server: neither a kubeconfig nor a pod's account")?;
    // A watch is renewed before that, so whatever is silent for so long hangs.
    config.read_timeout.get_or_insert(SILENCE);
    let client = Client::try_from(config.clone()).context("the connection to the API server cannot be set up")?;
    let metrics = Metrics::default();
    let ready = Ready::default();
    let mut tasks = JoinSet::new();
    let probes = http::serve(options.listen, metrics.clone(), ready.clone());
    tasks.spawn(async move {
        if let Err(error) = probes.await {
            tracing::error!(%error, "/metrics, /healthz and /readyz cannot be served");
        }
    });
    let identity = options.identity.clone().unwrap_or_else(|| format!("{NAME}-{}", std::process::id()));
    let namespace = options.lease_namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let leases: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let leader = Leader::new(leases, identity.clone(), options.lease_duration);
    let stop = stopped()?;

    // A replica that waits for its turn is ready to take it.
    ready.set(true);
    tokio::select! {
        () = leader.acquire() => {}
        () = told(stop.clone()) => return Ok(()),
    }
    tracing::info!(%identity, "leading");
    metrics.leads(true);
    ready.set(false);
    let outcome = tokio::select! {
        error = leader.keep() => Err(anyhow::anyhow!(error).context("the Lease is lost: another replica acts now")),
        () = lead(&options, &config, client, metrics, &ready, &identity, &stop) => Ok(()),
    };
    if outcome.is_ok() {
        leader.release().await;
    }
    outcome
}

/// Becomes true when the process should stop.
fn stopped() -> anyhow::Result<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: what is being done is finished first");
        let _ = sender.send(true);
    });
    Ok(receiver)
}

async fn told(mut stop: watch::Receiver<bool>) {
    // The sender lives until it has told.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Watches and acts, until it is told to stop.
async fn lead(
    options: &Options,
    config: &Config,
    client: Client,
    metrics: Metrics,
    ready: &Ready,
    identity: &str,
    stop: &watch::Receiver<bool>,
) {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    let (stores, touched) = Stores::start(&client, &metrics, &mut tasks);
    let cx = Arc::new(Context {
        scoped: ScopedClients::new(config, client.clone(), metrics.clone()),
        stores,
        scope: options.scope(),
        kinds: Kinds::default(),
        events: Events::new(client.clone(), identity),
        own: Own(client),
        metrics,
        backoff: Backoff::default(),
    });
    tokio::select! {
        () = cx.stores.filled() => {}
        () = told(stop.clone()) => return,
    }
    ready.set(true);
    cx.metrics.started(began.elapsed());
    tracing::info!(took = ?began.elapsed(), scope = ?cx.scope, "the caches are filled");
    tasks.spawn(forget_accounts(Arc::clone(&cx)));
    tasks.spawn(sweep(Arc::clone(&cx)));
    controllers(&cx, touched, stop).await;
}

/// The three reconciles, side by side.
async fn controllers(cx: &Arc<Context>, touched: Touched, stop: &watch::Receiver<bool>) {
    let stores = &cx.stores;
    let groups = drive(
        cx,
        touched.groups,
        stores.groups.store.clone(),
        futures::stream::select_all([
            stores.accounts.changed.stream().boxed(),
            stores.namespaces.changed.stream().boxed(),
            stores.groups.changed.stream().boxed(),
        ]),
        stop,
        operator_group::reconcile,
    );
    let plans =
        drive(cx, touched.plans, stores.plans.store.clone(), stores.rights_changed(), stop, install_plan::reconcile);
    let csvs = drive(
        cx,
        touched.csvs,
        stores.csvs.store.clone(),
        futures::stream::select_all([
            stores.rights_changed().boxed(),
            stores.crds.changed.stream().boxed(),
            stores.deployments.changed.stream().boxed(),
            stores.csvs.changed.stream().boxed(),
        ]),
        stop,
        csv::reconcile,
    );
    futures::join!(groups, plans, csvs);
}

/// Reconciles a kind: an object when it changes, and all of them when something changes that they depend on.
async fn drive<K, F>(
    cx: &Arc<Context>,
    touched: impl Stream<Item = Arc<K>> + Send + 'static,
    store: Store<K>,
    all: impl Stream<Item = ()> + Send + 'static,
    stop: &watch::Receiver<bool>,
    reconcile: fn(Arc<K>, Arc<Context>) -> F,
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    F: Future<Output = Result<Action, Error>> + Send + 'static,
{
    let config = ControllerConfig::default().debounce(DEBOUNCE).concurrency(CONCURRENCY);
    Controller::for_shared_stream(touched, store)
        .with_config(config)
        .reconcile_all_on(all)
        .graceful_shutdown_on(told(stop.clone()))
        .run(
            move |object, cx| counted(object, cx, reconcile),
            |object, _, cx| Action::requeue(cx.backoff.failed(&key(&*object))),
            Arc::clone(cx),
        )
        .for_each(|_| std::future::ready(()))
        .await;
}

/// A reconcile, counted and logged.
async fn counted<K, F>(
    object: Arc<K>,
    cx: Arc<Context>,
    reconcile: fn(Arc<K>, Arc<Context>) -> F,
) -> Result<Action, Error>
where
    K: Resource<DynamicType = ()>,
    F: Future<Output = Result<Action, Error>>,
{
    let kind = K::kind(&());
    let _working = cx.metrics.reconciling(&kind);
    let key = key(&*object);
    // Objects are written by anybody: one that leads to a panic must not stop the work on all others.
    let done = AssertUnwindSafe(reconcile(object, Arc::clone(&cx))).catch_unwind().await;
    match done.unwrap_or(Err(Error::Panicked)) {
        // Somebody has changed it meanwhile: that change leads here again.
        Err(error) if error.is_outrun() => Ok(Action::await_change()),
        Ok(action) => {
            cx.backoff.succeeded(&key);
            Ok(action)
        }
        Err(error) => {
            cx.metrics.failed(&kind, error.reason());
            tracing::warn!(object = %key, %error, reason = error.reason(), "will be tried again");
            Err(error)
        }
    }
}

/// Drops the clients of accounts that are deleted or re-created.
async fn forget_accounts(cx: Arc<Context>) {
    let mut changes = std::pin::pin!(cx.stores.accounts.changed.stream());
    while changes.next().await.is_some() {
        let exists = |account: &Account| {
            cx.stores
                .account(&account.namespace, &account.name)
                .is_some_and(|found| found.uid().as_deref() == Some(&account.uid))
        };
        cx.scoped.retain(exists).await;
    }
}

/// Removes what operators leave behind: once at the start, and whenever one goes.
async fn sweep(cx: Arc<Context>) {
    let mut changes = std::pin::pin!(cx.stores.csvs.changed.stream());
    let mut known: Option<BTreeSet<String>> = None;
    loop {
        let now: BTreeSet<String> = cx.stores.csvs.store.state().iter().map(|csv| key(&**csv)).collect();
        if known.as_ref().is_none_or(|known| !known.is_subset(&now)) {
            match csv::sweep::sweep(&cx).await {
                Ok(()) => cx.backoff.succeeded("sweep"),
                Err(error) => {
                    cx.metrics.failed("sweep", error.reason());
                    tracing::warn!(%error, "what operators have left behind could not be removed, and will be tried again");
                    tokio::time::sleep(cx.backoff.failed("sweep")).await;
                    continue;
                }
            }
        }
        known = Some(now);
        if changes.next().await.is_none() {
            return;
        }
    }
}
