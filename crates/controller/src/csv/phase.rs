//! The phases of an operator, by the names that OLM gives them.

use bounds::group::Targets;
use bounds::verdict::Refusal;
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::context::Context;
use crate::error::{Error, api_reason, said};
use crate::judge::{self, Installer};
use crate::olm::ClusterServiceVersion;

use super::deployments::{self, Health};
use super::{lifted, requirements};

/// Where an operator should be next.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Next {
    /// The phase.
    pub phase: &'static str,
    /// A word for machines.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
    /// What it needs, and whether that is there; none when that was not looked at.
    pub requirements: Option<Value>,
    /// Whether to try again without being told.
    pub retry: bool,
}

impl Next {
    /// A phase that lasts until something changes.
    #[must_use]
    pub(super) fn new(phase: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Next { phase, reason, message: message.into(), requirements: None, retry: false }
    }
}

/// The next phase, and what has to be done to get there.
pub(super) async fn next(cx: &Context, csv: &ClusterServiceVersion) -> Result<Next, Error> {
    match (csv.status.phase.as_str(), csv.status.reason.as_str()) {
        ("", _) => Ok(Next::new("Pending", "RequirementsUnknown", "requirements not yet checked")),
        // Tried again from where it failed: another phase in between would be news, and news is looked at at once.
        ("InstallReady", _) | ("Failed", "InstallComponentFailed") => match check(cx, csv)? {
            Checked::Ready(ready) => install(cx, csv, &ready).await,
            Checked::Not(next) => Ok(next),
        },
        // An operator that was installed is only watched: whatever became of its group or account, it keeps running.
        ("Installing" | "Succeeded" | "Replacing", _) | ("Failed", "ComponentUnhealthy") => Ok(watch(cx, csv)),
        _ => Ok(match check(cx, csv)? {
            Checked::Ready(ready) => ready.next,
            Checked::Not(next) => next,
        }),
    }
}

/// What was found before anything is written.
enum Checked {
    /// It may be installed.
    Ready(Box<Ready>),
    /// It may not: why.
    Not(Next),
}

/// An operator that may be installed: by whom, and where it reaches.
struct Ready {
    next: Next,
    installer: Installer,
    targets: Targets,
}

/// Before anything is written: who installs, what is needed, what is asked for.
fn check(cx: &Context, csv: &ClusterServiceVersion) -> Result<Checked, Error> {
    let namespace = csv.namespace().unwrap_or_default();
    if csv.spec.install.strategy != "deployment" {
        let message = format!("strategy {:?} is not known: only deployment is", csv.spec.install.strategy);
        return Ok(Checked::Not(Next::new("Failed", "InvalidInstallStrategy", message)));
    }
    let around = judge::installer(&cx.stores, &namespace).and_then(|installer| {
        let targets = judge::targets(&cx.stores, &installer.group)?;
        Ok((installer, targets, requirements::check(&cx.stores, csv, &namespace)?))
    });
    let (installer, targets, found) = match around {
        Ok(around) => around,
        Err(refusal) => return refused(refusal).map(Checked::Not),
    };
    let next = match judge::csv(&cx.stores, &installer, csv, &lifted::writes(csv, &namespace, &targets)) {
        Err(refusal) => refused(refusal)?,
        Ok(()) if !found.are_met => Next::new("Pending", "RequirementsNotMet", found.message),
        Ok(()) => Next::new("InstallReady", "AllRequirementsMet", "all requirements found, attempting install"),
    };
    let is_ready = next.phase == "InstallReady";
    let next = Next { requirements: Some(found.status), ..next };
    Ok(if is_ready { Checked::Ready(Box::new(Ready { next, installer, targets })) } else { Checked::Not(next) })
}

fn refused(refusal: Refusal) -> Result<Next, Error> {
    match refusal {
        Refusal::Exceeds { message, .. } => Ok(Next::new("Pending", "RequirementsNotMet", message)),
        Refusal::Forbidden { reason, message } => Ok(match reason {
            "no-operator-group" => Next::new("Failed", "NoOperatorGroup", message),
            "ambiguous-operator-group" => Next::new("Failed", "TooManyOperatorGroups", message),
            "account-missing" => Next::new("Pending", "RequirementsNotMet", message),
            _ => Next::new("Failed", "UnsupportedOperatorGroup", message),
        }),
        Refusal::Lookup(error) => Err(error.into()),
        Refusal::Unreadable { .. } => Ok(Next::new("Failed", "InvalidInstallStrategy", refusal.to_string())),
    }
}

/// Writes the Deployments, and the permissions where the group's targets are.
async fn install(cx: &Context, csv: &ClusterServiceVersion, ready: &Ready) -> Result<Next, Error> {
    let Ready { installer, targets, .. } = ready;
    if let Some(taken) = deployments::taken(&cx.stores, csv) {
        let message = format!("{taken}, which this one does not replace. Remove one of the two");
        return Ok(Next::new("Failed", "InstallComponentFailed", message));
    }
    let client = client(cx, installer).await?;
    let mut written = lifted::write(cx, &client, csv, targets).await?;
    if written.is_ok() {
        written = deployments::write(cx, &client, csv, &installer.group, targets).await;
    }
    let Err((what, source)) = written else {
        deployments::seen(&cx.stores, csv).await;
        return Ok(Next::new("Installing", "InstallSucceeded", "waiting for install components to report healthy"));
    };
    if let ("unauthorized", Some(account)) = (api_reason(&source), &installer.account) {
        cx.scoped.forget(account).await;
    }
    let account = installer.account.as_ref().map(|account| format!("ServiceAccount {account}"));
    let whom = account.as_deref().unwrap_or("the controller itself");
    let message = format!("{what} was refused to {whom}: {}", said(&source));
    Ok(Next { retry: true, ..Next::new("Failed", "InstallComponentFailed", message) })
}

/// The client that installs in the operator's namespace.
pub(super) async fn client(cx: &Context, installer: &Installer) -> Result<Client, Error> {
    match &installer.account {
        Some(account) => cx.scoped.client(account).await,
        None => Ok(cx.own.0.clone()),
    }
}

/// Looks whether the Deployments are there and work.
fn watch(cx: &Context, csv: &ClusterServiceVersion) -> Next {
    let was_healthy = csv.status.phase == "Succeeded" || csv.status.phase == "Failed";
    match deployments::health(&cx.stores, csv) {
        Health::Available => Next::new("Succeeded", "InstallSucceeded", "install strategy completed with no errors"),
        Health::Missing(name) => {
            Next::new("Pending", "NeedsReinstall", format!("installing: Deployment {name} does not exist"))
        }
        Health::Outdated(name) => {
            let message = format!("installing: Deployment {name} is of an earlier state of the ClusterServiceVersion");
            Next::new("Pending", "NeedsReinstall", message)
        }
        Health::Waiting(message) if was_healthy => Next::new("Failed", "ComponentUnhealthy", message),
        Health::Waiting(message) => Next::new("Installing", "InstallWaiting", format!("installing: {message}")),
    }
}
