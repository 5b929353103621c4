//! Plans that no OLM would write, made by hand: none is approved, none stops the gate, and people are told why.

use std::io::Write;

use anyhow::ensure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};
use test_olm::Cluster;
use test_plane::api::Key;

use crate::gate::{self, V1ALPHA1};
use crate::program;

/// A plan with these steps, for which a Subscription waits.
pub(crate) async fn plan(cluster: &Cluster, namespace: &str, steps: Vec<Value>) -> anyhow::Result<Key> {
    let plan = json!({"apiVersion": V1ALPHA1, "kind": "InstallPlan", "metadata": {"name": "install-x", "namespace": namespace},
        "spec": {"approval": "Manual", "approved": false, "clusterServiceVersionNames": ["x.v1"]}});
    let created = cluster.root.create(&plan).await?;
    let key = Key::of(&plan);
    let status = json!({"status": {"phase": "RequiresApproval", "catalogSources": [], "plan": steps}});
    cluster.root.send(Method::PATCH, &format!("{}/status", cluster.root.path(&key)?), Some(&status)).await?.ok(&key)?;
    let subscription = json!({"apiVersion": V1ALPHA1, "kind": "Subscription", "metadata": {"name": "x", "namespace": namespace},
        "spec": {"name": "x", "channel": "c", "source": "s", "sourceNamespace": "olm", "installPlanApproval": "Manual"}});
    cluster.root.create(&subscription).await?;
    let by = json!({"name": "install-x", "namespace": namespace, "uid": created["metadata"]["uid"], "kind": "InstallPlan", "apiVersion": V1ALPHA1});
    let status = json!({"status": {"installPlanRef": by, "currentCSV": "x.v1", "lastUpdated": "2026-01-01T00:00:00Z"}});
    let place = format!("{}/status", cluster.root.path(&Key::of(&subscription))?);
    cluster.root.send(Method::PATCH, &place, Some(&status)).await?.ok(&place)?;
    Ok(key)
}

pub(crate) fn step(kind: &str, name: &str, manifest: &str) -> Value {
    json!({"resolving": "x.v1", "status": "Unknown", "resource": {"group": "operators.coreos.com", "version": "v1alpha1", "kind": kind,
        "name": name, "sourceName": "s", "sourceNamespace": "olm", "manifest": manifest}})
}

/// A manifest that is in a ConfigMap.
pub(crate) fn unpacked(name: &str) -> String {
    json!({"kind": "ConfigMap", "name": name, "namespace": "olm", "catalogSourceName": "s", "catalogSourceNamespace": "olm", "replaces": "", "properties": ""})
        .to_string()
}

fn bomb() -> anyhow::Result<String> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..64 {
        gzip.write_all(&vec![b'a'; 1024 * 1024])?;
    }
    Ok(STANDARD.encode(gzip.finish()?))
}

pub(crate) async fn plans_wait(cluster: &Cluster) -> anyhow::Result<()> {
    let gate = program::gate(cluster, "gate-hostile").await?;
    let bomb = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bomb", "namespace": "olm"}, "data": {"csv.yaml": bomb()?}});
    cluster.root.create(&bomb).await?;
    let many = (0..500)
        .map(|number| step("ClusterServiceVersion", &format!("x{number}"), &unpacked(&format!("m{number}"))))
        .collect();
    for (namespace, steps, words) in [
        ("hostile-broken", vec![step("ClusterServiceVersion", "x.v1", "{\"spec\": [")], "cannot be read"),
        (
            "hostile-type",
            vec![step("ClusterServiceVersion", "x.v1", r#"{"spec": {"install": {"spec": {"permissions": "all"}}}}"#)],
            "cannot be read",
        ),
        ("hostile-gone", vec![step("ClusterServiceVersion", "x.v1", &unpacked("not-there"))], "which is gone"),
        ("hostile-bomb", vec![step("ClusterServiceVersion", "x.v1", &unpacked("bomb"))], "unpacks to"),
        ("hostile-many", many, "and 495 more like this"),
    ] {
        gate::bounded(cluster, namespace, "within-bounds").await?;
        // An account that holds everything does not make what cannot be read any better.
        cluster.root.apply(&test_olm::cluster_role_binding(namespace, "cluster-admin", namespace, "installer")).await?;
        let key = plan(cluster, namespace, steps).await?;
        let message = gate::waits(cluster, &key, words).await?;
        ensure!(message.len() < 64 * 1024, "{} bytes", message.len());
    }
    superseded(cluster).await?;
    drop(gate);
    Ok(())
}

/// A plan that no Subscription names any more is left alone, whatever is in it.
async fn superseded(cluster: &Cluster) -> anyhow::Result<()> {
    let namespace = "hostile-superseded";
    gate::bounded(cluster, namespace, "within-bounds").await?;
    cluster.root.apply(&test_olm::cluster_role_binding(namespace, "cluster-admin", namespace, "installer")).await?;
    let csv =
        json!({"apiVersion": V1ALPHA1, "kind": "ClusterServiceVersion", "metadata": {"name": "x.v1"}, "spec": {}})
            .to_string();
    let old = json!({"apiVersion": V1ALPHA1, "kind": "InstallPlan", "metadata": {"name": "install-old", "namespace": namespace},
        "spec": {"approval": "Manual", "approved": false, "clusterServiceVersionNames": ["x.v1"]}});
    cluster.root.create(&old).await?;
    let status = json!({"status": {"phase": "RequiresApproval", "catalogSources": [], "plan": [step("ClusterServiceVersion", "x.v1", &csv)]}});
    let place = format!("{}/status", cluster.root.path(&Key::of(&old))?);
    cluster.root.send(Method::PATCH, &place, Some(&status)).await?.ok(&place)?;
    let live = plan(cluster, namespace, vec![step("ClusterServiceVersion", "x.v1", &csv)]).await?;
    // An approval of a plan that has changed since is refused, and the plan is judged again.
    let stale = json!({"metadata": {"resourceVersion": "1"}, "spec": {"approved": true}});
    let answer = cluster.root.send(Method::PATCH, &cluster.root.path(&live)?, Some(&stale)).await?;
    ensure!(answer.code == 409, "{} {}", answer.code, answer.message());
    gate::approved(cluster, &live).await?;
    let old = cluster.root.get(&Key::of(&old)).await?.unwrap_or_default();
    ensure!(old["spec"]["approved"] == false, "{old:#}");
    Ok(())
}
