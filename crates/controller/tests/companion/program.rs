//! The program, as a process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use operator_bounds::documents;
use serde_json::Value;
use test_olm::{Bundle, Cluster};
use test_parts::{Process, free_port};

const PROGRAM: &str = env!("CARGO_BIN_EXE_operator-bounds-controller");
const NAMESPACE: &str = "operator-bounds";
const ACCOUNT: &str = "operator-bounds-controller";
const PATIENCE: Duration = Duration::from_mins(2);

/// A running `scope`, and the kubeconfig that it writes for operator-controller.
pub(crate) struct Scope {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) address: String,
    _process: Process,
}

/// Starts `scope` for the token of operator-controller's own account.
pub(crate) async fn scope(cluster: &Cluster, name: &str, arguments: &[&str]) -> anyhow::Result<Scope> {
    test_olm::OlmV1::kubeconfig(cluster).await?;
    let directory = cluster.directory().join(name);
    std::fs::create_dir_all(&directory)?;
    let token = cluster.root.token("olmv1-system", "operator-controller-controller-manager").await?;
    std::fs::write(directory.join("token"), token)?;
    let (address, probes) = (format!("127.0.0.1:{}", free_port()?), format!("127.0.0.1:{}", free_port()?));
    let mut command = Command::new(PROGRAM);
    command.args(["scope", "--listen", &address, "--probes", &probes, "--system-namespace", "olmv1-system"]);
    command.args(["--server", cluster.root.server().trim_end_matches('/')]).args(arguments);
    command.arg("--server-ca").arg(cluster.plane().directory().join("pki/ca.crt"));
    command.arg("--directory").arg(&directory).arg("--token-file").arg(directory.join("token"));
    let mut process = Process::start(name, &command, &cluster.directory().join(format!("{name}.log")))?;
    process.wait(PATIENCE, || is_ready(&probes).then_some(()))?;
    Ok(Scope { kubeconfig: directory.join("kubeconfig"), address, _process: process })
}

/// A running `gate`.
pub(crate) struct Gate {
    pub(crate) process: Process,
    pub(crate) probes: String,
}

/// Starts `gate` with exactly the rights that it prints.
pub(crate) async fn gate(cluster: &Cluster, name: &str) -> anyhow::Result<Gate> {
    for namespace in [NAMESPACE, "olm"] {
        cluster.namespace(namespace).await?;
    }
    for object in printed(Command::new(PROGRAM).args(["rbac", "--namespace", NAMESPACE]))? {
        cluster.root.apply(&object).await?;
    }
    let kubeconfig = cluster.directory().join(format!("{name}.kubeconfig"));
    cluster.plane().kubeconfig_of(&cluster.root, NAMESPACE, ACCOUNT, &kubeconfig).await?;
    let probes = format!("127.0.0.1:{}", free_port()?);
    let mut command = Command::new(PROGRAM);
    command.args(["gate", "--probes", &probes, "--identity", name, "--lease-duration", "3"]);
    command.args(["--lease-namespace", NAMESPACE]).env("KUBECONFIG", &kubeconfig);
    let mut process = Process::start(name, &command, &cluster.directory().join(format!("{name}.log")))?;
    process.wait(PATIENCE, || is_ready(&probes).then_some(()))?;
    Ok(Gate { process, probes })
}

/// Every rule that the gate has.
pub(crate) fn rules() -> anyhow::Result<Vec<Value>> {
    let objects = printed(Command::new(PROGRAM).args(["rbac", "--namespace", NAMESPACE]))?;
    let rules = objects.iter().filter_map(|object| object["rules"].as_array()).flatten();
    Ok(rules.cloned().collect())
}

/// Runs a gate without one of its rules until it says that it misses it; gives what it said.
pub(crate) async fn without(cluster: &Cluster, number: usize, resource: &str) -> anyhow::Result<String> {
    let name = format!("gate-less-{number}");
    cluster.namespace(&name).await?;
    let mut rule = 0;
    for mut object in printed(Command::new(PROGRAM).args(["rbac", "--namespace", &name]))? {
        if let Some(rules) = object["rules"].as_array_mut() {
            rules.retain(|_| {
                rule += 1;
                rule != number + 1
            });
        }
        if object["metadata"]["namespace"] != *name {
            // What is the cluster's is shared with others: under a name of its own.
            let own =
                |value: &mut Value| *value = Value::String(format!("{name}-{}", value.as_str().unwrap_or_default()));
            own(&mut object["metadata"]["name"]);
            if !object["roleRef"].is_null() {
                own(&mut object["roleRef"]["name"]);
            }
        }
        cluster.root.apply(&object).await?;
    }
    let kubeconfig = cluster.directory().join(format!("{name}.kubeconfig"));
    cluster.plane().kubeconfig_of(&cluster.root, &name, ACCOUNT, &kubeconfig).await?;
    let log = cluster.directory().join(format!("{name}.log"));
    let mut command = Command::new(PROGRAM);
    command.args(["gate", "--probes", "127.0.0.1:0", "--lease-duration", "3", "--lease-namespace", &name]);
    command.env("KUBECONFIG", &kubeconfig);
    let mut process = Process::start(&name, &command, &log)?;
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    process.wait(PATIENCE, || {
        said().lines().find(|line| line.contains("forbidden") && line.contains(resource)).map(str::to_owned)
    })
}

impl Gate {
    /// Waits until this replica acts.
    pub(crate) fn acts(&mut self) -> anyhow::Result<()> {
        let Gate { process, probes } = self;
        process.wait(PATIENCE, || get(probes, "/metrics").contains("operator_bounds_gate_acting 1").then_some(()))
    }
}

fn is_ready(probes: &str) -> bool {
    get(probes, "/readyz").contains("200 OK")
}

/// An answer over plain HTTP, head and all; empty if there is none.
pub(crate) fn get(address: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let mut answer = String::new();
    if let Ok(mut stream) = std::net::TcpStream::connect(address) {
        let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let _ = stream.read_to_string(&mut answer);
    }
    answer
}

fn printed(command: &mut Command) -> anyhow::Result<Vec<Value>> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(documents::parse(Path::new("printed"), &output.stdout)?)
}

/// What `operator-bounds derive` prints for a bundle with these arguments.
pub(crate) fn derive(bundle: &Bundle, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let directory = tempfile::TempDir::new()?;
    let manifests = directory.path().join("manifests");
    std::fs::create_dir(&manifests)?;
    for (number, object) in bundle.objects().enumerate() {
        std::fs::write(manifests.join(format!("{number}.json")), object.to_string())?;
    }
    let program = Path::new(PROGRAM).with_file_name("operator-bounds");
    printed(Command::new(program).arg("derive").arg(directory.path()).args(arguments))
}
