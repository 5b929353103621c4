//! What OLM v1 has installed for an extension: by the release that it keeps, or by its ClusterObjectSets. Where neither can be
//! read, the RBAC that carries the extension's labels.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bounds::cluster::{
    CLUSTER_EXTENSION_REVISIONS, CLUSTER_OBJECT_SETS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES,
    Resource,
};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::documents;
use crate::manifests::Manifests;

use super::seen::SECRETS;
use super::text;

/// As much as the policy reads of a release.
const MAX_UNPACKED: u64 = 16 * 1024 * 1024;
const RELEASE: &str = "operatorframework.io/index.v1";
const OBJECT_DATA: &str = "olm.operatorframework.io/object-data";
const OWNER: &str = "/metadata/labels/olm.operatorframework.io~1owner-name";
const OWNER_KIND: &str = "/metadata/labels/olm.operatorframework.io~1owner-kind";
const REVISION: &str = "/metadata/labels/olm.operatorframework.io~1revision-name";

/// What an extension consists of.
#[derive(Debug, Default)]
pub(super) struct Installed {
    /// Its objects.
    pub(super) objects: Vec<Value>,
    /// OLM's records of them, which the policy judges when OLM writes them.
    pub(super) records: Vec<Record>,
    /// Why the objects are not all of them.
    pub(super) partial: Option<String>,
}

/// A record, and the resource that it is.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) object: Value,
    pub(super) resource: &'static str,
}

/// What is installed for an extension; nothing where nothing is.
pub(super) fn of(manifests: &Manifests, extension: &str, may_read_releases: bool) -> Option<Installed> {
    let found = match newest_release(manifests, extension).map(|release| (release, unpacked(release))) {
        Some((release, Ok(objects))) => {
            let records = vec![Record { object: release.clone(), resource: "secrets" }];
            Installed { objects, records, partial: None }
        }
        Some((_, Err(reason))) => labelled(manifests, extension, reason),
        None => of_sets(manifests, extension).unwrap_or_else(|| {
            let why = if may_read_releases { "OLM keeps no release of it" } else { "its release could not be read" };
            labelled(manifests, extension, why.to_owned())
        }),
    };
    (!found.objects.is_empty()).then_some(found)
}

/// The release that is deployed, or else the newest. OLM labels them as Helm does.
fn newest_release<'m>(manifests: &'m Manifests, extension: &str) -> Option<&'m Value> {
    let secrets = manifests.list(SECRETS.api_version, SECRETS.kind, None);
    let releases = secrets.filter(|secret| {
        let label = |key: &str| text(secret, &format!("/metadata/labels/{key}"));
        text(secret, "/type") == RELEASE && label("owner") == "operator-controller" && label("name") == extension
    });
    releases.max_by_key(|release| {
        let label = |key: &str| text(release, &format!("/metadata/labels/{key}"));
        (label("status") == "deployed", label("version").parse::<u64>().unwrap_or_default())
    })
}

/// The objects of a release; otherwise why they cannot be read.
fn unpacked(release: &Value) -> Result<Vec<Value>, String> {
    let part = |key: &str| {
        let decoded = STANDARD.decode(text(release, &format!("/data/{key}")));
        decoded.map_err(|error| format!("its release cannot be read: {error}"))
    };
    if !matches!(part("extraChunks")?.trim_ascii(), b"" | b"[]" | b"null") {
        return Err("its release is in several parts".to_owned());
    }
    let content: Value = json(&part("chunk")?).map_err(|error| format!("its release cannot be read: {error}"))?;
    let namespace = text(&content, "/namespace").to_owned();
    let objects = serde_json::Deserializer::from_str(text(&content, "/manifest")).into_iter();
    let objects: Result<Vec<Value>, _> = objects.collect();
    let mut objects = objects.map_err(|error| format!("its release cannot be read: {error}"))?;
    // Helm keeps hooks apart, and OLM writes them all the same.
    for hook in content["hooks"].as_array().into_iter().flatten() {
        let written = documents::parse(Path::new("a Helm hook of its release"), text(hook, "/manifest").as_bytes());
        objects.extend(written.map_err(|error| error.to_string())?);
    }
    objects.retain(is_object);
    for object in &mut objects {
        if is_namespaced(object) && text(object, "/metadata/namespace").is_empty() {
            object["metadata"]["namespace"] = namespace.as_str().into();
        }
    }
    Ok(objects)
}

/// JSON that may be packed.
fn json(bytes: &[u8]) -> Result<Value, String> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return serde_json::from_slice(bytes).map_err(|error| error.to_string());
    }
    let mut unpacked = Vec::new();
    let read = GzDecoder::new(bytes).take(MAX_UNPACKED).read_to_end(&mut unpacked);
    read.map_err(|error| error.to_string())?;
    serde_json::from_slice(&unpacked).map_err(|error| error.to_string())
}

/// Whether it is an object with a name; OLM writes no others.
fn is_object(object: &Value) -> bool {
    !text(object, "/metadata/name").is_empty()
}

fn is_namespaced(object: &Value) -> bool {
    let group = text(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    bounds::olm::kinds::resource(group, text(object, "/kind")).is_none_or(|resource| resource.is_namespaced)
}

/// The objects of the active sets, in them or in Secrets that they refer to; none where there are none.
fn of_sets(manifests: &Manifests, extension: &str) -> Option<Installed> {
    let mut found = Installed::default();
    for (kind, resource) in
        [(CLUSTER_OBJECT_SETS, "clusterobjectsets"), (CLUSTER_EXTENSION_REVISIONS, "clusterextensionrevisions")]
    {
        for set in list(manifests, kind).filter(|set| is_active_set_of(set, extension)) {
            let phases = set.pointer("/spec/phases").and_then(Value::as_array).into_iter().flatten();
            let entries = phases.filter_map(|phase| phase["objects"].as_array()).flatten();
            found
                .objects
                .extend(entries.filter_map(|entry| entry.get("object")).filter(|object| is_object(object)).cloned());
            found.records.push(Record { object: set.clone(), resource });
            for secret in list(manifests, SECRETS).filter(|secret| {
                text(secret, "/type") == OBJECT_DATA && text(secret, REVISION) == text(set, "/metadata/name")
            }) {
                let kept = secret["data"].as_object().into_iter().flatten();
                let kept = kept.filter_map(|(_, value)| STANDARD.decode(value.as_str()?).ok());
                found.objects.extend(kept.filter_map(|bytes| json(&bytes).ok()).filter(is_object));
                found.records.push(Record { object: secret.clone(), resource: "secrets" });
            }
        }
    }
    (!found.objects.is_empty()).then_some(found)
}

fn is_active_set_of(set: &Value, extension: &str) -> bool {
    text(set, OWNER) == extension && text(set, "/spec/lifecycleState") != "Archived"
}

/// The RBAC that says that it belongs to the extension, or to one of its sets.
fn labelled(manifests: &Manifests, extension: &str, why: String) -> Installed {
    let sets = [CLUSTER_OBJECT_SETS, CLUSTER_EXTENSION_REVISIONS].into_iter().flat_map(|kind| list(manifests, kind));
    let sets: Vec<&str> =
        sets.filter(|set| text(set, OWNER) == extension).map(|set| text(set, "/metadata/name")).collect();
    let belongs = |object: &&Value| match text(object, OWNER_KIND) {
        "ClusterExtension" => text(object, OWNER) == extension,
        "ClusterObjectSet" | "ClusterExtensionRevision" => sets.contains(&text(object, OWNER)),
        _ => false,
    };
    let rbac = [CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS];
    let objects: Vec<Value> =
        rbac.into_iter().flat_map(|kind| list(manifests, kind)).filter(belongs).cloned().collect();
    Installed { objects, records: Vec::new(), partial: Some(why) }
}

fn list(manifests: &Manifests, resource: Resource) -> impl Iterator<Item = &Value> {
    manifests.list(resource.api_version, resource.kind, None)
}
