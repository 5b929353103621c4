//! A live cluster, with the answers that Kubewarden's policy server would give.
//!
//! A command looks at the cluster once, so every look-up is one request to the API server: no watch stays open and no answer
//! is kept. All functions block: the client's own threads are inside.
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
mod pages;
mod snapshot;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::authorization::v1 as authorization;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::runtime::Runtime;
use tokio::time::timeout_at;

pub use self::connection::{ConnectError, Connection};
use self::kinds::Kinds;
pub use self::pages::{Paged, Unlisted};
use crate::host::{CanI, GetResource, HostError, ListResources, ResourceAttributes, SubjectAccessReview};
use crate::mask::LAST_APPLIED;
use crate::source::{Source, json, mask, not_found, object_list};

/// How long a look-up may take when nobody set a deadline.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a cluster. A clone shares it.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    deadline: Option<Instant>,
}

struct Shared {
    url: String,
    client: kube::Client,
    kinds: Kinds,
    /// Only empty while this is dropped.
    runtime: Option<Runtime>,
}

impl Cluster {
    /// Connects, and makes sure that the API server answers.
    pub fn connect(connection: &Connection<'_>) -> Result<Self, ConnectError> {
        let runtime = connection::runtime()?;
        let (url, client) = runtime.block_on(connection.open())?;
        let shared = Shared { url, kinds: Kinds::new(client.clone()), client, runtime: Some(runtime) };
        Ok(Cluster { shared: Arc::new(shared), deadline: None })
    }

    /// The same cluster, with look-ups that fail if they have no answer by the deadline.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Cluster { shared: Arc::clone(&self.shared), deadline: Some(deadline) }
    }

    /// The API server's address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Where the objects of a list are, for those who watch them.
    pub async fn api(&self, list: &ListResources) -> Result<Api<DynamicObject>, HostError> {
        self.shared.api(list).await
    }

    /// Forgets where the objects of a list are: the kind may no longer be served.
    pub fn forget(&self, list: &ListResources) {
        self.shared.kinds.forget(&list.api_version, &list.kind);
    }

    /// Whether the API server answers.
    pub fn check(&self) -> Result<(), HostError> {
        self.wait(async { self.shared.client.apiserver_version().await.map(drop).map_err(|error| failed(&error)) })
    }

    /// Waits on the caller's thread, not past the deadline.
    pub fn wait<T>(&self, answer: impl Future<Output = Result<T, HostError>>) -> Result<T, HostError> {
        self.in_time(answer).unwrap_or_else(|| Err(HostError::Failed(self.late())))
    }

    /// The same for any answer; none where it does not come in time.
    fn in_time<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let deadline = self.deadline.unwrap_or_else(|| Instant::now() + PATIENCE);
        let handle = self.shared.runtime.as_ref()?.handle();
        handle.block_on(async { timeout_at(deadline.into(), answer).await.ok() })
    }

    fn late(&self) -> String {
        format!("no response from {} in time", self.shared.url)
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
    async fn api(&self, list: &ListResources) -> Result<Api<DynamicObject>, HostError> {
        let kind = self.kinds.find(&list.api_version, &list.kind).await?;
        kind.list_api(self.client.clone(), list)
    }

    async fn list(&self, list: &ListResources) -> Result<Vec<u8>, HostError> {
        let parameters = ListParams { label_selector: list.label_selector.clone(), ..ListParams::default() };
        let found = self.api(list).await?.list(&parameters).await.map_err(|error| failed(&error))?;
        let mut objects = found.items;
        // In the order of a directory of manifests.
        objects.sort_by_key(|object| (object.namespace(), object.name_any()));
        let items: Result<Vec<_>, _> = objects.into_iter().map(|object| item(object, list)).collect();
        object_list(list, items?)
    }

    async fn get(&self, get: &GetResource) -> Result<Vec<u8>, HostError> {
        let kind = self.kinds.find(&get.api_version, &get.kind).await?;
        let api = kind.get_api(self.client.clone(), get)?;
        let found = api.get_opt(&get.name).await.map_err(|error| failed(&error))?;
        let mut object = found.ok_or_else(|| not_found(get))?;
        object.data = masked(&object.data, get.field_masks.as_ref())?;
        json(&object)
    }

    async fn can_i(&self, can_i: &CanI) -> Result<Vec<u8>, HostError> {
        let review = authorization::SubjectAccessReview { spec: spec(&can_i.request), ..Default::default() };
        let api: Api<authorization::SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await.map_err(|error| failed(&error))?;
        let missing = || HostError::Failed("SubjectAccessReview did not return a response".to_owned());
        json(&answer.status.ok_or_else(missing)?)
    }
}

/// An object as an item of a list: without its type, with all of its metadata that is of interest, and masked.
pub fn item(mut object: DynamicObject, list: &ListResources) -> Result<Box<RawValue>, HostError> {
    object.types = None;
    object.managed_fields_mut().clear();
    object.annotations_mut().remove(LAST_APPLIED);
    object.data = masked(&object.data, list.field_masks.as_ref())?;
    to_raw_value(&object).map_err(|error| failed(&error))
}

fn masked(data: &Value, masks: Option<&BTreeSet<String>>) -> Result<Value, HostError> {
    serde_json::to_value(mask(masks).object(data)).map_err(|error| failed(&error))
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
#[must_use]
pub fn causes(error: &dyn Error) -> String {
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
