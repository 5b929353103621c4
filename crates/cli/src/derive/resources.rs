//! The scope of an object of a bundle.

use bounds::olm::kinds;
use serde_json::Value;

/// The API group of an object.
pub(super) fn group(object: &Value) -> &str {
    object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group)
}

/// Whether an object lives in a namespace. What is not known is taken for that: OLM puts most of it there.
pub(super) fn is_namespaced(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    kinds::resource(group(object), kind).is_none_or(|resource| resource.is_namespaced)
}
