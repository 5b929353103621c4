//! The verdict: admitted or refused, with what is reported to clients and in audit annotations.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::cluster::LookupError;
use crate::decide::message::clean;
use crate::read::json::Unreadable;

/// The code of a refusal that may resolve itself: OLM retries a Forbidden step indefinitely, and so continues as soon
/// as the right is granted. (Any other error is final for OLM after a minute.)
pub(crate) const FORBIDDEN: u16 = 403;
/// The code of a refusal that no grant can resolve: the object cannot be read.
pub(crate) const BAD_REQUEST: u16 = 400;

/// The answer to Kubewarden: its `ValidationResponse`.
#[derive(Debug, Serialize)]
pub struct Response {
    /// Whether the request is admitted.
    pub(crate) accepted: bool,
    /// Why it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The HTTP code of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<u16>,
    /// The object that should replace the one in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mutated_object: Option<Box<RawValue>>,
    /// Facts for machines.
    pub(crate) audit_annotations: BTreeMap<&'static str, String>,
    /// The warnings that the client prints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

/// Why a request is admitted, as a machine-readable word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted(pub &'static str);

/// Why a request is refused, for reasons other than exceeding its boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The account that should be the boundary does not exist.
    AccountMissing,
    /// An account is required, and there is none.
    AccountRequired,
    /// Several OperatorGroups manage the namespace.
    AmbiguousOperatorGroup,
    /// OLM v1 writes or deletes something that belongs neither to itself nor to an extension.
    BelongsToNobody,
    /// A grant to extensions is too broad.
    BroadGrant,
    /// The account of a group could write what only OLM should write.
    ClusterWrites,
    /// A group targets a namespace without a name.
    EmptyTargetNamespace,
    /// The field no longer exists.
    FieldRemoved,
    /// The requester may not choose this boundary, or what runs inside it.
    Guard,
    /// The object is a Helm hook.
    HelmHook,
    /// The release has Helm hooks.
    HelmHooks,
    /// The annotation that restricts operators cannot be read.
    InvalidRestrict,
    /// The release is split across several Secrets.
    LargeRelease,
    /// A Subscription must stay Manual, or its plan must not be deleted.
    ManualApproval,
    /// It exceeds a limit on what is judged.
    OverLimit,
    /// The namespace already has a group.
    SecondOperatorGroup,
    /// It would take too many access reviews.
    TooManyQuestions,
    /// The owner of the object cannot be determined.
    UnknownOwner,
    /// The version of the kind is not supported.
    UnknownVersion,
    /// The release cannot be read.
    UnreadableRelease,
}

impl Reason {
    /// The machine-readable word.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
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

/// A refused request. (Boxed, so that every function that may refuse returns only a pointer.)
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Refusal(Box<Refused>);

/// The details of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It exceeds its boundary. In `mode: warn` this becomes warnings.
    #[error("{message}")]
    Exceeds {
        /// The whole excess, as shown to a person.
        message: String,
        /// The same, one line each, for `mode: warn`.
        lines: Vec<String>,
    },
    /// It breaks another rule.
    #[error("{message}")]
    Forbidden {
        /// The rule that is broken, as a machine-readable word.
        reason: Reason,
        /// The explanation for a person.
        message: String,
    },
    /// A look-up failed, so no verdict is possible.
    #[error(transparent)]
    Lookup(LookupError),
    /// The object cannot be read.
    #[error("{what} cannot be read: {error}")]
    Unreadable {
        /// The object, as shown to a person.
        what: String,
        /// Where and why reading failed.
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
    /// A refusal with a machine-readable reason and a one-line sentence for people.
    #[must_use]
    #[inline(never)]
    pub(crate) fn forbidden(reason: Reason, message: impl AsRef<str>) -> Self {
        Refused::Forbidden { reason, message: clean(message.as_ref()) }.into()
    }

    /// A refusal because an object cannot be read.
    #[must_use]
    pub fn unreadable(what: String, error: Unreadable) -> Self {
        Refused::Unreadable { what, error }.into()
    }

    /// Whether it is refused for this reason.
    #[must_use]
    pub(crate) fn is_for(&self, wanted: Reason) -> bool {
        matches!(&*self.0, Refused::Forbidden { reason, .. } if *reason == wanted)
    }

    /// The details of the refusal.
    #[must_use]
    pub fn why(self) -> Refused {
        *self.0
    }
}
