//! What people see of the gate.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use test_olm::Cluster;
use test_plane::api::Key;
use test_plane::audit::Event;

use crate::{hostile, program};

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
pub(crate) fn rights(cluster: &Cluster) -> anyhow::Result<()> {
    let events = cluster.audit.events()?;
    let ours = events.iter().filter(|event| event.user() == USER);
    let written: BTreeSet<(String, String)> = ours.map(|event| (event.verb.clone(), event.resource())).collect();
    println!("   the gate wrote {written:?}");
    let allowed =
        [("patch", "installplans.operators.coreos.com")].map(|(verb, what)| (verb.to_owned(), what.to_owned()));
    // Events and Leases are not kept in this log.
    ensure!(written == BTreeSet::from(allowed), "{written:?}");
    // Each says which version of the plan it is about: the API server refuses it for any other.
    let unversioned =
        |event: &&Event| event.request_object.as_ref().is_none_or(|sent| sent["metadata"]["resourceVersion"].is_null());
    let loose: Vec<_> = events.iter().filter(|event| event.user() == USER).filter(unversioned).collect();
    ensure!(loose.is_empty(), "{loose:?}");
    let refused: Vec<_> = events.iter().filter(|event| event.user() == USER && event.code() == 403).collect();
    ensure!(refused.is_empty(), "{refused:?}");
    Ok(())
}

/// With any one of its rules taken away the gate cannot do its work, and its log says what is missing.
pub(crate) async fn each_right_is_needed(cluster: &Cluster) -> anyhow::Result<()> {
    // A plan for which everything has to be read: a bundle in a ConfigMap, and a definition that was there before.
    cluster.namespace("olm").await?;
    bounded(cluster, "less", "within-bounds").await?;
    let edit = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "edit", "namespace": "less"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "less"}]});
    cluster.root.apply(&edit).await?;
    let csv = json!({"apiVersion": V1ALPHA1, "kind": "ClusterServiceVersion", "metadata": {"name": "x.v1"},
        "spec": {"customresourcedefinitions": {"owned": [{"name": "widgets.example.com"}]}}});
    let bundle = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "less", "namespace": "olm"}, "data": {"csv.json": csv.to_string()}});
    cluster.root.apply(&bundle).await?;
    let plan = hostile::plan(
        cluster,
        "less",
        vec![hostile::step("ClusterServiceVersion", "x.v1", &hostile::unpacked("less"))],
    )
    .await?;
    let rules = program::rules()?;
    println!("   {} rules", rules.len());
    for (number, rule) in rules.iter().enumerate() {
        let resource = rule["resources"][0].as_str().unwrap_or_default();
        let said = program::without(cluster, number, resource).await?;
        ensure!(said.contains("forbidden") && said.contains(resource), "without {resource}: {said}");
        // What the last one has said is no news to the next one.
        cluster.root.patch(&plan, &json!({"metadata": {"annotations": {WAITS: null}}})).await?;
    }
    Ok(())
}
