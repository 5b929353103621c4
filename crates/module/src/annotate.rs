//! A policy's metadata in its module, where Kubewarden looks for it.
//!
//! The module carries it as JSON in the custom section `io.kubewarden.metadata`, in the shape that `kwctl annotate`
//! writes. Writing is deterministic to the byte: the same module and the same metadata give the same file.

use crate::metadata::Metadata;
use crate::section;

/// The custom section in which Kubewarden looks for the metadata.
pub(crate) const SECTION: &str = "io.kubewarden.metadata";

/// Why a module could not be annotated or read.
#[derive(Debug, thiserror::Error)]
pub enum AnnotateError {
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
        /// Its position, in bytes.
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
/// let metadata = policy_module::Metadata::from_yaml("mutating: false\nrules:\n- {apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}")?;
/// let annotated = policy_module::annotate(wasm, &metadata)?;
/// assert_eq!(policy_module::read_metadata(&annotated)?, Some(metadata));
/// # Ok::<(), policy_module::AnnotateError>(())
/// ```
pub fn annotate(wasm: &[u8], metadata: &Metadata) -> Result<Vec<u8>, AnnotateError> {
    let json = serde_json::to_vec(metadata)?;
    section::with_custom_section(wasm, SECTION, &json)
}

/// The metadata that a module carries, if it carries any.
pub fn read_metadata(wasm: &[u8]) -> Result<Option<Metadata>, AnnotateError> {
    let section = section::custom_section(wasm, SECTION)?;
    Ok(section.map(serde_json::from_slice).transpose()?)
}
