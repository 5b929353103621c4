//! The boundary guard (specification 3.2): whoever chooses a boundary, or what runs inside it, could otherwise use it
//! to climb.

use std::collections::BTreeSet;

use crate::authority::Authority;
use crate::boundary::{Boundary, SYNTHETIC_GROUP};
use crate::context::Context;
use crate::demand::{Demand, DemandedRules};
use crate::excess::grants_of;
use crate::grant::{Grant, Reach, held};
use crate::group::Targets;
use crate::message;
use crate::message::shell;
use crate::order::ordered;
use crate::rule::Rule;
use crate::scope::Scope;
use crate::settings::{Escalation, Severity};
use crate::subject::Identity;
use crate::verdict::Refusal;

/// The group that the API server authorizes for everything, whatever RBAC says.
const MASTERS: &str = "system:masters";

/// What somebody is about to choose.
#[derive(Debug)]
pub enum Choice<'b> {
    /// This boundary.
    Boundary(&'b Boundary),
    /// No boundary: everything. What that means, and what to do instead.
    Everything {
        /// Why it is everything.
        why: &'b str,
        /// What to do instead.
        instead: &'b str,
    },
}

impl Choice<'_> {
    /// Operators of an OperatorGroup without a boundary.
    pub const UNBOUNDED_GROUP: Choice<'static> = Choice::Everything {
        why: "nothing would bound the operators there",
        instead: "name a service account in spec.serviceAccountName",
    };
}

/// The place where a choice takes effect.
#[derive(Debug)]
pub struct Place<'b> {
    /// The namespace of the OperatorGroup.
    pub namespace: &'b str,
    /// What it reaches.
    pub targets: &'b Targets,
}

/// Who has to be asked; nobody for OLM's own accounts, the exempt, and the background audit.
fn guarded(cx: &Context<'_>) -> Option<Identity> {
    let requester = cx.requester()?;
    let exempt = &cx.settings.exempt;
    let passes = cx.settings.is_olm_v0(requester.user())
        || cx.settings.is_olm_v1(requester.user())
        || exempt.users.iter().any(|user| user == requester.user())
        || requester.groups().iter().any(|group| group == MASTERS || exempt.groups.contains(group));
    if passes { None } else { Some(requester) }
}

/// Refuses, or warns, unless the requester may impersonate what is chosen or holds everything that it holds. `act` is
/// what the requester does, in words: `choose ServiceAccount team-a/installer for OperatorGroup team-a/og`.
pub fn check(
    cx: &Context<'_>,
    severity: Severity,
    act: &str,
    choice: &Choice<'_>,
    place: &Place<'_>,
) -> Result<(), Refusal> {
    if severity == Severity::Off {
        return Ok(());
    }
    let Some(requester) = guarded(cx) else { return Ok(()) };
    let Some(text) = objection(cx, &requester, act, choice, place)? else {
        cx.fact("guard", "passed");
        return Ok(());
    };
    cx.object(severity, "guard", text)?;
    cx.fact("guard", "warned");
    Ok(())
}

fn objection(
    cx: &Context<'_>,
    requester: &Identity,
    act: &str,
    choice: &Choice<'_>,
    place: &Place<'_>,
) -> Result<Option<String>, Refusal> {
    let mut namespaces = ordered([place.namespace.to_owned()]);
    let nowhere = BTreeSet::new();
    let reach = match (choice, place.targets) {
        // Everything is decided at cluster scope: no RoleBinding gives it.
        (Choice::Everything { .. }, _) => Reach::Namespaces(&nowhere),
        (Choice::Boundary(_), Targets::All) => Reach::Everywhere,
        (Choice::Boundary(_), Targets::Namespaces(targets)) => {
            namespaces.extend(targets.iter().cloned());
            Reach::Namespaces(&namespaces)
        }
    };
    let mut identities = vec![requester.clone()];
    if let Choice::Boundary(boundary) = choice {
        identities.push(chosen(&boundary.identity));
    }
    let held = held(&cx.lookups, &identities, reach)?;
    let mut grants = grants_of(cx, &held, 1)?;
    let Some(mine) = grants.pop() else { return Ok(None) };
    let authority = Authority { identity: requester, grant: &mine };
    let user = requester.user();
    match choice {
        Choice::Everything { why, instead } => {
            let everything = Rule::everything();
            let demand = demand(Scope::Cluster, DemandedRules::Declared(&everything));
            let shortfall = authority.shortfall(cx, std::slice::from_ref(&demand), Escalation::Ignore)?;
            Ok((!shortfall.excess.is_empty()).then(|| {
                format!(
                    "User {user} may not {act}: {why}, and {user} does not hold everything. Ask an administrator, or \
                     {instead}."
                )
            }))
        }
        Choice::Boundary(boundary) => {
            if may_impersonate(cx, &authority, &boundary.identity)? {
                return Ok(None);
            }
            let theirs = Grant::all_of(&cx.lookups, &held, 1)?;
            let demands: Vec<Demand<'_>> = theirs
                .rules()
                .map(|(scope, rules)| demand(scope.clone(), DemandedRules::Shared(rules.clone())))
                .collect();
            let shortfall = authority.shortfall(cx, &demands, Escalation::Ignore)?;
            Ok((!shortfall.excess.is_empty()).then(|| {
                let heading = format!(
                    "User {user} may not {act}: {} holds more than {user} does, and {user} may not impersonate it. \
                     {user} lacks",
                    boundary.said
                );
                message::excess(&heading, &shortfall.excess, &[], &allow_impersonation(requester, boundary))
            }))
        }
    }
}

/// A boundary, without what everybody holds who can have a service account at all: nobody climbs by that.
fn chosen(boundary: &Identity) -> Identity {
    let everybodys = |group: &&String| matches!(group.as_str(), "system:serviceaccounts" | "system:authenticated");
    let groups = boundary.groups().iter().filter(|group| !everybodys(group)).cloned().collect();
    Identity::user_in(boundary.user(), groups)
}

/// Whether somebody may act as an identity: as a service account, or as a user in its groups.
fn may_impersonate(cx: &Context<'_>, authority: &Authority<'_>, identity: &Identity) -> Result<bool, Refusal> {
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
    authority.holds(cx, &scope, &rules)
}

fn demand(scope: Scope, rules: DemandedRules<'_>) -> Demand<'_> {
    Demand { scope, rules, honored: Vec::new(), why: None }
}

/// What an administrator types to let somebody choose.
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
