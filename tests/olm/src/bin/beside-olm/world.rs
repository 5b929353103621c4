//! The cluster of the cases, with OLM v0 and the policy in it.

use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context, ensure};
use http::Method;
use serde_json::{Value, json};
use test_olm::{Bundle, Cluster, Group, OlmV0, Package, Policy};
use test_plane::api::{Answer, Key, Sender};

use crate::derive::{self, Mode};

/// Who may write everything of OLM v0, and nothing else.
const TENANTS: &str = "tests:tenants";

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) program: PathBuf,
    pub(crate) policy: Policy,
    pub(crate) olm: OlmV0,
    packages: Vec<Package>,
    /// Namespaces in which the policy is expected to refuse something.
    refusing: Mutex<Vec<String>>,
}

impl World {
    pub(crate) fn new(cluster: Cluster, program: PathBuf, policy: Policy, olm: OlmV0, packages: Vec<Package>) -> Self {
        World { cluster, program, policy, olm, packages, refusing: Mutex::default() }
    }

    /// An operator of the catalog.
    pub(crate) fn package(&self, name: &str) -> anyhow::Result<&Package> {
        self.packages
            .iter()
            .find(|package| package.name() == name)
            .with_context(|| format!("the catalog has no {name}"))
    }

    /// Lets tenants write what is OLM's.
    pub(crate) async fn admit_tenants(&self) -> anyhow::Result<()> {
        let rules = json!([{"apiGroups": ["operators.coreos.com"], "resources": ["*"], "verbs": ["*"]}]);
        let rbac = "rbac.authorization.k8s.io";
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": TENANTS}, "rules": rules});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": TENANTS},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": TENANTS},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": TENANTS}]});
        self.cluster.root.apply(&role).await?;
        self.cluster.root.apply(&binding).await.map(drop)
    }

    /// A namespace in which nothing may be refused.
    pub(crate) async fn group(&self, namespace: &str) -> anyhow::Result<Group<'_>> {
        Group::new(&self.cluster, namespace).await
    }

    /// A namespace in which the policy has something to refuse.
    pub(crate) async fn refusing(&self, namespace: &str) -> anyhow::Result<Group<'_>> {
        if let Ok(mut refusing) = self.refusing.lock() {
            refusing.push(namespace.to_owned());
        }
        self.group(namespace).await
    }

    /// What `derive` prints for the account of a group.
    pub(crate) fn derived(&self, group: &Group<'_>, bundle: &Bundle, mode: Mode<'_>) -> anyhow::Result<Vec<Value>> {
        derive::for_account(&self.program, bundle, &format!("{}/{}", group.namespace(), group.account()), mode)
    }

    /// Applies manifests as an administrator whom the policy judges.
    pub(crate) async fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            self.cluster.admin.apply(object).await?;
        }
        Ok(())
    }

    /// Writes manifests over what is there, as an administrator whom the policy judges: what they no longer say is gone.
    pub(crate) async fn replace(&self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            let key = Key::of(object);
            let path = self.cluster.admin.path(&key)?;
            let written = self.cluster.admin.send(Method::PUT, &path, Some(object)).await?;
            if written.code == 404 {
                self.cluster.admin.create(object).await?;
            } else {
                written.ok(&key)?;
            }
        }
        Ok(())
    }

    /// Writes an object as a tenant, by server-side apply.
    pub(crate) async fn as_tenant(&self, object: &Value) -> anyhow::Result<Answer> {
        let sender = Sender { user: "tenant".to_owned(), groups: vec![TENANTS.to_owned()], extra: Vec::new() };
        let path = format!("{}?fieldManager=tenant&force=true", self.cluster.root.path(&Key::of(object))?);
        self.cluster.root.send_as(Some(&sender), Method::PATCH, &path, Some(object)).await
    }

    /// Every refusal since that many were known must be in a namespace that expects some.
    pub(crate) fn unexpected(&self, known: usize) -> anyhow::Result<Vec<String>> {
        let refusing = self.refusing.lock().map(|names| names.clone()).unwrap_or_default();
        let refusals = self.cluster.refusals()?;
        ensure!(refusals.len() >= known, "the audit log has lost something");
        let expected = |message: &str| refusing.iter().any(|namespace| message.contains(namespace.as_str()));
        let refusals = refusals[known..].iter().filter(|event| !expected(event.message()));
        Ok(refusals.map(ToString::to_string).collect())
    }
}
