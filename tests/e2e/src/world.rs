//! A cluster as an administrator has it: the shipped registrations in force, controllers at work, users with RBAC.

use std::path::PathBuf;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_kubewarden::{Shipped, admit};
use test_plane::{Plane, eventually};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Mutex;

use crate::host::{Host, Kind};
use crate::registration::PATIENCE;
use crate::scanner;
use test_plane::api::{Answer, Api, Key, Sender};

pub(crate) const RBAC_V1: &str = "rbac.authorization.k8s.io/v1";
const RBAC: &str = "rbac.authorization.k8s.io";
/// Who may write everything of OLM, by a binding to this group, and nothing else.
pub(crate) const WRITERS: &str = "e2e:writers";
/// What all operators in these tests may hold.
pub(crate) const PODS: [&str; 1] = ["pods"];

const SHIPPED: [&str; 3] = ["olm-v0.yaml", "olm-v1.yaml", "olm-v1-strip.yaml"];
/// With OLM v0 in the same cluster its own comment says to leave it out.
const LEFT_OUT: [&str; 1] = ["operator-bounds-olm-v1-identities"];

/// The cluster. Everything in it ends when this is dropped.
pub(crate) struct World<'k> {
    pub(crate) api: Api,
    kind: &'k Kind,
    /// The kubeconfig of its account.
    policy_server: PathBuf,
    shipped: Shipped,
    /// None while it is down.
    host: Mutex<Option<Host>>,
    namespaces: AtomicUsize,
    directory: TempDir,
    plane: Plane,
}

impl<'k> World<'k> {
    pub(crate) async fn start(kind: &'k Kind) -> anyhow::Result<Self> {
        let plane = Plane::start(&["--olm-v1=deprecated"])?;
        let directory = TempDir::new()?;
        let api = Api::connect(&plane.kubeconfig()).await?;
        let world = World {
            policy_server: admit(&plane, &api, directory.path()).await?,
            api,
            kind,
            shipped: Shipped::read(&SHIPPED, &LEFT_OUT)?,
            host: Mutex::default(),
            namespaces: AtomicUsize::new(0),
            directory,
            plane,
        };
        let all = json!([{"apiGroups": ["operators.coreos.com", "olm.operatorframework.io"], "resources": ["*"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
        world.api.create(&cluster_role(WRITERS, &all)).await?;
        world.api.create(&binding(None, WRITERS, ("ClusterRole", WRITERS), &group(WRITERS))).await?;
        world.start_host().await?;
        Ok(world)
    }

    /// Starts the webhook, and waits until the API server asks it.
    pub(crate) async fn start_host(&self) -> anyhow::Result<()> {
        let policies = self.shipped.policies(self.kind.module());
        let host = self.kind.start(&self.policy_server, &policies, self.directory.path()).await?;
        for configuration in self.shipped.configurations(host.endpoint()) {
            self.api.apply(&configuration).await?;
        }
        *self.host.lock().await = Some(host);
        // What each registration refuses, whoever asks: an empty target; a role of an operator in a namespace without a group.
        let namespace = self.namespace().await?;
        let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "probe", "namespace": namespace}, "spec": {"targetNamespaces": [""]}});
        self.eventually("the registrations come into force", async || {
            let path = format!("{}?dryRun=All", self.api.collection(&Key::of(&group))?);
            let answer = self.api.send_as(Some(&tenant()), Method::POST, &path, Some(&group)).await?;
            Ok(answer.message().contains("denied the request").then_some(()).ok_or(answer.message().to_owned()))
        })
        .await
        .map(drop)
    }

    /// What the background audit reports of a namespace: the kind and the name of each object, and the words of those that fail.
    pub(crate) async fn audit(&self, namespace: &str) -> anyhow::Result<Vec<(String, Option<String>)>> {
        scanner::admit(&self.api).await?;
        let mut reported = Vec::new();
        let host = self.host.lock().await;
        let host = host.as_ref().context("the webhook is down")?;
        for scanned in scanner::scan(&self.api, self.shipped.manifests(), namespace).await? {
            let answer = host.audit(&scanned.policy, &scanned.request).await?;
            let (kind, name) = (&scanned.request["kind"]["kind"], &scanned.request["name"]);
            let what = format!("{} {}", kind.as_str().unwrap_or_default(), name.as_str().unwrap_or_default());
            let failed = (answer["allowed"] != true)
                .then(|| answer["status"]["message"].as_str().unwrap_or_default().to_owned());
            reported.push((what, failed));
        }
        Ok(reported)
    }

    /// Ends the webhook; the registrations stay.
    pub(crate) async fn stop_host(&self) {
        self.host.lock().await.take();
    }

    /// The API server crashes, and comes back.
    pub(crate) fn restart(&self) -> anyhow::Result<()> {
        self.plane.restart()
    }

    /// A new namespace.
    pub(crate) async fn namespace(&self) -> anyhow::Result<String> {
        let name = format!("team-{}", self.namespaces.fetch_add(1, Ordering::Relaxed));
        self.api.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await?;
        Ok(name)
    }

    /// A new namespace with an OperatorGroup, whose account `installer` may get and list these resources there.
    pub(crate) async fn team(&self, resources: &[&str]) -> anyhow::Result<String> {
        let namespace = self.namespace().await?;
        let objects = [
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": namespace}}),
            role(&namespace, "installer", resources),
            binding(Some(&namespace), "installer", ("Role", "installer"), &account(&namespace, "installer")),
            operator_group(&namespace, Some("installer")),
        ];
        for object in &objects {
            self.api.create(object).await?;
        }
        // The watches of the webhook take a moment: an operator that asks for what is held is admitted.
        if !resources.is_empty() {
            self.eventually("a new group is seen", async || {
                self.judged(&csv(&namespace, "probe", resources), "?dryRun=All").await
            })
            .await?;
        }
        Ok(namespace)
    }

    /// Creates an object as a tenant.
    pub(crate) async fn create(&self, object: &Value, query: &str) -> anyhow::Result<Answer> {
        let path = format!("{}{query}", self.api.collection(&Key::of(object))?);
        self.api.send_as(Some(&tenant()), Method::POST, &path, Some(object)).await
    }

    /// The same, as a verdict: admitted, or the message of the refusal.
    pub(crate) async fn judged(&self, object: &Value, query: &str) -> anyhow::Result<Result<(), String>> {
        verdict(&self.create(object, query).await?)
    }

    /// Tries until it succeeds, for a bounded time, and returns how long it took.
    pub(crate) async fn eventually<T>(
        &self,
        what: &str,
        attempt: impl AsyncFn() -> anyhow::Result<Result<T, String>>,
    ) -> anyhow::Result<(T, Duration)> {
        eventually(what, PATIENCE, attempt).await
    }

    /// An API client with an account's token.
    pub(crate) async fn with_token_of(&self, namespace: &str, name: &str) -> anyhow::Result<Api> {
        self.api.with_token(&self.plane.kubeconfig(), &self.api.token(namespace, name).await?).await
    }

    /// Runs kubectl with an object on its standard input.
    pub(crate) async fn kubectl(&self, arguments: &[&str], object: Option<&Value>) -> anyhow::Result<Output> {
        let mut child = Command::new("kubectl")
            .env("KUBECONFIG", self.plane.kubeconfig())
            .args(arguments)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("kubectl")?;
        if let (Some(mut stdin), Some(object)) = (child.stdin.take(), object) {
            stdin.write_all(object.to_string().as_bytes()).await?;
        }
        Ok(child.wait_with_output().await?)
    }
}

/// Admitted, or the webhook's words. Any other answer is a mistake of the test.
pub(crate) fn verdict(answer: &Answer) -> anyhow::Result<Result<(), String>> {
    if answer.is_success() {
        return Ok(Ok(()));
    }
    let message = answer.message();
    // A webhook that did not answer in time, as while its watches are opened, is no verdict that a case wants; who waits tries again.
    ensure!(
        message.contains("denied the request") || answer.code == 500,
        "neither admitted nor refused: {} {message}",
        answer.code
    );
    Ok(Err(message.to_owned()))
}

pub(crate) fn tenant() -> Sender {
    Sender { user: "tenant".to_owned(), groups: vec![WRITERS.to_owned()], extra: Vec::new() }
}

pub(crate) fn operator_group(namespace: &str, account: Option<&str>) -> Value {
    let mut spec = json!({"targetNamespaces": [namespace]});
    if let Some(account) = account {
        spec["serviceAccountName"] = json!(account);
    }
    json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "og", "namespace": namespace}, "spec": spec})
}

/// An operator that wants to get and list these resources in its namespace.
pub(crate) fn csv(namespace: &str, name: &str, resources: &[&str]) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"displayName": name, "install": {"strategy": "deployment", "spec": {
            "permissions": [{"serviceAccountName": "operator", "rules": rules(resources)}], "deployments": []}}}})
}

pub(crate) fn rules(resources: &[&str]) -> Value {
    if resources.is_empty() {
        return json!([]);
    }
    json!([{"apiGroups": [""], "resources": resources, "verbs": ["get", "list"]}])
}

pub(crate) fn role(namespace: &str, name: &str, resources: &[&str]) -> Value {
    json!({"apiVersion": RBAC_V1, "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": rules(resources)})
}

pub(crate) fn cluster_role(name: &str, rules: &Value) -> Value {
    json!({"apiVersion": RBAC_V1, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

/// A RoleBinding in the namespace, or a ClusterRoleBinding.
pub(crate) fn binding(namespace: Option<&str>, name: &str, (kind, role): (&str, &str), subject: &Value) -> Value {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    json!({"apiVersion": RBAC_V1, "kind": if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" },
        "metadata": metadata, "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}, "subjects": [subject]})
}

pub(crate) fn account(namespace: &str, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
}

pub(crate) fn group(name: &str) -> Value {
    json!({"apiGroup": RBAC, "kind": "Group", "name": name})
}

pub(crate) fn user(name: &str) -> Value {
    json!({"apiGroup": RBAC, "kind": "User", "name": name})
}
