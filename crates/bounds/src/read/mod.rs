//! Parsing: JSON as Go reads it, YAML, compressed data, names and patterns.

pub(crate) mod glob;
pub(crate) mod go;
pub(crate) mod gzip;
pub mod json;
pub mod name;
pub(crate) mod object;
pub(crate) mod order;
pub mod text;
pub mod yaml;
