//! The operators that are in a namespace already.

use serde_json::value::RawValue;

use crate::cluster::{CLUSTER_SERVICE_VERSIONS, List, LookupError};
use crate::decide::lookups::{Lookups, each_item, parse};
use crate::olm::csv::ClusterServiceVersion;
use crate::olm::meta::MetaOnly;

/// An operator that is there already.
#[derive(Debug)]
pub(crate) struct Installed {
    /// The name of its ClusterServiceVersion.
    pub name: String,
    /// The ClusterServiceVersion, as it came.
    json: Box<str>,
}

impl Installed {
    /// Its ClusterServiceVersion.
    pub(crate) fn csv(&self) -> Result<ClusterServiceVersion<'_>, LookupError> {
        parse(self.json.as_bytes(), &"ClusterServiceVersion")
    }
}

/// The operators of a namespace, copies aside, by name.
pub(crate) fn installed(lookups: &Lookups<'_>, namespace: &str) -> Result<Vec<Installed>, LookupError> {
    let answer = lookups.list(CLUSTER_SERVICE_VERSIONS, None)?;
    let list = List { resource: CLUSTER_SERVICE_VERSIONS, namespace: None };
    let mut found: Vec<Installed> = Vec::new();
    let mut failed = None;
    each_item(&answer, &list, &mut |raw: &RawValue| {
        // Most of the list are other namespaces' and copies: only the metadata of those is read.
        let metadata = match parse::<MetaOnly<'_>>(raw.get().as_bytes(), &list) {
            Ok(bare) => bare.metadata,
            Err(error) => {
                failed = Some(error);
                return;
            }
        };
        if metadata.namespace == *namespace && metadata.copied_from(namespace).is_none() {
            let after = found.partition_point(|other| *other.name < *metadata.name);
            found.insert(after, Installed { name: metadata.name.to_string(), json: raw.get().into() });
        }
    })?;
    failed.map_or(Ok(found), Err)
}
