//! `policy-server`, as a process of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use test_parts::{Process, free_port};

use crate::certificate::certificate;
use crate::module::Module;
use crate::webhook::Endpoint;

/// It compiles every module, on a machine that may have other things to do.
const PATIENCE: Duration = Duration::from_mins(3);

/// What a policy server is started with.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its account in the cluster.
    pub kubeconfig: &'a Path,
    /// `policies.yml`.
    pub policies: &'a Value,
    /// The policy, whose registry it may speak plain HTTP to.
    pub module: &'a Module,
    /// For its files. One that is started again finds what the last one has compiled.
    pub directory: &'a Path,
    /// How long an evaluation may take. Kubewarden's own limit of two seconds is not what a busy machine should test.
    pub seconds: u32,
}

/// A running policy server. It ends when this is dropped.
#[derive(Debug)]
pub struct PolicyServer {
    process: Process,
    endpoint: Endpoint,
    /// From the start of the process until it was ready.
    loading: Duration,
}

impl PolicyServer {
    /// Starts one and waits until it is ready.
    pub fn start(start: &Start<'_>) -> anyhow::Result<Self> {
        let at = |name: &str| start.directory.join(name);
        let ca = certificate(&at("policy-server.crt"), &at("policy-server.key"))?;
        fs::write(at("policies.yml"), start.policies.to_string())?;
        fs::write(at("sources.yml"), json!({"insecure_sources": [start.module.registry().address()]}).to_string())?;
        let (port, probe) = (free_port()?, free_port()?);
        let mut command = Command::new(start.program);
        command
            .args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--readiness-probe-port", &probe.to_string()])
            .args(["--policy-timeout", &start.seconds.to_string(), "--log-fmt", "json"])
            .arg("--policies")
            .arg(at("policies.yml"))
            .arg("--sources-path")
            .arg(at("sources.yml"))
            .arg("--policies-download-dir")
            .arg(directory(at("policies"))?)
            .arg("--sigstore-cache-dir")
            .arg(directory(at("sigstore"))?)
            .arg("--cert-file")
            .arg(at("policy-server.crt"))
            .arg("--key-file")
            .arg(at("policy-server.key"))
            .env("KUBECONFIG", start.kubeconfig)
            // A flag of the command line, which takes only `true` and `false`.
            .env_remove("NO_COLOR")
            .env_remove("RUST_BACKTRACE")
            .env_remove("RUST_LOG");
        let began = Instant::now();
        let mut process = Process::start("policy-server", &command, &at("policy-server.log"))?;
        process.wait(PATIENCE, || is_ready(probe))?;
        let endpoint = Endpoint { address: format!("https://127.0.0.1:{port}"), ca };
        Ok(PolicyServer { process, endpoint, loading: began.elapsed() })
    }

    /// Where it serves.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// How long it took to be ready.
    #[must_use]
    pub fn loading(&self) -> Duration {
        self.loading
    }

    /// Its process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn directory(path: PathBuf) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Asks the readiness probe, which speaks plain HTTP.
fn is_ready(port: u16) -> Option<()> {
    let mut probe = TcpStream::connect(("127.0.0.1", port)).ok()?;
    probe.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    probe.write_all(b"GET /readiness HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = [0; 12];
    probe.read_exact(&mut answer).ok()?;
    answer.ends_with(b" 200").then_some(())
}
