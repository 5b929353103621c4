//! A real control plane for tests: etcd, kube-apiserver and kube-controller-manager, with OLM's CRDs.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let plane = test_plane::Plane::start(&["--olm-v1", "none"])?;
//! println!("kubectl --kubeconfig {} get namespaces", plane.kubeconfig().display());
//! # Ok(()) }
//! ```

pub mod api;
pub mod audit;
mod wait;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::json;
use tempfile::TempDir;
use test_parts::{Process, Watchdog};
pub use wait::eventually;

use crate::api::Api;

/// A running control plane. It stops, and its files go, when this is dropped.
#[derive(Debug)]
pub struct Plane {
    program: PathBuf,
    directory: TempDir,
}

impl Plane {
    /// Builds the control plane's binary where it is not cached yet, and starts one. The arguments are those of
    /// `plane up`, apart from `--dir`.
    pub fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster/build.sh");
        let built = Command::new(&build).stderr(Stdio::inherit()).output().context("tests/cluster/build.sh")?;
        if !built.status.success() {
            bail!("tests/cluster/build.sh failed: is Go 1.26 on PATH?");
        }
        let program = PathBuf::from(String::from_utf8(built.stdout)?.trim());
        let directory = tempfile::Builder::new().prefix("operator-bounds-plane-").tempdir()?;
        let watchdog = Watchdog::get()?;
        watchdog.plane(&program, directory.path())?;
        watchdog.remove(directory.path())?;
        let mut up = Command::new(&program);
        up.arg("up").arg("--dir").arg(directory.path()).args(arguments);
        let log = directory.path().join("up.log");
        let plane = Plane { program, directory };
        Process::start("the start of the control plane", &up, &log)?.finish()?;
        Ok(plane)
    }

    /// The directory of its kubeconfig, certificates (`pki/`) and logs.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Contexts `operator-bounds` (in `system:masters`) and `operator-bounds-plain` (cluster-admin by a binding).
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// The API server crashes, and comes back with the same data. Returns when it is ready.
    pub fn restart(&self) -> anyhow::Result<()> {
        let mut restart = Command::new(&self.program);
        restart.arg("restart").arg("--dir").arg(self.directory.path());
        Process::start("the restart of the API server", &restart, &self.directory.path().join("restart.log"))?.finish()
    }

    /// Writes a kubeconfig with a token of a service account, good for a day.
    pub async fn kubeconfig_of(&self, api: &Api, namespace: &str, account: &str, path: &Path) -> anyhow::Result<()> {
        let token = api.token(namespace, account).await?;
        let (server, ca) = (api.server(), self.directory.path().join("pki/ca.crt"));
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": account,
            "clusters": [{"name": "plane", "cluster": {"server": server, "certificate-authority": ca}}],
            "users": [{"name": account, "user": {"token": token}}],
            "contexts": [{"name": account, "context": {"cluster": "plane", "user": account, "namespace": namespace}}],
        });
        std::fs::write(path, kubeconfig.to_string()).with_context(|| path.display().to_string())
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        let down = Command::new(&self.program)
            .args(["down", "--dir"])
            .arg(self.directory.path())
            .stdout(Stdio::null())
            .status();
        if !matches!(down, Ok(status) if status.success()) {
            eprintln!("the control plane in {} could not be stopped", self.directory.path().display());
        }
    }
}
