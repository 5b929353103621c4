//! The boundary guard: without it, anyone who chooses a boundary, or what runs inside it, could escalate through it.

use std::collections::BTreeSet;

use crate::decide::authority::Authority;
use crate::decide::boundary::{Boundary, SYNTHETIC_GROUP};
use crate::decide::context::Context;
use crate::decide::demand::{Demand, DemandedRules};
use crate::decide::excess::namespaces;
use crate::decide::holders::{Holder, Reach, find, holder};
use crate::decide::message;
use crate::decide::message::shell;
use crate::decide::verdict::{Reason, Refusal, Refused};
use crate::rbac::rule::Rule;
use crate::rbac::scope::Scope;
use crate::rbac::subject::Identity;
use crate::settings::{Escalation, Severity};

/// The group to which the API server allows everything, whatever RBAC says.
const MASTERS: &str = "system:masters";

/// What the requester is about to choose.
#[derive(Debug)]
pub(crate) enum Choice<'b> {
    /// This particular boundary.
    Boundary(&'b Boundary),
    /// No boundary, which amounts to everything.
    Everything {
        /// Why this amounts to everything.
        why: &'b str,
        /// What to do instead.
        instead: &'b str,
    },
}

impl Choice<'_> {
    /// For operators of an OperatorGroup without a boundary.
    pub(crate) const UNBOUNDED_GROUP: Choice<'static> = Choice::Everything {
        why: "nothing would bound the operators there",
        instead: "name a service account in spec.serviceAccountName",
    };
}

/// Whether the requester has to be checked: not if it is one of OLM's own accounts or exempt. The background audit has
/// no requester.
pub(crate) fn is_guarded(cx: &Context<'_>, requester: Option<&Identity>) -> bool {
    let Some(requester) = requester else { return false };
    let exempt = &cx.settings.exempt;
    !(cx.settings.is_olm_v0(requester.user())
        || cx.settings.is_olm_v1(requester.user())
        || exempt.users.iter().any(|user| user == requester.user())
        || requester.groups().iter().any(|group| group == MASTERS || exempt.groups.contains(group)))
}

/// Refuses, or warns, unless the requester may impersonate what is chosen or holds everything that it holds. `act`
/// describes what the requester does: `choose ServiceAccount team-a/installer for OperatorGroup team-a/og`.
pub(crate) fn check(
    cx: &Context<'_>,
    requester: Option<&Identity>,
    severity: Severity,
    act: &str,
    choice: &Choice<'_>,
) -> Result<(), Refusal> {
    if severity == Severity::Off {
        return Ok(());
    }
    let Some(requester) = requester.filter(|requester| is_guarded(cx, Some(requester))) else { return Ok(()) };
    let Some(text) = objection(cx, requester, act, choice)? else {
        cx.fact("guard", "passed");
        return Ok(());
    };
    if severity == Severity::Deny {
        return Err(Refused::Forbidden { reason: Reason::Guard, message: text }.into());
    }
    cx.warn(&text);
    cx.fact("guard", "warned");
    Ok(())
}

fn objection(
    cx: &Context<'_>,
    requester: &Identity,
    act: &str,
    choice: &Choice<'_>,
) -> Result<Option<String>, Refusal> {
    let (why, instead) = match choice {
        Choice::Boundary(boundary) => return objection_to_boundary(cx, requester, act, boundary),
        Choice::Everything { why, instead } => (why, instead),
    };
    // Holding everything is decided at cluster scope: no RoleBinding can grant it.
    let nowhere = BTreeSet::new();
    let mine = holder(&cx.lookups, requester.clone(), Reach::Namespaces(&nowhere))?.grant(&cx.lookups)?;
    let authority = Authority { identity: requester, grant: &mine };
    let user = requester.user();
    Ok((!authority.holds(cx, &Scope::Cluster, &Rule::everything())?).then(|| {
        message::clean(&format!(
            "User {user} may not {act}: {why}, and {user} does not hold everything. Ask an administrator, or {instead}."
        ))
    }))
}

/// What a boundary holds counts in every scope where it holds it: an operator may run as that account.
fn objection_to_boundary(
    cx: &Context<'_>,
    requester: &Identity,
    act: &str,
    boundary: &Boundary,
) -> Result<Option<String>, Refusal> {
    let mut both = [Holder::new(requester.clone()), Holder::new(chosen(&boundary.identity))];
    find(&cx.lookups, &mut both, Reach::Everywhere)?;
    let [mine, mut theirs] = both;
    if may_impersonate(cx, &mine, &boundary.identity)? {
        return Ok(None);
    }
    // What a single binding gives to both is not looked up at all: anyone may bind all users of a cluster, any number
    // of times, in a namespace of their own. Both lists are in the order of the bindings.
    let mut own = mine.held.iter().peekable();
    theirs.held.retain(|held| {
        while own.peek().is_some_and(|own| own.position() < held.position()) {
            own.next();
        }
        own.peek().is_none_or(|own| own.position() != held.position())
    });
    let mut demands = Vec::new();
    for held in &theirs.held {
        let why =
            format!("{} holds {} through {} {}", boundary.description, held.role, held.binding_kind(), held.place());
        let Some(rules) = cx.lookups.role(&held.role).map_err(|error| error.because(&why))? else { continue };
        demands.push(Demand { why: Some(why), ..Demand::plain(held.scope.clone(), DemandedRules::Shared(rules)) });
    }
    let judged = namespaces(&demands);
    let grant = mine.grant_in(&cx.lookups, &|namespace| judged.contains(namespace))?;
    let authority = Authority { identity: requester, grant: &grant };
    let shortfall = authority.shortfall(cx, &demands, Escalation::Ignore)?;
    let user = requester.user();
    Ok((!shortfall.excess.is_empty()).then(|| {
        let heading = format!(
            "User {user} may not {act}: {} holds more than {user} does, and {user} may not impersonate it. {user} lacks",
            boundary.description
        );
        message::excess(&heading, &shortfall.excess, &shortfall.notes, &[&allow_impersonation(requester, boundary)])
    }))
}

/// A boundary without what everyone holds who can have a service account at all: nobody gains anything from that.
fn chosen(boundary: &Identity) -> Identity {
    let everybodys = |group: &&String| matches!(group.as_str(), "system:serviceaccounts" | "system:authenticated");
    let groups = boundary.groups().iter().filter(|group| !everybodys(group)).cloned().collect();
    Identity::user_in(boundary.user(), groups)
}

/// Whether the holder may act as an identity: as a service account, or as a user in its groups.
fn may_impersonate(cx: &Context<'_>, somebody: &Holder, identity: &Identity) -> Result<bool, Refusal> {
    let (scope, rules) = match identity.as_service_account() {
        Some((namespace, name)) => (
            Scope::Namespace(namespace.to_owned()),
            vec![Rule::on(&[""], &["serviceaccounts"], &["impersonate"]).named(&[name])],
        ),
        None => (
            Scope::Cluster,
            vec![
                Rule::on(&[""], &["users"], &["impersonate"]).named(&[identity.user()]),
                Rule::on(&[""], &["groups"], &["impersonate"]).named(&[SYNTHETIC_GROUP]),
            ],
        ),
    };
    let grant = somebody.grant_in(&cx.lookups, &|namespace| scope.namespace() == Some(namespace))?;
    Authority { identity: &somebody.identity, grant: &grant }.holds(cx, &scope, &rules)
}

/// The command with which an administrator lets the requester choose this boundary.
fn allow_impersonation(requester: &Identity, boundary: &Boundary) -> String {
    let ask = "Ask an administrator to make the change";
    let subject = match requester.as_service_account() {
        Some((namespace, name)) => format!("--serviceaccount={namespace}:{name}"),
        None => format!("--user={}", shell(requester.user())),
    };
    let Some((namespace, name)) = boundary.identity.as_service_account() else {
        let user = shell(boundary.identity.user());
        return format!(
            "{ask}, or to allow it with: kubectl create clusterrole use-{user} --verb=impersonate \
             --resource=users,groups --resource-name={user} --resource-name={SYNTHETIC_GROUP} && \
             kubectl create clusterrolebinding use-{user} --clusterrole=use-{user} {subject}"
        );
    };
    let name = shell(name);
    format!(
        "{ask}, or to allow it with: kubectl create role use-{name} --namespace {namespace} --verb=impersonate \
         --resource=serviceaccounts --resource-name={name} && kubectl create rolebinding use-{name} \
         --namespace {namespace} --role=use-{name} {subject}"
    )
}
