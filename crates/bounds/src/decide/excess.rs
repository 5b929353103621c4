//! From demands and boundaries to a verdict that lists everything that is missing, in full.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::decide::authority::Authority;
use crate::decide::boundary::Boundary;
use crate::decide::context::Context;
use crate::decide::demand::Demand;
use crate::decide::holders::{Held, Holder, Reach, find};
use crate::decide::message;
use crate::decide::verdict::{Refusal, Refused};
use crate::olm::group::Group;
use crate::rbac::grant::Grant;
use crate::rbac::rule::Rule;
use crate::rbac::scope::Scope;
use crate::read::order::ordered;
use crate::settings::Escalation;

/// What is missing, by scope, compacted and sorted.
pub type Excess<'r> = BTreeMap<Scope, Rc<[Rule<'r>]>>;

/// Objects that are judged together, and how they are shown.
#[derive(Debug)]
pub(crate) struct Judged<'r> {
    /// As shown to a person: `ClusterServiceVersion team-a/etcdoperator.v0.9.4`.
    pub(crate) what: String,
    /// Everything they request.
    pub(crate) demands: Vec<Demand<'r>>,
    /// The file name to use in the suggested command.
    pub(crate) manifest: String,
    /// Further remarks for a refusal.
    pub(crate) notes: Vec<String>,
}

/// A boundary, and what it allows.
#[derive(Debug)]
pub struct Limit<'b> {
    /// The identity that bounds, and why.
    pub boundary: &'b Boundary,
    /// The roles that it holds where something is judged.
    pub held: Vec<Held>,
    /// The rules of these roles.
    pub(crate) grant: Grant,
}

impl<'b> Limit<'b> {
    /// Combines a boundary with what it was found to hold. Only roles that count in a judged scope are looked up.
    pub(crate) fn new(
        cx: &Context<'_>,
        boundary: &'b Boundary,
        holder: Holder,
        judged: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Refusal> {
        let grant = holder.grant_in(&cx.lookups, judged)?;
        let held = holder.held.into_iter().filter(|held| held.scope.namespace().is_none_or(judged)).collect();
        Ok(Limit { boundary, held, grant })
    }

    /// The boundary in the form in which permissions are checked.
    #[must_use]
    pub fn authority(&self) -> Authority<'_> {
        Authority { identity: &self.boundary.identity, grant: &self.grant }
    }
}

/// What each of the boundaries allows in the scopes of the demands, found in one pass. Only a namespace that the group
/// targets by name gets a list of its own: anyone can label a Role, and each list is a watch that stays open.
pub(crate) fn limits<'b>(
    cx: &Context<'_>,
    boundaries: &'b [Boundary],
    demands: &[Demand<'_>],
    group: &Group,
) -> Result<Vec<Limit<'b>>, Refusal> {
    let namespaces = namespaces(demands);
    let is_reached = namespaces.iter().all(|namespace| group.names(namespace));
    let reach = if is_reached { Reach::Namespaces(&namespaces) } else { Reach::Everywhere };
    let mut holders: Vec<Holder> = boundaries.iter().map(|boundary| Holder::new(boundary.identity.clone())).collect();
    find(&cx.lookups, &mut holders, reach)?;
    boundaries
        .iter()
        .zip(holders)
        .map(|(boundary, holder)| Limit::new(cx, boundary, holder, &|namespace| namespaces.contains(namespace)))
        .collect()
}

/// The namespaces in which something is requested.
#[must_use]
pub(crate) fn namespaces(demands: &[Demand<'_>]) -> BTreeSet<String> {
    let scopes = demands.iter().flat_map(|demand| demand.scopes.iter());
    ordered(scopes.filter_map(Scope::namespace).map(str::to_owned))
}

/// Refuses what exceeds any of the boundaries.
pub(crate) fn bounded(
    cx: &Context<'_>,
    judged: &Judged<'_>,
    limits: &[Limit<'_>],
    escalation: Escalation,
) -> Result<(), Refusal> {
    let mut messages = Vec::new();
    let mut lines = Vec::new();
    let mut facts = Vec::new();
    for limit in limits {
        let boundary = limit.boundary;
        let mut shortfall = limit.authority().shortfall(cx, &judged.demands, escalation)?;
        if shortfall.excess.is_empty() {
            continue;
        }
        shortfall.notes.extend(judged.notes.iter().cloned());
        let heading = format!("{} asks for more than {} allows ({})", judged.what, boundary.description, boundary.by);
        let grant = format!(
            "Grant it with: operator-bounds derive {} --for {} | kubectl apply -f -",
            judged.manifest,
            boundary.for_argument()
        );
        // The command is the last thing on its line, so that it can be copied.
        let next = [grant.as_str(), "or do not install this operator"];
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
    Err(Refused::Exceeds { message: message::join(messages), lines }.into())
}
