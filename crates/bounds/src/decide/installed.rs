//! The operators that already exist in a namespace.

use serde_json::value::RawValue;

use crate::cluster::{CLUSTER_SERVICE_VERSIONS, List, LookupError};
use crate::decide::lookups::{Lookups, each_item, parse};
use crate::olm::csv::ClusterServiceVersion;
use crate::olm::meta::MetaOnly;

/// An operator that is already installed.
#[derive(Debug)]
pub(crate) struct Installed {
    /// The name of its ClusterServiceVersion.
    pub(crate) name: String,
    /// Its ClusterServiceVersion, unparsed.
    json: Box<str>,
}

impl Installed {
    pub(crate) fn csv(&self) -> Result<ClusterServiceVersion<'_>, LookupError> {
        parse(self.json.as_bytes(), &"ClusterServiceVersion")
    }
}

/// The operators of a namespace by name, not counting copies.
pub(crate) fn installed(lookups: &Lookups<'_>, namespace: &str) -> Result<Vec<Installed>, LookupError> {
    let answer = lookups.list(CLUSTER_SERVICE_VERSIONS, None)?;
    let list = List { resource: CLUSTER_SERVICE_VERSIONS, namespace: None };
    let mut found: Vec<Installed> = Vec::new();
    let mut failed = None;
    each_item(&answer, &list, None, &mut |_, raw: &RawValue| {
        // Most entries belong to other namespaces or are copies: only their metadata is parsed.
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
