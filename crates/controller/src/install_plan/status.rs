//! What a person sees of a plan: phase, condition, message, steps, Events.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::NAME;
use crate::backoff::key;
use crate::context::Context;
use crate::error::{Error, WRITE_STATUS};
use crate::olm::{AccountRef, InstallPlan, InstallPlanCondition, InstallPlanSummary};
use crate::scoped::Account;

const INSTALLED: &str = "Installed";

/// What has come of a plan.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Every step is done.
    Complete,
    /// Nobody can tell what bounds it: no group, several, no account. It goes on when that is mended.
    Blocked {
        /// Why, and what to do.
        message: String,
    },
    /// It asks for more than the account holds. It goes on when that is granted.
    Exceeds(String),
    /// The plan itself is broken, and stays so.
    Broken(String),
    /// A step failed in a way that may heal by itself.
    Retry(String),
}

impl Outcome {
    fn phase(&self) -> &'static str {
        match self {
            Outcome::Complete => "Complete",
            Outcome::Broken(_) => "Failed",
            Outcome::Blocked { .. } | Outcome::Exceeds(_) | Outcome::Retry(_) => "Installing",
        }
    }

    /// OLM's words.
    fn reason(&self) -> &'static str {
        match self {
            Outcome::Complete => "",
            Outcome::Blocked { .. } => "InstallCheckFailed",
            Outcome::Exceeds(_) | Outcome::Broken(_) | Outcome::Retry(_) => "InstallComponentFailed",
        }
    }

    fn message(&self) -> &str {
        match self {
            Outcome::Complete => "",
            Outcome::Blocked { message }
            | Outcome::Exceeds(message)
            | Outcome::Broken(message)
            | Outcome::Retry(message) => message,
        }
    }
}

/// Says that the steps are about to be carried out, and as whom.
pub(super) async fn begin(cx: &Context, plan: &mut InstallPlan, account: Option<&Account>) -> Result<(), Error> {
    let account = account.map(|account| AccountRef {
        api_version: "v1".to_owned(),
        kind: "ServiceAccount".to_owned(),
        namespace: account.namespace.clone(),
        name: account.name.clone(),
        uid: account.uid.clone(),
    });
    if plan.status.phase == "Installing" && plan.status.attenuated_service_account_ref == account {
        return Ok(());
    }
    let status = json!({"phase": "Installing", "attenuatedServiceAccountRef": account});
    plan.status.attenuated_service_account_ref = account;
    patch(cx, plan, status).await
}

/// Writes what has come of a plan, if that is news. `before` is what had come of the steps.
pub(super) async fn write(
    cx: &Context,
    plan: &mut InstallPlan,
    before: &[String],
    outcome: &Outcome,
) -> Result<(), Error> {
    let said = (plan.status.phase.as_str(), plan.status.message.as_str(), reason(plan));
    let is_news = said != (outcome.phase(), outcome.message(), outcome.reason());
    let has_moved = before != step_statuses(plan);
    if matches!(outcome, Outcome::Retry(_)) && !has_moved && cx.backoff.keeps_failing(&key(plan)) {
        return Ok(());
    }
    if is_news || has_moved {
        let mut status = json!({
            "phase": outcome.phase(),
            "message": outcome.message(),
            "conditions": conditions(plan, outcome),
        });
        if has_moved {
            status["plan"] = json!(plan.status.plan);
        }
        patch(cx, plan, status).await?;
    }
    if is_news {
        tell(cx, plan, outcome).await;
    }
    Ok(())
}

async fn tell(cx: &Context, plan: &InstallPlan, outcome: &Outcome) {
    let object = plan.object_ref(&());
    match outcome {
        Outcome::Complete => cx.events.normal(&object, "InstallSucceeded", "Install", "all steps are done").await,
        _ => cx.events.warning(&object, outcome.reason(), "Install", outcome.message()).await,
    }
    if matches!(outcome, Outcome::Exceeds(_)) {
        cx.metrics.excess_found("InstallPlan");
    }
    let name = format!("{}/{}", plan.namespace().unwrap_or_default(), plan.name_any());
    tracing::info!(plan = %name, phase = outcome.phase(), said = outcome.message(), "an InstallPlan moved on");
}

/// What has come of each step.
#[must_use]
pub(super) fn step_statuses(plan: &InstallPlan) -> Vec<String> {
    plan.status.plan.iter().map(|step| step.status.clone()).collect()
}

fn reason(plan: &InstallPlan) -> &str {
    let installed = plan.status.conditions.iter().find(|condition| condition.type_ == INSTALLED);
    installed.map_or("", |condition| condition.reason.as_str())
}

/// The conditions of others, and ours.
fn conditions(plan: &InstallPlan, outcome: &Outcome) -> Vec<InstallPlanCondition> {
    let now = Time(Timestamp::now());
    let status = if matches!(outcome, Outcome::Complete) { "True" } else { "False" };
    let (ours, mut conditions): (Vec<_>, Vec<_>) =
        plan.status.conditions.iter().cloned().partition(|condition| condition.type_ == INSTALLED);
    let since = ours.into_iter().find(|condition| condition.status == status);
    conditions.push(InstallPlanCondition {
        type_: INSTALLED.to_owned(),
        status: status.to_owned(),
        reason: outcome.reason().to_owned(),
        message: outcome.message().to_owned(),
        last_transition_time: since.and_then(|condition| condition.last_transition_time).or(Some(now.clone())),
        last_update_time: Some(now),
    });
    conditions
}

/// Writes into the status of exactly the plan that was read: if somebody has changed it meanwhile, it is looked at anew.
async fn patch(cx: &Context, plan: &mut InstallPlan, mut status: Value) -> Result<(), Error> {
    let (namespace, name) = (plan.namespace().unwrap_or_default(), plan.name_any());
    if plan.status.catalog_sources.is_none() {
        status["catalogSources"] = json!([]);
    }
    let body = json!({"metadata": {"resourceVersion": plan.resource_version()}, "status": status});
    let params = PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() };
    let plans: Api<InstallPlanSummary> = Api::namespaced(cx.own.0.clone(), &namespace);
    let written = plans
        .patch_status(&name, &params, &Patch::Merge(body))
        .await
        .map_err(Error::api(WRITE_STATUS, format!("InstallPlan {namespace}/{name}")))?;
    plan.metadata.resource_version = written.metadata.resource_version;
    Ok(())
}
