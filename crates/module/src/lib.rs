//! The policy's module as it is published: [`build`] compiles it, [`annotate`](annotate()) puts its [`Metadata`] into it.

#![forbid(unsafe_code)]

mod annotate;
mod build;
mod metadata;
mod section;

pub use annotate::{AnnotateError, annotate, read_metadata};
pub use build::{BuildError, build};
pub use metadata::{ContextAwareResource, ExecutionMode, Metadata, Operation, PolicyType, ProtocolVersion, Rule};
