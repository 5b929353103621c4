//! What the controller knows of the cluster: watched, trimmed, and kept in memory. Nothing is polled.

use std::fmt::Debug;
use std::sync::Arc;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{Stream, StreamExt, future, stream};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, reflector as reflect, watcher as watch_objects};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::backoff::key;
use crate::metrics::Metrics;
use crate::olm::{
    ClusterServiceVersion, CrdSummary, DeploymentSummary, InstallPlanSummary, OWNER_KIND_LABEL, OperatorGroup,
    UNREADABLE_ANNOTATION, unreadable,
};

/// Tells that something of a kind has changed. Changes in quick succession are told once.
#[derive(Debug, Clone)]
pub struct Signal(watch::Sender<()>);

impl Signal {
    fn new() -> Self {
        Signal(watch::channel(()).0)
    }

    /// One item for each change, or for several at once.
    pub fn stream(&self) -> impl Stream<Item = ()> + Send + 'static + use<> {
        stream::unfold(self.0.subscribe(), |mut changes| async move {
            changes.changed().await.ok()?;
            Some(((), changes))
        })
    }
}

/// A kind that is watched.
#[derive(Debug)]
pub struct Watched<K: Resource<DynamicType = ()> + 'static> {
    /// What there is.
    pub store: Store<K>,
    /// When that changes.
    pub changed: Signal,
}

impl<K: Resource<DynamicType = ()> + Clone + Debug + 'static> Watched<K> {
    fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<K>> {
        let key = ObjectRef::new(name);
        self.store.get(&match namespace {
            Some(namespace) => key.within(namespace),
            None => key,
        })
    }
}

/// A watched kind that is reconciled: each object that changes is told too.
#[derive(Debug)]
pub struct Reconciled<K: Resource<DynamicType = ()> + 'static> {
    /// What there is.
    pub watched: Watched<K>,
    /// The objects that change, to be taken once.
    pub touched: UnboundedReceiver<Arc<K>>,
}

/// Everything that is watched.
#[derive(Debug)]
pub struct Stores {
    /// OperatorGroups.
    pub groups: Watched<OperatorGroup>,
    /// InstallPlans, without their steps.
    pub plans: Watched<InstallPlanSummary>,
    /// ClusterServiceVersions.
    pub csvs: Watched<ClusterServiceVersion>,
    /// Namespaces, for their labels.
    pub namespaces: Watched<PartialObjectMeta<Namespace>>,
    /// Service accounts.
    pub accounts: Watched<PartialObjectMeta<ServiceAccount>>,
    /// Roles.
    pub roles: Watched<Role>,
    /// ClusterRoles.
    pub cluster_roles: Watched<ClusterRole>,
    /// RoleBindings.
    pub role_bindings: Watched<RoleBinding>,
    /// ClusterRoleBindings.
    pub cluster_role_bindings: Watched<ClusterRoleBinding>,
    /// CustomResourceDefinitions, without their schemas.
    pub crds: Watched<CrdSummary>,
    /// Deployments that belong to operators, without their templates.
    pub deployments: Watched<DeploymentSummary>,
}

/// The streams of the objects that are reconciled.
#[derive(Debug)]
pub struct Touched {
    /// OperatorGroups.
    pub groups: UnboundedReceiver<Arc<OperatorGroup>>,
    /// InstallPlans.
    pub plans: UnboundedReceiver<Arc<InstallPlanSummary>>,
    /// ClusterServiceVersions.
    pub csvs: UnboundedReceiver<Arc<ClusterServiceVersion>>,
}

impl Stores {
    /// Starts watching. The tasks end when the set is dropped.
    pub fn start(client: &Client, metrics: &Metrics, tasks: &mut JoinSet<()>) -> (Self, Touched) {
        let mut watching = Watching { client, metrics, tasks };
        let groups = watching.reconciled::<OperatorGroup>();
        let plans = watching.reconciled::<InstallPlanSummary>();
        let csvs = watching.reconciled::<ClusterServiceVersion>();
        let stores = Stores {
            namespaces: watching.watched::<PartialObjectMeta<Namespace>>(watcher::Config::default()),
            accounts: watching.watched::<PartialObjectMeta<ServiceAccount>>(watcher::Config::default()),
            roles: watching.watched::<Role>(watcher::Config::default()),
            cluster_roles: watching.watched::<ClusterRole>(watcher::Config::default()),
            role_bindings: watching.watched::<RoleBinding>(watcher::Config::default()),
            cluster_role_bindings: watching.watched::<ClusterRoleBinding>(watcher::Config::default()),
            crds: watching.watched::<CrdSummary>(watcher::Config::default()),
            deployments: watching.watched::<DeploymentSummary>(
                watcher::Config::default().labels(&format!("{OWNER_KIND_LABEL}=ClusterServiceVersion")),
            ),
            groups: groups.watched,
            plans: plans.watched,
            csvs: csvs.watched,
        };
        (stores, Touched { groups: groups.touched, plans: plans.touched, csvs: csvs.touched })
    }

    /// Waits until everything was listed once.
    pub async fn filled(&self) {
        // A store whose writer is gone never fills: its task has ended, and so does the controller.
        let _ = future::join(
            future::join5(
                self.groups.store.wait_until_ready(),
                self.plans.store.wait_until_ready(),
                self.csvs.store.wait_until_ready(),
                self.namespaces.store.wait_until_ready(),
                self.accounts.store.wait_until_ready(),
            ),
            future::join(
                future::join4(
                    self.roles.store.wait_until_ready(),
                    self.cluster_roles.store.wait_until_ready(),
                    self.role_bindings.store.wait_until_ready(),
                    self.cluster_role_bindings.store.wait_until_ready(),
                ),
                future::join(self.crds.store.wait_until_ready(), self.deployments.store.wait_until_ready()),
            ),
        )
        .await;
    }

    /// A Namespace, if it exists.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<Arc<PartialObjectMeta<Namespace>>> {
        self.namespaces.get(None, name)
    }

    /// A service account, if it exists.
    #[must_use]
    pub fn account(&self, namespace: &str, name: &str) -> Option<Arc<PartialObjectMeta<ServiceAccount>>> {
        self.accounts.get(Some(namespace), name)
    }

    /// A Role, if it exists.
    #[must_use]
    pub fn role(&self, namespace: &str, name: &str) -> Option<Arc<Role>> {
        self.roles.get(Some(namespace), name)
    }

    /// A ClusterRole, if it exists.
    #[must_use]
    pub fn cluster_role(&self, name: &str) -> Option<Arc<ClusterRole>> {
        self.cluster_roles.get(None, name)
    }

    /// A ClusterServiceVersion, if it exists.
    #[must_use]
    pub fn csv(&self, namespace: &str, name: &str) -> Option<Arc<ClusterServiceVersion>> {
        self.csvs.get(Some(namespace), name)
    }

    /// A CustomResourceDefinition, if it exists.
    #[must_use]
    pub fn crd(&self, name: &str) -> Option<Arc<CrdSummary>> {
        self.crds.get(None, name)
    }

    /// A Deployment that belongs to an operator, if it exists.
    #[must_use]
    pub fn deployment(&self, namespace: &str, name: &str) -> Option<Arc<DeploymentSummary>> {
        self.deployments.get(Some(namespace), name)
    }

    /// Changes of anything that decides what an account holds.
    pub fn rights_changed(&self) -> impl Stream<Item = ()> + Send + 'static + use<> {
        stream::select_all([
            self.roles.changed.stream().boxed(),
            self.cluster_roles.changed.stream().boxed(),
            self.role_bindings.changed.stream().boxed(),
            self.cluster_role_bindings.changed.stream().boxed(),
            self.accounts.changed.stream().boxed(),
            self.groups.changed.stream().boxed(),
            self.namespaces.changed.stream().boxed(),
        ])
    }
}

struct Watching<'w> {
    client: &'w Client,
    metrics: &'w Metrics,
    tasks: &'w mut JoinSet<()>,
}

impl Watching<'_> {
    fn watched<K>(&mut self, config: watcher::Config) -> Watched<K>
    where
        K: Resource<DynamicType = ()> + Clone + Default + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let stream = watch_objects(Api::<DeserializeGuard<K>>::all(self.client.clone()), config);
        self.keep(stream, None)
    }

    fn reconciled<K>(&mut self) -> Reconciled<K>
    where
        K: Resource<DynamicType = ()> + Clone + Default + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let (sender, touched) = unbounded();
        let stream = watch_objects(Api::<DeserializeGuard<K>>::all(self.client.clone()), watcher::Config::default());
        Reconciled { watched: self.keep(stream, Some(sender)), touched }
    }

    /// Keeps what a watch sees, and tells of it after it is kept.
    fn keep<K>(
        &mut self,
        stream: impl Stream<Item = watcher::Result<Event<DeserializeGuard<K>>>> + Send + 'static,
        touched: Option<UnboundedSender<Arc<K>>>,
    ) -> Watched<K>
    where
        K: Resource<DynamicType = ()> + Clone + Default + Debug + Send + Sync + 'static,
    {
        let (store, writer) = reflector::store();
        let changed = Signal::new();
        let signal = changed.clone();
        let metrics = self.metrics.clone();
        let stream = stream.default_backoff().map(|event| event.map(readable));
        let stream = reflect(writer, stream.modify(trim));
        self.tasks.spawn(async move {
            stream
                .for_each(|event| {
                    match event {
                        Ok(event) => tell(event, &signal, touched.as_ref()),
                        Err(error) => {
                            metrics.watch_failed(&K::kind(&()));
                            tracing::warn!(kind = %K::kind(&()), %error, "a watch was interrupted, and goes on");
                        }
                    }
                    future::ready(())
                })
                .await;
        });
        Watched { store, changed }
    }
}

fn tell<K>(event: Event<K>, signal: &Signal, touched: Option<&UnboundedSender<Arc<K>>>) {
    let is_listing = matches!(event, Event::Init | Event::InitApply(_));
    if let (Event::Apply(object) | Event::InitApply(object), Some(touched)) = (event, touched) {
        // The receiver is gone only when the controller stops.
        let _ = touched.unbounded_send(Arc::new(object));
    }
    if !is_listing {
        let _ = signal.0.send(());
    }
}

/// One object that cannot be read must not keep the others from being seen. Of it there is only its metadata: a Role that gives
/// nothing, a plan that is not approved, and a group that refuses its namespace (`cluster.rs`).
fn readable<K: Resource<DynamicType = ()> + Default>(event: Event<DeserializeGuard<K>>) -> Event<K> {
    let read = |DeserializeGuard(object): DeserializeGuard<K>| {
        object.unwrap_or_else(|invalid| {
            let mut bare = K::default();
            *bare.meta_mut() = invalid.metadata;
            bare.annotations_mut().insert(UNREADABLE_ANNOTATION.to_owned(), invalid.error);
            tracing::warn!(object = %key(&bare), why = unreadable(&bare), "an object cannot be read");
            bare
        })
    };
    match event {
        Event::Apply(object) => Event::Apply(read(object)),
        Event::Delete(object) => Event::Delete(read(object)),
        Event::InitApply(object) => Event::InitApply(read(object)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}

/// Drops what nobody reads and what is half the size of most objects. OLM's own annotations decide things; others do not.
fn trim<K: Resource>(object: &mut K) {
    object.managed_fields_mut().clear();
    object.annotations_mut().retain(|key, _| key.starts_with("olm.") || key.starts_with("operator-bounds/"));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(group: serde_json::Value) -> OperatorGroup {
        match readable(Event::Apply(serde_json::from_value(group).unwrap())) {
            Event::Apply(group) => group,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_object_that_cannot_be_read_is_seen_as_such() {
        let broken = seen(json!({"metadata": {"name": "og", "namespace": "a"}, "spec": {"serviceAccountName": 1}}));
        assert_eq!(broken.name_any(), "og");
        assert!(unreadable(&broken).is_some());
    }

    #[test]
    fn a_time_that_cannot_be_read_hides_no_account() {
        let time = json!([{"type": "x", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00+99:99"}]);
        let group = seen(json!({
            "metadata": {"name": "og", "namespace": "a"}, "spec": {"serviceAccountName": "installer"}, "status": {"conditions": time},
        }));
        assert_eq!(group.spec.service_account_name.as_deref(), Some("installer"));
        assert_eq!(unreadable(&group), None);
    }
}
