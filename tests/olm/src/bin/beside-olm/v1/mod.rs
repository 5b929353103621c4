//! OLM v1 beside the policy: `bound: synthetic` as it is shipped, then `bound: serviceAccount`.

mod accounts;
pub(crate) mod early;
mod extensions;
mod hooks;
mod operators;

use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use test_kubewarden::Shipped;
use test_olm::{Bundle, Cluster, Corpus, OlmV1, Package, Policy, Started};
use test_plane::api::Key;
use test_plane::audit::Event;

use crate::Arguments;
use crate::derive;
use crate::report::Report;
use crate::writes::{Writers, section};

/// Who writes everything.
pub(crate) const OLM: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";

const WRITERS: Writers = Writers {
    title: "OLM v1.11",
    called: |user| match user {
        OLM => Some("operator-controller"),
        "system:serviceaccount:olmv1-system:catalogd-controller-manager" => Some("catalogd"),
        "system:serviceaccount:kube-system:generic-garbage-collector" => Some("the garbage collector"),
        _ => None,
    },
};

/// What OLM v1 keeps for itself, whatever becomes of an extension.
const BOOKKEEPING: [&str; 6] = [
    "clusterextensions.olm.operatorframework.io",
    "clusterextensions.olm.operatorframework.io/finalizers",
    "clusterextensions.olm.operatorframework.io/status",
    "leases.coordination.k8s.io",
    "serviceaccounts/token",
    "subjectaccessreviews.authorization.k8s.io",
];

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    program: PathBuf,
    packages: Vec<Package>,
    /// Extensions that the policy is expected to hold up.
    refusing: Mutex<Vec<String>>,
}

/// Runs everything in one cluster.
pub(crate) async fn run(arguments: &Arguments, report: &mut Report) -> anyhow::Result<String> {
    let corpus = Corpus::read()?.context("there is no ../shared/corpus, and so no real operator")?;
    let cluster = Cluster::start("deprecated").await?;
    let mut packages = operators::all();
    for name in extensions::REAL {
        packages.push(Package::new(name, vec![corpus.newest(name)?]));
    }
    let olm = OlmV1::start(&cluster, &packages, Started::default()).await?;
    let world = World::new(cluster, arguments.program.clone(), packages);
    extensions::before(&world).await?;
    let policy = Policy::load(&world.cluster, &["olm-v1.yaml"]).await?;
    policy.enforce(&world.cluster).await?;
    report.run(&world, &extensions::CASES, &arguments.beginning).await;
    report.run(&world, &hooks::CASES, &arguments.beginning).await;
    let by_account =
        Shipped::read(&["olm-v1.yaml"], &[])?.with_settings(&json!({"clusterExtensions": {"bound": "serviceAccount"}}));
    let by_account = Policy::with(&world.cluster, by_account).await?;
    by_account.enforce(&world.cluster).await?;
    report.run(&world, &accounts::CASES, &arguments.beginning).await;
    match world.unexpected()?.as_slice() {
        [] => report.held("OLM v1 is refused nothing but what was meant to be", None),
        refusals => report.failed("OLM v1 is refused nothing but what was meant to be", &refusals.join("\n")),
    }
    report.say(format!("OLM v1: {}", world.cluster.reviews()?));
    let written = section(&WRITERS, &world.cluster.audit.events()?);
    drop((olm, policy, by_account));
    Ok(written)
}

impl World {
    fn new(cluster: Cluster, program: PathBuf, packages: Vec<Package>) -> Self {
        World { cluster, program, packages, refusing: Mutex::default() }
    }

    pub(crate) fn bundle(&self, package: &str, version: usize) -> anyhow::Result<&Bundle> {
        let found = self.packages.iter().find(|other| other.name() == package);
        found
            .and_then(|package| package.versions().get(version))
            .with_context(|| format!("the catalog has no {package}"))
    }

    /// An extension in a namespace of its own, of a version of a package. The policy has something to refuse.
    pub(crate) async fn held_up(&self, name: &str, package: &str, version: usize) -> anyhow::Result<Value> {
        if let Ok(mut refusing) = self.refusing.lock() {
            refusing.push(name.to_owned());
        }
        self.extension(name, package, version).await
    }

    /// The same where nothing may be refused.
    pub(crate) async fn extension(&self, name: &str, package: &str, version: usize) -> anyhow::Result<Value> {
        let namespace = format!("ns-{name}");
        self.cluster.namespace(&namespace).await?;
        Ok(OlmV1::extension(name, &namespace, package, self.bundle(package, version)?.version()))
    }

    /// What `derive` prints for the synthetic identity of an extension.
    pub(crate) fn derived(&self, name: &str, bundle: &Bundle) -> anyhow::Result<Vec<Value>> {
        let namespace = format!("ns-{name}");
        derive::derive(&self.program, bundle, &["--for", "synthetic", name, "--namespace", &namespace])
    }

    /// What `derive` prints for the account `installer` in the namespace of an extension.
    pub(crate) fn derived_for(&self, name: &str, bundle: &Bundle, more: &[&str]) -> anyhow::Result<Vec<Value>> {
        let namespace = format!("ns-{name}");
        let account = format!("{namespace}/installer");
        let arguments = ["--olm", "v1", "--for", "serviceaccount", &account, "--namespace", &namespace];
        derive::derive(&self.program, bundle, &[&arguments, more].concat())
    }

    pub(crate) async fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            self.cluster.admin.apply(object).await?;
        }
        Ok(())
    }

    pub(crate) async fn remove(&self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            self.cluster.admin.delete(&Key::of(object)).await?;
        }
        Ok(())
    }

    /// What OLM has written beside its bookkeeping that concerns an extension, by its namespace or by the owner that it names.
    pub(crate) fn written_for(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let namespace = format!("ns-{name}");
        let concerns = |event: &Event| {
            let owner = event.request_object.as_ref().and_then(|object| object.pointer("/metadata/labels"));
            let owner =
                owner.and_then(|labels| labels.get("olm.operatorframework.io/owner-name")).and_then(Value::as_str);
            event.namespace() == namespace || owner == Some(name) || event.name().starts_with(&format!("{name}-"))
        };
        let events = self.cluster.audit.events()?.into_iter();
        let written = events.filter(|event| event.user() == OLM && event.code() < 300 && !event.is_dry_run());
        let written = written.filter(|event| !BOOKKEEPING.contains(&event.resource().as_str()) && concerns(event));
        Ok(written
            .map(|event| format!("{} {} {}/{}", event.verb, event.resource(), event.namespace(), event.name()))
            .collect())
    }

    /// Nothing was written for an extension that is held up.
    pub(crate) fn nothing_is_written_for(&self, name: &str) -> anyhow::Result<()> {
        let written = self.written_for(name)?;
        ensure!(written.is_empty(), "written for {name} though it is refused: {written:?}");
        Ok(())
    }

    fn unexpected(&self) -> anyhow::Result<Vec<String>> {
        let refusing = self.refusing.lock().map(|names| names.clone()).unwrap_or_default();
        let expected = |message: &str| refusing.iter().any(|name| message.contains(name.as_str()));
        let refusals = self.cluster.refusals()?.into_iter().filter(|event| !expected(event.message()));
        Ok(refusals.map(|event| event.to_string()).collect())
    }
}
