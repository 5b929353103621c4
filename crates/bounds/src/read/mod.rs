//! Parsing: JSON as Go reads it, YAML, compressed data, names and patterns.

pub(crate) mod glob;
pub(crate) mod go;
pub(crate) mod gzip;
pub(crate) mod items;
pub mod json;
pub(crate) mod name;
pub(crate) mod object;
pub(crate) mod order;
pub(crate) mod text;
pub mod yaml;

pub use name::{is_object_name, is_plain};
pub use text::Text;
