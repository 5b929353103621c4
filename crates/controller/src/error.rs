//! What can go wrong while acting: each error says what was being done to which object, and has a word for metrics.

use std::time::Duration;

use bounds::cluster::LookupError;

/// Why a reconcile was not finished. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or could not be reached.
    #[error("cannot {doing} {object}: {}", said(source))]
    Api {
        /// What was being done: `read`, `write the status of`.
        doing: &'static str,
        /// To which object: `InstallPlan team-a/install-x`.
        object: String,
        /// What the API server said.
        source: Box<kube::Error>,
    },
    /// No token for the account.
    #[error("cannot get a token of ServiceAccount {account}: {}", said(source))]
    Token {
        /// The account.
        account: String,
        /// What the API server said.
        source: Box<kube::Error>,
    },
    /// The API server has answered with something else than was asked for.
    #[error("{object}: the answer has no {missing}")]
    Answer {
        /// Which object.
        object: String,
        /// What is missing in it.
        missing: &'static str,
    },
    /// The cache does not know.
    #[error("a look-up failed, so nobody can tell whether this stays within its boundary: {0}")]
    Lookup(#[from] LookupError),
    /// A step was not carried out, and may be later. The status says so already.
    #[error("{0}")]
    Step(String),
    /// There is a mistake in the controller. The log has where.
    #[error("the controller has made a mistake: it panicked. Please report it, with the log")]
    Panicked,
}

/// What is being done when a status is written.
pub const WRITE_STATUS: &str = "write the status of";

impl Error {
    /// What was being done to which object when the API server refused.
    pub fn api(doing: &'static str, object: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let object = object.into();
        move |source| Error::Api { doing, object, source: Box::new(source) }
    }

    /// The word for metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Error::Api { source, .. } => api_reason(source),
            Error::Token { .. } => "token",
            Error::Answer { .. } => "answer",
            Error::Lookup(_) => "lookup",
            Error::Step(_) => "step",
            Error::Panicked => "panic",
        }
    }

    /// Whether the status could not be written because the object has changed meanwhile. That change will be told of. A conflict
    /// over anything else will not.
    #[must_use]
    pub fn is_outrun(&self) -> bool {
        matches!(self, Error::Api { doing, source, .. } if *doing == WRITE_STATUS && api_reason(source) == "conflict")
    }
}

/// An answer, or an error when none comes in time: a connection that hangs must not stop what depends on it.
pub async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    let late = |_| Err(kube::Error::Service(format!("the API server has not answered within {limit:?}").into()));
    tokio::time::timeout(limit, answer).await.unwrap_or_else(late)
}

/// What an API server said, for people: without the details that machines read.
#[must_use]
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// The word for what an API server said.
#[must_use]
pub fn api_reason(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => "unauthorized",
            403 => "forbidden",
            404 => "not-found",
            409 => "conflict",
            400 | 422 => "invalid",
            _ => "api",
        },
        _ => "connection",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_conflict_over_the_status_itself_will_be_told_of() {
        let conflict = || {
            let status = kube::core::Status::failure("changed", "Conflict").with_code(409);
            kube::Error::Api(Box::new(status))
        };
        assert!(Error::api(WRITE_STATUS, "InstallPlan a/b")(conflict()).is_outrun());
        assert!(!Error::api("hand over", "ServiceAccount a/b")(conflict()).is_outrun());
        assert!(!Error::Panicked.is_outrun());
    }
}
