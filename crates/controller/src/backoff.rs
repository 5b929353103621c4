//! How long to wait before something that failed is tried again: longer each time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::{Resource, ResourceExt};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(5);
/// After so many failures in a row, news of another one can wait as long as the next attempt.
const MANY: u32 = 4;

/// How often each object has failed in a row, and when it is tried again.
#[derive(Debug, Default)]
pub struct Backoff(Mutex<HashMap<String, Failures>>);

#[derive(Debug)]
struct Failures {
    count: u32,
    until: Instant,
}

/// What an object is called here and in logs: `InstallPlan team-a/install-x`.
pub fn key<K: Resource<DynamicType = ()>>(object: &K) -> String {
    format!("{} {}/{}", K::kind(&()), object.namespace().unwrap_or_default(), object.name_any())
}

impl Backoff {
    /// It failed again: wait this long.
    pub fn failed(&self, object: &str) -> Duration {
        let mut all = self.all();
        let failures = all.entry(object.to_owned()).or_insert(Failures { count: 0, until: Instant::now() });
        let wait = FIRST.saturating_mul(1_u32.checked_shl(failures.count).unwrap_or(u32::MAX)).min(LONGEST);
        *failures = Failures { count: (failures.count + 1).min(31), until: Instant::now() + wait };
        wait
    }

    /// Whether it keeps failing, and should not be tried yet. A status that is written leads to another attempt: one whose words
    /// change with every attempt must not lead to one after the other.
    #[must_use]
    pub fn keeps_failing(&self, object: &str) -> bool {
        self.all().get(object).is_some_and(|failures| failures.count >= MANY && Instant::now() < failures.until)
    }

    /// It went well.
    pub fn succeeded(&self, object: &str) {
        self.all().remove(object);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Failures>> {
        // Whoever panicked while counting has left a count that is still good.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_longer_up_to_a_limit_and_success_forgets() {
        let backoff = Backoff::default();
        let waits: Vec<u64> = (0..4).map(|_| backoff.failed("a").as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8]);
        assert!(backoff.keeps_failing("a") && !backoff.keeps_failing("b"));
        assert_eq!((0..40).map(|_| backoff.failed("a")).last(), Some(LONGEST));
        assert_eq!(backoff.failed("b"), FIRST);
        backoff.succeeded("a");
        assert!(!backoff.keeps_failing("a"));
        assert_eq!(backoff.failed("a"), FIRST);
    }
}
