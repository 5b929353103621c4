//! From demands and boundaries to a verdict: everything that is missing, at once and in full.

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

/// A boundary, and what it allows.
#[derive(Debug)]
pub struct Limit<'b> {
    /// The boundary.
    pub boundary: &'b Boundary,
    /// The roles that it holds where something is judged.
    pub held: Vec<Held>,
    /// The rules of these roles.
    pub grant: Grant,
}

impl<'b> Limit<'b> {
    /// What the boundary is found to hold. Only what counts in a scope that is judged is looked up.
    pub fn new(
        cx: &Context<'_>,
        boundary: &'b Boundary,
        holder: Holder,
        judged: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Refusal> {
        let grant = holder.grant_in(&cx.lookups, judged)?;
        let held = holder.held.into_iter().filter(|held| held.scope.namespace().is_none_or(judged)).collect();
        Ok(Limit { boundary, held, grant })
    }

    /// The boundary, ready to be asked.
    #[must_use]
    pub fn authority(&self) -> Authority<'_> {
        Authority { identity: &self.boundary.identity, grant: &self.grant }
    }
}

/// What each of the boundaries allows in the scopes of the demands, found in one pass. Only a namespace that the group
/// reaches by name has a list of its own: anybody may label a Role, and each list is a watch that stays open.
pub fn limits<'b>(
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

/// The namespaces in which something is asked for.
#[must_use]
pub fn namespaces(demands: &[Demand<'_>]) -> BTreeSet<String> {
    let scopes = demands.iter().flat_map(|demand| demand.scopes.iter());
    ordered(scopes.filter_map(Scope::namespace).map(str::to_owned))
}

/// Refuses what exceeds any of the boundaries.
pub fn bounded(
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
        // A command ends its line, so that it can be pasted.
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
