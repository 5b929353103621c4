//! A real control plane for tests: etcd, kube-apiserver and kube-controller-manager, with OLM's CRDs.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let plane = test_plane::Plane::start(&["--olm-v1", "none"])?;
//! println!("kubectl --kubeconfig {} get namespaces", plane.kubeconfig().display());
//! # Ok(()) }
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use tempfile::TempDir;

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
        let mut up = Command::new(&program);
        up.arg("up").arg("--dir").arg(directory.path()).args(arguments).stdout(Stdio::null());
        let plane = Plane { program, directory };
        if !up.status().context("plane up")?.success() {
            bail!("the control plane did not start");
        }
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
