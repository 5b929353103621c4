//! The companion controller: carries out the installs of OLM v0 with the service account of their OperatorGroup, so that
//! an operator that asks for more than the account holds is not installed, and everybody is told why.
//!
//! What is asked, what is covered and how it is said are decisions of `bounds`; this crate reads the cluster, asks
//! `bounds`, and acts.
#![forbid(unsafe_code)]

pub mod apply;
pub mod backoff;
pub mod cluster;
pub mod context;
pub mod csv;
pub mod error;
pub mod events;
pub mod generated;
pub mod http;
pub mod install_plan;
pub mod judge;
pub mod leader;
pub mod manager;
pub mod metrics;
pub mod olm;
pub mod operator_group;
pub mod options;
pub mod rbac;
pub mod scope;
pub mod scoped;
pub mod stores;

/// The field manager of everything that is written, and the name in Events and logs.
pub const NAME: &str = "operator-bounds-controller";
