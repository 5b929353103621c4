//! Helm's record of what it is about to write: the Secret that OLM creates before anything else of a bundle.

use std::io::{BufReader, Read};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use crate::scope::owner::quoted;

/// The type of the first Secret of a release, and of the ones that continue it.
pub(in crate::scope) const INDEX: &str = "operatorframework.io/index.v1";
pub(in crate::scope) const CHUNK: &str = "operatorframework.io/chunk.v1";

/// Sixty-four times the size of a Secret: anything larger is taken for a decompression bomb.
const LARGEST: u64 = 64 * 1024 * 1024;
/// The maximum number of hooks named in a message.
const NAMED: usize = 10;

/// The content of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::scope) enum Release {
    Plain,
    /// The name of the extension, and its hooks.
    Hooks(String, String),
    /// It continues in other Secrets, and cannot be examined before they are written.
    Large,
    Unreadable(String),
}

#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    name: String,
    #[serde(default)]
    hooks: Option<Vec<Hook>>,
}

#[derive(Deserialize)]
struct Hook {
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: String,
}

pub(super) fn read(chunk: &[u8], extra_chunks: &[u8]) -> Release {
    match serde_json::from_slice::<Option<Vec<String>>>(extra_chunks) {
        Ok(more) if more.as_ref().is_none_or(Vec::is_empty) => {}
        Ok(_) => return Release::Large,
        Err(error) => return Release::Unreadable(format!("the list of its parts is broken: {error}")),
    }
    let mut unpacked = BufReader::new(MultiGzDecoder::new(chunk).take(LARGEST));
    let record: Record = match serde_json::from_reader(&mut unpacked) {
        Ok(record) => record,
        Err(_) if unpacked.get_ref().limit() == 0 => {
            return Release::Unreadable(format!("it unpacks to more than {LARGEST} bytes"));
        }
        Err(error) => return Release::Unreadable(error.to_string()),
    };
    let hooks = record.hooks.unwrap_or_default();
    if hooks.is_empty() {
        return Release::Plain;
    }
    let named = hooks.iter().take(NAMED).map(|hook| format!("{} {}", quoted(&hook.kind), quoted(&hook.name)));
    let more = hooks.len().checked_sub(NAMED + 1).map(|rest| format!("and {} more", rest + 1));
    Release::Hooks(record.name, named.chain(more).collect::<Vec<_>>().join(", "))
}
