//! What the API server serves: from an apiVersion and a kind to the resource behind it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube::api::{Api, ApiResource, DynamicObject};

use super::{causes, failed};
use crate::host::{GetResource, HostError, ListResources};

/// The kinds that were asked for and found. What is not served is asked for again each time: it may come.
pub(super) struct Kinds {
    client: kube::Client,
    found: Mutex<HashMap<(String, String), Kind>>,
}

/// A kind that the API server serves.
#[derive(Clone)]
pub(super) struct Kind {
    resource: ApiResource,
    namespaced: bool,
}

impl Kinds {
    pub(super) fn new(client: kube::Client) -> Self {
        Kinds { client, found: Mutex::default() }
    }

    fn found(&self) -> MutexGuard<'_, HashMap<(String, String), Kind>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That a kind is not served is an error in Kubewarden's words: policies have no other way to tell.
    pub(super) async fn find(&self, api_version: &str, kind: &str) -> Result<Kind, HostError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.found().get(&key) {
            return Ok(known.clone());
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let served = if group.is_empty() {
            self.client.list_core_api_resources(version).await.map_err(|error| failed(&error))?
        } else {
            let missing =
                |error| HostError::Failed(format!("error finding resource {api_version} / {kind}: {}", causes(&error)));
            self.client.list_api_group_resources(api_version).await.map_err(missing)?
        };
        let mut resources = served.resources.into_iter();
        let resource = resources
            .find(|resource| resource.kind == kind && !resource.name.contains('/'))
            .ok_or_else(|| HostError::Failed(format!("Cannot find resource {api_version}/{kind}")))?;
        let found = Kind {
            resource: ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                plural: resource.name,
            },
            namespaced: resource.namespaced,
        };
        self.found().insert(key, found.clone());
        Ok(found)
    }

    /// The next one who asks gets a fresh answer.
    pub(super) fn forget(&self, api_version: &str, kind: &str) {
        self.found().remove(&(api_version.to_owned(), kind.to_owned()));
    }
}

impl Kind {
    /// Where the objects of a list are.
    pub(super) fn list_api(&self, client: kube::Client, list: &ListResources) -> Result<Api<DynamicObject>, HostError> {
        match &list.namespace {
            None => Ok(Api::all_with(client, &self.resource)),
            Some(namespace) if self.namespaced => Ok(Api::namespaced_with(client, namespace, &self.resource)),
            Some(_) => Err(HostError::Failed(format!(
                "resource {}/{} is cluster wide. Cannot search for it inside of a namespace",
                list.api_version, list.kind
            ))),
        }
    }

    /// Where one object is.
    pub(super) fn get_api(&self, client: kube::Client, get: &GetResource) -> Result<Api<DynamicObject>, HostError> {
        match (self.namespaced, &get.namespace) {
            (false, _) => Ok(Api::all_with(client, &self.resource)),
            (true, Some(namespace)) => Ok(Api::namespaced_with(client, namespace, &self.resource)),
            (true, None) => Err(HostError::Failed(format!(
                "Resource {}/{} is namespaced, but no namespace was provided",
                get.api_version, get.kind
            ))),
        }
    }
}
