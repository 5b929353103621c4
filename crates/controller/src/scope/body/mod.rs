//! What a write says about its object: which owner it belongs to, and whether it is a Helm hook.

mod json;
mod patch;
mod protobuf;
mod release;
#[cfg(test)]
mod tests;

use super::owner::{Claim, quoted};
use super::path::{Target, Verb};
pub(super) use json::Stored;
pub(super) use release::{CHUNK, INDEX, Release};

/// Helm takes objects with this annotation out of a release before OLM labels them.
const HOOK: &str = "helm.sh/hook";

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Server-side apply. YAML by its name; clients send JSON, which is valid YAML. Other YAML is too ambiguous to be
/// accepted.
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// What a write does to a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Change<T> {
    #[default]
    Untouched,
    Removed,
    Set(T),
}

impl<T> Change<T> {
    pub(super) fn is_set(&self) -> bool {
        matches!(self, Change::Set(_))
    }

    /// In a whole object, a value that is not mentioned is absent.
    fn in_whole(self) -> Self {
        if self.is_set() { self } else { Change::Removed }
    }
}

impl Change<String> {
    fn after<'a>(&'a self, before: Option<&'a str>) -> Option<&'a str> {
        match self {
            Change::Untouched => before,
            Change::Removed => None,
            Change::Set(value) => Some(value),
        }
    }
}

/// What a write says about its object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// The name of the object, for messages.
    pub name: String,
    pub owner_kind: Change<String>,
    pub owner_name: Change<String>,
    pub is_hook: bool,
    /// Whether it changes anything besides metadata and status.
    pub touches_spec: bool,
    /// The type of a Secret that is written as a whole.
    pub secret_type: Option<String>,
    /// The release that it contains, if one is created.
    pub release: Option<Release>,
}

impl Said {
    /// Who owns the object after the write, given its labels before.
    pub(super) fn owner_after(&self, kind: Option<&str>, name: Option<&str>) -> Claim {
        Claim::of(self.owner_kind.after(kind), self.owner_name.after(name))
    }
}

/// Why a body was not understood. Such a body is not forwarded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    /// The client can fall back to JSON.
    #[error("its body is {0}, and operator-bounds reads JSON and, for whole objects, protobuf")]
    Encoding(String),
    #[error("its body cannot be read as {0}: {1}")]
    Broken(&'static str, String),
    #[error("{0}, so nobody can tell to whom the object belongs afterwards")]
    Unclear(String),
}

/// The media type in a header, without parameters.
pub(super) fn media_type(header: Option<&hyper::header::HeaderValue>) -> String {
    let text = header.map_or(JSON, |value| value.to_str().unwrap_or("unreadable"));
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads the body of a write. A DELETE says nothing about its object.
pub(super) fn read(verb: Verb, target: &Target, media_type: &str, body: &[u8]) -> Result<Said, BodyError> {
    const MERGE: &str = "application/merge-patch+json";
    const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";
    let is_secret = target.is("", &["secrets"]) && target.subresource.is_none();
    match (verb, media_type) {
        (Verb::Delete | Verb::DeleteCollection, _) => Ok(Said::default()),
        (Verb::Create | Verb::Update, JSON) => json::whole(body, is_secret, verb == Verb::Create),
        (Verb::Create | Verb::Update, PROTOBUF) => protobuf::whole(body, is_secret, verb == Verb::Create),
        (Verb::Patch, MERGE | STRATEGIC_MERGE) | (Verb::Apply, APPLY) => json::partial(body),
        (Verb::Patch, "application/json-patch+json") => patch::read(body),
        (_, other) => Err(BodyError::Encoding(quoted(other))),
    }
}
