//! OLM v1: `operator-controller` and `catalogd`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use test_kubewarden::certificate;
use test_parts::{Process, free_port};
use test_plane::api::Key;

use crate::catalog::Package;
use crate::cluster::{Cluster, key};
use crate::image::Images;

const NAMESPACE: &str = "olmv1-system";
const OPERATOR_CONTROLLER: &str = "operator-controller-controller-manager";
const CATALOGD: &str = "catalogd-controller-manager";
const V1: &str = "olm.operatorframework.io/v1";

/// A program that looks for its account where a pod has it: in a mount namespace of its own, there it is.
const IN_A_POD: &str = r#"
mount --make-rprivate / && mount -t tmpfs tmpfs /run || exit 1
mkdir -p /run/secrets/kubernetes.io/serviceaccount && cd /run/secrets/kubernetes.io/serviceaccount || exit 1
printf %s "$1" >token && printf %s "$2" >namespace && shift 2 && cd / && exec "$@"
"#;

/// A running OLM v1. It ends when this is dropped.
pub struct OlmV1 {
    operator_controller: Process,
    _catalogd: Process,
    _images: Images,
}

/// How OLM v1 is started.
#[derive(Debug, Clone, Copy, Default)]
pub struct Started<'a> {
    /// `1.10.0`; the newest without one.
    pub version: Option<&'a str>,
    /// Where operator-controller finds the API server, in place of its account's own kubeconfig: something may be between them.
    pub kubeconfig: Option<&'a Path>,
    /// More arguments of operator-controller: feature gates.
    pub arguments: &'a [&'a str],
}

impl OlmV1 {
    /// Whether its parts are there; what is missing is said on standard error.
    pub fn is_there(version: Option<&str>) -> anyhow::Result<bool> {
        Ok(parts(version)?.is_some())
    }

    /// The kubeconfig of operator-controller's own account, which is made where it is not there yet.
    pub async fn kubeconfig(cluster: &Cluster) -> anyhow::Result<PathBuf> {
        cluster.component(NAMESPACE, OPERATOR_CONTROLLER, "cluster-admin").await
    }

    /// Starts it with a catalog of these packages, and waits until the catalog is served.
    pub async fn start(cluster: &Cluster, packages: &[Package], how: Started<'_>) -> anyhow::Result<Self> {
        let [operator_controller, catalogd] = parts(how.version)?.context("there is no OLM v1")?;
        let images = Images::publish(packages).await?;
        let directory = cluster.directory();
        let pod = Pod { cluster, registries: images.configuration(directory)?, trusted: trusted(directory)? };
        let catalogd = pod.catalogd(&catalogd).await?;
        let operator_controller = pod.operator_controller(&operator_controller, how).await?;
        let catalog = json!({"apiVersion": V1, "kind": "ClusterCatalog", "metadata": {"name": "tests"},
            "spec": {"source": {"type": "Image", "image": {"ref": images.catalog()}}}});
        cluster.root.apply(&catalog).await?;
        cluster.wait_for("the catalog is served", &Key::of(&catalog), |catalog| is(catalog, "Serving", "True")).await?;
        Ok(OlmV1 { operator_controller, _catalogd: catalogd, _images: images })
    }

    /// What operator-controller has printed.
    #[must_use]
    pub fn said(&self) -> String {
        self.operator_controller.said()
    }

    /// A ClusterExtension of this package and version, into a namespace.
    #[must_use]
    pub fn extension(name: &str, namespace: &str, package: &str, version: &str) -> Value {
        let catalog = json!({"packageName": package, "version": version});
        json!({"apiVersion": V1, "kind": "ClusterExtension", "metadata": {"name": name},
            "spec": {"namespace": namespace, "source": {"sourceType": "Catalog", "catalog": catalog}}})
    }

    /// The place of a ClusterExtension.
    #[must_use]
    pub fn place(name: &str) -> Key {
        key(V1, "ClusterExtension", "", name)
    }

    /// Waits until this version of an extension is installed, and says how long that took.
    pub async fn installed(cluster: &Cluster, name: &str, version: &str) -> anyhow::Result<Duration> {
        let installed = |extension: &Value| {
            is(extension, "Installed", "True") && extension["status"]["install"]["bundle"]["version"] == version
        };
        Ok(cluster.wait_for(&format!("{name} {version} is installed"), &Self::place(name), installed).await?.1)
    }

    /// Waits until an extension says that it is held up, in these words, and gives all that it says.
    pub async fn retries(cluster: &Cluster, name: &str, words: &[&str]) -> anyhow::Result<String> {
        let held = |extension: &Value| {
            let condition = condition(extension, "Progressing");
            let message = condition["message"].as_str().unwrap_or_default();
            condition["reason"] == "Retrying" && words.iter().all(|word| message.contains(word))
        };
        let (extension, _) = cluster.wait_for(&format!("{name} says {words:?}"), &Self::place(name), held).await?;
        Ok(condition(&extension, "Progressing")["message"].as_str().unwrap_or_default().to_owned())
    }
}

/// A condition of an object's status.
fn condition<'v>(object: &'v Value, name: &str) -> &'v Value {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|condition| condition["type"] == name).unwrap_or(&Value::Null)
}

fn is(object: &Value, name: &str, status: &str) -> bool {
    condition(object, name)["status"] == status
}

fn parts(version: Option<&str>) -> anyhow::Result<Option<[PathBuf; 2]>> {
    let named = |part: &str| version.map_or_else(|| part.to_owned(), |version| format!("{part}-{version}"));
    let (controller, catalogd) =
        (test_parts::find(&named("operator-controller"))?, test_parts::find(&named("catalogd"))?);
    Ok(controller.zip(catalogd).map(|(controller, catalogd)| [controller, catalogd]))
}

/// The directory of the authorities that both trust: that of catalogd's certificate, which is its own.
fn trusted(directory: &Path) -> anyhow::Result<PathBuf> {
    let authorities = directory.join("authorities");
    fs::create_dir_all(&authorities)?;
    let own = certificate(&directory.join("catalogd.crt"), &directory.join("catalogd.key"))?;
    fs::write(authorities.join("ca.crt"), own)?;
    Ok(authorities)
}

/// Where a program runs.
struct Pod<'c> {
    cluster: &'c Cluster,
    registries: PathBuf,
    trusted: PathBuf,
}

impl Pod<'_> {
    async fn catalogd(&self, program: &Path) -> anyhow::Result<Process> {
        let kubeconfig = self.cluster.component(NAMESPACE, CATALOGD, "cluster-admin").await?;
        let directory = self.cluster.directory();
        let address = format!("127.0.0.1:{}", free_port()?);
        let mut command = self.command(program, CATALOGD).await?;
        command
            .args(["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"])
            .args(["--catalogs-server-addr", &address, "--external-address", &address])
            .args(["--webhook-server-port", &free_port()?.to_string()])
            .arg("--tls-cert")
            .arg(directory.join("catalogd.crt"))
            .arg("--tls-key")
            .arg(directory.join("catalogd.key"))
            .arg("--cache-dir")
            .arg(made(directory.join("catalogd-cache"))?)
            .env("KUBECONFIG", kubeconfig);
        Process::start("catalogd", &command, &directory.join("catalogd.log"))
    }

    async fn operator_controller(&self, program: &Path, how: Started<'_>) -> anyhow::Result<Process> {
        let own = OlmV1::kubeconfig(self.cluster).await?;
        let directory = self.cluster.directory();
        let mut command = self.command(program, OPERATOR_CONTROLLER).await?;
        command
            .args(["--health-probe-bind-address", "127.0.0.1:0", "-v=2"])
            .arg("--catalogd-cas-dir")
            .arg(&self.trusted)
            .arg("--pull-cas-dir")
            .arg(&self.trusted)
            .arg("--cache-path")
            .arg(made(directory.join("operator-controller-cache"))?)
            .args(how.arguments)
            .env("KUBECONFIG", how.kubeconfig.unwrap_or(&own));
        Process::start("operator-controller", &command, &directory.join("operator-controller.log"))
    }

    /// The program with its account's token where a pod has it.
    async fn command(&self, program: &Path, account: &str) -> anyhow::Result<Command> {
        self.cluster.component(NAMESPACE, account, "cluster-admin").await?;
        let token = self.cluster.root.token(NAMESPACE, account).await?;
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", IN_A_POD, account, &token, NAMESPACE])
            .arg(program)
            .args(["--system-namespace", NAMESPACE])
            .env("CONTAINERS_REGISTRIES_CONF", &self.registries)
            .env("TMPDIR", made(self.cluster.directory().join("tmp"))?);
        Ok(command)
    }
}

fn made(path: PathBuf) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
    Ok(path)
}
