//! What a verdict has at hand: the request, the settings, the look-ups, and what it has to say besides yes or no.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::admission::AdmissionRequest;
use crate::lookups::Lookups;
use crate::message;
use crate::settings::{Settings, Severity};
use crate::subject::Identity;
use crate::verdict::Refusal;

/// The surroundings of one verdict.
#[derive(Debug)]
pub struct Context<'p> {
    /// The request.
    pub request: &'p AdmissionRequest<'p>,
    /// The settings.
    pub settings: &'p Settings,
    /// The look-ups.
    pub lookups: Lookups<'p>,
    notes: RefCell<Notes>,
    acting: RefCell<Option<Identity>>,
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
    pub fn new(request: &'p AdmissionRequest<'p>, settings: &'p Settings, lookups: Lookups<'p>) -> Self {
        Context { request, settings, lookups, notes: RefCell::default(), acting: RefCell::default() }
    }

    /// Warns the client. Long texts become several warnings.
    pub fn warn(&self, text: &str) {
        self.notes.borrow_mut().warnings.extend(message::warnings(text));
    }

    /// A check has failed: refuses, warns, or does nothing, as the setting says.
    pub fn object(&self, severity: Severity, reason: &'static str, text: String) -> Result<(), Refusal> {
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

    /// From now on the request counts as sent by somebody else: OLM's account writes for an extension.
    pub fn act_as(&self, identity: Identity) {
        *self.acting.borrow_mut() = Some(identity);
    }

    /// Who asks; nobody in the background audit.
    #[must_use]
    pub fn requester(&self) -> Option<Identity> {
        if let Some(identity) = &*self.acting.borrow() {
            return Some(identity.clone());
        }
        let user = &self.request.user_info;
        if user.username.is_empty() {
            return None;
        }
        Some(Identity::user_in(&user.username, user.groups.iter().map(ToString::to_string).collect()))
    }

    /// Whether OLM v1 itself asks.
    #[must_use]
    pub fn is_olm_v1(&self) -> bool {
        self.settings.is_olm_v1(&self.request.user_info.username)
    }

    /// Whether OLM v0 itself asks.
    #[must_use]
    pub fn is_olm_v0(&self) -> bool {
        self.settings.is_olm_v0(&self.request.user_info.username)
    }
}
