//! Every decision of operator-bounds, and nothing else: no Kubernetes client, no waPC, no I/O, no clock.
//!
//! The path of a request: payload → object → boundary → grant → request → excess → verdict → response. Each arrow is
//! one function that takes what it needs and returns the next of these. The only access to the outside world is the
//! [`cluster::Cluster`] trait.
#![forbid(unsafe_code)]

pub mod admission;
pub mod cluster;
pub mod decide;
mod judge;
pub mod olm;
pub mod rbac;
pub mod read;
pub mod settings;

mod validate;

pub use validate::{SettingsVerdict, validate, validate_settings};
