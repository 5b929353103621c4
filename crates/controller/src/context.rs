//! What every reconcile has at hand.

use kube::Client;

use crate::apply::Kinds;
use crate::backoff::Backoff;
use crate::events::Events;
use crate::metrics::Metrics;
use crate::scope::Scope;
use crate::scoped::ScopedClients;
use crate::stores::Stores;

/// The surroundings of a reconcile.
#[derive(Debug)]
pub struct Context {
    /// The controller's own client.
    pub own: Own,
    /// Clients of service accounts.
    pub scoped: ScopedClients,
    /// What is watched.
    pub stores: Stores,
    /// Where to act.
    pub scope: Scope,
    /// How kinds are written in URLs.
    pub kinds: Kinds,
    /// Events.
    pub events: Events,
    /// Counters.
    pub metrics: Metrics,
    /// What failed before.
    pub backoff: Backoff,
}

/// The controller's own client: statuses, Events, CustomResourceDefinitions and APIServices, and nothing else for whoever
/// has an account.
#[derive(Clone)]
pub struct Own(pub Client);

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Own")
    }
}

impl Context {
    /// Whether this namespace is the controller's.
    #[must_use]
    pub fn acts_in(&self, namespace: &str) -> bool {
        self.scope.contains(&self.stores, namespace)
    }
}
