//! `upgrade-check`: which ClusterExtensions block a move to another release of OLM v1, and how to change them.
//!
//! Data flow: [`files`] or a cluster → documents → [`extension::Written`] → [`verdict`]s → report, and with `--fix` →
//! [`edit`]s → [`replace`]d files.

pub mod edit;
pub mod extension;
pub mod files;
pub mod release;
pub mod replace;
pub mod verdict;
