//! The Deployments of an operator: written with the account of the group, and watched.

use std::time::Duration;

use bounds::group::{Group, Targets};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::DeploymentStatus;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::apply::{apply, is_object_name};
use crate::context::Context;
use crate::olm::{
    ClusterServiceVersion, DeploymentSpec, GENERATION_ANNOTATION, MANAGED_LABEL, OWNER_KIND_LABEL, OWNER_LABEL,
    OWNER_NAMESPACE_LABEL,
};
use crate::stores::Stores;

/// How long the watch may lag behind.
const PATIENCE: Duration = Duration::from_secs(10);

/// How the Deployments of an operator are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// All are there, and available.
    Available,
    /// This one is not there, or is not the operator's.
    Missing(String),
    /// This one was made from what the operator was before somebody changed it.
    Outdated(String),
    /// One of them is on its way: why.
    Waiting(String),
}

/// Writes every Deployment. The error names the one that was refused.
pub(super) async fn write(
    cx: &Context,
    client: &Client,
    csv: &ClusterServiceVersion,
    group: &Group,
    targets: &Targets,
) -> Result<(), (String, kube::Error)> {
    let targets = annotation(targets);
    let namespace = csv.namespace().unwrap_or_default();
    for spec in csv.spec.install.spec.deployments.iter().flatten() {
        let failed = |source| (format!("Deployment {namespace}/{}", spec.name), source);
        let kind = cx.kinds.find(&cx.stores, client, "apps", "v1", "Deployment", &[]).await;
        let (Ok(Some(kind)), true) = (kind, is_object_name(&spec.name)) else {
            return Err(failed(kube::Error::Service("it has no name that a Deployment can have".into())));
        };
        apply(client, &kind, &deployment(csv, group, &targets, spec)).await.map_err(failed)?;
    }
    Ok(())
}

/// Which other operator has a Deployment that this one brings, if one has: each would take it from the other for ever. One that
/// it replaces, directly or through others, gives way.
#[must_use]
pub(super) fn taken(stores: &Stores, csv: &ClusterServiceVersion) -> Option<String> {
    let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let mut earlier = vec![name];
    let mut replaces = csv.spec.replaces.clone();
    while let Some(previous) = replaces.filter(|previous| !earlier.contains(previous)) {
        replaces = stores.csv(&namespace, &previous).and_then(|previous| previous.spec.replaces.clone());
        earlier.push(previous);
    }
    csv.spec.install.spec.deployments.iter().flatten().find_map(|spec| {
        let found = stores.deployment(&namespace, &spec.name)?;
        let owner = found.labels().get(OWNER_LABEL)?;
        let is_others = !earlier.contains(owner) && stores.csv(&namespace, owner).is_some();
        is_others.then(|| format!("Deployment {namespace}/{} belongs to ClusterServiceVersion {owner}", spec.name))
    })
}

/// The targets as operators read them: separated by commas, nothing for all of them.
fn annotation(targets: &Targets) -> String {
    match targets {
        Targets::Namespaces(namespaces) => namespaces.iter().map(String::as_str).collect::<Vec<_>>().join(","),
        Targets::All => String::new(),
    }
}

/// A Deployment as it is written.
fn deployment(csv: &ClusterServiceVersion, group: &Group, targets: &str, spec: &DeploymentSpec) -> Value {
    let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let mut labels = json!(spec.label.clone().unwrap_or_default());
    labels[OWNER_LABEL] = json!(name);
    labels[OWNER_KIND_LABEL] = json!("ClusterServiceVersion");
    labels[OWNER_NAMESPACE_LABEL] = json!(namespace);
    labels[MANAGED_LABEL] = json!("true");
    let mut body = spec.spec.clone();
    // Operators learn from these, through the downward API, what they should watch.
    let mut annotations = &mut body;
    for field in ["template", "metadata", "annotations"] {
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations = &mut annotations[field];
    }
    if !annotations.is_object() {
        *annotations = json!({});
    }
    annotations["olm.operatorGroup"] = json!(group.name);
    annotations["olm.operatorNamespace"] = json!(namespace);
    annotations["olm.targetNamespaces"] = json!(targets);
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": spec.name, "namespace": namespace, "labels": labels,
            "annotations": {GENERATION_ANNOTATION: csv.metadata.generation.unwrap_or_default().to_string()},
            "ownerReferences": [csv.owner_reference()],
        },
        "spec": body,
    })
}

/// Waits until the watch has seen what was written: until then it would look as if it was missing.
pub(super) async fn seen(stores: &Stores, csv: &ClusterServiceVersion) {
    let mut changes = std::pin::pin!(stores.deployments.changed.stream());
    let all = async {
        while matches!(health(stores, csv), Health::Missing(_) | Health::Outdated(_)) {
            if changes.next().await.is_none() {
                return;
            }
        }
    };
    // If somebody has removed one meanwhile, it is written again: nothing is lost by going on.
    let _ = tokio::time::timeout(PATIENCE, all).await;
}

/// Looks at every Deployment.
#[must_use]
pub(super) fn health(stores: &Stores, csv: &ClusterServiceVersion) -> Health {
    let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let mut waiting = None;
    for spec in csv.spec.install.spec.deployments.iter().flatten() {
        let found = stores.deployment(&namespace, &spec.name);
        let Some(found) = found.filter(|found| found.labels().get(OWNER_LABEL) == Some(&name)) else {
            return Health::Missing(format!("{namespace}/{}", spec.name));
        };
        let made_from = found.annotations().get(GENERATION_ANNOTATION);
        let generation = csv.metadata.generation.unwrap_or_default().to_string();
        // What OLM has installed before says nothing, and is left as it is.
        if made_from.is_some_and(|made_from| *made_from != generation) {
            return Health::Outdated(format!("{namespace}/{}", spec.name));
        }
        let reason = reason_to_wait(&found.status, found.metadata.generation.unwrap_or_default());
        waiting =
            waiting.or(reason.map(|reason| format!("waiting for Deployment {} to become ready: {reason}", spec.name)));
    }
    waiting.map_or(Health::Available, Health::Waiting)
}

/// Why a Deployment does not count as available.
fn reason_to_wait(status: &DeploymentStatus, generation: i64) -> Option<String> {
    if status.observed_generation.unwrap_or_default() < generation {
        return Some("its latest change has not been seen yet".to_owned());
    }
    let outdated = status.replicas.unwrap_or_default() - status.updated_replicas.unwrap_or_default();
    if outdated > 0 {
        return Some(format!("{outdated} of its pods are of an earlier version"));
    }
    let condition = |name: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == name);
    match condition("Available") {
        Some(available) if available.status == "True" => None,
        Some(available) => Some(available.message.clone().unwrap_or_else(|| "it is not available".to_owned())),
        None => Some("it is not available".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_for() -> Group {
        let text = r#"{"metadata":{"name":"og","namespace":"team-a"}}"#;
        serde_json::from_str::<bounds::group::OperatorGroup<'_>>(text).unwrap().into()
    }

    fn status(value: Value) -> DeploymentStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_deployment_is_available_when_its_latest_change_is() {
        let available = json!([{"type": "Available", "status": "True"}]);
        let good =
            status(json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "conditions": available}));
        assert_eq!(reason_to_wait(&good, 2), None);
        assert!(reason_to_wait(&good, 3).unwrap().contains("latest change"));
        let old =
            status(json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "conditions": available}));
        assert!(reason_to_wait(&old, 2).unwrap().starts_with("1 of its pods"));
        let not = json!([{"type": "Available", "status": "False", "message": "no pods"}]);
        assert_eq!(reason_to_wait(&status(json!({"conditions": not})), 0).unwrap(), "no pods");
        assert!(reason_to_wait(&DeploymentStatus::default(), 0).is_some());
    }

    #[test]
    fn a_deployment_is_the_operators_and_says_what_to_watch() {
        let csv: ClusterServiceVersion = serde_json::from_value(json!({
            "metadata": {"name": "op.v1", "namespace": "team-a", "uid": "u"},
        }))
        .unwrap();
        let spec = DeploymentSpec { name: "op".into(), label: None, spec: json!({"template": {"spec": {}}}) };
        let made = deployment(&csv, &made_for(), "team-a,team-b", &spec);
        assert_eq!(made["metadata"]["labels"][OWNER_LABEL], "op.v1");
        assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(made["spec"]["template"]["metadata"]["annotations"]["olm.targetNamespaces"], "team-a,team-b");
        for broken in [json!("x"), json!({"template": "x"}), json!({"template": {"metadata": {"annotations": []}}})] {
            let made = deployment(&csv, &made_for(), "team-a", &DeploymentSpec { spec: broken, ..spec.clone() });
            assert_eq!(made["spec"]["template"]["metadata"]["annotations"]["olm.operatorGroup"], "og");
        }
    }
}
