//! Copies of ClusterServiceVersions. OLM v0 puts one into every namespace that an operator watches, and acts on none of them.
//! Anybody can write the label, so a copy is one whose original is there.

use bounds::cluster::CLUSTER_SERVICE_VERSIONS;
use serde_json::Value;

use crate::manifests::Manifests;

const ANNOTATION: &str = "olm.operatorNamespace";
/// Selects what is no copy, and what says that it is one.
pub(super) const NOT_LABELLED: &str = "!olm.copiedFrom";
pub(super) const LABELLED: &str = "olm.copiedFrom";

/// The namespace that it says it was copied from, by label, or by an annotation that names another one.
pub(super) fn original(csv: &Value) -> Option<&str> {
    let metadata = &csv["metadata"];
    let annotated =
        || metadata["annotations"][ANNOTATION].as_str().filter(|namespace| metadata["namespace"] != **namespace);
    metadata["labels"][LABELLED].as_str().or_else(annotated).filter(|namespace| !namespace.is_empty())
}

/// Whether the original is there, is none itself, and asks for the same, where that was read.
pub(super) fn has_original(manifests: &Manifests, copy: &Value) -> bool {
    let Some(from) = original(copy) else { return false };
    let name = copy["metadata"]["name"].as_str().unwrap_or_default();
    let found = manifests.get(CLUSTER_SERVICE_VERSIONS.api_version, CLUSTER_SERVICE_VERSIONS.kind, Some(from), name);
    let is_original = |found: &Value| {
        let asks_the_same = |part: &str| {
            let path = format!("/spec/install/spec/{part}");
            copy.get("spec").is_none() || copy.pointer(&path) == found.pointer(&path)
        };
        original(found).is_none() && ["permissions", "clusterPermissions"].into_iter().all(asks_the_same)
    };
    copy["metadata"]["namespace"] != from && found.is_some_and(is_original)
}
