//! Judges a plan as a whole: whether it may be approved.

use std::cell::RefCell;

use bounds::decide::{
    Admitted, Bounds, Bringing, Brought, Context, Lookups, Refusal, Refused, Upgrade, boundary, brought, needs,
    no_wider, plan,
};
use bounds::olm::{ClusterServiceVersion, InstallPlan, Step};
use bounds::read::json;
use bounds::settings::Settings;
use kube::Client;
use tokio::runtime::Handle;

use super::cluster::{Answers, Seen};
use super::watch::Watched;
use super::world::{LABEL, Mode};

/// Everything that a verdict is based on.
#[derive(Debug)]
pub(super) struct Question {
    pub namespace: String,
    pub name: String,
    pub mode: Mode,
    /// The InstallPlan, as JSON.
    pub plan: String,
    /// The plans that installed the version to be upgraded, with their names.
    pub before: Vec<(String, String)>,
    pub upgrades: Vec<Upgrade>,
}

/// What happens to a plan.
#[derive(Debug)]
pub(super) enum Verdict {
    Approve,
    /// It waits for a right, or for a person, with the reason to report.
    Wait(String),
    /// It waits because something could not be read, which may succeed next time.
    Unread(String),
    /// A look-up failed: there is no verdict.
    Failed(String),
}

/// Judges a plan, on a thread that may block.
pub(super) fn judge(
    question: &Question,
    settings: &Settings,
    client: &Client,
    watched: &Watched,
    handle: &Handle,
) -> (Verdict, Seen) {
    let seen = RefCell::default();
    let answers = Answers { client, watched, handle, namespace: &question.namespace, seen };
    let cx = Context::new(settings, Lookups::new(&answers));
    let verdict = match question.judge(&cx) {
        Ok(verdict) => verdict,
        Err(refusal) => match refusal.why() {
            Refused::Lookup(error) => Verdict::Failed(error.to_string()),
            other => Verdict::Wait(other.to_string()),
        },
    };
    drop(cx);
    (verdict, answers.seen.into_inner())
}

impl Question {
    fn judge(&self, cx: &Context<'_>) -> Result<Verdict, Refusal> {
        let what = format!("InstallPlan {}/{}", self.namespace, self.name);
        let plan: InstallPlan<'_> = match json::read(&self.plan, "") {
            Ok(plan) => plan,
            Err(error) => return Err(Refusal::unreadable(what, error)),
        };
        let steps = plan.status.plan.as_slice();
        let brought = brought(cx, &what, steps);
        if !brought.unread.is_empty() {
            return Ok(Verdict::Unread(format!(
                "{}. A plan that cannot be read in full is never approved.",
                some_of(&brought.unread)
            )));
        }
        match self.mode {
            Mode::WithinBounds => self.within_bounds(cx, &what, steps, &brought),
            Mode::NoWider => self.no_wider(cx, &Bringing { what: &what, steps, brought: &brought }),
            Mode::Unknown => Ok(Verdict::Wait(format!(
                "the label {LABEL} of namespace {} has a value that is not known: set it to within-bounds or no-wider",
                self.namespace
            ))),
        }
    }

    fn within_bounds(
        &self,
        cx: &Context<'_>,
        what: &str,
        steps: &[Step<'_>],
        brought: &Brought,
    ) -> Result<Verdict, Refusal> {
        let namespace = self.namespace.as_str();
        match boundary::of_operator(cx, namespace, &[])? {
            Bounds::NoGroup => {
                return Ok(Verdict::Wait(format!(
                    "{what}: namespace {namespace} has no OperatorGroup, so OLM installs nothing"
                )));
            }
            Bounds::Unbounded(group) => {
                return Ok(Verdict::Wait(format!(
                    "{what}: {group} names no service account, so nothing bounds its operators and no plan is approved. Name \
                     one with: kubectl patch operatorgroup {} --namespace {namespace} --type merge --patch \
                     '{{\"spec\":{{\"serviceAccountName\":\"<name>\"}}}}', or label the namespace {LABEL}=no-wider",
                    group.name
                )));
            }
            Bounds::Bounded(..) => {}
        }
        let besides =
            |operator: &str, csvs: &[ClusterServiceVersion<'_>]| needs::of_install(steps, operator, csvs, namespace);
        plan::within_bounds(cx, what, namespace, brought, Admitted("nothing-to-judge"), &besides)?;
        Ok(Verdict::Approve)
    }

    fn no_wider(&self, cx: &Context<'_>, now: &Bringing<'_>) -> Result<Verdict, Refusal> {
        let whats: Vec<String> =
            self.before.iter().map(|(name, _)| format!("InstallPlan {}/{name}", self.namespace)).collect();
        // A plan that cannot be read proves nothing: what it brought counts as new.
        let plans: Vec<Option<InstallPlan<'_>>> =
            self.before.iter().map(|(_, text)| json::read(text, "").ok()).collect();
        let mut before: Vec<(&str, &[Step<'_>], Brought)> = Vec::new();
        for (what, plan) in whats.iter().zip(&plans) {
            let steps = plan.as_ref().map_or(&[][..], |plan| &plan.status.plan);
            before.push((what, steps, brought(cx, what, steps)));
        }
        let before: Vec<Bringing<'_>> =
            before.iter().map(|(what, steps, brought)| Bringing { what, steps, brought }).collect();
        no_wider(cx, &self.namespace, now, &before, &self.upgrades)?;
        Ok(Verdict::Approve)
    }
}

/// The first few, and how many more there are.
fn some_of(all: &[String]) -> String {
    const SHOWN: usize = 5;
    let more = all.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("; and {more} more like this") } else { String::new() };
    all[..all.len().min(SHOWN)].join("; ") + &more
}
