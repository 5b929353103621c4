//! What can go wrong with a registry, in words for whoever has to put it right.

use oci_client::errors::{OciDistributionError, OciErrorCode};

use crate::credentials::Login;

/// Why something was not pushed or pulled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was given names nothing in a registry.
    #[error("{given}: {reason}")]
    Reference {
        /// What was given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file to push, or what was pulled, is not a Kubewarden policy.
    #[error("{what}: {reason}")]
    Policy {
        /// The file or the reference.
        what: String,
        /// What is missing or wrong.
        reason: String,
    },
    /// The image is not a bundle, or one that OLM could read in more than one way.
    #[error("bundle {reference}: {reason}")]
    Bundle {
        /// The image.
        reference: String,
        /// What is missing or wrong.
        reason: String,
    },
    /// The registry does not respond.
    #[error("registry {registry} cannot be reached: {reason}. Check the host and the port, and that it is running")]
    Unreachable {
        /// Host and port.
        registry: String,
        /// What the connection failed with.
        reason: String,
    },
    /// It answers, but its certificate proves nothing to us.
    #[error(
        "registry {registry} is not trusted: {reason}. Put its authority's certificate into the file that SSL_CERT_FILE names"
    )]
    Untrusted {
        /// Host and port.
        registry: String,
        /// What is wrong with the certificate.
        reason: String,
    },
    /// The registry wants another login, or any.
    #[error("authentication failed at registry {registry}: {login}. Log in with `docker login {registry}`")]
    Unauthorized {
        /// Host and port.
        registry: String,
        /// The login that was tried, and where it came from.
        login: String,
    },
    /// The login is known, and may not do this.
    #[error("registry {registry} denied {doing}: {login}. Request access, or log in as a user who has it")]
    Denied {
        /// Host and port.
        registry: String,
        /// What was being done.
        doing: String,
        /// The login that was used, and where it came from.
        login: String,
    },
    /// The logins cannot be read.
    #[error("{path}: {reason}. It is needed to log in to {registry}")]
    Credentials {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
        /// Host and port.
        registry: String,
    },
    /// There is nothing of that name.
    #[error("{reference} does not exist: check the name and the tag or digest")]
    NotFound {
        /// What was looked for.
        reference: String,
    },
    /// A tag would have been moved.
    #[error(
        "{reference} already exists with digest {existing} instead of {digest}: nothing was pushed. Choose another tag"
    )]
    Exists {
        /// The tag.
        reference: String,
        /// What it stands for.
        existing: String,
        /// What was to be pushed.
        digest: String,
    },
    /// The bytes are not what their digest says.
    #[error("{reference} is corrupted: {reason}. None of it was used")]
    Corrupted {
        /// What was being pulled.
        reference: String,
        /// What does not fit.
        reason: String,
    },
    /// More bytes than anything of its sort has.
    #[error("{reference}: {what} is larger than {limit} bytes: refused")]
    TooLarge {
        /// What was being pulled.
        reference: String,
        /// Which part of it.
        what: String,
        /// How large it may be.
        limit: u64,
    },
    /// Everything else that a registry or the way to it can do.
    #[error("{doing} failed at registry {registry}: {reason}")]
    Failed {
        /// What was being done.
        doing: String,
        /// Host and port.
        registry: String,
        /// What the registry or the connection said.
        reason: String,
    },
}

/// The circumstances of an answer, so that the error can name them.
pub(crate) struct Attempt<'a> {
    pub(crate) doing: &'a str,
    pub(crate) registry: &'a str,
    pub(crate) reference: &'a str,
    pub(crate) login: &'a Login,
}

impl Attempt<'_> {
    /// The client's error in our words.
    pub(crate) fn failed(&self, error: OciDistributionError) -> Error {
        match error {
            OciDistributionError::UnauthorizedError { .. } | OciDistributionError::AuthenticationFailure(_) => {
                self.unauthorized()
            }
            OciDistributionError::RequestError(error) if error.is_connect() => {
                let registry = self.registry.to_owned();
                match untrusted(&error) {
                    Some(reason) => Error::Untrusted { registry, reason },
                    None => Error::Unreachable { registry, reason: causes(&error) },
                }
            }
            OciDistributionError::RequestError(error) => match error.status().map(|status| status.as_u16()) {
                Some(code) => self.answered(code, causes(&error)),
                None => self.other(causes(&error)),
            },
            OciDistributionError::ServerError { code, message, .. } => {
                self.answered(code, format!("it answered {code} {}", message.trim()))
            }
            OciDistributionError::RegistryError { envelope, .. } => self.refused(&envelope.errors),
            OciDistributionError::DigestError(error) => {
                Error::Corrupted { reference: self.reference.to_owned(), reason: error.to_string() }
            }
            error => self.other(causes(&error)),
        }
    }

    fn answered(&self, code: u16, reason: String) -> Error {
        match code {
            401 => self.unauthorized(),
            403 => self.denied(),
            404 => Error::NotFound { reference: self.reference.to_owned() },
            _ => self.other(reason),
        }
    }

    fn refused(&self, errors: &[oci_client::errors::OciError]) -> Error {
        let has = |codes: &[OciErrorCode]| errors.iter().any(|error| codes.contains(&error.code));
        if has(&[OciErrorCode::Unauthorized]) {
            return self.unauthorized();
        }
        if has(&[OciErrorCode::Denied]) {
            return self.denied();
        }
        if has(&[OciErrorCode::ManifestUnknown, OciErrorCode::NameUnknown, OciErrorCode::NotFound]) {
            return Error::NotFound { reference: self.reference.to_owned() };
        }
        let said: Vec<_> = errors.iter().map(|error| format!("{:?}: {}", error.code, error.message)).collect();
        self.other(said.join("; "))
    }

    fn unauthorized(&self) -> Error {
        Error::Unauthorized { registry: self.registry.to_owned(), login: self.login.said.clone() }
    }

    fn denied(&self) -> Error {
        let (registry, doing) = (self.registry.to_owned(), self.doing.to_owned());
        Error::Denied { registry, doing, login: self.login.said.clone() }
    }

    fn other(&self, reason: String) -> Error {
        Error::Failed { doing: self.doing.to_owned(), registry: self.registry.to_owned(), reason }
    }
}

/// What is wrong with the certificate, when that is why there is no connection.
fn untrusted(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(error @ rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
        return Some(error.to_string());
    }
    // What an I/O error holds is not its source.
    let held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    match held {
        Some(held) => untrusted(held),
        None => error.source().and_then(untrusted),
    }
}

/// The error and its causes, without repetitions.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !said.contains(&words) {
            said = format!("{said}: {words}");
        }
        source = cause.source();
    }
    said
}
