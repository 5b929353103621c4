//! `operator-bounds serve`, as a process of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use http::Request;
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// A running webhook. It is ended when this is dropped.
pub(crate) struct Serve {
    child: Child,
    pub(crate) address: String,
    /// The certificate that it is trusted by, in PEM.
    pub(crate) ca: Vec<u8>,
    client: Client,
}

/// What it prints when it is ready.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    address: String,
    ca_file: PathBuf,
}

/// One of its watches, and what it shows: name and resourceVersion of each object.
#[derive(Debug, Deserialize)]
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
    ) -> anyhow::Result<Self> {
        let file = directory.join("policies.yml");
        tokio::fs::write(&file, policies.to_string()).await?;
        let log = std::fs::File::create(directory.join("serve.log"))?;
        let mut child = Command::new(program)
            .arg("serve")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            // A busy machine is not what is tested.
            .args(["--addr", "127.0.0.1:0", "--evaluation-limit", "20", "--policies"])
            .arg(&file)
            .arg("--ca-file")
            .arg(directory.join("serve-ca.crt"))
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| program.display().to_string())?;
        let stdout = child.stdout.take().context("no output of operator-bounds serve")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = timeout(Duration::from_mins(2), lines.next_line()).await.context("serve is not ready")??;
        let Some(line) = line else {
            let said = tokio::fs::read_to_string(directory.join("serve.log")).await.unwrap_or_default();
            bail!("operator-bounds serve ended: {said}");
        };
        // Whatever else it says is read, so that it never waits for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let ready: Ready = serde_json::from_str(&line).with_context(|| format!("serve says {line}"))?;
        let ca = tokio::fs::read(&ready.ca_file).await?;
        Ok(Serve { child, client: client(&ready.address, &ready.ca_file).await?, address: ready.address, ca })
    }

    /// What its watches show now.
    pub(crate) async fn caches(&self) -> anyhow::Result<Vec<Cache>> {
        let request = Request::get("/caches").body(Vec::new())?;
        Ok(self.client.request(request).await?)
    }

    /// Ends it, and returns when it is gone.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// kube's client, since it is here and knows TLS.
async fn client(address: &str, ca: &Path) -> anyhow::Result<Client> {
    let kubeconfig = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "serve",
        "clusters": [{"name": "serve", "cluster": {"server": address, "certificate-authority": ca}}],
        "contexts": [{"name": "serve", "context": {"cluster": "serve"}}],
    }))?;
    Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?)
}
