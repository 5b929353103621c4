//! How long to wait before something that failed is tried again: longer each time.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(5);

/// How often each object has failed in a row.
#[derive(Debug, Default)]
pub struct Backoff(Mutex<HashMap<String, u32>>);

impl Backoff {
    /// It failed again: wait this long.
    pub fn failed(&self, object: &str) -> Duration {
        let mut failures = self.failures();
        let count = failures.entry(object.to_owned()).or_default();
        let wait = FIRST.saturating_mul(1_u32.checked_shl(*count).unwrap_or(u32::MAX)).min(LONGEST);
        *count = (*count + 1).min(31);
        wait
    }

    /// It went well.
    pub fn succeeded(&self, object: &str) {
        self.failures().remove(object);
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, HashMap<String, u32>> {
        // Whoever panicked while counting has left a count that is still good.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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
        assert_eq!((0..40).map(|_| backoff.failed("a")).last(), Some(LONGEST));
        assert_eq!(backoff.failed("b"), FIRST);
        backoff.succeeded("a");
        assert_eq!(backoff.failed("a"), FIRST);
    }
}
