//! A live cluster, as far as verdicts may look it up, at one moment: every object is judged against the same state, with the given
//! files over it.

use std::path::Path;
use std::sync::Arc;

use bounds::cluster::{CONFIG_MAPS, List, LookupError, Resource};
use serde_json::Value;

use crate::host::ListResources;
use crate::manifests::{self, Manifests};
use crate::source::Source;

use super::given::LOOKED_UP;

/// Reads every kind that a verdict may look up, once. ConfigMaps are left out: there are many, they are not for everybody to
/// read, and only the approval of a plan looks for one.
pub fn of(cluster: &dyn Source) -> Result<Manifests, LookupError> {
    let mut found = Manifests::default();
    let file: Arc<Path> = Path::new("the live cluster").into();
    for resource in LOOKED_UP.into_iter().filter(|resource| *resource != CONFIG_MAPS) {
        for object in list(cluster, resource)? {
            found.add(object, &file, resource.kind).map_err(|error| failed(resource, &error.to_string()))?;
        }
    }
    Ok(found)
}

fn list(cluster: &dyn Source, resource: Resource) -> Result<Vec<Value>, LookupError> {
    let request = ListResources {
        api_version: resource.api_version.to_owned(),
        kind: resource.kind.to_owned(),
        namespace: None,
        label_selector: None,
        field_selector: None,
        field_masks: Some(resource.masks.iter().map(|&mask| mask.to_owned()).collect()),
    };
    let answer = match cluster.list(&request) {
        Ok(answer) => answer,
        Err(error) => {
            let error = failed(resource, &error.to_string());
            // A cluster without OLM v1, or without OLM v0, does not have its kinds.
            return if error.is_not_served(resource) { Ok(Vec::new()) } else { Err(error) };
        }
    };
    let list: Value = serde_json::from_slice(&answer).map_err(|error| failed(resource, &error.to_string()))?;
    Ok(manifests::objects(list))
}

fn failed(resource: Resource, reason: &str) -> LookupError {
    LookupError::new(&List { resource, namespace: None }, reason)
}
