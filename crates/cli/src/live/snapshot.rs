//! A snapshot of everything in a live cluster that verdicts may look up: every object is judged against the same state, with the
//! given files laid over it.

use std::path::Path;
use std::sync::Arc;

use bounds::cluster::{CONFIG_MAPS, List, LookupError};
use serde_json::Value;

use super::Cluster;
use crate::manifests::{self, Manifests};
use crate::source::{LOOKED_UP, Source};

impl Cluster {
    /// Reads every kind that a verdict may look up, once. ConfigMaps are left out: there are many, they are not for everybody
    /// to read, and only the approval of a plan looks for one.
    pub fn snapshot(&self) -> Result<Manifests, LookupError> {
        let mut found = Manifests::default();
        let file: Arc<Path> = Path::new("the live cluster").into();
        for resource in LOOKED_UP.into_iter().filter(|resource| *resource != CONFIG_MAPS) {
            let list = List { resource, namespace: None };
            for object in self.objects(&list)? {
                found.add(object, &file, resource.kind).map_err(|error| LookupError::new(&list, error.to_string()))?;
            }
        }
        Ok(found)
    }

    fn objects(&self, list: &List<'_>) -> Result<Vec<Value>, LookupError> {
        let answer = match self.list(&list.into()) {
            Ok(answer) => answer,
            Err(error) => {
                let error = LookupError::new(list, error.to_string());
                // A cluster without OLM v1, or without OLM v0, does not have its kinds.
                return if error.is_not_served(list.resource) { Ok(Vec::new()) } else { Err(error) };
            }
        };
        let list_of: Value =
            serde_json::from_slice(&answer).map_err(|error| LookupError::new(list, error.to_string()))?;
        Ok(manifests::objects(list_of))
    }
}
