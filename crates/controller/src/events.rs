//! Events: the same news as in a status, where `kubectl describe` shows it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::NAME;

/// The API server takes no longer note.
const MAX_NOTE: usize = 1024;

/// Writes Events.
#[derive(Clone)]
pub struct Events(Arc<Recorder>);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    /// Events that this replica writes.
    #[must_use]
    pub fn new(client: Client, instance: &str) -> Self {
        let reporter = Reporter { controller: NAME.to_owned(), instance: Some(instance.to_owned()) };
        Events(Arc::new(Recorder::new(client, reporter)))
    }

    /// Something went well.
    pub async fn normal(&self, object: &ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Normal, object, reason, action, note).await;
    }

    /// Somebody should look at this.
    pub async fn warning(&self, object: &ObjectReference, reason: &str, action: &str, note: &str) {
        self.publish(EventType::Warning, object, reason, action, note).await;
    }

    /// An Event that cannot be written is no reason to stop: the status says the same.
    async fn publish(&self, type_: EventType, object: &ObjectReference, reason: &str, action: &str, note: &str) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(clipped(note)),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.0.publish(&event, object).await {
            tracing::warn!(kind = ?object.kind, name = ?object.name, %error, "an Event could not be written");
        }
    }
}

/// As much as an Event holds; the status has all of it.
fn clipped(note: &str) -> String {
    const REST: &str = " … (see the status for all of it)";
    if note.len() <= MAX_NOTE {
        return note.to_owned();
    }
    let mut end = MAX_NOTE - REST.len();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{REST}", &note[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_where_a_letter_ends_and_says_so() {
        let note = clipped(&"ä".repeat(600));
        assert!(note.len() <= MAX_NOTE && note.ends_with("(see the status for all of it)"), "{note}");
        assert_eq!(clipped("short"), "short");
    }
}
