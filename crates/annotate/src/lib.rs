//! A Kubewarden policy's metadata: read from YAML, checked, and kept in the wasm module itself.
//!
//! The module carries it as JSON in the custom section `io.kubewarden.metadata`, in the shape that `kwctl annotate`
//! writes. Writing is deterministic to the byte: the same module and the same metadata give the same file.

#![forbid(unsafe_code)]

mod metadata;
mod module;

pub use metadata::{ContextAwareResource, ExecutionMode, Metadata, Operation, PolicyType, ProtocolVersion, Rule};

/// The custom section in which Kubewarden looks for the metadata.
pub const SECTION: &str = "io.kubewarden.metadata";

/// Why a module could not be annotated or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The YAML does not parse, or has a key or value that Kubewarden does not know.
    #[error("{0}")]
    Yaml(String),
    /// It parses, but Kubewarden would refuse it.
    #[error("{field}: {reason}")]
    Invalid {
        /// The path of the field.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The bytes are not a wasm module.
    #[error("not a wasm module: {reason} at byte {offset}")]
    Module {
        /// What is wrong.
        reason: &'static str,
        /// Where.
        offset: usize,
    },
    /// The section is there, but its content is not the metadata of a policy.
    #[error("custom section {SECTION}: {0}")]
    Section(#[from] serde_json::Error),
}

/// The module with this metadata in it; metadata that it had before is replaced.
///
/// ```
/// let wasm = b"\0asm\x01\0\0\0";
/// let metadata = annotate::Metadata::from_yaml("mutating: false\nrules:\n- {apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}")?;
/// let annotated = annotate::annotate(wasm, &metadata)?;
/// assert_eq!(annotate::read_metadata(&annotated)?, Some(metadata));
/// # Ok::<(), annotate::Error>(())
/// ```
pub fn annotate(wasm: &[u8], metadata: &Metadata) -> Result<Vec<u8>, Error> {
    let json = serde_json::to_vec(metadata)?;
    module::with_custom_section(wasm, SECTION, &json)
}

/// The metadata that a module carries, if it carries any.
pub fn read_metadata(wasm: &[u8]) -> Result<Option<Metadata>, Error> {
    let section = module::custom_section(wasm, SECTION)?;
    Ok(section.map(serde_json::from_slice).transpose()?)
}
