//! What is in the cluster: made to be what a scenario says, and nothing else, from one scenario to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::registration::PATIENCE;
use test_plane::api::{Api, Key};

/// Keeps an object that a scenario shows in the middle of its deletion.
const HOLD: &str = "e2e.operator-bounds.example/hold";

/// The cluster's objects, as far as scenarios put them there.
pub(crate) struct State {
    api: Api,
    present: BTreeMap<Key, Present>,
    /// What the server came with and a scenario has in another shape.
    replaced: BTreeMap<Key, Value>,
    /// The namespaces that were made, with their labels; null when they are not known any more.
    namespaces: BTreeMap<String, Value>,
}

struct Present {
    /// What the scenario says; null when a request has changed it.
    manifest: Value,
    live: Value,
}

/// An object that the API server does not take.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) key: Key,
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.key, self.code, self.message)
    }
}

impl State {
    pub(crate) fn new(api: Api) -> Self {
        State { api, present: BTreeMap::new(), replaced: BTreeMap::new(), namespaces: BTreeMap::new() }
    }

    /// Makes the cluster hold these objects. `present` is a namespace that must be there too, `absent` one that must not.
    pub(crate) async fn hold(
        &mut self,
        desired: &BTreeMap<Key, Value>,
        present: Option<&str>,
        absent: Option<&str>,
    ) -> anyhow::Result<Result<(), Refused>> {
        self.clear(desired).await?;
        self.set_namespaces(desired, present, absent).await?;
        let missing = |(key, _): &(&Key, &Value)| key.kind != "Namespace" && !self.present.contains_key(*key);
        let objects: Vec<_> = desired.iter().filter(missing).collect();
        let api = &self.api;
        let created = try_join_all(objects.iter().map(|(key, manifest)| create(api, key, manifest))).await?;
        let mut refused = None;
        for ((key, manifest), created) in objects.into_iter().zip(created) {
            match created {
                Ok(Created { live, replaced }) => {
                    self.present.insert(key.clone(), Present { manifest: manifest.clone(), live });
                    if let Some(original) = replaced {
                        self.replaced.entry(key.clone()).or_insert(original);
                    }
                }
                Err(why) => refused = Some(why),
            }
        }
        Ok(refused.map_or(Ok(()), Err))
    }

    /// The object as the server has it.
    pub(crate) fn live(&self, key: &Key) -> Option<&Value> {
        self.present.get(key).map(|present| &present.live)
    }

    /// A request may have changed this: it is made anew for the next scenario.
    pub(crate) fn touched(&mut self, key: Key) {
        if key.kind == "Namespace" {
            self.namespaces.insert(key.name, Value::Null);
        } else {
            self.present.insert(key, Present { manifest: Value::Null, live: Value::Null });
        }
    }

    /// Removes what should not be there, or not like this, and puts back what it stood in for.
    async fn clear(&mut self, desired: &BTreeMap<Key, Value>) -> anyhow::Result<()> {
        let unwanted = |(key, present): &(&Key, &Present)| desired.get(*key) != Some(&present.manifest);
        let unwanted: Vec<Key> = self.present.iter().filter(unwanted).map(|(key, _)| key.clone()).collect();
        let api = &self.api;
        try_join_all(unwanted.iter().map(|key| remove(api, key))).await?;
        self.present.retain(|key, _| !unwanted.contains(key));
        let back: Vec<Key> = self.replaced.keys().filter(|key| !desired.contains_key(*key)).cloned().collect();
        for key in back {
            if let Some(original) = self.replaced.remove(&key) {
                self.api.create(&original).await.with_context(|| format!("putting back {key}"))?;
            }
        }
        Ok(())
    }

    async fn set_namespaces(
        &mut self,
        desired: &BTreeMap<Key, Value>,
        present: Option<&str>,
        absent: Option<&str>,
    ) -> anyhow::Result<()> {
        let shown: BTreeMap<&str, &Value> = desired
            .iter()
            .filter(|(key, _)| key.kind == "Namespace")
            .map(|(key, manifest)| (key.name.as_str(), manifest))
            .collect();
        let mut wanted: BTreeSet<&str> = desired.keys().map(|key| key.namespace.as_str()).collect();
        wanted.extend(shown.keys());
        wanted.extend(present);
        wanted.remove("");
        // Only where a scenario shows namespaces does it matter which others there are.
        let unwanted = |(name, labels): &(&String, &Value)| {
            let stays = shown.is_empty() || wanted.contains(name.as_str()) || is_the_servers_own(name);
            labels.is_null() || !stays || absent == Some(name.as_str())
        };
        let unwanted: Vec<String> = self.namespaces.iter().filter(unwanted).map(|(name, _)| name.clone()).collect();
        for name in unwanted {
            remove_namespace(&self.api, &name).await?;
            self.namespaces.remove(&name);
        }
        let names: BTreeSet<String> =
            self.namespaces.keys().map(String::as_str).chain(wanted).map(str::to_owned).collect();
        for name in names {
            let labels = shown.get(name.as_str()).map_or(&Value::Null, |manifest| &manifest["metadata"]["labels"]);
            let labels = if labels.is_null() { json!({}) } else { labels.clone() };
            if self.namespaces.get(&name) != Some(&labels) {
                set_namespace(&self.api, &name, &labels).await?;
                self.namespaces.insert(name, labels);
            }
        }
        Ok(())
    }
}

struct Created {
    live: Value,
    /// What was there before.
    replaced: Option<Value>,
}

async fn create(api: &Api, key: &Key, manifest: &Value) -> anyhow::Result<Result<Created, Refused>> {
    let mut object = written(manifest);
    let terminating = manifest["metadata"]["deletionTimestamp"].is_string();
    if terminating && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
        object["metadata"]["finalizers"] = json!([HOLD]);
    }
    let collection = format!("{}?fieldValidation=Ignore", api.collection(key)?);
    let mut answer = api.send(Method::POST, &collection, Some(&object)).await?;
    let mut replaced = None;
    if answer.code == 409 {
        replaced = api.get(key).await?.map(|original| written(&original));
        remove(api, key).await?;
        answer = api.send(Method::POST, &collection, Some(&object)).await?;
    }
    if !answer.is_success() {
        let message = answer.message().to_owned();
        return Ok(Err(Refused { key: key.clone(), code: answer.code, message }));
    }
    let mut live = answer.body;
    if key.kind == "CustomResourceDefinition" {
        live = established(api, key).await?;
    }
    // The status of a definition is the API server's own.
    let has_status = !manifest["status"].is_null() && key.kind != "CustomResourceDefinition";
    if has_status && live["status"] != manifest["status"] {
        let mut with_status = live.clone();
        with_status["status"] = manifest["status"].clone();
        let path = format!("{}/status?fieldValidation=Ignore", api.path(key)?);
        let answer = api.send(Method::PUT, &path, Some(&with_status)).await?;
        // A kind without a status of its own has taken it with the rest.
        if answer.code != 404 && !answer.is_success() {
            let message = format!("status: {}", answer.message());
            return Ok(Err(Refused { key: key.clone(), code: answer.code, message }));
        }
        if answer.is_success() {
            live = answer.body;
        }
    }
    if terminating {
        api.delete(key).await?;
        live = api.get(key).await?.unwrap_or_default();
    }
    Ok(Ok(Created { live, replaced }))
}

/// Deletes an object, and lets go of it if something holds it.
async fn remove(api: &Api, key: &Key) -> anyhow::Result<()> {
    if key.kind == "Namespace" {
        return remove_namespace(api, &key.name).await;
    }
    let deleted = api.delete(key).await?;
    if key.kind == "CustomResourceDefinition" {
        return wait_until_gone(api, key).await;
    }
    if deleted.body["metadata"]["deletionTimestamp"].is_string() {
        let released = json!({"metadata": {"finalizers": null}});
        let answer = api.send(Method::PATCH, &api.path(key)?, Some(&released)).await?;
        if answer.code != 404 {
            answer.ok(key)?;
        }
    }
    Ok(())
}

/// The API server writes into a new definition until it is served.
async fn established(api: &Api, key: &Key) -> anyhow::Result<Value> {
    let end = Instant::now() + PATIENCE;
    loop {
        let live = api.get(key).await?.unwrap_or_default();
        let conditions = live["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.into_iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
            return Ok(live);
        }
        if Instant::now() > end {
            bail!("{key} is not served after {PATIENCE:?}");
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// The API server first removes the objects that a definition defines, by itself.
async fn wait_until_gone(api: &Api, key: &Key) -> anyhow::Result<()> {
    let end = Instant::now() + PATIENCE;
    while api.get(key).await?.is_some() {
        if Instant::now() > end {
            bail!("{key} is still there after {PATIENCE:?}");
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// An object as a client writes it, without what the server adds.
pub(crate) fn written(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for generated in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "managedFields",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            metadata.remove(generated);
        }
    }
    object
}

/// Namespaces that the API server does not let go.
fn is_the_servers_own(namespace: &str) -> bool {
    namespace == "default" || namespace.starts_with("kube-")
}

fn namespace(name: &str) -> Key {
    Key { api_version: "v1".to_owned(), kind: "Namespace".to_owned(), namespace: String::new(), name: name.to_owned() }
}

async fn set_namespace(api: &Api, name: &str, labels: &Value) -> anyhow::Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let key = namespace(name);
    let created = api.send(Method::POST, &api.collection(&key)?, Some(&object)).await?;
    if created.code == 409 {
        api.send(Method::PUT, &api.path(&key)?, Some(&object)).await?.ok(&key)?;
        return Ok(());
    }
    created.ok(&key).map(drop)
}

/// There is no controller that would do the second half; nothing is in the namespace by now.
async fn remove_namespace(api: &Api, name: &str) -> anyhow::Result<()> {
    let key = namespace(name);
    api.delete(&key).await?;
    let Some(mut object) = api.get(&key).await? else { return Ok(()) };
    object["spec"]["finalizers"] = json!([]);
    let path = format!("{}/finalize", api.path(&key)?);
    api.send(Method::PUT, &path, Some(&object)).await?.ok(&key).map(drop)
}
