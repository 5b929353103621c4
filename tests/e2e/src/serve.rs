//! `test-webhook`, as a process of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use test_kubewarden::Client;
use test_kubewarden::webhook::Endpoint;
use test_parts::Process;

/// It compiles the module, on a machine that may have other things to do.
const PATIENCE: Duration = Duration::from_mins(3);

/// A running webhook. It is ended when this is dropped.
pub(crate) struct Serve {
    _process: Process,
    pub(crate) endpoint: Endpoint,
    pub(crate) client: Client,
}

/// What it prints when it is ready.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    address: String,
    ca_file: PathBuf,
}

/// What one of its watches shows: names and versions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cache {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) objects: BTreeMap<String, String>,
}

impl Serve {
    /// Starts it with these policies, and waits until it is ready.
    pub(crate) async fn start(
        program: &Path,
        kubeconfig: &Path,
        policies: &Value,
        directory: &Path,
        seconds: u32,
    ) -> anyhow::Result<Self> {
        let (file, log) = (directory.join("policies.yml"), directory.join("serve.log"));
        tokio::fs::write(&file, policies.to_string()).await?;
        // What an earlier one has said is not for this one.
        tokio::fs::write(&log, "").await?;
        let mut command = Command::new(program);
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--evaluation-limit", &seconds.to_string(), "--policies"])
            .arg(&file)
            .arg("--ca-file")
            .arg(directory.join("serve-ca.crt"));
        let mut process = Process::start("test-webhook", &command, &log)?;
        let ready: Ready = process.wait(PATIENCE, || {
            let said = std::fs::read_to_string(&log).ok()?;
            said.lines().find_map(|line| serde_json::from_str(line).ok())
        })?;
        let endpoint = Endpoint { address: ready.address, ca: tokio::fs::read(&ready.ca_file).await? };
        Ok(Serve { _process: process, client: Client::of(&endpoint).await?, endpoint })
    }

    /// What its watches show now.
    pub(crate) async fn caches(&self) -> anyhow::Result<Vec<Cache>> {
        self.client.get("/caches").await
    }
}
