//! What is read from OLM's objects, and from those that it installs.

pub(crate) mod bundle;
pub(crate) mod csv;
pub mod definition;
pub(crate) mod extension;
pub(crate) mod group;
pub mod kinds;
pub(crate) mod meta;
pub(crate) mod plan;
pub(crate) mod release;
pub(crate) mod selector;
pub(crate) mod workload;

pub use csv::ClusterServiceVersion;
pub use definition::Field;
pub use extension::{ClusterExtension, SYNTHETIC_ACCOUNT};
pub use group::Targets;
pub use plan::{InstallPlan, Step};
