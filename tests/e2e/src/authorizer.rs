//! Lets the users of scenarios write, without a change to RBAC: what RBAC gives them is part of the verdict.
//!
//! The API server asks RBAC first, and then this webhook, but only about requests that carry a fact (an *extra*) which
//! a client cannot have but by impersonation. The policy's own questions about a user carry none, so they see RBAC alone.

use std::path::{Path, PathBuf};

use anyhow::Context;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Whoever carries it may do everything; its value is the policy's settings that the request is to be judged by.
pub(crate) const SETTINGS: &str = "e2e.operator-bounds.example/settings";

/// A webhook that says yes. It ends when this is dropped.
pub(crate) struct Authorizer {
    task: JoinHandle<()>,
    configuration: PathBuf,
}

impl Authorizer {
    /// Listens on loopback, and writes the API server's configuration into the directory.
    pub(crate) async fn start(directory: &Path) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for the authorizer")?;
        let address = listener.local_addr()?;
        let kubeconfig = directory.join("authorizer.kubeconfig");
        let configuration = directory.join("authorization.yaml");
        write(&kubeconfig, &connection(&format!("http://{address}/"))).await?;
        write(&configuration, &authorization(&kubeconfig)).await?;
        let router = Router::new().route("/", post(yes));
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the authorizer: {error}");
            }
        });
        Ok(Authorizer { task, configuration })
    }

    /// The file to start the API server with.
    pub(crate) fn configuration(&self) -> &Path {
        &self.configuration
    }
}

impl Drop for Authorizer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn yes(Json(mut review): Json<Value>) -> Json<Value> {
    review["status"] = json!({"allowed": true});
    Json(review)
}

async fn write(path: &Path, content: &Value) -> anyhow::Result<()> {
    tokio::fs::write(path, content.to_string()).await.with_context(|| path.display().to_string())
}

fn connection(server: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {"server": server}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": ""}}],
    })
}

fn authorization(kubeconfig: &Path) -> Value {
    let condition = format!("has(request.extra) && '{SETTINGS}' in request.extra");
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": [
            {"type": "RBAC", "name": "rbac"},
            {"type": "Webhook", "name": "writers-of-scenarios", "webhook": {
                "authorizedTTL": "5m", "unauthorizedTTL": "30s", "timeout": "10s",
                "subjectAccessReviewVersion": "v1", "matchConditionSubjectAccessReviewVersion": "v1",
                "failurePolicy": "NoOpinion",
                "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": kubeconfig},
                "matchConditions": [{"expression": condition}],
            }},
        ],
    })
}
