//! Answers that are still good because they are not five seconds old.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// As long as the policy server keeps them.
const LIFETIME: Duration = Duration::from_secs(5);

/// Successful answers by what was asked. Failures are never kept.
pub(super) struct Recent<K, V> {
    answers: Mutex<HashMap<K, (Instant, Arc<V>)>>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Recent { answers: Mutex::default() }
    }
}

impl<K: Eq + Hash, V> Recent<K, V> {
    fn answers(&self) -> MutexGuard<'_, HashMap<K, (Instant, Arc<V>)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, key: &K) -> Option<Arc<V>> {
        let answers = self.answers();
        answers.get(key).filter(|(since, _)| since.elapsed() < LIFETIME).map(|(_, answer)| Arc::clone(answer))
    }

    /// Keeps an answer, and lets go of those that are too old.
    pub(super) fn keep(&self, key: K, answer: V) -> Arc<V> {
        let answer = Arc::new(answer);
        let mut answers = self.answers();
        answers.retain(|_, (since, _)| since.elapsed() < LIFETIME);
        answers.insert(key, (Instant::now(), Arc::clone(&answer)));
        answer
    }
}
