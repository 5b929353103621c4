//! The watches: they update what is known, and determine which namespaces have to be examined again.

use std::collections::HashSet;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use kube_runtime::WatchStreamExt;
use kube_runtime::watcher::{self, Event, watcher as watch_objects};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::olm::{CLUSTER_SERVICE_VERSIONS, INSTALL_PLANS, Kind, OPERATOR_GROUPS, SUBSCRIPTIONS};
use super::queue::Queue;
use super::world::{Key, World};

/// What is known, and where changes are announced.
#[derive(Debug, Clone, Default)]
pub(super) struct Watched {
    world: Arc<Mutex<World>>,
    pub queue: Arc<Queue>,
}

impl Watched {
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, namespaces: Vec<String>) {
        for namespace in namespaces {
            self.queue.push(&namespace);
        }
    }
}

/// Records an object that was seen; `None` when it is gone. Returns the namespaces that have to be examined again.
type Note<K> = fn(&mut World, &Key, Option<K>) -> Vec<String>;
/// The known keys of a kind, for the kinds that are kept.
type Known = fn(&World) -> HashSet<Key>;

/// Starts all watches. The channels signal when each has seen everything once; the tasks never end by themselves.
pub(super) fn start(client: &Client, watched: &Watched, tasks: &mut JoinSet<()>) -> Vec<oneshot::Receiver<()>> {
    let mut watching = Watching { client, watched, tasks, seen: Vec::new() };
    let all = watcher::Config::default;
    let nothing: Known = |_| HashSet::new();
    watching.watch::<PartialObjectMeta<Namespace>>(&(), all(), namespace, World::known_namespaces);
    watching.watch::<DynamicObject>(&OPERATOR_GROUPS.resource(), all(), group, World::known_groups);
    watching.watch::<RoleBinding>(&(), all(), binding, |world| world.known_bindings(false));
    watching.watch::<ClusterRoleBinding>(&(), all(), binding, |world| world.known_bindings(true));
    watching.watch::<PartialObjectMeta<Role>>(&(), all(), |world, key, _| world.role(key), nothing);
    watching.watch::<PartialObjectMeta<ClusterRole>>(&(), all(), |world, key, _| world.role(key), nothing);
    watching.watch::<PartialObjectMeta<ServiceAccount>>(&(), all(), concerns, nothing);
    let mut of_olm = |kind: Kind, config| {
        watching.watch::<PartialObjectMeta<DynamicObject>>(&kind.resource(), config, concerns, nothing);
    };
    of_olm(INSTALL_PLANS, all());
    of_olm(SUBSCRIPTIONS, all());
    // OLM copies them into every namespace of the cluster: the copies are not even transferred.
    of_olm(CLUSTER_SERVICE_VERSIONS, all().labels("!olm.copiedFrom"));
    watching.seen
}

struct Watching<'w> {
    client: &'w Client,
    watched: &'w Watched,
    tasks: &'w mut JoinSet<()>,
    seen: Vec<oneshot::Receiver<()>>,
}

impl Watching<'_> {
    /// Watches all objects of a kind: for `PartialObjectMeta`, only their metadata is transferred.
    fn watch<K>(&mut self, kind: &K::DynamicType, config: watcher::Config, note: Note<K>, known: Known)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let name = K::kind(kind).into_owned();
        let stream = watch_objects(Api::<K>::all_with(self.client.clone(), kind), config);
        self.follow(name, stream, note, known);
    }

    fn follow<K: HasMeta + Send + 'static>(
        &mut self,
        kind: String,
        stream: impl futures::Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
        note: Note<K>,
        known: Known,
    ) {
        let (all_seen, receiver) = oneshot::channel();
        self.seen.push(receiver);
        let watched = self.watched.clone();
        self.tasks.spawn(async move {
            let mut stream = pin!(stream.default_backoff());
            let (mut all_seen, mut left) = (Some(all_seen), HashSet::new());
            while let Some(event) = stream.next().await {
                let mut world = watched.world();
                let again = match event {
                    Ok(Event::Apply(object)) => note(&mut world, &object.key(), Some(object)),
                    Ok(Event::Delete(object)) => note(&mut world, &object.key(), None),
                    Ok(Event::Init) => {
                        left = known(&world);
                        Vec::new()
                    }
                    Ok(Event::InitApply(object)) => {
                        left.remove(&object.key());
                        note(&mut world, &object.key(), Some(object))
                    }
                    Ok(Event::InitDone) => {
                        for key in left.drain() {
                            note(&mut world, &key, None);
                        }
                        if let Some(all_seen) = all_seen.take() {
                            let _ = all_seen.send(());
                        }
                        // What was missed is unknown, so every gated namespace is examined.
                        world.gated()
                    }
                    Err(error) => {
                        tracing::warn!(kind, %error, "a watch was interrupted, and goes on");
                        Vec::new()
                    }
                };
                drop(world);
                watched.tell(again);
            }
        });
    }
}

trait HasMeta {
    fn meta(&self) -> &ObjectMeta;

    fn key(&self) -> Key {
        let meta = self.meta();
        (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl<K: Resource> HasMeta for K {
    fn meta(&self) -> &ObjectMeta {
        Resource::meta(self)
    }
}

fn namespace(world: &mut World, key: &Key, object: Option<PartialObjectMeta<Namespace>>) -> Vec<String> {
    let labels = object.map(|object| json!(object.metadata.labels.unwrap_or_default()));
    world.namespace(&key.1, labels)
}

/// Keeps the part of a group that verdicts read, and its identity for Events.
fn group(world: &mut World, key: &Key, object: Option<DynamicObject>) -> Vec<String> {
    let json = object.map(|object| {
        let meta = object.metadata;
        let restrict = meta.annotations.and_then(|mut all| all.remove_entry("operator-bounds/restrict"));
        let annotations: std::collections::BTreeMap<_, _> = restrict.into_iter().collect();
        json!({
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "annotations": annotations},
            "spec": object.data["spec"],
            "status": {
                "namespaces": object.data["status"]["namespaces"],
                "serviceAccountRef": object.data["status"]["serviceAccountRef"],
            },
        })
        .to_string()
        .into_boxed_str()
    });
    world.group(key.clone(), json)
}

/// Keeps the part of a binding that verdicts read.
fn binding<K: Binding>(world: &mut World, key: &Key, object: Option<K>) -> Vec<String> {
    let Some(object) = object else { return world.binding(key, None) };
    let (meta, role_ref, subjects) = object.parts();
    let labels = meta.labels.unwrap_or_default();
    let labels: std::collections::BTreeMap<_, _> =
        labels.into_iter().filter(|(key, _)| key.starts_with("olm.")).collect();
    let owners = meta.owner_references.unwrap_or_default();
    let owners: Vec<_> =
        owners.iter().map(|it| json!({"apiVersion": it.api_version, "kind": it.kind, "name": it.name})).collect();
    let metadata = json!({"name": key.1, "namespace": key.0, "labels": labels, "ownerReferences": owners});
    let json = json!({"metadata": metadata, "roleRef": role_ref, "subjects": subjects}).to_string();
    world.binding(key, Some((json.into_boxed_str(), &subjects)))
}

trait Binding {
    fn parts(self) -> (ObjectMeta, impl Serialize, Vec<Subject>);
}

impl Binding for RoleBinding {
    fn parts(self) -> (ObjectMeta, impl Serialize, Vec<Subject>) {
        (self.metadata, self.role_ref, self.subjects.unwrap_or_default())
    }
}

impl Binding for ClusterRoleBinding {
    fn parts(self) -> (ObjectMeta, impl Serialize, Vec<Subject>) {
        (self.metadata, self.role_ref, self.subjects.unwrap_or_default())
    }
}

fn concerns<K>(world: &mut World, key: &Key, _: Option<K>) -> Vec<String> {
    world.if_gated(&key.0)
}

impl Kind {
    pub(super) fn resource(self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: format!("{}/{}", self.group, self.version),
            kind: self.name.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}
