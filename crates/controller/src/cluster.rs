//! The look-ups of `bounds`, answered from what is watched: no request leaves the controller while it judges.

use bounds::cluster::{
    CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_SERVICE_VERSIONS, Cluster, Get, List, LookupError, NAMESPACES,
    OPERATOR_GROUPS, Question, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS,
};
use kube::runtime::reflector::Store;
use kube::{Resource, ResourceExt};
use serde::Serialize;

use crate::stores::Stores;

/// The cluster as it is watched.
#[derive(Debug, Clone, Copy)]
pub struct Cached<'s>(pub &'s Stores);

impl Cluster for Cached<'_> {
    fn list(&self, list: &List<'_>) -> Result<Vec<u8>, LookupError> {
        let Cached(stores) = self;
        let namespace = list.namespace;
        let answer = match list.resource {
            OPERATOR_GROUPS => items(&stores.groups.store, namespace),
            NAMESPACES => items(&stores.namespaces.store, namespace),
            CLUSTER_SERVICE_VERSIONS => items(&stores.csvs.store, namespace),
            ROLE_BINDINGS => items(&stores.role_bindings.store, namespace),
            CLUSTER_ROLE_BINDINGS => items(&stores.cluster_role_bindings.store, namespace),
            _ => return Err(failed(list.to_string(), "the controller does not watch that kind")),
        };
        answer.map_err(|error| failed(list.to_string(), &error.to_string()))
    }

    fn get(&self, get: &Get<'_>) -> Result<Option<Vec<u8>>, LookupError> {
        let Cached(stores) = self;
        let namespace = get.namespace.unwrap_or_default();
        let answer = match get.resource {
            ROLES => stores.role(namespace, get.name).map(|object| serde_json::to_vec(&*object)),
            CLUSTER_ROLES => stores.cluster_role(get.name).map(|object| serde_json::to_vec(&*object)),
            SERVICE_ACCOUNTS => stores.account(namespace, get.name).map(|object| serde_json::to_vec(&*object)),
            CLUSTER_SERVICE_VERSIONS => stores.csv(namespace, get.name).map(|object| serde_json::to_vec(&*object)),
            _ => return Err(failed(get.to_string(), "the controller does not watch that kind")),
        };
        answer.transpose().map_err(|error| failed(get.to_string(), &error.to_string()))
    }

    fn can(&self, question: &Question<'_>) -> Result<bool, LookupError> {
        Err(failed(question.to_string(), "the controller judges by RBAC alone"))
    }
}

#[derive(Serialize)]
struct Items<'o, K> {
    items: Vec<&'o K>,
}

fn items<K>(store: &Store<K>, namespace: Option<&str>) -> serde_json::Result<Vec<u8>>
where
    K: Resource<DynamicType = ()> + Serialize + Clone + 'static,
{
    let mut objects = store.state();
    if let Some(namespace) = namespace {
        objects.retain(|object| object.namespace().as_deref() == Some(namespace));
    }
    serde_json::to_vec(&Items { items: objects.iter().map(|object| &**object).collect() })
}

fn failed(lookup: String, reason: &str) -> LookupError {
    LookupError { lookup, reason: reason.to_owned() }
}
