//! Runs the operator-bounds policy: the published wasm module in the engine that Kubewarden uses, with a directory of
//! manifests in place of the API server, or with a live cluster.
//!
//! Data flow of an evaluation: [`admission::Request`] and a [`source::Source`] ([`manifests::Manifests`] or
//! [`live::Cluster`]) → [`policy::Policy`], which calls back into [`host::Host`] for its look-ups →
//! [`admission::AdmissionResponse`].

#![forbid(unsafe_code)]

pub mod admission;
pub mod audit;
mod cache;
pub mod check;
pub mod derive;
pub mod diff;
pub mod documents;
pub mod engine;
pub mod host;
mod input;
pub mod live;
pub mod manifests;
mod mask;
mod page;
pub mod policy;
mod rbac;
pub mod replay;
pub mod source;
pub mod syntax;
pub mod upgrade_check;
mod yaml;
