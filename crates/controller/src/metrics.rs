//! What can be counted, for Prometheus.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    kind: String,
    reason: &'static str,
}

/// All counters. Copies count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    reconciles: Family<Kind, Counter>,
    failures: Family<Failure, Counter>,
    queue: Family<Kind, Gauge>,
    watch_failures: Family<Kind, Counter>,
    excess: Family<Kind, Counter>,
    steps: Counter,
    tokens: Counter,
    leader: Gauge,
    started: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("operator_bounds_controller");
        let metrics = Metrics {
            registry: Arc::default(),
            reconciles: Family::default(),
            failures: Family::default(),
            queue: Family::default(),
            watch_failures: Family::default(),
            excess: Family::default(),
            steps: Counter::default(),
            tokens: Counter::default(),
            leader: Gauge::default(),
            started: Gauge::default(),
        };
        registry.register("reconciles", "Objects that were looked at", metrics.reconciles.clone());
        registry.register("reconcile_errors", "Reconciles that failed, by reason", metrics.failures.clone());
        registry.register("queue", "Objects that are being worked on", metrics.queue.clone());
        registry.register("watch_errors", "Watches that were interrupted", metrics.watch_failures.clone());
        registry.register(
            "excess",
            "Objects that were found to ask for more than their account holds",
            metrics.excess.clone(),
        );
        registry.register("steps", "Steps of InstallPlans that were carried out", metrics.steps.clone());
        registry.register("tokens_issued", "Tokens of service accounts that were asked for", metrics.tokens.clone());
        registry.register("leader", "1 while this replica acts", metrics.leader.clone());
        registry.register_with_unit(
            "start",
            "How long the caches took to fill, and everything to be looked at once",
            Unit::Other("milliseconds".to_owned()),
            metrics.started.clone(),
        );
        Metrics { registry: Arc::new(registry), ..metrics }
    }
}

impl Metrics {
    /// An object is being looked at, until what is returned is dropped.
    #[must_use]
    pub fn reconciling(&self, kind: &str) -> Reconciling {
        self.reconciles.get_or_create(&of(kind)).inc();
        let queue = self.queue.get_or_create(&of(kind)).clone();
        queue.inc();
        Reconciling(queue)
    }

    /// A reconcile failed.
    pub fn failed(&self, kind: &str, reason: &'static str) {
        self.failures.get_or_create(&Failure { kind: kind.to_owned(), reason }).inc();
    }

    /// A watch was interrupted.
    pub fn watch_failed(&self, kind: &str) {
        self.watch_failures.get_or_create(&of(kind)).inc();
    }

    /// An object asks for more than its account holds.
    pub fn excess_found(&self, kind: &str) {
        self.excess.get_or_create(&of(kind)).inc();
    }

    /// A step was carried out.
    pub fn step_done(&self) {
        self.steps.inc();
    }

    /// A token was issued.
    pub fn token_issued(&self) {
        self.tokens.inc();
    }

    /// Whether this replica acts.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// The caches are filled.
    pub fn started(&self, took: std::time::Duration) {
        self.started.set(i64::try_from(took.as_millis()).unwrap_or(i64::MAX));
    }

    /// The text that Prometheus reads.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Counts an object as being worked on.
#[derive(Debug)]
pub struct Reconciling(Gauge);

impl Drop for Reconciling {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn of(kind: &str) -> Kind {
    Kind { kind: kind.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_printed_for_prometheus() {
        let metrics = Metrics::default();
        let _working = metrics.reconciling("InstallPlan");
        metrics.failed("InstallPlan", "forbidden");
        metrics.token_issued();
        let text = metrics.text();
        for line in [
            "operator_bounds_controller_reconciles_total{kind=\"InstallPlan\"} 1",
            "operator_bounds_controller_reconcile_errors_total{kind=\"InstallPlan\",reason=\"forbidden\"} 1",
            "operator_bounds_controller_queue{kind=\"InstallPlan\"} 1",
            "operator_bounds_controller_tokens_issued_total 1",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
