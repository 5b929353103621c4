//! What is read of the objects of OLM, and of those it installs.

pub(crate) mod bundle;
pub mod csv;
pub mod definition;
pub mod extension;
pub mod group;
pub mod kinds;
pub(crate) mod meta;
pub mod plan;
pub(crate) mod release;
pub(crate) mod selector;
pub(crate) mod workload;
