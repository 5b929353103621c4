//! What every decision has at hand: the settings, the look-ups, and what it has to say besides yes or no.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::decide::lookups::Lookups;
use crate::decide::message;
use crate::decide::verdict::{Reason, Refusal};
use crate::settings::{Settings, Severity};

/// The surroundings of one decision.
#[derive(Debug)]
pub struct Context<'p> {
    /// The settings.
    pub settings: &'p Settings,
    /// The look-ups.
    pub lookups: Lookups<'p>,
    notes: RefCell<Notes>,
}

/// What is told besides the verdict.
#[derive(Debug, Default)]
pub struct Notes {
    /// For the client.
    pub warnings: Vec<String>,
    /// For machines.
    pub facts: BTreeMap<&'static str, String>,
    /// The object as it should be instead, as JSON.
    pub mutated: Option<String>,
}

impl<'p> Context<'p> {
    /// A context in which nothing has been said yet.
    #[must_use]
    pub fn new(settings: &'p Settings, lookups: Lookups<'p>) -> Self {
        Context { settings, lookups, notes: RefCell::default() }
    }

    /// Warns the client. Long texts become several warnings.
    pub fn warn(&self, text: &str) {
        self.notes.borrow_mut().warnings.extend(message::warnings(text));
    }

    /// A check has failed: refuses, warns, or does nothing, as the setting says.
    pub fn object(&self, severity: Severity, reason: Reason, text: String) -> Result<(), Refusal> {
        match severity {
            Severity::Deny => return Err(Refusal::forbidden(reason, text)),
            Severity::Warn => self.warn(&text),
            Severity::Off => {}
        }
        Ok(())
    }

    /// Records a fact for machines.
    pub fn fact(&self, key: &'static str, value: impl Into<String>) {
        self.notes.borrow_mut().facts.insert(key, value.into());
    }

    /// Hands back another object than the one that was sent.
    pub fn mutate(&self, object: String) {
        self.notes.borrow_mut().mutated = Some(object);
    }

    /// Everything that was said.
    #[must_use]
    pub fn into_notes(self) -> Notes {
        self.notes.into_inner()
    }
}
