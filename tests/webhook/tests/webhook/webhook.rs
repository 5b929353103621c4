//! A running `test-webhook`, and a client for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Answer, Client, Protocol};

const PROGRAM: &str = env!("CARGO_BIN_EXE_test-webhook");

/// It is killed when this is dropped.
pub(crate) struct Webhook {
    child: Child,
    pub(crate) ready: Value,
    client: Client,
    _directory: TempDir,
}

impl Webhook {
    /// Starts one and waits for its line.
    pub(crate) fn start(kubeconfig: &Path, arguments: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let ca_file = directory.path().join("ca.pem");
        let mut command = Command::new(PROGRAM);
        command.arg("--kubeconfig").arg(kubeconfig);
        command.arg("--ca-file").arg(&ca_file).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a line of JSON: {line:?}"));
        let client = Client::new(ready["address"].as_str().unwrap(), &fs::read(&ca_file).unwrap());
        Webhook { child, ready, client, _directory: directory }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.client.send(Protocol::Http2, "GET", path, Vec::new()).await
    }

    /// With HTTP/2, as the API server does it.
    pub(crate) async fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        self.post_by(Protocol::Http2, path, body).await
    }

    pub(crate) async fn post_by(&self, protocol: Protocol, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        self.client.send(protocol, "POST", path, body.into()).await
    }

    /// The response of an AdmissionReview that has to be answered.
    pub(crate) async fn review(&self, path: &str, request: &Value) -> Value {
        let answer = self.post(path, review(request).to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let review: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(
            (review["apiVersion"].as_str(), review["kind"].as_str()),
            (Some("admission.k8s.io/v1"), Some("AdmissionReview"))
        );
        assert_eq!(review["response"]["uid"], request["uid"]);
        review["response"].clone()
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn review(request: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}
