//! The API server's audit log: where a policy's audit annotations end up.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The annotations of each request, by its audit id and by the webhook that made them.
pub(crate) type Annotations = HashMap<String, HashMap<String, Map<String, Value>>>;

/// Where the API server writes it.
pub(crate) struct AuditLog {
    policy: PathBuf,
    log: PathBuf,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    #[serde(default)]
    annotations: HashMap<String, String>,
}

impl AuditLog {
    pub(crate) fn new(directory: &Path) -> anyhow::Result<Self> {
        let log = AuditLog { policy: directory.join("audit-policy.yaml"), log: directory.join("audit.log") };
        let rules = json!([
            {"level": "Metadata", "verbs": ["create", "update", "delete"], "omitStages": ["RequestReceived"]},
            {"level": "None"},
        ]);
        let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules});
        std::fs::write(&log.policy, policy.to_string()).with_context(|| log.policy.display().to_string())?;
        Ok(log)
    }

    /// Flags of the API server.
    pub(crate) fn arguments(&self) -> [String; 2] {
        [
            format!("--apiserver-arg=audit-policy-file={}", self.policy.display()),
            format!("--apiserver-arg=audit-log-path={}", self.log.display()),
        ]
    }

    /// What each webhook had to say about each request: by audit id, then by the webhook's name.
    pub(crate) fn annotations(&self) -> anyhow::Result<Annotations> {
        let text = std::fs::read_to_string(&self.log).with_context(|| self.log.display().to_string())?;
        let mut found: HashMap<String, HashMap<String, Map<String, Value>>> = HashMap::new();
        for line in text.lines() {
            let event: Event = serde_json::from_str(line).context("the audit log")?;
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
