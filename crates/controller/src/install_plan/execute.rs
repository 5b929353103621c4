//! Carries out the steps, in order. Each is one request that has the same effect however often it is made, so what was
//! interrupted is simply done again.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::apply::apply;
use crate::context::Context;
use crate::error::{Error, api_reason, said};
use crate::judge::{self, Installer};
use crate::olm::{
    self, ClusterServiceVersion, InstallPlan, OWNER_KIND_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL, csv_reference,
};

use super::apiservice;
use super::crd::{self, Claim};
use super::status::Outcome;
use super::steps::{Prepared, Writer};

/// Why a step was not carried out.
#[derive(Debug)]
pub(super) enum Refused {
    /// The API server said so.
    Api(kube::Error),
    /// The controller said so, and will again until somebody changes something.
    Here(String),
}

impl From<kube::Error> for Refused {
    fn from(error: kube::Error) -> Self {
        Refused::Api(error)
    }
}

/// Looks at the definitions that are there already, before anything is written: the first that must not be changed says so.
pub(super) async fn may_run(
    cx: &Context,
    namespace: &str,
    plan: &InstallPlan,
    prepared: &[Prepared],
) -> Result<(), Outcome> {
    for (step, planned) in prepared.iter().zip(&plan.status.plan) {
        if !step.is("apiextensions.k8s.io", "CustomResourceDefinition") || is_done(&planned.status) {
            continue;
        }
        let csv = operator_of(cx, namespace, prepared, &planned.resolving);
        let claim = Claim { namespace, operator: &planned.resolving, csv: csv.as_deref() };
        crd::may_write(cx, claim, &step.kind, &step.object).await.map_err(|refused| match refused {
            Refused::Here(reason) => Outcome::Retry(format!("{} {reason}", step.place)),
            Refused::Api(source) => Outcome::Retry(format!("{} could not be looked at: {}", step.place, said(&source))),
        })?;
    }
    Ok(())
}

fn is_done(status: &str) -> bool {
    matches!(status, "Created" | "Present")
}

/// The ClusterServiceVersion that a step belongs to: of the plan, or there already.
fn operator_of(
    cx: &Context,
    namespace: &str,
    prepared: &[Prepared],
    operator: &str,
) -> Option<Arc<ClusterServiceVersion>> {
    let brought = prepared.iter().find(|step| {
        step.is(olm::GROUP, "ClusterServiceVersion") && step.object["metadata"]["name"].as_str() == Some(operator)
    });
    match brought {
        Some(step) => serde_json::from_value(step.object.clone()).ok().map(Arc::new),
        None => cx.stores.csv(namespace, operator),
    }
}

/// Carries out what is not done yet.
pub(super) async fn run(
    cx: &Context,
    namespace: &str,
    plan: &mut InstallPlan,
    installer: &Installer,
    prepared: &[Prepared],
) -> Result<Outcome, Error> {
    let began = Timestamp::now();
    let mut owners = Owners::default();
    for (number, step) in prepared.iter().enumerate() {
        let Some(planned) = plan.status.plan.get(number) else { continue };
        if is_done(&planned.status) {
            continue;
        }
        // What was judged is this account. The group may name another by now, or the account may be another of that name.
        let is_same = |now: Installer| now.account == installer.account;
        if !judge::installer(&cx.stores, namespace).is_ok_and(is_same) {
            return Ok(Outcome::Retry(format!(
                "{} was not carried out: the account of the OperatorGroup has changed meanwhile",
                step.place
            )));
        }
        let operator = planned.resolving.clone();
        let client = match client(cx, installer, step.writer).await {
            Ok(client) => client,
            Err(error @ Error::Token { .. }) => return Ok(Outcome::Retry(format!("{}: {error}", step.place))),
            Err(error) => return Err(error),
        };
        let owner = owners.uid(cx, namespace, &operator).await?;
        let object = owned(step, namespace, &operator, owner.as_deref());
        let csv = operator_of(cx, namespace, prepared, &operator);
        let claim = Claim { namespace, operator: &operator, csv: csv.as_deref() };
        match carry_out(cx, claim, &client, step, &object).await {
            Ok(written) => {
                if step.is(olm::GROUP, "ClusterServiceVersion") {
                    owners.0.insert(written.name_any(), written.uid());
                }
                cx.metrics.step_done();
                set(plan, number, if is_new(&written, began) { "Created" } else { "Present" });
            }
            Err(refused) => {
                set(plan, number, "NotPresent");
                return failed(cx, installer, step, refused).await;
            }
        }
    }
    Ok(Outcome::Complete)
}

fn set(plan: &mut InstallPlan, number: usize, status: &str) {
    if let Some(step) = plan.status.plan.get_mut(number) {
        status.clone_into(&mut step.status);
    }
}

/// Own rights are for what is always OLM's, and for groups that name no account.
async fn client(cx: &Context, installer: &Installer, writer: Writer) -> Result<Client, Error> {
    match (&installer.account, writer) {
        (Some(account), Writer::Account) => cx.scoped.client(account).await,
        (None, Writer::Account) | (_, Writer::Own) => Ok(cx.own.0.clone()),
    }
}

async fn carry_out(
    cx: &Context,
    claim: Claim<'_>,
    client: &Client,
    step: &Prepared,
    object: &Value,
) -> Result<DynamicObject, Refused> {
    if step.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        crd::carry_out(cx, claim, client, &step.kind, object).await
    } else if step.is("apiregistration.k8s.io", "APIService") {
        apiservice::carry_out(cx, claim, client, &step.kind, object).await
    } else {
        Ok(apply(client, &step.kind, object).await?)
    }
}

/// What becomes of the plan when a step was refused.
async fn failed(cx: &Context, installer: &Installer, step: &Prepared, refused: Refused) -> Result<Outcome, Error> {
    let source = match refused {
        Refused::Here(reason) => return Ok(Outcome::Retry(format!("{} {reason}", step.place))),
        Refused::Api(source) => source,
    };
    let whom = match (&installer.account, step.writer) {
        (Some(account), Writer::Account) => format!("ServiceAccount {account}"),
        _ => "the controller itself".to_owned(),
    };
    let message = format!("{} was refused to {whom}: {}", step.place, said(&source));
    match (api_reason(&source), &installer.account) {
        ("invalid", _) => Ok(Outcome::Broken(message)),
        ("unauthorized", Some(account)) => {
            // The account was re-created, or its tokens were revoked: the next attempt gets a new one.
            cx.scoped.forget(account).await;
            Ok(Outcome::Retry(message))
        }
        _ => Ok(Outcome::Retry(message)),
    }
}

/// Whether it was made in this run. (The API server keeps seconds.)
fn is_new(written: &DynamicObject, began: Timestamp) -> bool {
    written.creation_timestamp().is_some_and(|created| created.0.as_second() >= began.as_second())
}

/// The operators of a plan, and which object each of them is.
#[derive(Debug, Default)]
struct Owners(HashMap<String, Option<String>>);

impl Owners {
    /// The uid of an operator's ClusterServiceVersion: written in this run, or there from an earlier one.
    async fn uid(&mut self, cx: &Context, namespace: &str, operator: &str) -> Result<Option<String>, Error> {
        if operator.is_empty() || !crate::apply::is_object_name(operator) {
            return Ok(None);
        }
        if let Some(known) = self.0.get(operator).filter(|known| known.is_some()) {
            return Ok(known.clone());
        }
        if let Some(csv) = cx.stores.csv(namespace, operator) {
            self.0.insert(operator.to_owned(), csv.uid());
            return Ok(csv.uid());
        }
        // Asked once: before its first step it is not there, and after that step its uid is known.
        if self.0.contains_key(operator) {
            return Ok(None);
        }
        let csvs: Api<ClusterServiceVersion> = Api::namespaced(cx.own.0.clone(), namespace);
        let found = csvs
            .get_metadata_opt(operator)
            .await
            .map_err(Error::api("read", format!("ClusterServiceVersion {namespace}/{operator}")))?;
        let uid = found.and_then(|csv| csv.uid());
        self.0.insert(operator.to_owned(), uid.clone());
        Ok(uid)
    }
}

/// The object with its owner: it goes when the operator goes. What is in no namespace cannot have an owner in one, and gets
/// labels instead.
fn owned(step: &Prepared, namespace: &str, operator: &str, uid: Option<&str>) -> Value {
    let mut object = step.object.clone();
    let is_rbac = step.kind.resource.group == "rbac.authorization.k8s.io";
    let is_apart = matches!(step.kind.resource.kind.as_str(), "ClusterServiceVersion" | "Subscription");
    if step.kind.namespaced {
        if let (Some(uid), false) = (uid, is_apart) {
            object["metadata"]["ownerReferences"] = json!([csv_reference(operator, uid)]);
        }
    } else if (is_rbac || step.writer == Writer::Own) && !operator.is_empty() {
        let labels = &mut object["metadata"]["labels"];
        labels[OWNER_LABEL] = json!(operator);
        labels[OWNER_KIND_LABEL] = json!("ClusterServiceVersion");
        labels[OWNER_NAMESPACE_LABEL] = json!(namespace);
    }
    object
}
