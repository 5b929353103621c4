//! The real OLM for tests, v0 and v1, as processes on a real control plane, with catalogs that are made for the occasion.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use test_olm::{Cluster, OlmV0, Package, Policy, Rule, Tiny};
//!
//! let cluster = Cluster::start("none").await?;
//! let tiny = Tiny::new("tiny", "1.0.0").permission(Rule::on("", "configmaps", &["get"])).bundle();
//! let olm = OlmV0::start(&cluster, &[Package::new("tiny", vec![tiny])]).await?;
//! let policy = Policy::load(&cluster, &["olm-v0.yaml"]).await?;
//! policy.enforce(&cluster).await?;
//! # drop((olm, policy)); Ok(()) }
//! ```

#![forbid(unsafe_code)]

mod bundle;
mod catalog;
mod cluster;
mod corpus;
mod image;
mod policy;
mod v0;
mod v1;

pub use bundle::{Bundle, Rule, Tiny, cluster_role_binding};
pub use catalog::Package;
pub use cluster::Cluster;
pub use corpus::Corpus;
pub use image::Images;
pub use policy::Policy;
pub use v0::{Group, OlmV0};
pub use v1::{OlmV1, Started};
