//! Every decision of operator-bounds, and nothing else: no Kubernetes client, no waPC, no I/O, no clock.
//!
//! The way of a request: payload → object → boundary → grant → request → excess → verdict → response. Each arrow is
//! one function that takes what it needs and returns the next word. The only thing that reaches outside is the
//! [`cluster::Cluster`] trait.
#![forbid(unsafe_code)]

pub mod admission;
pub mod authority;
pub mod borrowed;
pub mod boundary;
pub mod bundle;
pub mod cluster;
pub mod compact;
pub mod context;
pub mod covers;
pub mod csv;
pub mod demand;
pub mod excess;
pub mod extension;
pub mod glob;
pub mod grant;
pub mod group;
pub mod guard;
pub mod installed;
pub mod json;
pub mod judge;
pub mod lookups;
pub mod message;
pub mod meta;
pub mod needs;
pub mod object;
mod order;
pub mod plan;
pub mod rule;
pub mod scope;
pub mod selector;
pub mod settings;
pub mod subject;
pub mod text;
pub mod verdict;
pub mod weigh;
pub mod workload;
pub mod writes;
mod yaml;

mod validate;

pub use validate::{SettingsVerdict, validate, validate_settings};
