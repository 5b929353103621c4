//! What is read from OLM's objects, and from those that it installs.

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
