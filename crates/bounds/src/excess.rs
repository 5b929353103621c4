//! From demands and boundaries to a verdict: everything that is missing, at once and in full.

use crate::authority::Authority;
use crate::boundary::Boundary;
use crate::context::Context;
use crate::demand::Demand;
use crate::grant::{Grant, Held, Reach, held};
use crate::group::Group;
use crate::message;
use crate::order::ordered;
use crate::settings::Escalation;
use crate::subject::Identity;
use crate::verdict::Refusal;

/// Objects that are judged together, and what they are called.
#[derive(Debug)]
pub struct Judged<'r> {
    /// `ClusterServiceVersion team-a/etcdoperator.v0.9.4`.
    pub what: String,
    /// What it asks for.
    pub demands: Vec<Demand<'r>>,
    /// The file name that the next command should be given.
    pub manifest: String,
    /// What else has to be said when it is refused.
    pub notes: Vec<String>,
}

/// What each of the boundaries holds in the scopes of the demands, found in one pass. Only a namespace that the group
/// reaches by name has a list of its own: anybody may label a Role, and each list is a watch that stays open.
pub fn grants(
    cx: &Context<'_>,
    boundaries: &[Boundary],
    demands: &[Demand<'_>],
    group: &Group,
) -> Result<Vec<Grant>, Refusal> {
    let namespaces = ordered(demands.iter().filter_map(|demand| demand.scope.namespace()).map(str::to_owned));
    let identities: Vec<Identity> = boundaries.iter().map(|boundary| boundary.identity.clone()).collect();
    let is_reached = namespaces.iter().all(|namespace| group.names(namespace));
    let reach = if is_reached { Reach::Namespaces(&namespaces) } else { Reach::Everywhere };
    let mut held = held(&cx.lookups, &identities, reach)?;
    held.retain(|held| held.scope.namespace().is_none_or(|namespace| namespaces.contains(namespace)));
    grants_of(cx, &held, identities.len())
}

/// The grants of the first `count` identities that `held` was asked about.
pub fn grants_of(cx: &Context<'_>, held: &[Held], count: usize) -> Result<Vec<Grant>, Refusal> {
    (0..count).map(|number| Grant::of(&cx.lookups, held, number)).collect::<Result<_, _>>().map_err(Refusal::from)
}

/// Refuses what exceeds any of the boundaries.
pub fn bounded(
    cx: &Context<'_>,
    judged: &Judged<'_>,
    boundaries: &[Boundary],
    grants: &[Grant],
    escalation: Escalation,
) -> Result<(), Refusal> {
    let mut messages = Vec::new();
    let mut lines = Vec::new();
    let mut facts = Vec::new();
    for (boundary, grant) in boundaries.iter().zip(grants) {
        let authority = Authority { identity: &boundary.identity, grant };
        let mut shortfall = authority.shortfall(cx, &judged.demands, escalation)?;
        if shortfall.excess.is_empty() {
            continue;
        }
        shortfall.notes.extend(judged.notes.iter().cloned());
        let heading = format!("{} asks for more than {} allows ({})", judged.what, boundary.said, boundary.by);
        let next = format!(
            "Grant it with: operator-bounds derive {} --for {} | kubectl apply -f -   (or drop the operator)",
            judged.manifest,
            boundary.for_argument()
        );
        messages.push(message::excess(&heading, &shortfall.excess, &shortfall.notes, &next));
        lines.push(format!("{heading}; it would be refused in mode enforce. Missing:"));
        let missing = message::lines(&shortfall.excess);
        facts.extend(missing.iter().map(|line| format!("{}: {line}", boundary.identity.user())));
        lines.extend(missing);
    }
    if messages.is_empty() {
        return Ok(());
    }
    cx.fact("excess", facts.join("; "));
    Err(Refusal::Exceeds { message: message::join(messages), lines })
}
