//! A scenario as a real API server can be asked about it, or why it cannot.

use std::collections::BTreeMap;
use std::fmt;

use http::{HeaderValue, Method};
use serde_json::{Value, json};

use crate::case::Case;
use crate::complete::Schemas;
use crate::state::written;
use test_plane::api::{Api, Key, Sender};

/// Why a scenario is not replayed. Each is something that no API server does or takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Skip {
    HostErrors,
    Payload,
    Settings,
    Kind,
    User,
    Impersonation,
    Request,
    Generated,
    State,
    Validation,
    Definition,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Skip::HostErrors => "look-ups that are made to fail",
            Skip::Payload => "no admission request at all",
            Skip::Settings => "settings with which no policy server starts",
            Skip::Kind => "a kind or version that no server of OLM has",
            Skip::User => "a user outside system:authenticated, as no API server lets one in",
            Skip::Impersonation => "a user whose name no header can carry, and so nobody can be sent as",
            Skip::Request => "a request that contradicts itself, as no API server does",
            Skip::Generated => "a name that the API server generates before it asks anybody",
            Skip::State => "objects that cannot be in a cluster at the same time",
            Skip::Validation => "objects that the API server's own validation refuses",
            Skip::Definition => "what the definition of ClusterExtensions says: here there is one for all scenarios",
        })
    }
}

/// What is to be in the cluster, and what is to be sent.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) cluster: BTreeMap<Key, Value>,
    /// A namespace that must not be there yet.
    pub(crate) absent: Option<String>,
    pub(crate) operation: String,
    pub(crate) key: Key,
    pub(crate) object: Value,
    pub(crate) sub_resource: String,
    pub(crate) sender: Sender,
}

impl Plan {
    /// Skips what can be seen to be impossible without asking the server.
    pub(crate) fn new(case: &Case, api: &Api, schemas: &Schemas) -> Result<Self, Skip> {
        let request = case.request.as_ref().ok_or(Skip::Payload)?;
        if case.expected.invalid_settings.is_some() {
            return Err(Skip::Settings);
        }
        if !case.expected.host_errors.is_empty() {
            return Err(Skip::HostErrors);
        }
        let user = request["userInfo"]["username"].as_str().filter(|user| !user.is_empty()).ok_or(Skip::User)?;
        let groups = request["userInfo"]["groups"].as_array().into_iter().flatten();
        let groups: Vec<String> = groups.filter_map(Value::as_str).map(str::to_owned).collect();
        if !groups.iter().any(|group| group == "system:authenticated") {
            return Err(Skip::User);
        }
        if groups.iter().map(String::as_str).chain([user]).any(|name| HeaderValue::try_from(name).is_err()) {
            return Err(Skip::Impersonation);
        }
        let operation = request["operation"].as_str().ok_or(Skip::Request)?.to_owned();
        let described = if operation == "DELETE" { &request["oldObject"] } else { &request["object"] };
        if operation == "CREATE" && described["metadata"]["generateName"].is_string() {
            return Err(Skip::Generated);
        }
        let key = named(request, described, api)?;
        let mut cluster = cluster(case, schemas);
        if cluster.keys().any(|key| api.is_namespaced(&key.api_version, &key.kind).is_none()) {
            return Err(Skip::Kind);
        }
        if operation != "CREATE" {
            let old = schemas.complete(&request["oldObject"]);
            if Key::of(&old) != key {
                return Err(Skip::Request);
            }
            let ends = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
            if operation == "UPDATE" && ends(described) != ends(&old) {
                return Err(Skip::State);
            }
            cluster.insert(key.clone(), old);
        }
        let absent = (operation == "CREATE" && key.kind == "Namespace").then(|| key.name.clone());
        if absent.is_some() && cluster.keys().any(|other| Some(&other.namespace) == absent.as_ref()) {
            return Err(Skip::State);
        }
        let object = if described.is_object() { schemas.complete(described) } else { Value::Null };
        let sub_resource = request["subResource"].as_str().unwrap_or_default().to_owned();
        let sender = Sender { user: user.to_owned(), groups, extra: Vec::new() };
        Ok(Plan { cluster, absent, operation, key, object, sub_resource, sender })
    }

    /// Every namespace that must be there for the request to be sent.
    pub(crate) fn namespace(&self) -> Option<&str> {
        Some(self.key.namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }

    /// Method, path and body of the request; `live` is the object as the server has it.
    pub(crate) fn request(&self, api: &Api, live: Option<&Value>) -> anyhow::Result<(Method, String, Option<Value>)> {
        let suffix = |sub: &str| if sub.is_empty() { String::new() } else { format!("/{sub}") };
        let sub = suffix(&self.sub_resource);
        let query = "?fieldValidation=Ignore";
        Ok(match self.operation.as_str() {
            "DELETE" => (Method::DELETE, format!("{}{sub}", api.path(&self.key)?), None),
            "UPDATE" => {
                let object = over(&self.object, live.unwrap_or(&Value::Null));
                (Method::PUT, format!("{}{sub}{query}", api.path(&self.key)?), Some(object))
            }
            _ if sub.is_empty() => {
                let path = format!("{}{query}", api.collection(&self.key)?);
                (Method::POST, path, Some(written(&self.object)))
            }
            _ => (Method::POST, format!("{}{sub}", api.path(&self.key)?), Some(written(&self.object))),
        })
    }
}

/// Whether it is the audit scanner that sends it, past the API server: it knows no user.
pub(crate) fn is_audit(case: &Case) -> bool {
    let user = case.request.as_ref().map(|request| &request["userInfo"]);
    user.and_then(Value::as_object).is_some_and(serde_json::Map::is_empty)
}

/// What is to be in the cluster.
pub(crate) fn cluster(case: &Case, schemas: &Schemas) -> BTreeMap<Key, Value> {
    case.manifests.objects().map(|object| (Key::of(object), schemas.complete(object))).collect()
}

/// The object's place; the request must agree with the object about it.
fn named(request: &Value, object: &Value, api: &Api) -> Result<Key, Skip> {
    let mut key = Key::of(object);
    if key.kind.is_empty() || key.api_version.is_empty() {
        return Err(Skip::Request);
    }
    let said = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let api_version = match said("/kind/group") {
        "" => said("/kind/version").to_owned(),
        group => format!("{group}/{}", said("/kind/version")),
    };
    if said("/kind/kind") != key.kind || api_version != key.api_version {
        return Err(Skip::Request);
    }
    match api.is_namespaced(&key.api_version, &key.kind) {
        None => return Err(Skip::Kind),
        Some(true) if key.namespace.is_empty() => return Err(Skip::Request),
        Some(false) => key.namespace.clear(),
        Some(true) => {}
    }
    Ok(key)
}

/// The object as a client sends it that has read the one that is there.
fn over(object: &Value, live: &Value) -> Value {
    let mut object = written(object);
    for field in ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if !live["metadata"][field].is_null() {
            object["metadata"][field] = live["metadata"][field].clone();
        }
    }
    // A scenario that shows a deletion without saying what holds it up.
    let held = live["metadata"]["deletionTimestamp"].is_string();
    if held && object["metadata"].get("finalizers").is_none() {
        object["metadata"]["finalizers"] = live["metadata"]["finalizers"].clone();
    }
    object
}

/// The settings of a scenario: none are the defaults.
pub(crate) fn settings(case: &Case) -> Value {
    case.settings.clone().filter(|settings| !settings.is_null()).unwrap_or_else(|| json!({}))
}
