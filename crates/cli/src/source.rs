//! What answers the look-ups: a directory of manifests, or a live cluster.

use std::collections::BTreeSet;
use std::fmt;

use bounds::cluster::{
    CLUSTER_EXTENSION_REVISIONS, CLUSTER_EXTENSIONS, CLUSTER_OBJECT_SETS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES,
    CLUSTER_SERVICE_VERSIONS, CONFIG_MAPS, NAMESPACES, OPERATOR_GROUPS, ROLE_BINDINGS, ROLES, Resource,
    SERVICE_ACCOUNTS,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::host::{CanI, GetResource, HostError, ListResources};
use crate::manifests::Manifests;
use crate::mask::Mask;
use crate::rbac;

/// Everything that a verdict may look up.
pub(crate) const LOOKED_UP: [Resource; 12] = [
    OPERATOR_GROUPS,
    CLUSTER_SERVICE_VERSIONS,
    CLUSTER_ROLE_BINDINGS,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLES,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    CLUSTER_EXTENSIONS,
    CLUSTER_OBJECT_SETS,
    CLUSTER_EXTENSION_REVISIONS,
    CONFIG_MAPS,
];
/// A cluster that can be asked. Every answer is the JSON that Kubewarden's host capabilities give.
///
/// The allow-lists have been looked at before; see [`Host`](crate::host::Host).
pub trait Source: fmt::Debug + Send + Sync {
    /// A list: an object with `items`, none of which has an apiVersion or a kind.
    fn list(&self, list: &ListResources) -> Result<Vec<u8>, HostError>;
    /// One object. That it does not exist is [`HostError::NotFound`].
    fn get(&self, get: &GetResource) -> Result<Vec<u8>, HostError>;
    /// The status of a SubjectAccessReview.
    fn can_i(&self, can_i: &CanI) -> Result<Vec<u8>, HostError>;
}

/// What the API server answers to a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectList<'a, I> {
    api_version: &'a str,
    kind: String,
    metadata: Map<String, Value>,
    items: Vec<I>,
}

impl Source for Manifests {
    fn list(&self, list: &ListResources) -> Result<Vec<u8>, HostError> {
        let ListResources { api_version, kind, namespace, label_selector, field_masks, .. } = list;
        if let Some(selector) = label_selector {
            return Err(HostError::Failed(format!("label selector `{selector}`: manifests cannot answer it")));
        }
        let mask = mask(field_masks.as_ref());
        let found = Manifests::list(self, api_version, kind, namespace.as_deref());
        object_list(list, found.map(|object| mask.item(object)).collect())
    }

    fn get(&self, get: &GetResource) -> Result<Vec<u8>, HostError> {
        let GetResource { api_version, kind, name, namespace, field_masks, .. } = get;
        match Manifests::get(self, api_version, kind, namespace.as_deref(), name) {
            Some(object) => json(&mask(field_masks.as_ref()).object(object)),
            None => Err(not_found(get)),
        }
    }

    fn can_i(&self, can_i: &CanI) -> Result<Vec<u8>, HostError> {
        json(&rbac::review(self, &can_i.request).map_err(HostError::Failed)?)
    }
}

/// The answer to a list.
pub fn object_list<I: Serialize>(list: &ListResources, items: Vec<I>) -> Result<Vec<u8>, HostError> {
    let ListResources { api_version, kind, .. } = list;
    json(&ObjectList { api_version, kind: format!("{kind}List"), metadata: Map::new(), items })
}

/// In Kubewarden's words: policies have no other way to tell that an object does not exist.
pub(crate) fn not_found(get: &GetResource) -> HostError {
    let GetResource { api_version, kind, name, namespace, .. } = get;
    let namespace = namespace.as_deref();
    HostError::NotFound(format!("Cannot find {api_version}/{kind} named '{name}' inside of namespace '{namespace:?}'"))
}

pub(crate) fn mask(field_masks: Option<&BTreeSet<String>>) -> Mask<'_> {
    Mask::new(field_masks.into_iter().flatten().map(String::as_str))
}

pub(crate) fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, HostError> {
    serde_json::to_vec(value).map_err(|error| HostError::Failed(error.to_string()))
}
