//! OLM v0: `olm`, `catalog`, and `opm`, which serves the catalog.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use test_parts::{Process, free_port};
use test_plane::api::{Api, Key};

use crate::catalog::Package;
use crate::cluster::{Cluster, key};

/// Where OLM runs, and its catalog is.
const NAMESPACE: &str = "olm";
const ACCOUNT: &str = "olm-operator-serviceaccount";
/// The name of the catalog.
const CATALOG: &str = "tests";
const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";

/// A running OLM v0. It ends when this is dropped.
#[derive(Debug)]
pub struct OlmV0 {
    olm: Process,
    catalog: Process,
    _opm: Process,
}

impl OlmV0 {
    /// Whether its parts are there; what is missing is said on standard error.
    pub fn is_there() -> anyhow::Result<bool> {
        Ok(parts()?.is_some())
    }

    /// Starts it with this catalog, and waits until it has looked into it.
    pub async fn start(cluster: &Cluster, packages: &[Package]) -> anyhow::Result<Self> {
        let [olm, catalog, opm] = parts()?.context("there is no OLM v0")?;
        cluster.root.apply(&role()).await?;
        let kubeconfig = cluster.component(NAMESPACE, ACCOUNT, ROLE).await?;
        let settings =
            json!({"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"}});
        cluster.root.apply(&settings).await?;
        let (served, port) = serve(&opm, packages, cluster.directory())?;
        let started = OlmV0 {
            olm: start("olm", Command::new(&olm).args(["--namespace", NAMESPACE]), &kubeconfig, cluster.directory())?,
            catalog: start(
                "catalog",
                Command::new(&catalog).args(["--namespace", NAMESPACE]),
                &kubeconfig,
                cluster.directory(),
            )?,
            _opm: served,
        };
        let source = json!({"apiVersion": V1ALPHA1, "kind": "CatalogSource", "metadata": {"name": CATALOG, "namespace": NAMESPACE},
            "spec": {"sourceType": "grpc", "address": format!("127.0.0.1:{port}"), "displayName": "Tests", "publisher": "tests"}});
        cluster.root.apply(&source).await?;
        let ready = |source: &Value| source["status"]["connectionState"]["lastObservedState"] == "READY";
        cluster.wait_for("OLM reads the catalog", &Key::of(&source), ready).await?;
        Ok(started)
    }

    /// An error, with the last words, if one of its processes has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        self.olm.check()?;
        self.catalog.check()
    }

    /// What both have printed.
    #[must_use]
    pub fn said(&self) -> String {
        self.olm.said() + &self.catalog.said()
    }
}

fn parts() -> anyhow::Result<Option<[PathBuf; 3]>> {
    let (olm, catalog, opm) = (test_parts::find("olm")?, test_parts::find("catalog")?, test_parts::find("opm")?);
    Ok(olm.zip(catalog).zip(opm).map(|((olm, catalog), opm)| [olm, catalog, opm]))
}

const ROLE: &str = "system:controller:operator-lifecycle-manager";

/// What OLM's chart gives it.
fn role() -> Value {
    let verbs = ["watch", "list", "get", "create", "update", "patch", "delete", "deletecollection", "escalate", "bind"];
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": ROLE},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]})
}

fn serve(opm: &Path, packages: &[Package], directory: &Path) -> anyhow::Result<(Process, u16)> {
    for package in packages {
        let of_package = directory.join("catalog").join(package.name());
        fs::create_dir_all(&of_package)?;
        let documents: String = package.inlined().iter().map(|document| format!("{document}\n")).collect();
        fs::write(of_package.join("catalog.json"), documents)?;
    }
    let port = free_port()?;
    let log = directory.join("opm.log");
    let mut command = Command::new(opm);
    command
        .arg("serve")
        .arg(directory.join("catalog"))
        .args(["--port", &port.to_string(), "--pprof-addr", "127.0.0.1:0", "--cache-enforce-integrity=false"])
        .arg("--cache-dir")
        .arg(directory.join("catalog-cache"))
        .arg("--termination-log")
        .arg(directory.join("opm.end"));
    let mut process = Process::start("opm serve", &command, &log)?;
    process.wait(Duration::from_mins(3), || {
        fs::read_to_string(&log).is_ok_and(|said| said.contains("serving registry")).then_some(())
    })?;
    Ok((process, port))
}

fn start(name: &str, command: &mut Command, kubeconfig: &Path, directory: &Path) -> anyhow::Result<Process> {
    command.env("KUBECONFIG", kubeconfig).env("OPERATOR_NAMESPACE", NAMESPACE).env("OPERATOR_NAME", "olm-operator");
    // OLM panics in its own CI when it writes something without its label, a TokenRequest for instance.
    command.env_remove("CI");
    Process::start(name, command, &directory.join(format!("{name}.log")))
}

/// An OperatorGroup's namespace, and what is done there.
pub struct Group<'c> {
    cluster: &'c Cluster,
    namespace: String,
}

impl<'c> Group<'c> {
    /// A new namespace, without an OperatorGroup.
    pub async fn new(cluster: &'c Cluster, namespace: &str) -> anyhow::Result<Self> {
        cluster.namespace(namespace).await?;
        Ok(Group { cluster, namespace: namespace.to_owned() })
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The OperatorGroup as an administrator applies it: its targets (all namespaces without any), and its account.
    #[must_use]
    pub fn manifest(&self, targets: &[&str], account: Option<&str>) -> Value {
        let mut spec = json!({});
        if !targets.is_empty() {
            spec["targetNamespaces"] = json!(targets);
        }
        if let Some(account) = account {
            spec["serviceAccountName"] = json!(account);
        }
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "group", "namespace": self.namespace}, "spec": spec})
    }

    /// The account that bounds it where one does. Its name is no other group's: ClusterRoles are named after it.
    #[must_use]
    pub fn account(&self) -> String {
        format!("{}-installer", self.namespace)
    }

    /// Creates its account with this RBAC, and the OperatorGroup that targets these namespaces with it.
    pub async fn bounded(&self, targets: &[&str], rbac: &[Value]) -> anyhow::Result<()> {
        self.cluster.account(&self.namespace, &self.account()).await?;
        for object in rbac {
            self.cluster.admin.apply(object).await?;
        }
        self.cluster.admin.apply(&self.manifest(targets, Some(&self.account()))).await.map(drop)
    }

    /// A Subscription to a channel; another channel than before is an upgrade.
    pub async fn subscribe(&self, api: &Api, package: &str, channel: &str, approval: &str) -> anyhow::Result<()> {
        let spec = json!({"channel": channel, "name": package, "source": CATALOG, "sourceNamespace": NAMESPACE, "installPlanApproval": approval});
        let subscription = json!({"apiVersion": V1ALPHA1, "kind": "Subscription",
            "metadata": {"name": package, "namespace": self.namespace}, "spec": spec});
        api.apply(&subscription).await.map(drop)
    }

    /// The place of a ClusterServiceVersion.
    #[must_use]
    pub fn csv(&self, name: &str) -> Key {
        key(V1ALPHA1, "ClusterServiceVersion", &self.namespace, name)
    }

    /// Waits until an operator is installed, and says how long that took.
    pub async fn succeeds(&self, csv: &str) -> anyhow::Result<Duration> {
        self.reaches(csv, "Succeeded").await.map(|(_, took)| took)
    }

    /// Waits until a ClusterServiceVersion is in a phase.
    pub async fn reaches(&self, csv: &str, phase: &str) -> anyhow::Result<(Value, Duration)> {
        // Nobody serves an API here: an operator that brings one waits for it, and OLM has nothing left to do.
        let waits = |object: &Value| object["status"]["message"] == "apiServices not installed";
        let reached = |object: &Value| object["status"]["phase"] == phase || waits(object);
        match self.cluster.wait_for(&format!("{csv} is {phase}"), &self.csv(csv), reached).await {
            Ok(reached) => Ok(reached),
            Err(error) => Err(error.context(self.plans().await?)),
        }
    }

    /// What the plans there say, for somebody who wonders.
    async fn plans(&self) -> anyhow::Result<String> {
        let plans = self.cluster.root.list(V1ALPHA1, "InstallPlan", Some(&self.namespace)).await?;
        let said = plans.iter().map(|plan| {
            let (spec, status) = (&plan["spec"], &plan["status"]);
            format!(
                "\n{}: {} {} {}",
                spec["clusterServiceVersionNames"], status["phase"], status["message"], status["conditions"]
            )
        });
        Ok(format!("the plans in {}:{}", self.namespace, said.collect::<String>()))
    }

    /// The InstallPlan that a Subscription waits for, once there is one that installs this ClusterServiceVersion.
    pub async fn plan(&self, package: &str, csv: &str) -> anyhow::Result<Value> {
        let subscription = key(V1ALPHA1, "Subscription", &self.namespace, package);
        let (plan, _) = test_plane::eventually("there is a plan", crate::cluster::PATIENCE, async || {
            let found = self.cluster.root.get(&subscription).await?.unwrap_or_default();
            let name = found["status"]["installPlanRef"]["name"].as_str().unwrap_or_default();
            if name.is_empty() {
                return Ok(Err(format!("the Subscription has the status {:#}", found["status"])));
            }
            let plan = self.cluster.get(V1ALPHA1, "InstallPlan", &self.namespace, name).await?.unwrap_or_default();
            let names = plan["spec"]["clusterServiceVersionNames"].as_array().into_iter().flatten();
            Ok(if names.into_iter().any(|name| name == csv) {
                Ok(plan)
            } else {
                Err(format!("plan {name} is for another version"))
            })
        })
        .await?;
        Ok(plan)
    }

    /// Waits until the plan for an operator tells of a refusal in these words, and gives all that it says.
    pub async fn plan_says(&self, package: &str, csv: &str, words: &[&str]) -> anyhow::Result<String> {
        let plan = self.plan(package, csv).await?;
        let holds = |plan: &Value| {
            let said = plan["status"].to_string();
            words.iter().all(|word| said.contains(&json_text(word)))
        };
        let (plan, _) = self.cluster.wait_for(&format!("the plan says {words:?}"), &Key::of(&plan), holds).await?;
        Ok(plan["status"]["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Takes an operator away as people do: its Subscription, then its ClusterServiceVersion. Says how long it took until it was gone.
    pub async fn uninstall(&self, package: &str, csv: &str) -> anyhow::Result<Duration> {
        self.cluster.admin.delete(&key(V1ALPHA1, "Subscription", &self.namespace, package)).await?;
        self.cluster.admin.delete(&self.csv(csv)).await?;
        self.cluster.wait_until_gone(&self.csv(csv)).await
    }
}

/// As it stands inside a JSON string.
fn json_text(word: &str) -> String {
    let quoted = json!(word).to_string();
    quoted.trim_matches('"').to_owned()
}
