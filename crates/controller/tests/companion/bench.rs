//! What the gate takes in a large cluster: printed, and not asserted.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use test_olm::Cluster;

use crate::gate::V1ALPHA1;
use crate::{gate, hostile, program};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Creates many objects, a few at a time.
async fn create(cluster: &Cluster, objects: impl Iterator<Item = Value>) -> anyhow::Result<()> {
    stream::iter(objects.map(Ok))
        .try_for_each_concurrent(16, async |object| cluster.root.create(&object).await.map(drop))
        .await
}

/// 1,000 groups, 10,000 RBAC objects and 20,000 copies; then plans that are approved one after the other.
pub(crate) async fn scale(cluster: &Cluster) -> anyhow::Result<()> {
    let namespaces: Vec<String> = (0..1_000).map(|number| format!("scale-{number}")).collect();
    stream::iter(&namespaces)
        .map(Ok)
        .try_for_each_concurrent(16, async |name: &String| gate::bounded(cluster, name, "within-bounds").await)
        .await?;
    let api = format!("{RBAC}/v1");
    let rbac = namespaces.iter().flat_map(|namespace| (0..5).map(move |number| (namespace, format!("r{number}")))).flat_map(|(namespace, name)| {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
        let role = json!({"apiVersion": api, "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": rules});
        let binding = json!({"apiVersion": api, "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name}, "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": namespace}]});
        [role, binding]
    });
    create(cluster, rbac).await?;
    let copies = namespaces.iter().flat_map(|namespace| (0..20).map(move |number| {
        let labels = json!({"olm.copiedFrom": "operators"});
        let strategy = json!({"strategy": "deployment", "spec": {"deployments": []}});
        json!({"apiVersion": V1ALPHA1, "kind": "ClusterServiceVersion", "metadata": {"name": format!("copy.v{number}"), "namespace": namespace, "labels": labels},
            "spec": {"displayName": "x", "install": strategy, "description": "x".repeat(2_000)}})
    }));
    create(cluster, copies).await?;
    println!("   1,000 groups, 10,000 RBAC objects and 20,000 copies are there");
    let mut running = program::gate(cluster, "gate-scale").await?;
    running.acts()?;
    let (now, most) = running.process.memory()?;
    println!("   {now} MiB now, {most} MiB at most");
    let csv =
        json!({"apiVersion": V1ALPHA1, "kind": "ClusterServiceVersion", "metadata": {"name": "x.v1"}, "spec": {}})
            .to_string();
    let mut times = Vec::new();
    for namespace in namespaces.iter().take(100) {
        let plan =
            hostile::plan(cluster, namespace, vec![hostile::step("ClusterServiceVersion", "x.v1", &csv)]).await?;
        gate::waits(cluster, &plan, "clusterserviceversions").await?;
        cluster.root.apply(&test_olm::cluster_role_binding(namespace, "cluster-admin", namespace, "installer")).await?;
        let granted = Instant::now();
        gate::approved(cluster, &plan).await?;
        times.push(granted.elapsed());
    }
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or(Duration::ZERO).as_secs_f32();
    println!("   granted to approved, of {}: median {:.2} s, p99 {:.2} s", times.len(), at(50), at(99));
    let (now, most) = running.process.memory()?;
    println!("   {now} MiB now, {most} MiB at most");
    Ok(())
}
