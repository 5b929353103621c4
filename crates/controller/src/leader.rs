//! One replica acts at a time: whoever holds the Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::PostParams;
use tokio::time::{Instant, sleep, timeout};

use crate::NAME;
use crate::error::{Error, within};

/// The Lease, as one replica sees it.
#[derive(Debug, Clone)]
pub struct Leader {
    leases: Api<Lease>,
    identity: String,
    duration: Duration,
}

/// What another replica last wrote, and when this one saw it. Clocks differ: only what is seen to stand still has ended.
struct Seen {
    renewed: Option<MicroTime>,
    at: Instant,
}

impl Leader {
    /// A replica that wants to lead.
    #[must_use]
    pub fn new(leases: Api<Lease>, identity: String, duration: Duration) -> Self {
        Leader { leases, identity, duration }
    }

    /// Waits until this replica leads. The API server is asked a few times in the life of a Lease.
    pub async fn acquire(&self) {
        let mut seen: Option<Seen> = None;
        loop {
            match timeout(self.duration, self.attempt(&mut seen)).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Err(_) => tracing::warn!("the API server does not answer for the Lease, and will be asked again"),
                Ok(Err(error)) => tracing::warn!(%error, "the Lease could not be looked at, and will be again"),
            }
            sleep(self.duration / 5).await;
        }
    }

    /// Keeps the Lease; returns when it is lost.
    pub async fn keep(&self) -> Error {
        let mut renewed = Instant::now();
        loop {
            sleep(self.duration / 3).await;
            match self.renew().await {
                Ok(()) => renewed = Instant::now(),
                Err(error) if renewed.elapsed() * 3 > self.duration * 2 => return error,
                Err(error) => tracing::warn!(%error, "the Lease could not be renewed, and will be tried again"),
            }
        }
    }

    /// Lets another replica lead at once.
    pub async fn release(&self) {
        let released = async {
            let mut lease = self.leases.get(NAME).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.identity) {
                spec.holder_identity = None;
                self.leases.replace(NAME, &PostParams::default(), &lease).await?;
            }
            Ok::<(), kube::Error>(())
        };
        if let Err(error) = released.await {
            tracing::warn!(%error, "the Lease was not released; it ends by itself");
        }
    }

    async fn attempt(&self, seen: &mut Option<Seen>) -> Result<bool, Error> {
        let failed = || Error::api("take", format!("Lease {NAME}"));
        let Some(mut lease) = self.leases.get_opt(NAME).await.map_err(failed())? else {
            let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.held(&LeaseSpec::default())) };
            return taken(self.leases.create(&PostParams::default(), &lease).await, failed());
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if !self.is_free(&spec, seen) {
            return Ok(false);
        }
        lease.spec = Some(self.held(&spec));
        // With the resourceVersion that was read: of two who try at once, one succeeds.
        taken(self.leases.replace(NAME, &PostParams::default(), &lease).await, failed())
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
                // What ended long ago by any clock need not be watched first.
                let long = SignedDuration::try_from(lasts * 4).unwrap_or(SignedDuration::MAX);
                spec.renew_time.as_ref().is_none_or(|renewed| Timestamp::now().duration_since(renewed.0) > long)
            }
        }
    }

    async fn renew(&self) -> Result<(), Error> {
        let failed = || Error::api("renew", format!("Lease {NAME}"));
        // Both requests together must be over before the Lease is: whoever hangs on it would act beside the next one.
        let limit = self.duration / 6;
        let mut lease = within(limit, self.leases.get(NAME)).await.map_err(failed())?;
        let spec = lease.spec.clone().unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            return Err(Error::Answer {
                object: format!("Lease {NAME}"),
                missing: "place for this replica: it was taken",
            });
        }
        lease.spec = Some(self.held(&spec));
        within(limit, self.leases.replace(NAME, &PostParams::default(), &lease)).await.map_err(failed())?;
        Ok(())
    }

    /// The Lease, held by this replica from now on.
    fn held(&self, before: &LeaseSpec) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let is_new = before.holder_identity.as_deref() != Some(&self.identity);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.duration.as_secs()).ok(),
            acquire_time: if is_new { Some(now.clone()) } else { before.acquire_time.clone() },
            renew_time: Some(now),
            lease_transitions: Some(before.lease_transitions.unwrap_or_default() + i32::from(is_new)),
            ..before.clone()
        }
    }
}

/// Somebody else was faster: that is an answer, and not an error.
fn taken(answer: Result<Lease, kube::Error>, failed: impl FnOnce(kube::Error) -> Error) -> Result<bool, Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use kube::{Client, Config};

    use super::*;

    #[test]
    fn a_lease_that_cannot_be_renewed_because_nobody_answers_is_lost() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let config = Config::new(format!("http://{}", silent.local_addr().unwrap()).parse().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let lost = runtime.block_on(async {
            let leases = Api::namespaced(Client::try_from(config).unwrap(), "a");
            let leader = Leader::new(leases, "me".to_owned(), Duration::from_millis(300));
            timeout(Duration::from_secs(20), leader.keep()).await
        });
        assert!(lost.expect("it hangs").to_string().contains("has not answered"));
    }
}
