//! OperatorGroup: finds its account and its targets, and says in the status what is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use bounds::group::{Group, Targets};
use bounds::lookups::Lookups;
use bounds::verdict::Refusal;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::NAME;
use crate::cluster::Cached;
use crate::context::Context;
use crate::error::{Error, WRITE_STATUS};
use crate::olm::{AccountRef, OperatorGroup, OperatorGroupStatus, unreadable};
use crate::stores::Stores;

/// The account that the group names does not exist.
const ACCOUNT_CONDITION: &str = "OperatorGroupServiceAccount";
const ACCOUNT_NOT_FOUND: &str = "ServiceAccountNotFound";
/// There is another group in the namespace.
const MULTIPLE_CONDITION: &str = "MultipleOperatorGroup";
const MULTIPLE_FOUND: &str = "MultipleOperatorGroupsFound";

/// Brings the status up to date, and writes it only when it changes.
pub async fn reconcile(group: Arc<OperatorGroup>, cx: Arc<Context>) -> Result<Action, Error> {
    let namespace = group.namespace().unwrap_or_default();
    if !cx.acts_in(&namespace) || group.metadata.deletion_timestamp.is_some() || unreadable(&*group).is_some() {
        return Ok(Action::await_change());
    }
    let status = match status(&cx.stores, &group) {
        Ok(status) => status,
        Err(Refusal::Lookup(error)) => return Err(error.into()),
        // Nothing is targeted until the spec is mended.
        Err(refusal) => {
            cx.events.warning(&group.object_ref(&()), "InvalidTargets", "Resolve", &refusal.to_string()).await;
            OperatorGroupStatus { namespaces: None, ..group.status.clone() }
        }
    };
    if status != group.status {
        write(&cx, &group, &namespace, &status).await?;
        for condition in status.conditions.iter().flatten() {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            cx.events.warning(&group.object_ref(&()), text("reason"), "Resolve", text("message")).await;
        }
    }
    Ok(Action::await_change())
}

async fn write(
    cx: &Context,
    group: &OperatorGroup,
    namespace: &str,
    status: &OperatorGroupStatus,
) -> Result<(), Error> {
    let groups: Api<OperatorGroup> = Api::namespaced(cx.own.0.clone(), namespace);
    let name = group.name_any();
    // A merge patch takes out what is null, whoever wrote it.
    let patch = json!({"status": {
        "lastUpdated": Time(Timestamp::now()),
        "namespaces": status.namespaces,
        "serviceAccountRef": status.service_account_ref,
        "conditions": status.conditions,
    }});
    groups
        .patch_status(
            &name,
            &PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() },
            &Patch::Merge(patch),
        )
        .await
        .map_err(Error::api(WRITE_STATUS, format!("OperatorGroup {namespace}/{name}")))?;
    tracing::info!(group = %format!("{namespace}/{name}"), ?status, "wrote the status of an OperatorGroup");
    Ok(())
}

/// The status as it should be.
fn status(stores: &Stores, group: &OperatorGroup) -> Result<OperatorGroupStatus, Refusal> {
    let namespace = group.namespace().unwrap_or_default();
    let mut conditions: BTreeMap<&str, (&str, String)> = BTreeMap::new();
    let mut service_account_ref = None;
    if let Some(name) = group.spec.service_account_name.as_deref().filter(|name| !name.is_empty()) {
        if let Some(account) = stores.account(&namespace, name) {
            service_account_ref = Some(AccountRef {
                api_version: "v1".to_owned(),
                kind: "ServiceAccount".to_owned(),
                namespace: namespace.clone(),
                name: name.to_owned(),
                uid: account.uid().unwrap_or_default(),
            });
        } else {
            let message = format!(
                "ServiceAccount {namespace}/{name} does not exist, so nothing is installed here. Create it with: kubectl \
                 create serviceaccount --namespace {namespace} {name}"
            );
            conditions.insert(ACCOUNT_CONDITION, (ACCOUNT_NOT_FOUND, message));
        }
    }
    let others = others(stores, group, &namespace);
    if !others.is_empty() {
        let message = format!(
            "there is more than one OperatorGroup in namespace {namespace} (besides this: {}), so nothing is installed \
             here. Keep one.",
            others.join(", ")
        );
        conditions.insert(MULTIPLE_CONDITION, (MULTIPLE_FOUND, message));
    }
    Ok(OperatorGroupStatus {
        namespaces: targets(stores, group)?,
        service_account_ref,
        conditions: merged(group.status.conditions.as_deref().unwrap_or_default(), &conditions),
    })
}

/// The targets of the spec; none when nothing is selected.
fn targets(stores: &Stores, group: &OperatorGroup) -> Result<Option<Vec<String>>, Refusal> {
    // Without the status: what was resolved before is not what the spec says now.
    let text = json!({"metadata": group.metadata, "spec": group.spec}).to_string();
    let group: bounds::group::OperatorGroup<'_> = bounds::json::read(&text, "OperatorGroup")
        .map_err(|error| Refusal::Unreadable { what: "OperatorGroup".to_owned(), error })?;
    let cluster = Cached(stores);
    let namespaces = match Group::from(group).targets(&Lookups::new(&cluster))? {
        Targets::All => vec![String::new()],
        Targets::Namespaces(namespaces) => namespaces.into_iter().collect(),
    };
    Ok(Some(namespaces).filter(|namespaces| !namespaces.is_empty()))
}

fn others(stores: &Stores, group: &OperatorGroup, namespace: &str) -> Vec<String> {
    let is_other = |other: &OperatorGroup| {
        other.namespace().as_deref() == Some(namespace)
            && other.name_any() != group.name_any()
            && other.metadata.deletion_timestamp.is_none()
    };
    let mut names: Vec<String> =
        stores.groups.store.state_filter(is_other).iter().map(|other| other.name_any()).collect();
    names.sort();
    names
}

/// The conditions of others stay; ours are there while they hold. A condition that holds on keeps its time.
fn merged(before: &[Value], wanted: &BTreeMap<&str, (&str, String)>) -> Option<Vec<Value>> {
    let ours =
        |condition: &&Value| [ACCOUNT_CONDITION, MULTIPLE_CONDITION].iter().any(|ours| condition["type"] == *ours);
    let mut conditions: Vec<Value> = before.iter().filter(|condition| !ours(condition)).cloned().collect();
    for (type_, (reason, message)) in wanted {
        let since = before.iter().find(|condition| condition["type"] == *type_ && condition["status"] == "True");
        let since = since.map_or_else(|| json!(now()), |condition| condition["lastTransitionTime"].clone());
        conditions.push(json!({
            "type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since,
        }));
    }
    Some(conditions).filter(|conditions| !conditions.is_empty())
}

fn now() -> Time {
    // The API server keeps seconds: anything finer would differ from what comes back, and be written again for ever.
    Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default())
}
