//! The verdict: admitted or refused, with what everybody is told.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::cluster::LookupError;
use crate::json::Unreadable;

/// The code of a refusal that may heal by itself: OLM tries a Forbidden step again for ever, and so goes on as soon as
/// the right is granted. (Anything else is final for OLM after a minute.)
pub const FORBIDDEN: u16 = 403;
/// The code of a refusal that no grant can heal: the object cannot be read.
pub const BAD_REQUEST: u16 = 400;

/// What Kubewarden is answered: its `ValidationResponse`.
#[derive(Debug, Serialize)]
pub struct Response {
    /// Admitted?
    pub accepted: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The HTTP code of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// The object as it should be instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mutated_object: Option<Box<RawValue>>,
    /// Facts for machines.
    pub audit_annotations: BTreeMap<&'static str, String>,
    /// What the client prints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Why a request is admitted: the machine-readable word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted(pub &'static str);

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It exceeds its boundary. In `mode: warn` this becomes warnings.
    #[error("{message}")]
    Exceeds {
        /// The whole excess, for a person.
        message: String,
        /// The same, a line each, for `mode: warn`.
        lines: Vec<String>,
    },
    /// It breaks another rule.
    #[error("{message}")]
    Forbidden {
        /// The machine-readable word.
        reason: &'static str,
        /// For a person.
        message: String,
    },
    /// A look-up failed, so nobody can tell.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// The object cannot be read.
    #[error("{what} cannot be read: {error}")]
    Unreadable {
        /// Which object.
        what: String,
        /// Where and why.
        error: Unreadable,
    },
}

impl Refusal {
    /// A refusal with a word for machines and a sentence for people.
    pub fn forbidden(reason: &'static str, message: impl Into<String>) -> Self {
        Refusal::Forbidden { reason, message: message.into() }
    }
}
