//! What a person sees of an operator: phase, reason, message, requirements, and what was before.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::NAME;
use crate::backoff::key;
use crate::context::Context;
use crate::error::{Error, WRITE_STATUS};
use crate::olm::ClusterServiceVersion;

use super::phase::Next;

/// As many conditions as are kept.
const HISTORY: usize = 20;

/// Writes the next phase, if that is news.
pub(super) async fn write(cx: &Context, csv: &ClusterServiceVersion, next: &Next) -> Result<(), Error> {
    let status = &csv.status;
    let is_news = (status.phase.as_str(), status.reason.as_str(), &status.message)
        != (next.phase, next.reason, &next.message)
        || next.requirements.as_ref().is_some_and(|found| *found != status.requirement_status);
    if !is_news || next.retry && cx.backoff.keeps_failing(&key(csv)) {
        return Ok(());
    }
    let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let now = Time(Timestamp::now());
    let mut body = json!({
        "phase": next.phase,
        "reason": next.reason,
        "message": next.message,
        "lastUpdateTime": now,
        "conditions": conditions(csv, next, &now),
    });
    if status.phase != next.phase {
        body["lastTransitionTime"] = json!(now);
    }
    if let Some(requirements) = &next.requirements {
        body["requirementStatus"] = requirements.clone();
    }
    let csvs: Api<ClusterServiceVersion> = Api::namespaced(cx.own.0.clone(), &namespace);
    // Of exactly what was looked at: a phase never goes back because of something that was seen late.
    let patch = json!({"metadata": {"resourceVersion": csv.resource_version()}, "status": body});
    let params = PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() };
    csvs.patch_status(&name, &params, &Patch::Merge(patch))
        .await
        .map_err(Error::api(WRITE_STATUS, format!("ClusterServiceVersion {namespace}/{name}")))?;
    tell(cx, csv, next).await;
    Ok(())
}

async fn tell(cx: &Context, csv: &ClusterServiceVersion, next: &Next) {
    let object = csv.object_ref(&());
    match next.phase {
        "Failed" => cx.events.warning(&object, next.reason, "Install", &next.message).await,
        _ if next.reason == "RequirementsNotMet" => {
            cx.metrics.excess_found("ClusterServiceVersion");
            cx.events.warning(&object, next.reason, "Install", &next.message).await;
        }
        _ => cx.events.normal(&object, next.reason, "Install", &next.message).await,
    }
    let name = format!("{}/{}", csv.namespace().unwrap_or_default(), csv.name_any());
    tracing::info!(csv = %name, phase = next.phase, reason = next.reason, said = next.message, "an operator moved on");
}

/// The history, with the next phase at its end.
fn conditions(csv: &ClusterServiceVersion, next: &Next, now: &Time) -> Vec<Value> {
    let mut conditions = csv.status.conditions.clone();
    conditions.push(json!({
        "phase": next.phase, "reason": next.reason, "message": next.message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    }));
    let spare = conditions.len().saturating_sub(HISTORY);
    conditions.split_off(spare)
}
