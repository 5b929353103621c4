//! The published policy as the judge: what was read is all that it can look up, and what could not be read fails.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::host::{CanI, GetResource, Host, HostError, ListResources};
use crate::manifests::Manifests;
use crate::policy::Policy;
use crate::source::Source;

use super::seen::Unread;
use super::settings::Chosen;

/// The policy, and what it can look up.
pub(super) struct Judge<'p> {
    policy: &'p Policy,
    source: Arc<Kept>,
    unread: Vec<(&'static str, String)>,
}

/// What was read, with the lists that verdicts have asked for: every verdict asks for the same few, and they are long.
#[derive(Debug)]
struct Kept {
    manifests: Manifests,
    lists: Mutex<HashMap<ListResources, Vec<u8>>>,
}

impl Source for Kept {
    fn list(&self, list: &ListResources) -> Result<Vec<u8>, HostError> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.get(list) {
            return Ok(known.clone());
        }
        let answer = Source::list(&self.manifests, list)?;
        lists.insert(list.clone(), answer.clone());
        Ok(answer)
    }

    fn get(&self, get: &GetResource) -> Result<Vec<u8>, HostError> {
        Source::get(&self.manifests, get)
    }

    fn can_i(&self, can_i: &CanI) -> Result<Vec<u8>, HostError> {
        self.manifests.can_i(can_i)
    }
}

/// What the policy said.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) accepted: bool,
    /// Its word for why.
    pub(super) reason: String,
    /// The message of a refusal.
    pub(super) message: String,
    pub(super) facts: BTreeMap<String, String>,
}

impl Answer {
    /// Whether nothing could be determined.
    pub(super) fn is_unknown(&self) -> bool {
        self.reason == "lookup-failed" || self.reason.is_empty()
    }

    /// The message, up to where it says what to do with the policy server.
    pub(super) fn sentence(&self) -> &str {
        let end = self.message.find(" Check the policy server's RBAC").unwrap_or(self.message.len());
        self.message[..end].lines().next().unwrap_or_default()
    }
}

/// An object that is written.
pub(super) struct Written<'o> {
    pub(super) object: &'o Value,
    /// What it takes the place of.
    pub(super) old: Option<&'o Value>,
    /// The resource, as URLs name it.
    pub(super) resource: &'o str,
    /// Who writes it; without a user it is judged as in the background audit.
    pub(super) user: Option<&'o str>,
}

impl<'p> Judge<'p> {
    pub(super) fn new(policy: &'p Policy, manifests: Manifests, unread: &[Unread]) -> Self {
        let failing = |unread: &Unread| (unread.kind, format!("this audit could not read it: {}", unread.reason));
        let source = Arc::new(Kept { manifests, lists: Mutex::default() });
        Judge { policy, source, unread: unread.iter().map(failing).collect() }
    }

    pub(super) fn manifests(&self) -> &Manifests {
        &self.source.manifests
    }

    /// The same judge of the cluster as it would be with these objects applied. Nothing may be looking things up any more;
    /// otherwise there is none.
    pub(super) fn with<'o>(self, objects: impl Iterator<Item = &'o Value>, unread: &[Unread]) -> Option<Self> {
        let mut manifests = Arc::into_inner(self.source)?.manifests;
        let file: Arc<Path> = Path::new("the proposal").into();
        for object in objects {
            manifests.lay_over(object.clone(), &file).ok()?;
        }
        Some(Judge::new(self.policy, manifests, unread))
    }

    /// What a decision looks things up with.
    pub(super) fn host(&self) -> Host {
        let host = self.policy.host_on(Arc::clone(&self.source) as Arc<dyn Source>);
        self.unread.iter().fold(host, |host, (kind, reason)| host.fail_on(kind, reason))
    }

    /// A cluster in which nothing is.
    pub(super) fn nowhere(&self) -> Host {
        self.policy.host(&Arc::default())
    }

    pub(super) fn judge(&self, written: &Written<'_>, settings: &Chosen) -> Answer {
        let answer = request(written).map_err(|error| error.to_string()).and_then(|request| {
            let host = Arc::new(self.host());
            self.policy.validate(&request, &settings.raw, &host).map_err(|error| error.to_string())
        });
        match answer {
            Err(error) => Answer { message: error, ..Answer::default() },
            Ok(response) => {
                let facts = response.audit_annotations.unwrap_or_default();
                Answer {
                    accepted: response.accepted,
                    reason: facts.get("reason").cloned().unwrap_or_default(),
                    message: response.message.unwrap_or_default(),
                    facts,
                }
            }
        }
    }
}

fn request(written: &Written<'_>) -> Result<Box<RawValue>, serde_json::Error> {
    let Written { object, old, resource, user } = written;
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let mut request = json!({
        "uid": "audit", "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
        "kind": {"group": group, "version": version, "kind": object["kind"]},
        "resource": {"group": group, "version": version, "resource": resource},
        "name": text("/metadata/name"), "namespace": text("/metadata/namespace"),
        "object": object,
    });
    if let Some(old) = old {
        request["oldObject"] = (*old).clone();
    }
    if let Some(user) = user {
        request["userInfo"] = json!({"username": user, "groups": ["system:authenticated"]});
    }
    serde_json::value::to_raw_value(&request)
}
