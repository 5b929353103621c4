//! The smallest RBAC that lets an operator install: under an OperatorGroup's service account (OLM v0), or as the identity of a
//! ClusterExtension (OLM v1).
//!
//! Data flow: [`bundle::Bundle`] → [`need::Needs`], by [`v0`] or [`v1`], with what the operator will hold from `bounds` →
//! [`roles`], without what is held already → [`manifest`]s to apply. [`unused`] goes the other way.

mod brought;
pub mod bundle;
mod declared;
pub mod live;
pub mod manifest;
pub mod names;
pub mod need;
mod resources;
pub mod roles;
pub mod unused;
pub mod upgrade;
pub mod v0;
pub mod v1;

use bounds::cluster::{Cluster, LookupError};
use bounds::decide::{Lookups, Reach, SYNTHETIC_GROUP, SYNTHETIC_USER_PREFIX, holder};
use bounds::rbac::{Grant, Identity};
use serde_json::Value;

use bundle::{Bundle, Object};
use manifest::Manifests;
use need::Needs;

use crate::documents::FileError;

/// Who gets the RBAC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// A service account.
    Account {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The synthetic user of a ClusterExtension without an account.
    Synthetic {
        /// The extension.
        extension: String,
    },
}

impl Whom {
    /// The identity, groups included.
    #[must_use]
    pub fn identity(&self) -> Identity {
        match self {
            Whom::Account { namespace, name } => Identity::service_account(namespace, name),
            Whom::Synthetic { extension } => {
                let groups = vec![SYNTHETIC_GROUP.to_owned(), "system:authenticated".to_owned()];
                Identity::user_in(&format!("{SYNTHETIC_USER_PREFIX}{extension}"), groups)
            }
        }
    }
}

/// What installs the operator.
#[derive(Debug, Clone)]
pub enum Installer {
    /// OLM v0, in an OperatorGroup.
    Group(v0::Group),
    /// OLM v1, for a ClusterExtension.
    Extension(v1::Extension),
}

/// Why nothing could be derived.
#[derive(Debug, thiserror::Error)]
pub enum DeriveError {
    /// An object cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Something in the cluster cannot be read.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// What an extension lacks cannot be found out.
    #[error("ClusterExtension {name} {reason}")]
    Extension {
        /// The extension.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A binding of the bundle refers to a role that nobody has shown.
    #[error("{binding} refers to {role}, which is not in the bundle: use --cluster to show what the role holds")]
    UnknownRole {
        /// The binding.
        binding: String,
        /// The role.
        role: String,
    },
}

/// Everything that an install takes.
pub fn needs(bundle: &Bundle, installer: &Installer, lookups: &Lookups<'_>) -> Result<Needs, DeriveError> {
    match installer {
        Installer::Group(group) => v0::needs(bundle, group, lookups),
        Installer::Extension(extension) => v1::needs(bundle, extension, lookups),
    }
}

/// What an OperatorGroup's account lacks for one operator, as YAML; empty when it lacks nothing.
pub fn lacking(csv: Value, whom: &Whom, group: &v0::Group, cluster: &dyn Cluster) -> Result<String, DeriveError> {
    let lookups = Lookups::new(cluster);
    let bundle = Bundle { csvs: vec![Object::unwritten(csv)], ..Bundle::default() };
    let needs = v0::needs(&bundle, group, &lookups)?;
    let roles = roles::of(&needs, &grant(&lookups, whom)?);
    Ok(Manifests { whom, name: manifest::name(whom, &bundle), with_account: false, roles: &roles }.yaml())
}

/// What the identity holds, everywhere, groups included.
pub fn grant(lookups: &Lookups<'_>, whom: &Whom) -> Result<Grant, LookupError> {
    holder(lookups, whom.identity(), Reach::Everywhere)?.grant(lookups)
}
