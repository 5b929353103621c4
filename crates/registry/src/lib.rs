//! OCI registries, for what this project needs of them.
//!
//! * [`push`] publishes the annotated policy as a Kubewarden artifact, to the byte as `kwctl push` does.
//! * [`pull`] brings it back, and reads its metadata.
//! * [`bundle`] reads the manifests of an OLM bundle image.
//!
//! What is pulled is checked against its digests, and nothing that a registry says is trusted beyond that: sizes are
//! limited, addresses inside manifests are not followed, and a tag is reported with the digest that it points to.
//!
//! ```no_run
//! # async fn example() -> Result<(), registry::Error> {
//! let wasm = std::fs::read("annotated-policy.wasm").unwrap();
//! let options = registry::Options::default();
//! let pushed = registry::push(&wasm, "registry://registry.example.com/policies/operator-bounds:v0.1.0", &options).await?;
//! println!("{}", pushed.reference);
//! let pulled = registry::pull(&pushed.reference, &options).await?;
//! assert_eq!(pulled.wasm, wasm);
//! # Ok(()) }
//! ```

#![forbid(unsafe_code)]

mod artifact;
pub mod bundle;
mod client;
mod credentials;
mod digest;
mod error;
mod pull;
mod push;
mod reference;

use std::path::PathBuf;

pub use error::Error;
pub use pull::{Pulled, pull};
pub use push::{Pushed, push};

/// How a registry is spoken to.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Speak HTTP without TLS to any host. A registry on loopback needs no permission for it.
    pub plain_http: bool,
    /// Refuse to move a tag that already stands for something else.
    pub no_overwrite: bool,
    /// The directory of `config.json`, with the logins. Without it `$DOCKER_CONFIG`, else `~/.docker`.
    pub docker_config: Option<PathBuf>,
}
