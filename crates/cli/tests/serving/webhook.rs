//! A running `operator-bounds serve`, and a client for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use axum::http::Request;
use kube::client::Body;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_operator-bounds");

/// It is killed when this is dropped.
pub(crate) struct Webhook {
    child: Child,
    pub(crate) ready: Value,
    client: kube::Client,
    _directory: TempDir,
}

/// What came back, whatever it is.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Webhook {
    /// Starts one and waits for its line.
    pub(crate) async fn start(kubeconfig: &Path, arguments: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let ca_file = directory.path().join("ca.pem");
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--addr", "127.0.0.1:0", "--kubeconfig"]).arg(kubeconfig);
        command.arg("--ca-file").arg(&ca_file).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a line of JSON: {line:?}"));
        let client = client(ready["address"].as_str().unwrap(), &ca_file);
        Webhook { child, ready, client, _directory: directory }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let request = Request::get(path).body(Body::empty()).unwrap();
        self.send(request).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        self.try_post(path, body).await.unwrap()
    }

    pub(crate) async fn try_post(&self, path: &str, body: impl Into<Vec<u8>>) -> Result<Answer, String> {
        let request = Request::post(path).header("content-type", "application/json").body(Body::from(body.into()));
        self.send(request.unwrap()).await
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

    async fn send(&self, request: Request<Body>) -> Result<Answer, String> {
        use futures::TryStreamExt;
        let response = self.client.send(request).await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let body = axum::body::Body::new(response.into_body());
        let chunks: Vec<_> = body.into_data_stream().try_collect().await.map_err(|error| error.to_string())?;
        Ok(Answer { status, text: String::from_utf8(chunks.concat()).unwrap() })
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) {
        assert!(Command::new("kill").args(["-TERM", &self.pid()]).status().unwrap().success());
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

/// A client that trusts nobody but the CA in the file.
fn client(address: &str, ca_file: &PathBuf) -> kube::Client {
    let ca = CertificateDer::from_pem_slice(&fs::read(ca_file).unwrap()).unwrap();
    let mut config = kube::Config::new(address.parse().unwrap());
    config.root_cert = Some(vec![ca.to_vec()]);
    kube::Client::try_from(config).unwrap()
}
