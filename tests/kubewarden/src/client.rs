//! Asks a policy server past the API server: as the audit scanner does, and as a test that wants to know.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use kube::Config;
use kube::config::KubeConfigOptions;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::webhook::Endpoint;

/// A client that trusts the endpoint's certificate. It is kube's, since it is here and knows TLS.
#[derive(Clone)]
pub struct Client(kube::Client);

impl Client {
    /// For this endpoint.
    pub async fn of(endpoint: &Endpoint) -> anyhow::Result<Self> {
        let cluster = json!({"server": endpoint.address, "certificate-authority-data": STANDARD.encode(&endpoint.ca)});
        let kubeconfig = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "webhook",
            "clusters": [{"name": "webhook", "cluster": cluster}],
            "contexts": [{"name": "webhook", "context": {"cluster": "webhook"}}],
        }))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client(kube::Client::try_from(config)?))
    }

    /// The JSON at a path.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        Ok(self.0.request(Request::get(path).body(Vec::new())?).await?)
    }

    /// The policy's answer to an admission request: as the API server asks.
    pub async fn validate(&self, policy: &str, request: &Value) -> anyhow::Result<Value> {
        self.review(&format!("/validate/{policy}"), request).await
    }

    /// The same as the audit scanner asks, which gets the verdict also where nothing is enforced.
    pub async fn audit(&self, policy: &str, request: &Value) -> anyhow::Result<Value> {
        self.review(&format!("/audit/{policy}"), request).await
    }

    async fn review(&self, path: &str, request: &Value) -> anyhow::Result<Value> {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let sent = Request::post(path).header("Content-Type", "application/json").body(serde_json::to_vec(&review)?)?;
        let mut answer: Value = self.0.request(sent).await.with_context(|| path.to_owned())?;
        Ok(answer["response"].take())
    }
}
