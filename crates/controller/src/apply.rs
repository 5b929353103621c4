//! Writing objects of any kind: how a kind is written in URLs, and one request for each object.

use std::collections::HashMap;
use std::sync::Mutex;

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::NAME;
use crate::error::Error;
use crate::olm::CrdSummary;
use crate::stores::Stores;

/// A kind, as the API server serves it.
#[derive(Debug, Clone)]
pub struct Kind {
    /// How it is written in URLs.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// What the API server is not asked about: the kinds that nearly every plan has.
const KNOWN: &[(&str, &str, &str, &str, bool)] = &[
    ("", "v1", "ServiceAccount", "serviceaccounts", true),
    ("", "v1", "Service", "services", true),
    ("", "v1", "ConfigMap", "configmaps", true),
    ("", "v1", "Secret", "secrets", true),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false),
    ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "clusterserviceversions", true),
    ("operators.coreos.com", "v1alpha1", "Subscription", "subscriptions", true),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("apiregistration.k8s.io", "v1", "APIService", "apiservices", false),
    ("apps", "v1", "Deployment", "deployments", true),
];

/// The kinds that were asked for.
#[derive(Debug, Default)]
pub struct Kinds(Mutex<HashMap<(String, String, String), Kind>>);

impl Kinds {
    /// How a kind is served; none if it is not. Custom kinds are known from their definitions, those that are there before
    /// those that a plan brings; others are asked for once.
    pub async fn find(
        &self,
        stores: &Stores,
        client: &Client,
        group: &str,
        version: &str,
        kind: &str,
        brought: &[CrdSummary],
    ) -> Result<Option<Kind>, Error> {
        // What a plan says of a kind never counts against what is known of it.
        let known = known(group, version, kind)
            .or_else(|| defined(stores, group, version, kind))
            .or_else(|| brought.iter().find_map(|crd| defined_by(crd, group, version, kind)));
        if known.is_some() {
            return Ok(known);
        }
        let key = (group.to_owned(), version.to_owned(), kind.to_owned());
        let remembered = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(&key).cloned();
        if remembered.is_some() {
            return Ok(remembered);
        }
        let found = discover(client, group, version, kind).await?;
        if let Some(found) = &found {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(key, found.clone());
        }
        Ok(found)
    }
}

fn known(group: &str, version: &str, kind: &str) -> Option<Kind> {
    let row = KNOWN.iter().find(|row| (row.0, row.1, row.2) == (group, version, kind))?;
    Some(of(group, version, kind, row.3, row.4))
}

fn defined(stores: &Stores, group: &str, version: &str, kind: &str) -> Option<Kind> {
    stores.crds.store.state().iter().find_map(|crd| defined_by(crd, group, version, kind))
}

/// The kind, if this definition brings it.
#[must_use]
pub fn defined_by(crd: &CrdSummary, group: &str, version: &str, kind: &str) -> Option<Kind> {
    let serves = crd.spec.versions.iter().any(|served| served.served && served.name == version);
    let are_words = [group, version, &crd.spec.names.plural].into_iter().all(is_word);
    let is_it = serves && are_words && crd.spec.group == group && crd.spec.names.kind == kind;
    is_it.then(|| of(group, version, kind, &crd.spec.names.plural, crd.spec.scope == "Namespaced"))
}

fn of(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Kind {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Kind { resource, namespaced }
}

/// Asks the API server. The group and version go into a path, so only what can be one is asked for.
async fn discover(client: &Client, group: &str, version: &str, kind: &str) -> Result<Option<Kind>, Error> {
    if !is_word(version) || !(group.is_empty() || is_word(group)) {
        return Ok(None);
    }
    let answer = if group.is_empty() {
        client.list_core_api_resources(version).await
    } else {
        client.list_api_group_resources(&format!("{group}/{version}")).await
    };
    let resources = match answer {
        Ok(list) => list.resources,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(source) => {
            return Err(Error::api("ask for the kinds of", format!("{group}/{version}"))(source));
        }
    };
    let found = resources.iter().find(|resource| resource.kind == kind && is_word(&resource.name));
    Ok(found.map(|resource| of(group, version, kind, &resource.name, resource.namespaced)))
}

/// Whether this can be a group, a version or a resource, and stands for itself in a URL.
fn is_word(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
    !text.starts_with('.') && !text.contains("..") && !text.is_empty() && text.bytes().all(is_plain)
}

/// Whether this can be the name of an object, and stands for itself in a URL.
#[must_use]
pub fn is_object_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%']) && bounds::lookups::is_plain(name)
}

/// Creates an object that must not be there yet: what is changed with the controller's own rights is looked at first.
pub async fn create(objects: &Api<DynamicObject>, object: &Value) -> Result<DynamicObject, kube::Error> {
    let params = PostParams { field_manager: Some(NAME.to_owned()), ..PostParams::default() };
    objects.create(&params, &serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?).await
}

/// Creates or changes an object, in one request. What others have set in it stays.
pub async fn apply(client: &Client, kind: &Kind, object: &Value) -> Result<DynamicObject, kube::Error> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let objects: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) if kind.namespaced => Api::namespaced_with(client.clone(), namespace, &kind.resource),
        _ => Api::all_with(client.clone(), &kind.resource),
    };
    objects.patch(name, &PatchParams::apply(NAME).force(), &Patch::Apply(object)).await
}

/// The object, to be written only over the one that was looked at: if that has changed meanwhile, it is a conflict.
#[must_use]
pub fn as_seen(object: &Value, seen: &DynamicObject) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.insert("resourceVersion".to_owned(), json!(seen.resource_version()));
        metadata.insert("uid".to_owned(), json!(seen.uid()));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_brings_only_what_stands_for_itself_in_a_url() {
        let defined = |group: &str, version: &str, plural: &str| {
            let crd: CrdSummary = serde_json::from_value(json!({
                "metadata": {"name": "x"},
                "spec": {"group": group, "names": {"kind": "X", "plural": plural}, "versions": [{"name": version, "served": true}]},
            }))
            .unwrap();
            defined_by(&crd, group, version, "X").is_some()
        };
        assert!(defined("x.io", "v1", "xs"));
        for plural in ["xs?labelSelector=a%3Db&x=", "xs/y", "..", "", "a%2fb", "xs#"] {
            assert!(!defined("x.io", "v1", plural), "{plural}");
        }
        assert!(!defined("x.io", "..", "xs") && !defined("../x", "v1", "xs"));
    }
}
