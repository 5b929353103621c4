//! What a release of OLM v1 makes of `spec.serviceAccount`: as it shipped, or as its own definition says.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use bounds::olm::{Field, definition};
use bounds::settings::{Phase, known_releases, shipped};

use crate::documents::{self, FileError};
use crate::manifests;

/// A release, or Tech Preview as it was designed, where an extension without an account has a synthetic user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    name: String,
    /// What it makes of the field.
    pub phase: Phase,
}

/// What was planned for releases of `OpenShift`, and not carried out.
const PLANNED: [(&str, Phase); 3] =
    [("4.21", Phase::Deprecated), ("4.22", Phase::Deprecated), ("4.23", Phase::Removed)];

impl Release {
    /// The release whose definition of ClusterExtensions is in a file, alone or among others.
    pub fn of_definition(file: &Path) -> Result<Self, FileError> {
        let fail = |reason: &str| FileError::new(file, reason);
        let bytes = std::fs::read(file).map_err(|error| FileError::new(file, error))?;
        let objects = documents::parse(file, &bytes)?.into_iter().flat_map(manifests::objects);
        let mut definitions = objects.filter(|object| {
            object["kind"] == "CustomResourceDefinition" && object["metadata"]["name"] == definition::EXTENSIONS
        });
        let found = definitions
            .next()
            .ok_or_else(|| fail(&format!("has no CustomResourceDefinition {} in it", definition::EXTENSIONS)))?;
        let phase = match definition::field(&found.to_string(), "v1") {
            None => return Err(fail("defines ClusterExtensions without a version v1")),
            Some(Field::Required) => Phase::Required,
            Some(Field::Optional { .. }) => Phase::Deprecated,
            Some(Field::Absent) => Phase::Removed,
        };
        Ok(Release { name: file.display().to_string(), phase })
    }

    /// What was planned for it and is not so.
    #[must_use]
    pub fn not_as_planned(&self) -> Option<String> {
        let (release, planned) = PLANNED.iter().find(|(release, _)| *release == self.name)?;
        let plan = if *planned == Phase::Removed { "remove spec.serviceAccount" } else { "ignore spec.serviceAccount" };
        Some(format!(
            "{release} was planned to {plan}. As it shipped, it requires the field and acts as the account. If yours differs, \
             check against its own definition: --to-crd FILE"
        ))
    }

    /// The name for an argument `--release`.
    #[must_use]
    pub fn argument(&self) -> &str {
        if shipped(&self.name).is_some() { &self.name } else { "1.10" }
    }
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let phase = if text == "tech-preview" { Some(Phase::Optional) } else { shipped(text) };
        let phase = phase.ok_or_else(|| {
            format!(
                "unknown release; known are {}, and tech-preview as it was designed. For any other, use the definition that the \
                 release contains: --to-crd FILE",
                known_releases()
            )
        })?;
        Ok(Release { name: text.to_owned(), phase })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
