//! InstallPlan: an approved plan is carried out with the account of its namespace's OperatorGroup, in order, and after
//! everything it brings was judged at once.

mod apiservice;
mod crd;
mod execute;
mod manifest;
mod schema;
mod status;
mod steps;

use std::sync::Arc;

use bounds::verdict::Refusal;
use kube::runtime::controller::Action;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Error;
use crate::judge;
use crate::olm::{InstallPlan, InstallPlanSummary};

use status::Outcome;
use steps::Prepared;

/// Carries out an approved plan, or says why not.
pub async fn reconcile(summary: Arc<InstallPlanSummary>, cx: Arc<Context>) -> Result<Action, Error> {
    let namespace = summary.namespace().unwrap_or_default();
    let is_over = matches!(summary.status.phase.as_str(), "Complete" | "Failed");
    if !cx.acts_in(&namespace) || !summary.spec.approved || is_over || summary.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let name = summary.name_any();
    let plans: Api<InstallPlan> = Api::namespaced(cx.own.0.clone(), &namespace);
    let read = plans.get_opt(&name).await.map_err(Error::api("read", format!("InstallPlan {namespace}/{name}")))?;
    // What is watched may lag behind: what was just read decides.
    let Some(mut plan) = read.filter(|plan| plan.spec.approved && !plan.status.plan.is_empty()) else {
        return Ok(Action::await_change());
    };
    if matches!(plan.status.phase.as_str(), "Complete" | "Failed") {
        return Ok(Action::await_change());
    }
    let before = status::step_statuses(&plan);
    let outcome = carry_out(&cx, &namespace, &mut plan).await?;
    status::write(&cx, &mut plan, &before, &outcome).await?;
    match outcome {
        Outcome::Retry(message) => Err(Error::Step(message)),
        Outcome::Complete | Outcome::Blocked { .. } | Outcome::Exceeds(_) | Outcome::Broken(_) => {
            Ok(Action::await_change())
        }
    }
}

/// From a plan to what has come of it. Nothing is written before every step was understood and judged.
async fn carry_out(cx: &Context, namespace: &str, plan: &mut InstallPlan) -> Result<Outcome, Error> {
    let installer = match judge::installer(&cx.stores, namespace) {
        Ok(installer) => installer,
        Err(refusal) => return refused(refusal),
    };
    let prepared = match steps::prepare(cx, &installer, namespace, plan).await? {
        Ok(prepared) => prepared,
        Err(outcome) => return Ok(outcome),
    };
    let verdict = judge::targets(&cx.stores, &installer.group).and_then(|targets| {
        judge::plan(&cx.stores, &installer, &judged(plan, &prepared), &steps::writes(&prepared, &targets))
    });
    if let Err(refusal) = verdict {
        return refused(refusal);
    }
    if let Err(outcome) = execute::may_run(cx, namespace, plan, &prepared).await {
        return Ok(outcome);
    }
    status::begin(cx, plan, installer.account.as_ref()).await?;
    execute::run(cx, namespace, plan, &installer, &prepared).await
}

fn refused(refusal: Refusal) -> Result<Outcome, Error> {
    match refusal {
        Refusal::Exceeds { message, .. } => Ok(Outcome::Exceeds(message)),
        Refusal::Forbidden { message, .. } => Ok(Outcome::Blocked { message }),
        Refusal::Lookup(error) => Err(error.into()),
        Refusal::Unreadable { .. } => Ok(Outcome::Broken(refusal.to_string())),
    }
}

/// The plan as it is judged: with the very objects that would be written.
fn judged(plan: &InstallPlan, prepared: &[Prepared]) -> Value {
    let steps: Vec<Value> = plan
        .status
        .plan
        .iter()
        .zip(prepared)
        .map(|(step, prepared)| {
            json!({
                "resolving": step.resolving,
                "resource": {
                    "group": prepared.kind.resource.group,
                    "kind": prepared.kind.resource.kind,
                    "name": step.resource.name,
                    "manifest": prepared.object.to_string(),
                },
            })
        })
        .collect();
    json!({
        "metadata": {"name": plan.name_any(), "namespace": plan.meta().namespace},
        "spec": {"approved": true},
        "status": {"plan": steps},
    })
}
