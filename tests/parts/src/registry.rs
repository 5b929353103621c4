//! A registry of one's own: on loopback, on a port that was free, with its files in a directory that goes with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::json;
use tempfile::TempDir;

use crate::process::Process;
use crate::root;
use crate::watchdog::Watchdog;

/// A running registry. It ends, and its files go, when this is dropped.
#[derive(Debug)]
pub struct Registry {
    // Dropped first: it writes into the directory.
    _process: Process,
    directory: TempDir,
    address: String,
}

/// What a registry may ask of those who come.
#[derive(Debug, Default)]
pub struct Setup {
    /// Lines of an htpasswd file.
    pub logins: Option<String>,
    /// A certificate and its key.
    pub tls: Option<(String, String)>,
}

impl Registry {
    /// One that speaks plain HTTP and lets everybody in.
    pub fn start() -> anyhow::Result<Self> {
        Self::with(&Setup::default())
    }

    /// One that asks for something.
    pub fn with(setup: &Setup) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("operator-bounds-registry-").tempdir()?;
        Watchdog::get()?.remove(directory.path())?;
        let path = |name: &str| directory.path().join(name);
        let mut http = json!({"addr": "127.0.0.1:0"});
        if let Some((certificate, key)) = &setup.tls {
            fs::write(path("tls.crt"), certificate)?;
            fs::write(path("tls.key"), key)?;
            http["tls"] = json!({"certificate": path("tls.crt"), "key": path("tls.key")});
        }
        let mut config = json!({
            "version": "0.1",
            "log": {"level": "info", "formatter": "json"},
            "storage": {"filesystem": {"rootdirectory": path("data")}},
            "http": http,
        });
        if let Some(logins) = &setup.logins {
            fs::write(path("logins"), logins)?;
            config["auth"] = json!({"htpasswd": {"realm": "tests", "path": path("logins")}});
        }
        // JSON is YAML.
        fs::write(path("config.yml"), config.to_string())?;
        let mut command = Command::new(program()?);
        // Nobody collects traces here, and looking for a collector takes time.
        command.arg("serve").arg(path("config.yml")).env("OTEL_TRACES_EXPORTER", "none");
        let log = path("log");
        let mut process = Process::start("the registry", &command, &log)?;
        let address = process.wait(Duration::from_mins(1), || address(&log))?;
        Ok(Registry { _process: process, directory, address })
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The directory of everything that it stores.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data/docker/registry/v2")
    }
}

/// Where it says that it listens.
fn address(log: &Path) -> Option<String> {
    let said = fs::read_to_string(log).ok()?;
    let (_, rest) = said.split_once("listening on ")?;
    Some(rest[..rest.find([',', '"'])?].to_owned())
}

/// The registry's program, built where it is not there yet.
fn program() -> anyhow::Result<PathBuf> {
    let build = root().join("tests/registry/build.sh");
    let built = Command::new(&build).stderr(Stdio::inherit()).output().with_context(|| build.display().to_string())?;
    if !built.status.success() {
        bail!("tests/registry/build.sh failed: is Go 1.26, or Debian's docker-registry, installed?");
    }
    Ok(PathBuf::from(String::from_utf8(built.stdout)?.trim()))
}
