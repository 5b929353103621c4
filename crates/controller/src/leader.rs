//! Leader election: only the replica that holds the Lease acts.
//!
//! The holder checks [`Term::holds`] right before each action: a replica that was delayed must not act alongside the
//! next one, even if it has not noticed yet.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::PostParams;
use tokio::time::{Instant, sleep, timeout};

use crate::NAME;

/// Why the Lease could not be acquired or kept.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The API server refused or could not be reached.
    #[error("cannot {0} Lease {NAME}: {1}")]
    Api(&'static str, Box<kube::Error>),
    /// The API server did not answer in time.
    #[error("cannot {0} Lease {NAME}: the API server has not answered within {1:?}")]
    Silence(&'static str, Duration),
    /// Another replica holds it.
    #[error("Lease {NAME} was taken by {0}")]
    Taken(String),
}

/// The Lease, as one replica sees it.
#[derive(Debug, Clone)]
pub struct Leader {
    leases: Api<Lease>,
    identity: String,
    duration: Duration,
}

/// How long this replica may act. Clones share the deadline.
#[derive(Debug, Clone)]
pub struct Term(Arc<Mutex<Instant>>);

impl Term {
    fn until(end: Instant) -> Self {
        Term(Arc::new(Mutex::new(end)))
    }

    /// Whether this replica may act now.
    #[must_use]
    pub fn holds(&self) -> bool {
        Instant::now() < *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extend(&self, end: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }
}

/// What another replica last wrote, and when this one saw it. Clocks differ: a Lease has only expired if it was
/// observed not to change.
struct Seen {
    renewed: Option<MicroTime>,
    at: Instant,
}

/// The name of a replica in the Lease: that of its pod, if known, and a number that no other process has. A restarted
/// container has the same pod name as the one before it, but is a different process.
pub fn identity(pod: Option<&str>) -> std::io::Result<String> {
    let number = getrandom::u64().map_err(std::io::Error::other)?;
    Ok(format!("{}_{number:016x}", pod.unwrap_or(NAME)))
}

impl Leader {
    /// A replica that wants to lead, under a unique name ([`identity`]).
    #[must_use]
    pub fn new(leases: Api<Lease>, identity: String, duration: Duration) -> Self {
        Leader { leases, identity, duration }
    }

    /// Waits until this replica leads. The API server is asked a few times per Lease duration.
    pub async fn acquire(&self) -> Term {
        let mut seen: Option<Seen> = None;
        loop {
            let asked = Instant::now();
            match timeout(self.duration / 2, self.attempt(&mut seen)).await {
                Ok(Ok(true)) => return Term::until(self.end_of_term(asked)),
                Ok(Ok(false)) => {}
                Err(_) => tracing::warn!("the API server does not answer for the Lease, and will be asked again"),
                Ok(Err(error)) => tracing::warn!(%error, "the Lease could not be looked at, and will be again"),
            }
            sleep(self.duration / 5).await;
        }
    }

    /// Keeps renewing the Lease; returns when it is lost.
    pub async fn keep(&self, term: &Term) -> LeaseError {
        loop {
            sleep(self.duration / 4).await;
            let asked = Instant::now();
            match self.renew().await {
                Ok(()) => term.extend(self.end_of_term(asked)),
                Err(error @ LeaseError::Taken(_)) => {
                    term.extend(asked);
                    return error;
                }
                Err(error) if !term.holds() => return error,
                Err(error) => tracing::warn!(%error, "the Lease could not be renewed, and will be tried again"),
            }
        }
    }

    /// Lets another replica take over at once.
    pub async fn release(&self, term: &Term) {
        term.extend(Instant::now());
        let released = async {
            let mut lease = self.leases.get(NAME).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.identity) {
                spec.holder_identity = None;
                self.leases.replace(NAME, &PostParams::default(), &lease).await?;
            }
            Ok(())
        };
        if let Err(error) = self.within("release", released).await {
            tracing::warn!(%error, "the Lease was not released; it ends by itself");
        }
    }

    /// Counted from before the request: others count from when they see it, which is later. The last third is a safety
    /// margin for an action that was checked just before the end and is still in progress.
    fn end_of_term(&self, asked: Instant) -> Instant {
        asked + self.duration * 2 / 3
    }

    async fn attempt(&self, seen: &mut Option<Seen>) -> Result<bool, LeaseError> {
        let failed = |error| LeaseError::Api("take", Box::new(error));
        let Some(mut lease) = self.leases.get_opt(NAME).await.map_err(failed)? else {
            let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.held(&LeaseSpec::default())) };
            return taken(self.leases.create(&PostParams::default(), &lease).await).map_err(failed);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if !self.is_free(&spec, seen) {
            return Ok(false);
        }
        lease.spec = Some(self.held(&spec));
        // With the resourceVersion that was read: if two replicas try at once, only one succeeds.
        taken(self.leases.replace(NAME, &PostParams::default(), &lease).await).map_err(failed)
    }

    fn is_free(&self, spec: &LeaseSpec, seen: &mut Option<Seen>) -> bool {
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            return true;
        }
        let lasts = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = lasts.map_or(self.duration, Duration::from_secs);
        match seen {
            Some(seen) if seen.renewed == spec.renew_time => seen.at.elapsed() > lasts,
            _ => {
                *seen = Some(Seen { renewed: spec.renew_time.clone(), at: Instant::now() });
                // A Lease that expired long ago by any clock need not be observed first.
                let long = SignedDuration::try_from(lasts * 4).unwrap_or(SignedDuration::MAX);
                spec.renew_time.as_ref().is_none_or(|renewed| Timestamp::now().duration_since(renewed.0) > long)
            }
        }
    }

    async fn renew(&self) -> Result<(), LeaseError> {
        let mut lease = self.within("renew", self.leases.get(NAME)).await?;
        let spec = lease.spec.clone().unwrap_or_default();
        match spec.holder_identity.as_deref() {
            Some(holder) if holder == self.identity => {}
            other => return Err(LeaseError::Taken(other.unwrap_or("nobody").to_owned())),
        }
        lease.spec = Some(self.held(&spec));
        self.within("renew", self.leases.replace(NAME, &PostParams::default(), &lease)).await?;
        Ok(())
    }

    /// Limits the time for an answer: a replica stuck waiting for one could act alongside the next one.
    async fn within<T>(
        &self,
        doing: &'static str,
        answer: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, LeaseError> {
        let limit = self.duration / 6;
        match timeout(limit, answer).await {
            Ok(answer) => answer.map_err(|error| LeaseError::Api(doing, Box::new(error))),
            Err(_) => Err(LeaseError::Silence(doing, limit)),
        }
    }

    /// The Lease, held by this replica from now on.
    fn held(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let is_new = before.holder_identity.as_deref() != Some(&self.identity);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.duration.as_secs().max(1)).ok(),
            acquire_time: if is_new { Some(now.clone()) } else { before.acquire_time.clone() },
            renew_time: Some(now),
            lease_transitions: Some(before.lease_transitions.unwrap_or_default().saturating_add(i32::from(is_new))),
            ..before.clone()
        }
    }
}

/// Another replica was faster: that is a valid outcome, not an error.
fn taken(answer: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use kube::{Client, Config};

    use super::*;

    #[test]
    fn two_processes_of_one_pod_have_two_names() {
        let names = [identity(Some("pod-a")).unwrap(), identity(Some("pod-a")).unwrap()];
        assert!(names.iter().all(|name| name.starts_with("pod-a_")), "{names:?}");
        assert_ne!(names[0], names[1]);
    }

    #[tokio::test]
    async fn a_term_ends_by_itself_when_nobody_answers_and_the_lease_is_lost() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let config = Config::new(format!("http://{}", silent.local_addr().unwrap()).parse().unwrap());
        let leases = Api::namespaced(Client::try_from(config).unwrap(), "a");
        let leader = Leader::new(leases, "me".to_owned(), Duration::from_secs(1));
        let term = Term::until(leader.end_of_term(Instant::now()));
        assert!(term.holds());
        // The stuck renewal has not been noticed yet, and still the replica may not act.
        let keeping = leader.clone();
        let kept = tokio::spawn({
            let term = term.clone();
            async move { keeping.keep(&term).await }
        });
        while term.holds() {
            sleep(Duration::from_millis(10)).await;
        }
        let lost = timeout(Duration::from_mins(1), kept).await.expect("it hangs").unwrap();
        assert!(lost.to_string().contains("has not answered within"), "{lost}");
        assert!(!term.holds());
    }
}
