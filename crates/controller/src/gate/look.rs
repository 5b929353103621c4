//! A look at one namespace: the plans that wait there, the verdict on each, and what is done about it.

use std::time::Duration;

use bounds::decide::Upgrade;
use bounds::olm::InstallPlan;
use bounds::read::{is_object_name, json};
use bounds::settings::Settings;
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use kube::Client;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::cluster::{Part, ReadError, Seen, read};
use super::olm::{Bare, INSTALL_PLANS, List, Meta, SUBSCRIPTIONS, Subscription};
use super::tell::{News, WAITS, tell};
use super::verdict::{Question, Verdict, judge};
use super::watch::Watched;
use super::world::Mode;
use crate::leader::Term;

/// The maximum number of plans read to find those that installed the version to be upgraded: OLM keeps five.
const PLANS: usize = 10;
/// How long a write may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The outcome of a look: `approved`, `waits`, `unread`, `changed`, `failed`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Outcome {
    pub outcome: &'static str,
}

/// Everything that a look needs.
pub(super) struct Gate {
    pub client: Client,
    pub watched: Watched,
    pub settings: Settings,
    pub term: Term,
    pub verdicts: Family<Outcome, Counter>,
}

/// A plan that waits for approval, with the Subscriptions that it is for.
struct Waiting<'s> {
    metadata: Meta,
    text: String,
    subscriptions: Vec<&'s Subscription>,
}

impl Gate {
    /// Examines the plans of a namespace. Returns whether it has to be examined again even if nothing changes.
    pub(super) async fn look(&self, namespace: &str) -> Result<bool, ReadError> {
        let Some(mode) = self.watched.world().mode(namespace) else {
            self.watched.world().depends(namespace, Vec::new());
            return Ok(false);
        };
        let path = SUBSCRIPTIONS.path(namespace, "");
        let Some(list) = read(&self.client, &path, Part::Whole).await? else { return Ok(false) };
        let subscriptions: List<Subscription> = serde_json::from_str(&list)?;
        drop(list);
        let (mut again, mut roles) = (false, Vec::new());
        for waiting in self.waiting(namespace, &subscriptions.items).await? {
            let (verdict, seen) = self.judge(namespace, mode, &waiting).await?;
            again |= self.act(namespace, &waiting, verdict, &seen).await?;
            roles.extend(seen.roles);
        }
        self.watched.world().depends(namespace, roles);
        Ok(again)
    }

    /// The plans that OLM would carry out if they were approved: those that a Subscription names. Superseded plans wait
    /// forever, and approving one would break the namespace.
    async fn waiting<'s>(
        &self,
        namespace: &str,
        subscriptions: &'s [Subscription],
    ) -> Result<Vec<Waiting<'s>>, ReadError> {
        let named =
            subscriptions.iter().filter_map(|it| it.status.install_plan_ref.as_ref()).map(|it| it.name.as_str());
        let mut names: Vec<&str> = named.filter(|name| is_object_name(name)).collect();
        names.sort_unstable();
        names.dedup();
        let mut waiting = Vec::new();
        for name in names {
            let path = INSTALL_PLANS.path(namespace, name);
            let Some(text) = read(&self.client, &path, Part::Whole).await? else { continue };
            let metadata = serde_json::from_str::<Bare>(&text)?.metadata;
            let subscriptions: Vec<_> = subscriptions.iter().filter(|it| it.is_for(&metadata)).collect();
            if !subscriptions.is_empty() && waits(&text) {
                waiting.push(Waiting { metadata, text, subscriptions });
            }
        }
        Ok(waiting)
    }

    async fn judge(&self, namespace: &str, mode: Mode, waiting: &Waiting<'_>) -> Result<(Verdict, Seen), ReadError> {
        let upgrade = |it: &&Subscription| Upgrade { from: it.status.installed.clone(), to: it.status.current.clone() };
        let upgrades: Vec<Upgrade> = waiting.subscriptions.iter().map(upgrade).collect();
        let before = if mode == Mode::NoWider { self.before(namespace, &upgrades).await? } else { Vec::new() };
        let (namespace, name) = (namespace.to_owned(), waiting.metadata.name.clone());
        let question = Question { namespace, name, mode, plan: waiting.text.clone(), before, upgrades };
        let (client, watched, settings) = (self.client.clone(), self.watched.clone(), self.settings.clone());
        let handle = Handle::current();
        let judged = tokio::task::spawn_blocking(move || judge(&question, &settings, &client, &watched, &handle));
        Ok(judged.await.unwrap_or_else(|error| (Verdict::Failed(error.to_string()), Seen::default())))
    }

    /// The plans that installed the version to be upgraded, newest first.
    async fn before(&self, namespace: &str, upgrades: &[Upgrade]) -> Result<Vec<(String, String)>, ReadError> {
        let path = INSTALL_PLANS.path(namespace, "");
        let Some(list) = read(&self.client, &path, Part::MetadataOfAll).await? else { return Ok(Vec::new()) };
        let mut plans: Vec<Meta> =
            serde_json::from_str::<List<Bare>>(&list)?.items.into_iter().map(|it| it.metadata).collect();
        plans.sort_by(|one, other| other.creation_timestamp.cmp(&one.creation_timestamp));
        let mut found = Vec::new();
        for plan in plans.into_iter().take(PLANS) {
            let Some(text) = read(&self.client, &INSTALL_PLANS.path(namespace, &plan.name), Part::Whole).await? else {
                continue;
            };
            if upgrades.iter().any(|upgrade| has_installed(&text, &upgrade.from)) {
                found.push((plan.name, text));
            }
        }
        Ok(found)
    }

    /// Acts on the verdict, and reports it if it is new. Returns whether to look again.
    async fn act(
        &self,
        namespace: &str,
        waiting: &Waiting<'_>,
        verdict: Verdict,
        seen: &Seen,
    ) -> Result<bool, ReadError> {
        let plan = &waiting.metadata;
        let (outcome, message) = match verdict {
            Verdict::Approve if !self.is_unchanged(seen).await? => return Ok(self.count("changed")),
            Verdict::Approve => return self.approve(namespace, waiting).await,
            Verdict::Failed(error) => {
                tracing::warn!(namespace, plan = plan.name, error, "the plan could not be judged, and will be again");
                return Ok(self.count("failed"));
            }
            Verdict::Wait(message) => ("waits", message),
            Verdict::Unread(message) => ("unread", message),
        };
        self.wait(namespace, waiting, message + &held_up(&waiting.subscriptions)).await?;
        self.count(outcome);
        Ok(outcome == "unread")
    }

    /// Whether the unpacked bundles are still those that were judged: the plan's resourceVersion does not cover them.
    async fn is_unchanged(&self, seen: &Seen) -> Result<bool, ReadError> {
        for (path, version) in &seen.bundles {
            let now = read(&self.client, path, Part::Metadata).await?;
            let now = now.map(|text| serde_json::from_str::<Bare>(&text)).transpose()?;
            if now.is_none_or(|now| now.metadata.resource_version != *version) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn approve(&self, namespace: &str, waiting: &Waiting<'_>) -> Result<bool, ReadError> {
        let plan = &waiting.metadata;
        let change = json!({
            "metadata": {"resourceVersion": plan.resource_version, "annotations": {WAITS: null}},
            "spec": {"approved": true},
        });
        match self.patch(namespace, plan, &change).await {
            Ok(true) => {}
            Ok(false) => return Ok(self.count("changed")),
            // This policy, or another one, refuses: people have to see that, not only the log.
            Err(ReadError::Api(kube::Error::Api(status))) if status.code == 403 => {
                let message = format!("the approval was refused by the API server: {}", status.message);
                self.wait(namespace, waiting, message).await?;
                return Ok(self.count("failed"));
            }
            Err(error) => return Err(error),
        }
        self.count("approved");
        tracing::info!(namespace, plan = plan.name, "approved");
        let message = format!("InstallPlan {namespace}/{} was judged as a whole and approved", plan.name);
        self.tell(namespace, waiting, News::Approved, &message).await;
        Ok(false)
    }

    /// Reports why a plan waits on the plan itself, and in Events unless that was already reported.
    async fn wait(&self, namespace: &str, waiting: &Waiting<'_>, message: String) -> Result<(), ReadError> {
        let plan = &waiting.metadata;
        if plan.annotations.get(WAITS) == Some(&message) {
            return Ok(());
        }
        let change = json!({"metadata": {"resourceVersion": plan.resource_version, "annotations": {WAITS: message}}});
        if self.patch(namespace, plan, &change).await? {
            tracing::info!(namespace, plan = plan.name, why = message, "waits");
            self.tell(namespace, waiting, News::Waits, &message).await;
        }
        Ok(())
    }

    /// Changes a plan if it is still the one that was read, and if this replica may still act.
    async fn patch(&self, namespace: &str, plan: &Meta, change: &Value) -> Result<bool, ReadError> {
        if !self.term.holds() {
            return Ok(false);
        }
        let request = Request::patch(INSTALL_PLANS.path(namespace, &plan.name))
            .header(CONTENT_TYPE, "application/merge-patch+json")
            .body(change.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        match timeout(PATIENCE, self.client.request_text(request)).await {
            Err(_) => Err(ReadError::Silence),
            Ok(Ok(_)) => Ok(true),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Ok(false),
            Ok(Err(error)) => Err(error.into()),
        }
    }

    async fn tell(&self, namespace: &str, waiting: &Waiting<'_>, news: News, message: &str) {
        let groups: Vec<Meta> = {
            let world = self.watched.world();
            let groups = world.groups_of(namespace).filter_map(|text| serde_json::from_str::<Bare>(text).ok());
            groups.map(|group| group.metadata).collect()
        };
        tell(&self.client, namespace, &waiting.metadata, &waiting.subscriptions, &groups, news, message).await;
    }

    /// Counts the outcome, and returns that another look is needed.
    fn count(&self, outcome: &'static str) -> bool {
        self.verdicts.get_or_create(&Outcome { outcome }).inc();
        true
    }
}

/// Whether a plan waits for approval.
fn waits(text: &str) -> bool {
    // A plan that cannot be read is judged nevertheless, so that people are told.
    json::read::<InstallPlan<'_>>(text, "").map_or(true, |plan| {
        plan.spec.approval == "Manual" && !plan.spec.approved && plan.status.phase == "RequiresApproval"
    })
}

/// Whether a plan has installed this ClusterServiceVersion.
fn has_installed(text: &str, csv: &str) -> bool {
    json::read::<InstallPlan<'_>>(text, "").is_ok_and(|plan| {
        let brings = |kind: &str, name: &str| kind == "ClusterServiceVersion" && name == csv;
        plan.status.phase == "Complete"
            && plan.status.plan.iter().any(|step| brings(&step.resource.kind, &step.resource.name))
    })
}

/// One plan serves several Subscriptions, and a single Manual one holds up the others.
fn held_up(subscriptions: &[&Subscription]) -> String {
    let automatic = subscriptions.iter().filter(|it| it.spec.install_plan_approval != "Manual");
    let names: Vec<&str> = automatic.map(|it| it.metadata.name.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "\nSubscriptions whose installPlanApproval is Automatic wait with it, because the plan is for all of them: {}",
        names.join(", ")
    )
}
