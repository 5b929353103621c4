//! From a request to a response: the policy, its registrations and the cluster.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use operator_bounds::admission::{AdmissionResponse, Request, Status};
use operator_bounds::engine::{EngineError, Limits};
use operator_bounds::live::{ConnectError, Connection};
use operator_bounds::policy::{Policy, PolicyError};
use tokio::sync::Semaphore;
use tracing::{error, info};

use crate::policies::{Mode, Policies, Registration};
use crate::watched::{Cache, Watched};

/// Judges requests with look-ups in a live cluster, a few at a time.
pub struct Webhook {
    policy: Policy,
    policies: Policies,
    cluster: Watched,
    limit: Duration,
    /// One for each core, as in policy-server. Who gets none waits, and the time limit starts afterwards.
    permits: Arc<Semaphore>,
}

/// Why there is no webhook.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The embedded module does not run.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The policy cannot run with its settings.
    #[error("policy {id}: the settings are not valid: {reason}")]
    Settings {
        /// Which policy.
        id: String,
        /// What is wrong with them.
        reason: String,
    },
    /// There is no cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// How a verdict is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// By the API server: the mode and the right to mutate count.
    Validate,
    /// By an audit: the verdict as it is.
    Audit,
}

impl Webhook {
    /// Compiles the module, lets it check the settings of every policy, and connects. An evaluation ends after `seconds`.
    pub fn new(policies: Policies, seconds: u64, connection: &Connection<'_>) -> Result<Self, WebhookError> {
        let policy = Policy::embedded(Limits { seconds: Some(seconds), ..Limits::default() })?;
        for (id, registration) in policies.iter() {
            let checked = policy.validate_settings(&registration.settings)?;
            if !checked.valid {
                let reason = checked.message.unwrap_or_default();
                return Err(WebhookError::Settings { id: id.to_owned(), reason });
            }
        }
        let cluster = Watched::connect(connection)?;
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let limit = Duration::from_secs(seconds);
        Ok(Webhook { policy, policies, cluster, limit, permits: Arc::new(Semaphore::new(cores)) })
    }

    /// The policies that are served.
    #[must_use]
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// What the watches show.
    pub(crate) fn caches(&self) -> Vec<Cache> {
        self.cluster.caches()
    }

    /// Whether the API server answers, which every verdict depends on.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<(), String> {
        let cluster = self.cluster.until(Instant::now() + self.limit);
        let checked = tokio::task::spawn_blocking(move || cluster.check().map_err(|error| error.to_string())).await;
        checked.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// The response to a request, when it is its turn. The only error is a crash of ours.
    pub(crate) async fn respond(
        self: &Arc<Self>,
        id: &str,
        request: Request,
        origin: Origin,
    ) -> Result<AdmissionResponse, String> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|error| error.to_string())?;
        let (webhook, id) = (Arc::clone(self), id.to_owned());
        // Look-ups block, and so does the module. They go on, with their permit, when the client has gone.
        let judged = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            webhook.judge(&id, &request, origin)
        });
        judged.await.map_err(|error| format!("the evaluation crashed: {error}"))
    }

    fn judge(&self, id: &str, request: &Request, origin: Origin) -> AdmissionResponse {
        let Some(registration) = self.policies.get(id) else {
            return AdmissionResponse::unjudged(request, format!("there is no policy {id}"));
        };
        let start = Instant::now();
        let response = self.evaluate(registration, request, start + self.limit).unwrap_or_else(|reason| {
            error!(policy = id, uid = request.uid, reason = reason.to_string(), "no verdict");
            AdmissionResponse::unjudged(request, reason.to_string())
        });
        let status = response.status.as_ref();
        info!(
            policy = id,
            ?origin,
            uid = request.uid,
            allowed = response.allowed,
            code = status.and_then(|status| status.code),
            message = status.and_then(|status| status.message.as_deref()),
            milliseconds = start.elapsed().as_millis(),
            "judged"
        );
        match origin {
            Origin::Validate => constrain(id, registration, response),
            Origin::Audit => response,
        }
    }

    /// Every evaluation gets an instance of the module and a host of its own: none sees the data of another.
    fn evaluate(
        &self,
        registration: &Registration,
        request: &Request,
        deadline: Instant,
    ) -> Result<AdmissionResponse, PolicyError> {
        let host = Arc::new(self.policy.host_on(Arc::new(self.cluster.until(deadline))));
        let response = self.policy.validate(&request.json, &registration.settings, &host)?;
        // A look-up that ended with the limit leaves a verdict behind if the engine counts a moment later.
        if Instant::now() >= deadline {
            return Err(EngineError::Timeout(Some(self.limit.as_secs())).into());
        }
        Ok(AdmissionResponse::new(request, response)?)
    }
}

/// What policy-server makes of a verdict before the API server sees it.
fn constrain(id: &str, registration: &Registration, response: AdmissionResponse) -> AdmissionResponse {
    if registration.mode == Mode::Monitor {
        return AdmissionResponse { allowed: true, patch_type: None, patch: None, status: None, ..response };
    }
    if response.patch.is_none() || registration.allowed_to_mutate {
        return response;
    }
    let message = format!("policy {id} wants to change the object and may not: its allowedToMutate is false");
    let status = Some(Status { message: Some(message), code: None });
    AdmissionResponse { allowed: false, patch_type: None, patch: None, status, ..response }
}
