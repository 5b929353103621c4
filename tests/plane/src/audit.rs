//! The API server's audit log: who wrote what, what became of it, and what webhooks had to say about it.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The annotations of each request, by its audit id and by the webhook that made them.
pub type Annotations = HashMap<String, HashMap<String, Map<String, Value>>>;

/// Where the API server writes it.
#[derive(Debug)]
pub struct AuditLog {
    policy: PathBuf,
    log: PathBuf,
}

/// How much of a write is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Who, what and how it ended.
    Metadata,
    /// The object that was sent too.
    Objects,
}

/// One request that was answered.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// By which a client finds its request.
    #[serde(rename = "auditID")]
    pub audit_id: String,
    /// `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: Status,
    /// What was sent, where objects are kept.
    pub request_object: Option<Value>,
    /// What webhooks and others have noted about it.
    #[serde(default)]
    pub annotations: HashMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
struct User {
    username: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    message: String,
}

impl AuditLog {
    /// Its policy is written into the directory, and so will be the log.
    pub fn new(directory: &Path, detail: Detail) -> anyhow::Result<Self> {
        let log = AuditLog { policy: directory.join("audit-policy.yaml"), log: directory.join("audit.log") };
        let verbs = ["create", "update", "patch", "delete", "deletecollection"];
        let stages = ["RequestReceived"];
        let mut rules =
            vec![json!({"level": "Metadata", "verbs": verbs, "omitStages": stages}), json!({"level": "None"})];
        if detail == Detail::Objects {
            // Nobody learns anything from leases and events, and tokens are nobody's business.
            let silent = json!([{"group": "coordination.k8s.io"}, {"group": "events.k8s.io"}, {"group": "", "resources": ["events"]}]);
            let secret = json!([{"group": "", "resources": ["secrets", "serviceaccounts/token"]}, {"group": "authentication.k8s.io"}]);
            rules.splice(
                0..0,
                [
                    json!({"level": "None", "resources": silent}),
                    json!({"level": "Metadata", "verbs": verbs, "omitStages": stages, "resources": secret}),
                    json!({"level": "Request", "verbs": verbs, "omitStages": stages}),
                ],
            );
        }
        let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules});
        std::fs::write(&log.policy, policy.to_string()).with_context(|| log.policy.display().to_string())?;
        Ok(log)
    }

    /// Arguments of `plane up`.
    #[must_use]
    pub fn arguments(&self) -> [String; 2] {
        [
            format!("--apiserver-arg=audit-policy-file={}", self.policy.display()),
            format!("--apiserver-arg=audit-log-path={}", self.log.display()),
        ]
    }

    /// Everything so far, in the order of the answers.
    pub fn events(&self) -> anyhow::Result<Vec<Event>> {
        let text = std::fs::read_to_string(&self.log).with_context(|| self.log.display().to_string())?;
        // The last line may be half written.
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("the audit log: {line}")))
            .collect()
    }

    /// What each webhook had to say about each request: by audit id, then by the webhook's name.
    pub fn annotations(&self) -> anyhow::Result<Annotations> {
        let mut found: Annotations = HashMap::new();
        for event in self.events()? {
            for (key, value) in event.annotations {
                if let Some((webhook, key)) = key.split_once('/') {
                    let of_event = found.entry(event.audit_id.clone()).or_default();
                    of_event.entry(webhook.to_owned()).or_default().insert(key.to_owned(), value.into());
                }
            }
        }
        Ok(found)
    }
}

/// In one line: who did what, and what became of it.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, verb, resource) = (self.user(), &self.verb, self.resource());
        write!(f, "{} {user} {verb} {resource} {}/{} {}", self.code(), self.namespace(), self.name(), self.message())
    }
}

impl Event {
    /// Who it was written as.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.impersonated_user.as_ref().unwrap_or(&self.user).username
    }

    /// The kind of thing: `roles.rbac.authorization.k8s.io`, `pods/status`.
    #[must_use]
    pub fn resource(&self) -> String {
        let ObjectRef { api_group, resource, subresource, .. } = &self.object_ref;
        let group = if api_group.is_empty() { String::new() } else { format!(".{api_group}") };
        let sub = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
        format!("{resource}{group}{sub}")
    }

    /// Its namespace, empty where it is in none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.object_ref.namespace
    }

    /// Its name. A created object has it in the object alone.
    #[must_use]
    pub fn name(&self) -> &str {
        let sent = self.request_object.as_ref().and_then(|object| object.pointer("/metadata/name")?.as_str());
        if self.object_ref.name.is_empty() { sent.unwrap_or_default() } else { &self.object_ref.name }
    }

    /// The code of the answer.
    #[must_use]
    pub fn code(&self) -> u16 {
        self.response_status.code
    }

    /// The words of an answer that is no success.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.response_status.message
    }

    /// Whether it was no more than a question.
    #[must_use]
    pub fn is_dry_run(&self) -> bool {
        self.uri.contains("dryRun=")
    }
}
