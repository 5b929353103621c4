//! Look-ups through Kubewarden's host capabilities.
//!
//! The request types are the SDK's. Its functions are not used: they build every item of a list, while `bounds`
//! examines only the few that matter.

use bounds::cluster::{Cluster, Get, List, LookupError, Question, Resource};
use bounds::decide::{MAX_ANSWER, answer_too_long};
use kubewarden_policy_sdk::host_capabilities::kubernetes::{
    CanIRequest, GetResourceRequest, ListAllResourcesRequest, ListResourcesByNamespaceRequest, ResourceAttributes,
    SubjectAccessReview,
};
use std::collections::BTreeSet;
use std::fmt::Display;

use crate::wapc::{self, Failure};

/// The policy server, reached through waPC host calls.
pub(crate) struct Host;

impl Cluster for Host {
    fn list(&self, list: &List<'_>) -> Result<Vec<u8>, LookupError> {
        let Resource { api_version, kind, .. } = list.resource;
        let (api_version, kind, field_masks) = (api_version.to_owned(), kind.to_owned(), Some(masks(list.resource)));
        let (label_selector, field_selector) = (None, None);
        if let Some(namespace) = list.namespace {
            let namespace = namespace.to_owned();
            let request = ListResourcesByNamespaceRequest {
                api_version,
                kind,
                namespace,
                label_selector,
                field_selector,
                field_masks,
            };
            return served(list, call("list_resources_by_namespace", &request, list));
        }
        let request = ListAllResourcesRequest { api_version, kind, label_selector, field_selector, field_masks };
        served(list, call("list_resources_all", &request, list))
    }

    fn get(&self, get: &Get<'_>) -> Result<Option<Vec<u8>>, LookupError> {
        let Resource { api_version, kind, .. } = get.resource;
        let request = GetResourceRequest {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: get.name.to_owned(),
            namespace: get.namespace.map(str::to_owned),
            disable_cache: !get.may_be_cached(),
            field_masks: Some(masks(get.resource)),
        };
        match call("get_resource", &request, get) {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.is_not_found(get) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn can(&self, question: &Question<'_>) -> Result<bool, LookupError> {
        let some = |text: &str| Some(text.to_owned());
        let request = CanIRequest {
            subject_access_review: SubjectAccessReview {
                user: question.identity.user().to_owned(),
                groups: Some(question.identity.groups().to_vec()),
                resource_attributes: ResourceAttributes {
                    group: some(question.group),
                    name: question.name.map(str::to_owned),
                    namespace: question.namespace.map(str::to_owned),
                    resource: question.resource.to_owned(),
                    subresource: question.subresource.map(str::to_owned),
                    verb: question.verb.to_owned(),
                    version: None,
                },
            },
            disable_cache: true,
        };
        let answer = call("can_i", &request, question)?;
        let review: Review =
            serde_json::from_slice(&answer).map_err(|error| LookupError::new(question, error.to_string()))?;
        Ok(review.allowed && !review.denied)
    }
}

/// The part of a `SubjectAccessReviewStatus` that decides.
#[derive(serde::Deserialize)]
struct Review {
    allowed: bool,
    #[serde(default)]
    denied: bool,
}

fn masks(resource: Resource) -> BTreeSet<String> {
    // One by one: `collect` would pull a whole sorting algorithm into the module for a handful of masks.
    let mut masks = BTreeSet::new();
    masks.extend(resource.masks.iter().map(|mask| (*mask).to_owned()));
    masks
}

/// If the API server does not serve a kind, its list is empty.
fn served(list: &List<'_>, answer: Result<Vec<u8>, LookupError>) -> Result<Vec<u8>, LookupError> {
    match answer {
        Err(error) if error.is_not_served(list.resource) => Ok(br#"{"items":[]}"#.to_vec()),
        answer => answer,
    }
}

fn call(operation: &str, request: &impl serde::Serialize, lookup: &dyn Display) -> Result<Vec<u8>, LookupError> {
    let failed = |reason: String| LookupError::new(lookup, reason);
    let message = serde_json::to_vec(request).map_err(|error| failed(error.to_string()))?;
    wapc::call(["kubewarden", "kubernetes", operation], &message, MAX_ANSWER).map_err(|failure| match failure {
        Failure::Host(reason) => failed(reason),
        Failure::TooLong(length) => answer_too_long(lookup, length),
    })
}
