//! The account of the policy server, with the RBAC that is shipped for it.

use std::path::{Path, PathBuf};

use operator_bounds::documents;
use serde_json::json;
use test_parts::root;
use test_plane::Plane;
use test_plane::api::Api;

/// Kubewarden's namespace, its account and what is shipped for it, and a kubeconfig in this directory.
pub async fn admit(plane: &Plane, api: &Api, directory: &Path) -> anyhow::Result<PathBuf> {
    let account = json!({"name": "policy-server", "namespace": "kubewarden"});
    api.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubewarden"}})).await?;
    api.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})).await?;
    for object in documents::read(&root().join("policy-metadata/policy-server-rbac.yaml"))? {
        api.apply(&object).await?;
    }
    let kubeconfig = directory.join("policy-server.kubeconfig");
    plane.kubeconfig_of(api, "kubewarden", "policy-server", &kubeconfig).await?;
    Ok(kubeconfig)
}
