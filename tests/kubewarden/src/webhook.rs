//! Webhook configurations.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Where a webhook is served, and the certificate that it is trusted by, in PEM.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `https://host:port`.
    pub address: String,
    /// Of its authority, or its own.
    pub ca: Vec<u8>,
}

/// Validating or mutating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It says yes or no.
    Validating,
    /// It may change what is written.
    Mutating,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Validating => "ValidatingWebhookConfiguration",
            Kind::Mutating => "MutatingWebhookConfiguration",
        }
    }
}

/// What is the same for every webhook; the rest is the registration's own.
#[must_use]
pub fn webhook(endpoint: &Endpoint, name: &str, policy: &str) -> Value {
    json!({
        "name": name,
        "clientConfig": {
            "url": format!("{}/validate/{policy}", endpoint.address),
            "caBundle": STANDARD.encode(&endpoint.ca),
        },
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

/// A configuration of these webhooks.
#[must_use]
pub fn configuration(kind: Kind, name: &str, webhooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind.name(),
        "metadata": {"name": name}, "webhooks": webhooks,
    })
}
