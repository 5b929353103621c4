//! One list, kept up to date by a watch.
//!
//! The policy server goes on answering from what it last saw when a watch is lost, for as long as that takes. Here a list
//! waits while the objects are read anew, and fails when that fails. A connection that died without a word is noticed
//! when the watch is due to be renewed, within a minute and a half.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt, pin_mut};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::causes;
use crate::host::ListResources;
use crate::mask::LAST_APPLIED;
use crate::source::mask;

/// Seconds after which the API server ends a watch, to be renewed where it left off.
const RENEWAL: u32 = 30;
/// A watch that is lost sooner than this after it was in step is not tried again by itself.
const STEADY: Duration = Duration::from_secs(1);

/// By namespace and name: the order of a list is the order of a directory of manifests.
type Objects = BTreeMap<(String, String), Arc<RawValue>>;

/// A list that is kept up to date until this is dropped.
pub(super) struct Watch {
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
    pub(super) fn open(api: Api<DynamicObject>, list: &ListResources) -> Self {
        let ListResources { api_version, kind, namespace, .. } = list;
        info!(api_version, kind, namespace, "opening a watch");
        let objects = Arc::<RwLock<Objects>>::default();
        let (sender, state) = watch::channel(State::Reading);
        let follower = Follower { list: list.clone(), objects: Arc::clone(&objects), state: sender };
        Watch { objects, state, task: tokio::spawn(follower.run(api)) }
    }

    /// The version of each object that it shows at this moment, by `namespace/name`.
    pub(super) fn versions(&self) -> BTreeMap<String, String> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let version =
            |item: &RawValue| serde_json::from_str::<Item>(item.get()).map(|item| item.metadata.resource_version);
        let shown = |((namespace, name), item): (&(String, String), &Arc<RawValue>)| {
            (format!("{namespace}/{name}"), version(item).unwrap_or_default())
        };
        objects.iter().map(shown).collect()
    }

    /// The items of the list, as soon as they are what the API server has; or why they cannot be had.
    pub(super) async fn items(&self) -> Result<Vec<Arc<RawValue>>, String> {
        let mut state = self.state.clone();
        let reached = state.wait_for(|state| *state != State::Reading).await.map(|state| state.clone());
        match reached {
            Ok(State::Failed(reason)) => Err(reason),
            Ok(_) => Ok(self.objects.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()),
            Err(_) => Err("the watch was stopped".to_owned()),
        }
    }
}

/// The version of an item, and nothing else of it.
#[derive(Deserialize)]
struct Item {
    metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    #[serde(default)]
    resource_version: String,
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
        let ListResources { api_version, kind, namespace, label_selector, field_selector, .. } = &self.list;
        let config = watcher::Config {
            label_selector: label_selector.clone(),
            field_selector: field_selector.clone(),
            timeout: Some(RENEWAL),
            ..watcher::Config::default()
        };
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

    fn put(&self, objects: &mut Objects, object: DynamicObject) -> serde_json::Result<()> {
        let key = key(&object);
        objects.insert(key, item(object, &self.list)?.into());
        Ok(())
    }
}

fn key(object: &DynamicObject) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// An object as an item of a list: without its type, with all of its metadata that is of interest, and masked.
fn item(mut object: DynamicObject, list: &ListResources) -> serde_json::Result<Box<RawValue>> {
    object.types = None;
    object.managed_fields_mut().clear();
    object.annotations_mut().remove(LAST_APPLIED);
    object.data = serde_json::to_value(mask(list.field_masks.as_ref()).object(&object.data))?;
    to_raw_value(&object)
}
