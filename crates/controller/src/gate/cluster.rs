//! The cluster as one verdict sees it: bindings and groups from the watches, everything else read now.

use std::cell::RefCell;
use std::time::Duration;

use bounds::cluster::{Cluster, Get, List, LookupError, Question};
use bounds::olm::kinds::plural;
use hyper::Request;
use hyper::header::ACCEPT;
use kube::Client;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::olm::{Bare, Meta};
use super::watch::Watched;
use super::world::RoleName;

/// How long the API server may take to answer one request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where only metadata is read, nothing else is transferred.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("{0}")]
    Api(#[from] kube::Error),
    #[error("the API server has not answered within {PATIENCE:?}")]
    Silence,
    #[error("the answer cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

/// Which part of an object is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Metadata,
    MetadataOfAll,
}

/// The JSON at a path; `None` if nothing exists there.
pub(super) async fn read(client: &Client, path: &str, part: Part) -> Result<Option<String>, ReadError> {
    let accept = match part {
        Part::Whole => "application/json",
        Part::Metadata => METADATA,
        Part::MetadataOfAll => METADATA_LIST,
    };
    let request = Request::get(path).header(ACCEPT, accept).body(Vec::new());
    let request = request.map_err(kube::Error::HttpError)?;
    match timeout(PATIENCE, client.request_text(request)).await {
        Err(_) => Err(ReadError::Silence),
        Ok(Ok(text)) => Ok(Some(text)),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
        Ok(Err(error)) => Err(error.into()),
    }
}

/// What a verdict has read.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub roles: Vec<RoleName>,
    /// Unpacked bundles: the path of each, and its resourceVersion.
    pub bundles: Vec<(String, String)>,
}

/// Answers the look-ups of a verdict on the plans of one namespace, from a thread that may block.
pub(super) struct Answers<'a> {
    pub client: &'a Client,
    pub watched: &'a Watched,
    pub handle: &'a Handle,
    pub namespace: &'a str,
    pub seen: RefCell<Seen>,
}

impl Cluster for Answers<'_> {
    /// Only bindings that name accounts of this namespace: no others are judged here.
    fn list(&self, list: &List<'_>) -> Result<Vec<u8>, LookupError> {
        let world = self.watched.world();
        Ok(match list.resource.kind {
            "ClusterRoleBinding" => items(world.bindings_of(self.namespace, true)),
            "RoleBinding" => items(world.bindings_of(self.namespace, false)),
            "OperatorGroup" => items(world.groups_of(self.namespace)),
            "Namespace" => items(world.namespaces()),
            _ => return Err(LookupError::new(list, "the gate does not list these")),
        })
    }

    fn get(&self, get: &Get<'_>) -> Result<Option<Vec<u8>>, LookupError> {
        let is_metadata = get.resource.masks.iter().all(|mask| mask.starts_with("metadata."));
        let part = if is_metadata { Part::Metadata } else { Part::Whole };
        let path = path(get);
        if matches!(get.resource.kind, "Role" | "ClusterRole") {
            let role = (get.namespace.unwrap_or_default().to_owned(), get.name.to_owned());
            self.seen.borrow_mut().roles.push(role);
        }
        let answer = self.handle.block_on(read(self.client, &path, part));
        let answer = answer.map_err(|error| LookupError::new(get, error.to_string()))?;
        if let (Some(text), "ConfigMap") = (&answer, get.resource.kind) {
            let Meta { resource_version, .. } = serde_json::from_str::<Bare>(text).unwrap_or_default().metadata;
            self.seen.borrow_mut().bundles.push((path, resource_version));
        }
        Ok(answer.map(String::into_bytes))
    }

    fn can(&self, question: &Question<'_>) -> Result<bool, LookupError> {
        Err(LookupError::new(question, "the gate makes no access reviews"))
    }
}

fn items<'i>(all: impl Iterator<Item = &'i str>) -> Vec<u8> {
    let mut json = String::from("{\"items\":[");
    for (number, item) in all.enumerate() {
        if number > 0 {
            json.push(',');
        }
        json.push_str(item);
    }
    json.push_str("]}");
    json.into_bytes()
}

fn path(get: &Get<'_>) -> String {
    let version = get.resource.api_version;
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = get.namespace.map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    format!("/{root}/{version}/{namespace}{}/{}", plural(get.resource.kind), get.name)
}
