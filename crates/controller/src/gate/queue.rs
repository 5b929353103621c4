//! The namespaces that have to be examined: without duplicates, in the order in which they came due, and never by two
//! workers at once.
//!
//! So a tenant whose objects change all the time waits in line like everyone else.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Changes within this time lead to a single look.
const GATHER: Duration = Duration::from_millis(50);
/// The pause before a retry after a failure: it starts here and doubles each time, up to the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    order: BTreeSet<(Instant, Arc<str>)>,
    due: HashMap<Arc<str>, Instant>,
    running: HashSet<Arc<str>>,
    /// Namespaces that changed while a worker was examining them, and when their next look is due.
    again: HashMap<Arc<str>, Instant>,
    /// The number of consecutive failures.
    failures: HashMap<Arc<str>, u32>,
}

impl Queue {
    /// Something in the namespace has changed.
    pub(super) fn push(&self, namespace: &str) {
        self.lock().put(namespace, Instant::now() + GATHER);
        self.news.notify_one();
    }

    /// The next namespace that is due. The caller reports when it is [`done`](Queue::done).
    pub(super) async fn take(&self) -> Arc<str> {
        loop {
            let next = {
                let mut inner = self.lock();
                match inner.order.first().cloned() {
                    Some((at, namespace)) if at <= Instant::now() => {
                        inner.order.pop_first();
                        inner.due.remove(&namespace);
                        inner.running.insert(Arc::clone(&namespace));
                        // Another namespace may be due for another worker.
                        self.news.notify_one();
                        return namespace;
                    }
                    other => other.map(|(at, _)| at),
                }
            };
            match next {
                None => self.news.notified().await,
                Some(at) => tokio::select! {
                    () = sleep_until(at) => {}
                    () = self.news.notified() => {}
                },
            }
        }
    }

    /// The look is finished; a failed one is retried, with growing pauses.
    pub(super) fn done(&self, namespace: &Arc<str>, failed: bool) {
        let mut inner = self.lock();
        inner.running.remove(namespace);
        if failed {
            let count = inner.failures.entry(Arc::clone(namespace)).or_default();
            let pause = FIRST.saturating_mul(1_u32.checked_shl(*count).unwrap_or(u32::MAX)).min(LONGEST);
            *count = (*count + 1).min(31);
            inner.put(namespace, Instant::now() + pause);
        } else {
            inner.failures.remove(namespace);
        }
        if let Some(at) = inner.again.remove(namespace) {
            inner.put(namespace, at);
        }
        drop(inner);
        self.news.notify_one();
    }

    /// The number of namespaces waiting for their turn.
    pub(super) fn len(&self) -> usize {
        self.lock().due.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn put(&mut self, namespace: &str, at: Instant) {
        let namespace: Arc<str> = namespace.into();
        if self.running.contains(&namespace) {
            let again = self.again.entry(namespace).or_insert(at);
            *again = (*again).min(at);
            return;
        }
        if let Some(due) = self.due.get(&namespace).copied() {
            if due <= at {
                return;
            }
            self.order.remove(&(due, Arc::clone(&namespace)));
        }
        self.due.insert(Arc::clone(&namespace), at);
        self.order.insert((at, namespace));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_is_taken_once_in_the_order_in_which_it_came() {
        let queue = Queue::default();
        for namespace in ["b", "a", "b", "c", "b"] {
            queue.push(namespace);
        }
        let taken = [queue.take().await, queue.take().await, queue.take().await];
        assert_eq!(taken.map(|namespace| namespace.to_string()), ["b", "a", "c"]);
        assert_eq!(queue.len(), 0);
    }

    #[tokio::test]
    async fn what_changes_during_a_look_is_looked_at_again_and_by_nobody_else_meanwhile() {
        let queue = Queue::default();
        queue.push("a");
        let first = queue.take().await;
        queue.push("a");
        assert_eq!(queue.len(), 0, "two at a time");
        queue.done(&first, false);
        assert_eq!(&*queue.take().await, "a");
    }

    #[tokio::test]
    async fn failures_wait_longer_each_time_and_news_does_not_wait_for_them() {
        let queue = Queue::default();
        let due = || queue.lock().due["a"];
        for seconds in [1, 2, 4] {
            queue.push("a");
            let namespace = queue.take().await;
            let before = Instant::now();
            queue.done(&namespace, true);
            assert!(due() >= before + Duration::from_secs(seconds));
        }
        let later = due();
        queue.push("a");
        assert!(due() < later, "news waits for a failure");
        let namespace = queue.take().await;
        queue.done(&namespace, false);
        assert!(queue.lock().failures.is_empty());
    }
}
