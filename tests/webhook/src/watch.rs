//! One list, kept up to date by a watch.
//!
//! The policy server goes on answering from what it last saw when a watch is lost, for as long as that takes. Here a list
//! waits while the objects are read anew, and fails when that fails. A connection that died without a word is noticed
//! when the watch is due to be renewed, within a minute and a half.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt, pin_mut};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use kube_runtime::watcher::{self, Event, watcher};
use operator_bounds::host::{HostError, ListResources};
use operator_bounds::live::{causes, item};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// Seconds after which the API server ends a watch, to be renewed where it left off.
const RENEWAL: u32 = 30;
/// A watch that is lost sooner than this after it was in step is not tried again by itself.
const STEADY: Duration = Duration::from_secs(1);

/// By namespace and name: the order of a list is the order of a directory of manifests.
type Objects = BTreeMap<(String, String), Item>;

/// An object as lists show it.
struct Item {
    version: String,
    json: Arc<RawValue>,
}

/// A list that is kept up to date until this is dropped.
pub(crate) struct Watch {
    objects: Arc<RwLock<Objects>>,
    state: watch::Receiver<State>,
    task: JoinHandle<()>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// The objects are being read, for the first time or anew.
    Reading,
    /// The objects are what the API server has.
    InStep,
    /// The objects could not be read. This is the end of the watch.
    Failed(String),
}

impl Watch {
    /// Starts to watch. Has to be called on one of the client's threads.
    pub(crate) fn open(api: Api<DynamicObject>, list: &ListResources) -> Self {
        let ListResources { api_version, kind, namespace, .. } = list;
        info!(api_version, kind, namespace, "opening a watch");
        let objects = Arc::<RwLock<Objects>>::default();
        let (sender, state) = watch::channel(State::Reading);
        let follower = Follower { list: list.clone(), objects: Arc::clone(&objects), state: sender };
        Watch { objects, state, task: tokio::spawn(follower.run(api)) }
    }

    /// The items of the list, as soon as they are what the API server has; or why they cannot be had.
    pub(crate) async fn items(&self) -> Result<Vec<Arc<RawValue>>, String> {
        let mut state = self.state.clone();
        let reached = state.wait_for(|state| *state != State::Reading).await.map(|state| state.clone());
        match reached {
            Ok(State::Failed(reason)) => Err(reason),
            Ok(_) => Ok(self.objects().values().map(|item| Arc::clone(&item.json)).collect()),
            Err(_) => Err("the watch was stopped".to_owned()),
        }
    }

    /// The resourceVersion of each object, when the objects are what the API server has.
    pub(crate) fn versions(&self) -> Option<BTreeMap<String, String>> {
        let in_step = *self.state.borrow() == State::InStep;
        let version = |((namespace, name), item): (&(String, String), &Item)| {
            (format!("{namespace}/{name}"), item.version.clone())
        };
        in_step.then(|| self.objects().iter().map(version).collect())
    }

    fn objects(&self) -> RwLockReadGuard<'_, Objects> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task behind a watch.
struct Follower {
    list: ListResources,
    objects: Arc<RwLock<Objects>>,
    state: watch::Sender<State>,
}

impl Follower {
    async fn run(self, api: Api<DynamicObject>) {
        let ListResources { api_version, kind, namespace, .. } = &self.list;
        let config = watcher::Config { timeout: Some(RENEWAL), ..watcher::Config::default() };
        loop {
            let mut in_step_since = None;
            let reason = self.follow(watcher(api.clone(), config.clone()), &mut in_step_since).await;
            warn!(api_version, kind, namespace, reason, "the watch was lost");
            if in_step_since.is_some_and(|since: Instant| since.elapsed() > STEADY) {
                self.state.send_replace(State::Reading);
            } else {
                self.state.send_replace(State::Failed(reason));
                return;
            }
        }
    }

    /// Follows the changes until something goes wrong, and says what.
    async fn follow(
        &self,
        events: impl Stream<Item = watcher::Result<Event<DynamicObject>>>,
        in_step_since: &mut Option<Instant>,
    ) -> String {
        pin_mut!(events);
        let mut read = Objects::new();
        loop {
            let done = match events.next().await {
                None => return "the API server ended it".to_owned(),
                Some(Err(error)) => return causes(&error),
                Some(Ok(Event::Init)) => {
                    read.clear();
                    self.state.send_replace(State::Reading);
                    Ok(())
                }
                Some(Ok(Event::InitApply(object))) => self.put(&mut read, object),
                Some(Ok(Event::InitDone)) => {
                    *self.objects.write().unwrap_or_else(PoisonError::into_inner) = std::mem::take(&mut read);
                    *in_step_since = Some(Instant::now());
                    self.state.send_replace(State::InStep);
                    Ok(())
                }
                Some(Ok(Event::Apply(object))) => {
                    self.put(&mut self.objects.write().unwrap_or_else(PoisonError::into_inner), object)
                }
                Some(Ok(Event::Delete(object))) => {
                    self.objects.write().unwrap_or_else(PoisonError::into_inner).remove(&key(&object));
                    Ok(())
                }
            };
            if let Err(error) = done {
                return error.to_string();
            }
        }
    }

    fn put(&self, objects: &mut Objects, object: DynamicObject) -> Result<(), HostError> {
        let (key, version) = (key(&object), object.resource_version().unwrap_or_default());
        objects.insert(key, Item { version, json: item(object, &self.list)?.into() });
        Ok(())
    }
}

fn key(object: &DynamicObject) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}
