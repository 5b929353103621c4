//! A live cluster, asked the way Kubewarden's policy server asks it: every distinct list opens one watch that stays open, and
//! is answered from it. Gets and access reviews go to the API server.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use operator_bounds::host::{CanI, GetResource, HostError, ListResources};
use operator_bounds::live::{Cluster, ConnectError, Connection};
use operator_bounds::source::{Source, object_list};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::watch::Watch;

/// A cluster with its watches. A clone shares them.
#[derive(Clone)]
pub struct Watched {
    cluster: Cluster,
    watches: Arc<Mutex<HashMap<ListResources, Arc<Watch>>>>,
}

/// What a watch shows: names and versions, and nothing of the content.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cache {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The singular, as in a manifest.
    pub kind: String,
    /// The namespace that is watched; none for all of them.
    pub namespace: Option<String>,
    /// The resourceVersion of each object, by `namespace/name`; what is in no namespace is `/name`.
    pub objects: BTreeMap<String, String>,
}

impl Watched {
    /// Connects, and makes sure that the API server answers.
    pub fn connect(connection: &Connection<'_>) -> Result<Self, ConnectError> {
        Ok(Watched { cluster: Cluster::connect(connection)?, watches: Arc::default() })
    }

    /// The same cluster, with look-ups that fail if they have no answer by the deadline.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Self {
        Watched { cluster: self.cluster.until(deadline), watches: Arc::clone(&self.watches) }
    }

    /// Whether the API server answers.
    pub fn check(&self) -> Result<(), HostError> {
        self.cluster.check()
    }

    /// How many watches are open.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.open().len()
    }

    /// What the watches show, for tests that have to wait for what they wrote. One that is being read (again) is left out:
    /// lists do not answer from it until it has everything.
    #[must_use]
    pub fn caches(&self) -> Vec<Cache> {
        let mut caches: Vec<Cache> = self.open().iter().filter_map(|(list, watch)| cache(list, watch)).collect();
        caches.sort();
        caches
    }

    fn open(&self) -> MutexGuard<'_, HashMap<ListResources, Arc<Watch>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn items(&self, list: &ListResources) -> Result<Vec<u8>, HostError> {
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
        if let Some(watch) = self.open().get(list) {
            return Ok(Arc::clone(watch));
        }
        let api = self.cluster.api(list).await?;
        let mut watches = self.open();
        // Somebody may have been faster.
        let watch = watches.entry(list.clone()).or_insert_with(|| Arc::new(Watch::open(api, list)));
        Ok(Arc::clone(watch))
    }

    /// A watch that failed is over, and perhaps the kind is no longer served: the next list starts from the beginning.
    fn forget(&self, list: &ListResources, watch: &Arc<Watch>) {
        let mut watches = self.open();
        if watches.get(list).is_some_and(|known| Arc::ptr_eq(known, watch)) {
            watches.remove(list);
            self.cluster.forget(list);
        }
    }
}

fn cache(list: &ListResources, watch: &Watch) -> Option<Cache> {
    let ListResources { api_version, kind, namespace, .. } = list.clone();
    Some(Cache { api_version, kind, namespace, objects: watch.versions()? })
}

impl Source for Watched {
    fn list(&self, list: &ListResources) -> Result<Vec<u8>, HostError> {
        self.cluster.wait(self.items(list))
    }

    fn get(&self, get: &GetResource) -> Result<Vec<u8>, HostError> {
        self.cluster.get(get)
    }

    fn can_i(&self, can_i: &CanI) -> Result<Vec<u8>, HostError> {
        self.cluster.can_i(can_i)
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cluster.fmt(f)
    }
}
