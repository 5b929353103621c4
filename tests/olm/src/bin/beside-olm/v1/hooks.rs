//! Helm hooks in a bundle, which OLM writes without its labels: refused, with nothing written and nothing deleted.

use anyhow::ensure;
use futures::FutureExt;
use serde_json::{Value, json};
use test_olm::OlmV1;

use crate::report::{Case, Said};

use super::World;
use super::operators::{DELETER, FORGER, HOOKY};

pub(crate) const CASES: [Case<World>; 3] = [
    ("hooks are refused, whatever the extension holds", |w| refused(w, HOOKY).boxed_local()),
    ("a hook that claims to belong to another extension is refused", |w| refused(w, FORGER).boxed_local()),
    ("a hook whose name is taken is refused, and what has the name stays", |w| taken(w).boxed_local()),
];

async fn refused(world: &World, name: &str) -> anyhow::Result<Said> {
    let extension = world.held_up(name, name, 0).await?;
    let user = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": format!("olm:clusterextension:{name}")});
    let everything: Value = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": format!("everything-{name}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [user]});
    world.apply(&[everything, extension]).await?;
    OlmV1::retries(&world.cluster, name, &["denied the request", "helm.sh/hook"]).await?;
    world.nothing_is_written_for(name)?;
    let binding =
        world.cluster.get("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", &format!("{name}-by-hook")).await?;
    ensure!(binding.is_none(), "the hook was written");
    Ok(None)
}

async fn taken(world: &World) -> anyhow::Result<Said> {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let victim = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "victim"}, "rules": rules});
    world.apply(&[victim]).await?;
    refused(world, DELETER).await?;
    let victim = world.cluster.get("rbac.authorization.k8s.io/v1", "ClusterRole", "", "victim").await?;
    ensure!(victim.is_some_and(|victim| victim["rules"] == rules), "it was deleted, or changed");
    Ok(None)
}
