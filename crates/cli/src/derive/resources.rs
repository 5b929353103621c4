//! From an object in a bundle to the resource that RBAC speaks of, and where it lives.

pub(super) use bounds::olm::resources::plural;
use serde_json::Value;

/// The API group of an object.
pub(super) fn group(object: &Value) -> &str {
    object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group)
}

/// Whether an object lives in a namespace.
pub(super) fn is_namespaced(object: &Value) -> bool {
    bounds::olm::resources::is_namespaced(object["kind"].as_str().unwrap_or_default())
}
