//! What people see of the gate.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use test_olm::Cluster;
use test_plane::api::Key;

pub(crate) const V1ALPHA1: &str = "operators.coreos.com/v1alpha1";
const WAITS: &str = "operator-bounds/waits-because";
const USER: &str = "system:serviceaccount:operator-bounds:operator-bounds-controller";

/// Labels a namespace.
pub(crate) async fn label(cluster: &Cluster, namespace: &str, mode: &str) -> anyhow::Result<()> {
    let labels = json!({"operator-bounds/approve": mode});
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}});
    cluster.root.apply(&object).await.map(drop)
}

/// A labelled namespace with an OperatorGroup, and its account `installer`.
pub(crate) async fn bounded(cluster: &Cluster, namespace: &str, mode: &str) -> anyhow::Result<()> {
    cluster.namespace(namespace).await?;
    label(cluster, namespace, mode).await?;
    cluster.account(namespace, "installer").await?;
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "group", "namespace": namespace},
        "spec": {"serviceAccountName": "installer", "targetNamespaces": [namespace]}});
    cluster.root.apply(&group).await.map(drop)
}

/// Waits until a plan says why it waits, in these words, and gives all of it.
pub(crate) async fn waits(cluster: &Cluster, plan: &Key, words: &str) -> anyhow::Result<String> {
    let said = |plan: &Value| plan["metadata"]["annotations"][WAITS].as_str().unwrap_or_default().to_owned();
    let (plan, _) =
        cluster.wait_for(&format!("{plan} waits: {words}"), plan, |plan| said(plan).contains(words)).await?;
    ensure!(plan["spec"]["approved"] == false, "{plan:#}");
    Ok(said(&plan))
}

/// Waits until a plan is approved, and says how long that took. It no longer says that it waits.
pub(crate) async fn approved(cluster: &Cluster, plan: &Key) -> anyhow::Result<Duration> {
    let holds = |plan: &Value| plan["spec"]["approved"] == true;
    let (plan, took) = cluster.wait_for(&format!("{plan} is approved"), plan, holds).await?;
    ensure!(plan["metadata"]["annotations"][WAITS].is_null(), "{}", plan["metadata"]);
    Ok(took)
}

/// The Events of the gate in a namespace: reason, kind of the object and message.
pub(crate) async fn events(cluster: &Cluster, namespace: &str) -> anyhow::Result<Vec<(String, String, String)>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = cluster.root.list("v1", "Event", Some(namespace)).await?;
    let ours = events.iter().filter(|event| event["source"]["component"] == "operator-bounds-controller");
    Ok(ours.map(|it| (text(&it["reason"]), text(&it["involvedObject"]["kind"]), text(&it["message"]))).collect())
}

/// Everything that the gate has written in all cases: approvals and annotations, Events, its Lease, and nothing else.
pub(crate) async fn rights(cluster: &Cluster) -> anyhow::Result<()> {
    let events = cluster.audit.events()?;
    let ours = events.iter().filter(|event| event.user() == USER);
    let written: BTreeSet<(String, String)> = ours.map(|event| (event.verb.clone(), event.resource())).collect();
    println!("   the gate wrote {written:?}");
    let allowed =
        [("patch", "installplans.operators.coreos.com")].map(|(verb, what)| (verb.to_owned(), what.to_owned()));
    // Events and Leases are not kept in this log.
    ensure!(written == BTreeSet::from(allowed), "{written:?}");
    let refused: Vec<_> = events.iter().filter(|event| event.user() == USER && event.code() == 403).collect();
    ensure!(refused.is_empty(), "{refused:?}");
    Ok(())
}
