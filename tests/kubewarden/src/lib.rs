//! The real Kubewarden for tests: `policy-server` as a process, the module as it is published, and the registrations that
//! are shipped, made into what Kubewarden's controller makes of them.

#![forbid(unsafe_code)]

mod account;
mod certificate;
mod client;
mod mirror;
mod module;
mod policy_server;
mod shipped;
pub mod webhook;

pub use account::admit;
pub use certificate::certificate;
pub use client::Client;
pub use mirror::{Mirror, Versions, test_policy};
pub use module::Module;
pub use policy_server::{PolicyServer, Start};
pub use shipped::Shipped;
