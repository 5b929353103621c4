//! One scenario: what its directory says.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use operator_bounds::documents;
use operator_bounds::manifests::Manifests;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::expected::Expected;

const UID: &str = "705ab4f5-6393-11e8-b7cc-42010a800002";
const FILES: [&str; 8] = [
    "cluster",
    "expect.yaml",
    "object.yaml",
    "old.yaml",
    "payload.json",
    "request.json",
    "request.yaml",
    "settings.yaml",
];

/// One scenario, ready to run.
pub struct Case {
    pub manifests: Arc<Manifests>,
    /// None for the defaults, and where the payload says it all.
    pub settings: Option<Value>,
    /// None where the payload is no admission request.
    pub request: Option<Value>,
    /// What the policy is called with.
    pub payload: Vec<u8>,
    pub expected: Expected,
}

/// `request.yaml`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Sent {
    operation: Operation,
    user: String,
    groups: Vec<String>,
    sub_resource: String,
    audit: bool,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
enum Operation {
    Create,
    Update,
    Delete,
}

impl Default for Sent {
    fn default() -> Self {
        Sent {
            operation: Operation::Create,
            user: "admin".to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            sub_resource: String::new(),
            audit: false,
        }
    }
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }

    fn options(self) -> &'static str {
        match self {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        }
    }
}

impl Case {
    pub fn load(directory: &Path) -> Result<Self, String> {
        refuse_unknown_files(directory)?;
        let expect_path = directory.join("expect.yaml");
        let expected: Expected = required(&expect_path)?;
        let problem = |reason: &str| Err(format!("{}: {reason}", expect_path.display()));
        if expected.says.trim().is_empty() {
            return problem("`says` is empty");
        }
        if expected.allowed && (expected.code.is_some() || !expected.message.is_empty()) {
            return problem("what is admitted has neither code nor message");
        }
        let cluster = directory.join("cluster");
        let manifests = if cluster.exists() { Manifests::load(&cluster) } else { Ok(Manifests::default()) };
        let manifests = manifests.map_err(|error| error.to_string())?.into();
        let settings: Option<Value> = optional(&directory.join("settings.yaml"))?;
        let payload_path = directory.join("payload.json");
        if payload_path.exists() {
            for other in ["request.yaml", "request.json", "object.yaml", "old.yaml", "settings.yaml"] {
                if directory.join(other).exists() {
                    return Err(format!("{}: {other} is not read beside it", payload_path.display()));
                }
            }
            let payload = fs::read(&payload_path).map_err(|error| format!("{}: {error}", payload_path.display()))?;
            return Ok(Case { manifests, settings: None, request: None, payload, expected });
        }
        let request = request(directory)?;
        let payload = json!({"request": request, "settings": settings.clone().unwrap_or_else(|| json!({}))});
        Ok(Case { manifests, settings, request: Some(request), payload: payload.to_string().into_bytes(), expected })
    }
}

/// The directories of the cases: every one that has no directory below it but `cluster`. One without an expect.yaml is
/// found too, and fails.
pub fn find(directory: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap_or_else(|error| panic!("{}: {error}", directory.display())).path())
        .filter(|path| path.is_dir())
        .collect();
    paths.sort();
    for path in paths {
        let is_area = fs::read_dir(&path)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| entry.path().is_dir() && entry.file_name() != "cluster");
        if is_area && !path.join("expect.yaml").exists() { find(&path, found) } else { found.push(path) }
    }
}

fn refuse_unknown_files(directory: &Path) -> Result<(), String> {
    let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for entry in entries.flatten() {
        if !FILES.iter().any(|known| entry.file_name() == *known) {
            return Err(format!("{}: no scenario has such a file", entry.path().display()));
        }
    }
    Ok(())
}

/// The admission request: as it is, or put together from the object and how it is sent.
fn request(directory: &Path) -> Result<Value, String> {
    let whole = directory.join("request.json");
    let sent_path = directory.join("request.yaml");
    let (object_path, old_path) = (directory.join("object.yaml"), directory.join("old.yaml"));
    if whole.exists() {
        if let Some(other) = [&sent_path, &object_path, &old_path].into_iter().find(|path| path.exists()) {
            return Err(format!("{}: not read beside request.json", other.display()));
        }
        return required(&whole);
    }
    let sent: Sent = optional(&sent_path)?.unwrap_or_default();
    let object: Option<Value> = optional(&object_path)?;
    let old: Option<Value> = optional(&old_path)?;
    let wanted = (sent.operation != Operation::Delete, sent.operation != Operation::Create);
    if (object.is_some(), old.is_some()) != wanted {
        return Err(format!(
            "{}: {} goes with {}",
            directory.display(),
            sent.operation.name(),
            match sent.operation {
                Operation::Create => "object.yaml",
                Operation::Update => "object.yaml and old.yaml",
                Operation::Delete => "old.yaml",
            }
        ));
    }
    let path = if object.is_some() { &object_path } else { &old_path };
    assemble(&sent, object.as_ref(), old.as_ref()).map_err(|reason| format!("{}: {reason}", path.display()))
}

fn assemble(sent: &Sent, object: Option<&Value>, old: Option<&Value>) -> Result<Value, String> {
    let described = object.or(old).ok_or("no object")?;
    let text = |pointer: &str| described.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    if api_version.is_empty() || kind.is_empty() {
        return Err("apiVersion or kind is missing".to_owned());
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (name, namespace) = (text("/metadata/name"), text("/metadata/namespace"));
    let gvk = json!({"group": group, "version": version, "kind": kind});
    let gvr = |resource: &str| json!({"group": group, "version": version, "resource": resource});
    if sent.audit {
        if sent.operation != Operation::Create {
            return Err("the audit scanner sends CREATE".to_owned());
        }
        return Ok(json!({
            "uid": UID, "kind": gvk, "requestKind": gvk, "resource": gvr(kind), "requestResource": gvr(kind),
            "name": name, "namespace": namespace, "operation": "CREATE", "userInfo": {},
            "object": object, "oldObject": null, "options": null,
        }));
    }
    let resource = gvr(&plural(kind));
    let mut request = json!({
        "uid": UID, "kind": gvk, "requestKind": gvk, "resource": resource, "requestResource": resource,
        "operation": sent.operation.name(), "userInfo": {"username": sent.user, "groups": sent.groups},
        "object": object, "oldObject": old, "dryRun": false,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": sent.operation.options()},
    });
    // The API server leaves out what is empty.
    let fields = [
        ("name", name),
        ("namespace", namespace),
        ("subResource", &sent.sub_resource),
        ("requestSubResource", &sent.sub_resource),
    ];
    for (key, value) in fields {
        if !value.is_empty() {
            request[key] = value.into();
        }
    }
    Ok(request)
}

/// The resource of a kind; every kind that is judged is regular.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ => format!("{kind}s"),
    }
}

fn required<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    optional(path)?.ok_or_else(|| format!("{}: it is missing", path.display()))
}

/// The one document of a file; none when there is no such file.
fn optional<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    if !path.exists() {
        return Ok(None);
    }
    let mut found = documents::read(path).map_err(|error| error.to_string())?;
    let document = match found.as_mut_slice() {
        [] => Value::Object(serde_json::Map::new()),
        [document] => document.take(),
        _ => return Err(format!("{}: more than one document", path.display())),
    };
    serde_json::from_value(document).map(Some).map_err(|error| format!("{}: {error}", path.display()))
}
