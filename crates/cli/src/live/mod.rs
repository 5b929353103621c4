//! A live cluster, asked the way Kubewarden's policy server asks it.
//!
//! Every distinct list opens one watch that stays open, and is answered from it. Gets and access reviews go to the API
//! server; their answers are good for five seconds where the policy allows it. All functions block: the client's own
//! threads are inside.
//!
//! ```no_run
//! # use std::path::Path;
//! # use operator_bounds::live::{Cluster, Connection};
//! # use operator_bounds::policy::Policy;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let connection = Connection { kubeconfig: Some(Path::new("kubeconfig")), context: None };
//! let cluster = Cluster::connect(&connection)?;
//! let host = Policy::native()?.host_on(std::sync::Arc::new(cluster));
//! # Ok(()) }
//! ```

mod connection;
mod kinds;
mod recent;
mod watch;

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::authorization::v1 as authorization;
use kube::api::{Api, DynamicObject, PostParams};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;
use tokio::time::timeout_at;

pub use self::connection::{ConnectError, Connection};
use self::kinds::Kinds;
use self::recent::Recent;
use self::watch::Watch;
use crate::host::{CanI, GetResource, HostError, ListResources, ResourceAttributes, SubjectAccessReview};
use crate::source::{Source, json, mask, not_found, object_list};

/// How long a look-up may take when nobody set a deadline.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a cluster, with its watches and recent answers. A clone shares them.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    deadline: Option<Instant>,
}

/// What a watch shows, for those who wait until it has seen what they wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cache {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The kind, in the singular.
    pub kind: String,
    /// One namespace, or all of them.
    pub namespace: Option<String>,
    /// The `resourceVersion` of each object, by `namespace/name`.
    pub objects: BTreeMap<String, String>,
}

struct Shared {
    url: String,
    client: kube::Client,
    kinds: Kinds,
    watches: Mutex<HashMap<ListResources, Arc<Watch>>>,
    gets: Recent<Object, DynamicObject>,
    reviews: Recent<SubjectAccessReview, Vec<u8>>,
    /// Only empty while this is dropped.
    runtime: Option<Runtime>,
}

/// The name of an object in the cache of gets. Masks are applied to what comes out of it.
#[derive(PartialEq, Eq, Hash)]
struct Object {
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
}

impl Cluster {
    /// Connects, and makes sure that the API server answers.
    pub fn connect(connection: &Connection<'_>) -> Result<Self, ConnectError> {
        let runtime = connection::runtime()?;
        let (url, client) = runtime.block_on(connection.open())?;
        let shared = Shared {
            url,
            kinds: Kinds::new(client.clone()),
            client,
            watches: Mutex::default(),
            gets: Recent::default(),
            reviews: Recent::default(),
            runtime: Some(runtime),
        };
        Ok(Cluster { shared: Arc::new(shared), deadline: None })
    }

    /// The same cluster, with look-ups that end by then: as failures, where there is no answer yet.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Cluster { shared: Arc::clone(&self.shared), deadline: Some(deadline) }
    }

    /// The API server's address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// How many watches are open.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.shared.watches().len()
    }

    /// What each open watch shows at this moment.
    #[must_use]
    pub fn caches(&self) -> Vec<Cache> {
        let shown = |(list, watch): (&ListResources, &Arc<Watch>)| Cache {
            api_version: list.api_version.clone(),
            kind: list.kind.clone(),
            namespace: list.namespace.clone(),
            objects: watch.versions(),
        };
        self.shared.watches().iter().map(shown).collect()
    }

    /// Whether the API server answers.
    pub fn check(&self) -> Result<(), HostError> {
        self.wait(async { self.shared.client.apiserver_version().await.map(drop).map_err(|error| failed(&error)) })
    }

    /// Waits on the caller's thread, not past the deadline.
    fn wait<T>(&self, answer: impl Future<Output = Result<T, HostError>>) -> Result<T, HostError> {
        let deadline = self.deadline.unwrap_or_else(|| Instant::now() + PATIENCE);
        let late = || HostError::Failed(format!("no answer from {} in time", self.shared.url));
        let Some(runtime) = &self.shared.runtime else { return Err(late()) };
        let handle = runtime.handle();
        handle.block_on(async { timeout_at(deadline.into(), answer).await.unwrap_or_else(|_| Err(late())) })
    }
}

impl Source for Cluster {
    fn list(&self, list: &ListResources) -> Result<Vec<u8>, HostError> {
        self.wait(self.shared.list(list))
    }

    fn get(&self, get: &GetResource) -> Result<Vec<u8>, HostError> {
        self.wait(self.shared.get(get))
    }

    fn can_i(&self, can_i: &CanI) -> Result<Vec<u8>, HostError> {
        self.wait(self.shared.can_i(can_i))
    }
}

impl Shared {
    fn watches(&self) -> std::sync::MutexGuard<'_, HashMap<ListResources, Arc<Watch>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn list(&self, list: &ListResources) -> Result<Vec<u8>, HostError> {
        let watch = self.watch(list).await?;
        match watch.items().await {
            Ok(items) => object_list(list, items.iter().map(AsRef::<RawValue>::as_ref).collect()),
            Err(reason) => {
                self.forget(list, &watch);
                Err(HostError::Failed(reason))
            }
        }
    }

    /// The watch behind a list, opened when it is the first of its kind.
    async fn watch(&self, list: &ListResources) -> Result<Arc<Watch>, HostError> {
        if let Some(watch) = self.watches().get(list) {
            return Ok(Arc::clone(watch));
        }
        let kind = self.kinds.find(&list.api_version, &list.kind).await?;
        let api = kind.list_api(self.client.clone(), list)?;
        let mut watches = self.watches();
        // Somebody may have been faster.
        let watch = watches.entry(list.clone()).or_insert_with(|| Arc::new(Watch::open(api, list)));
        Ok(Arc::clone(watch))
    }

    /// A watch that failed is over, and perhaps the kind is no longer served: the next list starts from the beginning.
    fn forget(&self, list: &ListResources, watch: &Arc<Watch>) {
        let mut watches = self.watches();
        if watches.get(list).is_some_and(|known| Arc::ptr_eq(known, watch)) {
            watches.remove(list);
            self.kinds.forget(&list.api_version, &list.kind);
        }
    }

    async fn get(&self, get: &GetResource) -> Result<Vec<u8>, HostError> {
        let GetResource { api_version, kind, namespace, name, .. } = get.clone();
        let key = Object { api_version, kind, namespace, name };
        let known = if get.disable_cache { None } else { self.gets.find(&key) };
        let object = match known {
            Some(object) => object,
            None => self.gets.keep(key, self.get_now(get).await?),
        };
        let mask = mask(get.field_masks.as_ref());
        let data =
            serde_json::to_value(mask.object(&object.data)).map_err(|error| HostError::Failed(error.to_string()))?;
        json(&DynamicObject { types: object.types.clone(), metadata: object.metadata.clone(), data })
    }

    async fn get_now(&self, get: &GetResource) -> Result<DynamicObject, HostError> {
        let kind = self.kinds.find(&get.api_version, &get.kind).await?;
        let api = kind.get_api(self.client.clone(), get)?;
        api.get_opt(&get.name).await.map_err(|error| failed(&error))?.ok_or_else(|| not_found(get))
    }

    async fn can_i(&self, can_i: &CanI) -> Result<Vec<u8>, HostError> {
        let known = if can_i.disable_cache { None } else { self.reviews.find(&can_i.request) };
        if let Some(answer) = known {
            return Ok(answer.to_vec());
        }
        let review = authorization::SubjectAccessReview { spec: spec(&can_i.request), ..Default::default() };
        let api: Api<authorization::SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await.map_err(|error| failed(&error))?;
        let missing = || HostError::Failed("SubjectAccessReview did not return a response".to_owned());
        let status = json(&answer.status.ok_or_else(missing)?)?;
        Ok(self.reviews.keep(can_i.request.clone(), status).to_vec())
    }
}

/// The question as the API server takes it.
fn spec(review: &SubjectAccessReview) -> authorization::SubjectAccessReviewSpec {
    let SubjectAccessReview { groups, resource_attributes, user } = review.clone();
    let ResourceAttributes { group, name, namespace, resource, subresource, verb, version } = resource_attributes;
    authorization::SubjectAccessReviewSpec {
        groups,
        user: Some(user),
        resource_attributes: Some(authorization::ResourceAttributes {
            group,
            name,
            namespace,
            resource: Some(resource),
            subresource,
            verb: Some(verb),
            version,
            ..Default::default()
        }),
        ..Default::default()
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("url", &self.shared.url).field("deadline", &self.deadline).finish()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A runtime that is simply dropped waits for its threads, and may not be dropped by one of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn failed(error: &dyn Error) -> HostError {
    HostError::Failed(causes(error))
}

/// An error with its causes, on one line; what a cause only repeats is left out.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}
