//! What every decision has access to: the settings, the look-ups, and a place for warnings and facts besides the
//! verdict.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::decide::lookups::Lookups;
use crate::decide::message;
use crate::decide::verdict::{Reason, Refusal};
use crate::settings::{Settings, Severity};

/// The context of one decision.
#[derive(Debug)]
pub struct Context<'p> {
    /// The settings of this registration.
    pub settings: &'p Settings,
    /// The look-ups made for this verdict.
    pub lookups: Lookups<'p>,
    notes: RefCell<Notes>,
}

/// What is reported besides the verdict.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Shown by the client.
    pub(crate) warnings: Vec<String>,
    /// For the audit annotations.
    pub(crate) facts: BTreeMap<&'static str, String>,
    /// The object that should replace the one in the request, as JSON.
    pub(crate) mutated: Option<String>,
}

impl<'p> Context<'p> {
    /// A context without any notes yet.
    #[must_use]
    pub fn new(settings: &'p Settings, lookups: Lookups<'p>) -> Self {
        Context { settings, lookups, notes: RefCell::default() }
    }

    /// Warns the client. Long texts are split into several warnings.
    pub(crate) fn warn(&self, text: &str) {
        self.notes.borrow_mut().warnings.extend(message::warnings(text));
    }

    /// A check has failed: refuses, warns, or does nothing, according to the setting.
    pub(crate) fn object(&self, severity: Severity, reason: Reason, text: String) -> Result<(), Refusal> {
        match severity {
            Severity::Deny => return Err(Refusal::forbidden(reason, text)),
            Severity::Warn => self.warn(&text),
            Severity::Off => {}
        }
        Ok(())
    }

    /// Records a fact for the audit annotations.
    pub(crate) fn fact(&self, key: &'static str, value: impl Into<String>) {
        self.notes.borrow_mut().facts.insert(key, value.into());
    }

    /// Replaces the object in the request.
    pub(crate) fn mutate(&self, object: String) {
        self.notes.borrow_mut().mutated = Some(object);
    }

    /// Everything that was recorded.
    #[must_use]
    pub(crate) fn into_notes(self) -> Notes {
        self.notes.into_inner()
    }
}
