//! Whole kinds of a live cluster, page by page: what is kept is the reader's business, and a page is all that is held at once.

use bounds::cluster::{LookupError, Resource};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::ObjectList;
use serde::Serialize;
use serde_json::Value;

use super::{Cluster, causes};
use crate::host::ListResources;
use crate::mask::LAST_APPLIED;

/// A list to be read in pages.
#[derive(Debug, Clone, Copy)]
pub struct Paged<'q> {
    /// The kind; its masks are not looked at.
    pub resource: Resource,
    /// In one namespace, or in all of them.
    pub namespace: Option<&'q str>,
    /// Only objects with these labels.
    pub selector: Option<&'q str>,
    /// Whether the rest of the objects stays where it is.
    pub only_metadata: bool,
    /// How many objects a page has.
    pub size: u32,
}

/// Why a kind was not listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unlisted {
    /// The API server does not serve it.
    #[error("it is not served")]
    NotServed,
    /// The API server does not allow it; its own words.
    #[error("{0}")]
    Forbidden(String),
    /// It failed otherwise.
    #[error("{0}")]
    Failed(String),
}

impl Cluster {
    /// Hands over the objects of a kind, one by one, with their types and without what servers and clients keep in metadata.
    pub fn each(&self, paged: &Paged<'_>, object: &mut dyn FnMut(Value)) -> Result<(), Unlisted> {
        let mut after = None;
        loop {
            let late = || Err(Unlisted::Failed(self.late()));
            let page = self.in_time(self.page(paged, after.as_deref())).unwrap_or_else(late)?;
            page.objects.into_iter().for_each(&mut *object);
            match page.after {
                Some(token) => after = Some(token),
                None => return Ok(()),
            }
        }
    }

    async fn page(&self, paged: &Paged<'_>, after: Option<&str>) -> Result<Page, Unlisted> {
        let api = self.api_of(paged).await?;
        let parameters = ListParams {
            label_selector: paged.selector.map(str::to_owned),
            limit: Some(paged.size),
            continue_token: after.map(str::to_owned),
            ..ListParams::default()
        };
        if paged.only_metadata {
            Page::of(api.list_metadata(&parameters).await.map_err(unlisted)?, paged)
        } else {
            Page::of(api.list(&parameters).await.map_err(unlisted)?, paged)
        }
    }

    async fn api_of(&self, paged: &Paged<'_>) -> Result<Api<DynamicObject>, Unlisted> {
        let list = ListResources {
            api_version: paged.resource.api_version.to_owned(),
            kind: paged.resource.kind.to_owned(),
            namespace: paged.namespace.map(str::to_owned),
            label_selector: None,
            field_selector: (),
            field_masks: None,
        };
        self.api(&list).await.map_err(|error| {
            let error = LookupError::new(&paged.resource.kind, error.to_string());
            if error.is_not_served(paged.resource) { Unlisted::NotServed } else { Unlisted::Failed(error.to_string()) }
        })
    }

    /// One object by name; none if there is no such object. It is listed, so that who may list needs no other right.
    pub fn one(&self, paged: &Paged<'_>, name: &str) -> Result<Option<Value>, Unlisted> {
        let found = self.in_time(async {
            let parameters = ListParams::default().fields(&format!("metadata.name={name}"));
            let list = self.api_of(paged).await?.list(&parameters).await.map_err(unlisted)?;
            list.items.first().map(|object| bare(object, &paged.resource)).transpose()
        });
        found.unwrap_or_else(|| Err(Unlisted::Failed(self.late())))
    }

    /// The user that the API server takes this client for; none if it does not say.
    #[must_use]
    pub fn user(&self) -> Option<String> {
        let api: Api<SelfSubjectReview> = Api::all(self.shared.client.clone());
        let review = self.in_time(async { api.create(&PostParams::default(), &SelfSubjectReview::default()).await });
        review?.ok()?.status?.user_info?.username
    }
}

struct Page {
    objects: Vec<Value>,
    /// What to ask for the next one with.
    after: Option<String>,
}

impl Page {
    fn of<K: Serialize + Clone>(list: ObjectList<K>, paged: &Paged<'_>) -> Result<Self, Unlisted> {
        let after = list.metadata.continue_.filter(|token| !token.is_empty());
        let objects = list.items.iter().map(|item| bare(item, &paged.resource)).collect::<Result<_, _>>()?;
        Ok(Page { objects, after })
    }
}

/// An object as it is in a manifest: with its type, which lists leave out.
fn bare(object: &impl Serialize, resource: &Resource) -> Result<Value, Unlisted> {
    let mut object = serde_json::to_value(object).map_err(|error| Unlisted::Failed(error.to_string()))?;
    object["apiVersion"] = resource.api_version.into();
    object["kind"] = resource.kind.into();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    Ok(object)
}

fn unlisted(error: kube::Error) -> Unlisted {
    match error {
        kube::Error::Api(status) if status.code == 403 => Unlisted::Forbidden(status.message),
        kube::Error::Api(status) if status.code == 404 => Unlisted::NotServed,
        kube::Error::Api(status) => Unlisted::Failed(status.message),
        other => Unlisted::Failed(causes(&other)),
    }
}
