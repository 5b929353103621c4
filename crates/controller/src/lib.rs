//! The companion of the policy, running beside an unmodified OLM.
//!
//! [`gate`] approves InstallPlans of OLM v0 that stay in bounds. [`scope`] stands between OLM v1's operator-controller
//! and the API server: what belongs to an extension is written as the identity of that extension, so that Kubernetes
//! itself decides what it may do.
#![forbid(unsafe_code)]

pub mod gate;
pub mod health;
pub mod leader;
pub mod logging;
pub mod rights;
pub mod scope;
pub mod shutdown;

/// The name of the program, in Leases and logs.
pub const NAME: &str = "operator-bounds-controller";
