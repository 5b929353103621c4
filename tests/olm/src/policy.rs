//! The policy beside OLM: in the real policy-server, with the registrations that are shipped.

use anyhow::Context;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_kubewarden::{Module, PolicyServer, Shipped, Start, admit};
use test_plane::api::Key;
use test_plane::eventually;

use crate::cluster::{Cluster, PATIENCE};

/// A busy machine is not what is tested.
const EVALUATION_SECONDS: u32 = 20;

/// The policy in a policy server. The API server asks it once it is enforced.
pub struct Policy {
    shipped: Shipped,
    server: PolicyServer,
    _module: Module,
    _directory: TempDir,
}

impl Policy {
    /// The shipped registrations of these files, as they are.
    pub async fn load(cluster: &Cluster, files: &[&str]) -> anyhow::Result<Self> {
        Self::with(cluster, Shipped::read(files, &[])?).await
    }

    /// Other registrations.
    pub async fn with(cluster: &Cluster, shipped: Shipped) -> anyhow::Result<Self> {
        let program = test_parts::find("policy-server")?.context("there is no policy-server")?;
        let module = Module::publish().await?;
        // More than one may be loaded, one after the other.
        let directory = tempfile::tempdir_in(cluster.directory())?;
        let kubeconfig = admit(cluster.plane(), &cluster.root, directory.path()).await?;
        let policies = shipped.policies(module.reference());
        let server = PolicyServer::start(&Start {
            program: &program,
            kubeconfig: &kubeconfig,
            policies: &policies,
            module: &module,
            directory: directory.path(),
            seconds: EVALUATION_SECONDS,
        })?;
        Ok(Policy { shipped, server, _module: module, _directory: directory })
    }

    /// The policy server.
    #[must_use]
    pub fn server(&self) -> &PolicyServer {
        &self.server
    }

    /// Makes the API server ask it, and waits until it does.
    pub async fn enforce(&self, cluster: &Cluster) -> anyhow::Result<()> {
        for configuration in self.shipped.configurations(self.server.endpoint()) {
            cluster.root.apply(&configuration).await?;
        }
        for policy in self.shipped.manifests() {
            self.in_force(cluster, policy["metadata"]["name"].as_str().unwrap_or_default()).await?;
        }
        Ok(())
    }

    /// Whether this server has answered for a registration. Another one may have done so before it.
    fn was_asked(&self, registration: &str) -> bool {
        self.server.process().said().contains(&format!("/validate/clusterwide-{registration}?"))
    }

    /// The API server learns of a webhook a moment after it was configured. A request that does not exist for anybody else shows
    /// that it has: its answer is in the audit log with a verdict.
    async fn in_force(&self, cluster: &Cluster, registration: &str) -> anyhow::Result<()> {
        let Some(probe) = probe(registration) else { return Ok(()) };
        let verdict = format!("clusterwide-{registration}.kubewarden.admission/verdict");
        let path = format!("{}?dryRun=All", cluster.admin.collection(&Key::of(&probe))?);
        let what = format!("{registration} is in force");
        let asked = eventually(&what, PATIENCE, async || {
            let answer = cluster.admin.send(http::Method::POST, &path, Some(&probe)).await?;
            let events = cluster.audit.events()?;
            let event = events.iter().find(|event| event.audit_id == answer.audit_id);
            let judged =
                event.is_some_and(|event| event.annotations.contains_key(&verdict)) && self.was_asked(registration);
            Ok(if judged { Ok(()) } else { Err(format!("{} {}", answer.code, answer.message())) })
        });
        asked.await.map(drop)
    }
}

/// Something that a registration is asked about, whoever writes it. What only OLM writes is asked about with the rest.
fn probe(registration: &str) -> Option<Value> {
    let metadata = json!({"name": "operator-bounds-probe", "namespace": "default"});
    match registration {
        "operator-bounds-olm-v0" => Some(json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": metadata, "spec": {}})),
        "operator-bounds-olm-v0-rbac" => {
            Some(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "operator-bounds-probe"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "name": "probe", "namespace": "default"}]}))
        }
        "operator-bounds-olm-v1-extensions" => {
            Some(json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "operator-bounds-probe"},
            "spec": {"namespace": "default", "source": {"sourceType": "Catalog", "catalog": {"packageName": "probe"}}}}))
        }
        _ => None,
    }
}
