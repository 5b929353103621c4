//! The verdict: admitted or refused, with what everybody is told.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::cluster::LookupError;
use crate::decide::message::clean;
use crate::read::json::Unreadable;

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

/// Why a request is refused that does not simply exceed its boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The account that bounds does not exist.
    AccountMissing,
    /// There is no account, and there must be one.
    AccountRequired,
    /// Several groups manage the namespace.
    AmbiguousOperatorGroup,
    /// OLM v1 writes or deletes something that is neither its own nor an extension's.
    BelongsToNobody,
    /// A grant to extensions is too broad.
    BroadGrant,
    /// The account of a group could write what is always OLM's.
    ClusterWrites,
    /// A group targets a namespace without a name.
    EmptyTargetNamespace,
    /// The field is not there any more.
    FieldRemoved,
    /// Who asks may not choose this.
    Guard,
    /// The object is a Helm hook.
    HelmHook,
    /// The release has Helm hooks.
    HelmHooks,
    /// The annotation that restricts operators cannot be read.
    InvalidRestrict,
    /// The release is in several parts.
    LargeRelease,
    /// A Subscription must stay Manual, or its plan must stay.
    ManualApproval,
    /// It is more than is judged.
    OverLimit,
    /// The namespace has a group already.
    SecondOperatorGroup,
    /// It would take too many access reviews.
    TooManyQuestions,
    /// Nobody can tell to whom the object belongs.
    UnknownOwner,
    /// The version of the kind is not known.
    UnknownVersion,
    /// The release cannot be read.
    UnreadableRelease,
}

impl Reason {
    /// The machine-readable word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::AccountMissing => "account-missing",
            Reason::AccountRequired => "account-required",
            Reason::AmbiguousOperatorGroup => "ambiguous-operator-group",
            Reason::BelongsToNobody => "belongs-to-nobody",
            Reason::BroadGrant => "broad-grant",
            Reason::ClusterWrites => "cluster-writes",
            Reason::EmptyTargetNamespace => "empty-target-namespace",
            Reason::FieldRemoved => "field-removed",
            Reason::Guard => "guard",
            Reason::HelmHook => "helm-hook",
            Reason::HelmHooks => "helm-hooks",
            Reason::InvalidRestrict => "invalid-restrict",
            Reason::LargeRelease => "large-release",
            Reason::ManualApproval => "manual-approval",
            Reason::OverLimit => "over-limit",
            Reason::SecondOperatorGroup => "second-operator-group",
            Reason::TooManyQuestions => "too-many-questions",
            Reason::UnknownOwner => "unknown-owner",
            Reason::UnknownVersion => "unknown-version",
            Reason::UnreadableRelease => "unreadable-release",
        }
    }
}

/// A request is refused. (Boxed: what is handed up through every function that may refuse is then a pointer.)
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Refusal(Box<Refused>);

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
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
        /// Which.
        reason: Reason,
        /// For a person.
        message: String,
    },
    /// A look-up failed, so nobody can tell.
    #[error(transparent)]
    Lookup(LookupError),
    /// The object cannot be read.
    #[error("{what} cannot be read: {error}")]
    Unreadable {
        /// Which object.
        what: String,
        /// Where and why.
        error: Unreadable,
    },
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        Refusal(Box::new(refused))
    }
}

impl From<LookupError> for Refusal {
    #[cold]
    #[inline(never)]
    fn from(error: LookupError) -> Self {
        Refused::Lookup(error).into()
    }
}

impl Refusal {
    /// A refusal with a word for machines and a sentence, of one line, for people.
    #[must_use]
    #[inline(never)]
    pub fn forbidden(reason: Reason, message: impl AsRef<str>) -> Self {
        Refused::Forbidden { reason, message: clean(message.as_ref()) }.into()
    }

    /// An object that cannot be read.
    #[must_use]
    pub fn unreadable(what: String, error: Unreadable) -> Self {
        Refused::Unreadable { what, error }.into()
    }

    /// Whether it is refused for this reason.
    #[must_use]
    pub fn is_for(&self, wanted: Reason) -> bool {
        matches!(&*self.0, Refused::Forbidden { reason, .. } if *reason == wanted)
    }

    /// Why.
    #[must_use]
    pub fn why(self) -> Refused {
        *self.0
    }
}
