//! What is refused, and what the person who has to fix it reads: mostly in the conditions of the ClusterExtension.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::body::BodyError;
use super::owner::{OWNER_KIND, OWNER_NAME, quoted};
use super::path::{PathError, Target};

/// Why a request is not forwarded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "it has the annotation helm.sh/hook. Helm writes hooks past the labels that say whose they are, so nobody's rights can \
         be asked for. Take the annotation out of the bundle, or create the object yourself"
    )]
    Hook,
    #[error(
        "the bundle of ClusterExtension {} brings Helm hooks: {}. Helm would delete whatever has their names, and write them \
         past the labels that say whose they are. Nothing of this release was written. Take the annotation helm.sh/hook out of \
         the bundle, and install those objects some other way", quoted(.0), .1
    )]
    Hooks(String, String),
    #[error(
        "this release is so large that it is kept in several Secrets, and nobody can look through it for Helm hooks before it is \
         written. Make the bundle smaller, or start operator-bounds-controller scope with --large-releases object-by-object"
    )]
    LargeRelease,
    #[error("the release in it cannot be read, so nobody can tell whether it brings Helm hooks: {0}")]
    UnreadableRelease(String),
    #[error(
        "it belongs to no ClusterExtension: it lacks the labels {OWNER_KIND} and {OWNER_NAME}, so nobody's rights can be asked \
         for. OLM labels what is in a bundle, apart from Helm hooks; what is yours is none of OLM's business"
    )]
    Nobody,
    #[error("{0}, so nobody's rights can be asked for. Somebody has changed what OLM writes: put the labels right")]
    Odd(String),
    #[error(
        "it belongs to ClusterExtension {before}, and would belong to ClusterExtension {after} afterwards. One extension does not \
         take over what another has installed: uninstall one of them, or give the object another name in its bundle"
    )]
    Taken { before: String, after: String },
    #[error(
        "it belongs to ClusterExtension {0}, and would belong to nobody afterwards: the owner labels are not in it"
    )]
    Stripped(String),
    #[error("it belongs to {0}, which does not lead to a ClusterExtension: {1}")]
    Leaderless(String, &'static str),
    #[error("it belongs to ClusterExtension {0}, whose service account cannot be told: {1}")]
    Accountless(String, String),
    #[error("OLM deletes one object at a time, apart from the records of its own releases")]
    Collection,
    #[error("this is no write of an object: reads are forwarded, and writes of objects by POST, PUT, PATCH and DELETE")]
    NoObject,
    #[error("no connections into pods, services and nodes are forwarded, and no upgrades to other protocols")]
    Connection,
    #[error("this is no path of the Kubernetes API: {0}")]
    Path(#[from] PathError),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("the request says {0}. Nobody but operator-bounds says here for whom the API server should take OLM")]
    Impersonates(String),
    #[error(
        "there is no bearer token in the request. operator-bounds has no credentials of its own and forwards those of the caller, \
         and a client certificate cannot be forwarded: use a token"
    )]
    NoToken,
    #[error("the request is malformed: {0}")]
    Malformed(&'static str),
    #[error("the body has more than {0} bytes, which is the most that an API server takes")]
    TooLarge(usize),
    #[error("the body has not arrived within {0} seconds")]
    TooSlow(u64),
    #[error("too many writes are under way at once. Try again")]
    Busy,
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the API server has not answered within {0} seconds")]
    Silent(u64),
}

impl Refusal {
    /// The HTTP code, and the reason that goes with it in a Status.
    pub(super) fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Refusal::Path(_) | Refusal::Malformed(_) | Refusal::Body(BodyError::Broken(..)) => {
                (StatusCode::BAD_REQUEST, "BadRequest")
            }
            Refusal::NoToken => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Refusal::Body(BodyError::Encoding(_)) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType"),
            Refusal::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            Refusal::TooSlow(_) => (StatusCode::REQUEST_TIMEOUT, "Timeout"),
            Refusal::Busy => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            Refusal::Unreachable(_) => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Refusal::Silent(_) => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
            _ => (StatusCode::FORBIDDEN, "Forbidden"),
        }
    }

    /// The Status that an API server would send: clients show its message.
    pub(super) fn to_status(&self, doing: &str, target: Option<&Target>, name: &str) -> Value {
        let (code, reason) = self.status();
        let mut message = format!("operator-bounds scope will not {doing} this: {self}");
        let mut details = json!({});
        if let Some(target) = target {
            let forbidden = if code == StatusCode::FORBIDDEN { " is forbidden" } else { "" };
            message = format!("{target} {}{forbidden}: {message}", quoted(name));
            details = json!({"name": name, "group": target.group, "kind": target.resource});
        }
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code.as_u16(),
            "reason": reason, "message": message, "details": details,
        })
    }
}
