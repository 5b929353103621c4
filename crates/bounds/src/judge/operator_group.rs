//! OperatorGroup: who may choose its account, and what that choice means.

use super::review::Review;
use crate::admission::Operation;
use crate::decide::authority::Authority;
use crate::decide::boundary::Boundary;
use crate::decide::demand::{self, Demand, DemandedRules};
use crate::decide::groups;
use crate::decide::guard::{self, Choice};
use crate::decide::holders::{Holder, Reach, holder};
use crate::decide::installed::{Installed, installed};
use crate::decide::message;
use crate::decide::needs;
use crate::decide::verdict::{Admitted, Reason, Refusal};
use crate::decide::writes;
use crate::olm::group::{Group, OperatorGroup, Targets};
use crate::rbac::scope::Scope;
use crate::read::json::Unreadable;
use crate::read::order::ordered;
use crate::settings::{Escalation, Severity};

use super::{Verdict, namespace_of, read_new, read_old, same_spec, unreadable};

/// The maximum number of operators that a new account is compared with: this only produces a warning, and must not
/// jeopardize the verdict.
const MAX_COMPARED: usize = 32;

pub(super) fn judge(cx: &Review<'_>) -> Verdict {
    let new: OperatorGroup<'_> = read_new(cx)?;
    let namespace = namespace_of(cx, &new.metadata).to_owned();
    if cx.settings.exempts_namespace(&namespace) {
        return Ok(Admitted("exempt"));
    }
    if let Some((index, operator)) = new.spec.selector.unknown_operator() {
        return Err(unreadable(
            cx,
            Unreadable {
                path: format!("object.spec.selector.matchExpressions[{index}].operator"),
                reason: format!("{operator:?} is not one of In, NotIn, Exists, DoesNotExist"),
            },
        ));
    }
    let old: Option<OperatorGroup<'_>> = read_old(cx)?;
    if old.as_ref().is_some_and(|old| old.metadata.annotations.restrict == new.metadata.annotations.restrict)
        && same_spec(cx)?
    {
        return Ok(Admitted("unchanged"));
    }
    let group = Group { namespace, ..Group::from(new) };
    let old = old.map(Group::from);
    cx.fact("operatorGroup", format!("{}/{}", group.namespace, group.name));
    refuse_second_group(cx, &group)?;
    if group.target_namespaces.iter().any(String::is_empty) {
        return Err(groups::empty_target(&group));
    }
    groups::read_restrict(&group)?;
    match &group.account {
        None => without_account(cx, &group, old.as_ref()),
        Some(account) => {
            let boundary = Boundary::account(&group.namespace, account, group.to_string());
            cx.fact("boundary", boundary.identity.user());
            with_account(cx, &group, old.as_ref(), &boundary)
        }
    }
}

fn refuse_second_group(cx: &Review<'_>, group: &Group) -> Result<(), Refusal> {
    if cx.request.operation != Operation::Create {
        return Ok(());
    }
    let others = groups::groups_of(&cx.lookups, &group.namespace)?;
    match others.iter().find(|other| other.name != group.name) {
        None => Ok(()),
        Some(other) => Err(Refusal::forbidden(
            Reason::SecondOperatorGroup,
            format!(
                "{group} would be the second OperatorGroup of its namespace: {other} is there already, and OLM installs \
                 nothing where there are two. Change that one, or delete it first: kubectl delete operatorgroup \
                 --namespace {} {}",
                other.namespace, other.name
            ),
        )),
    }
}

fn targets_changed(group: &Group, old: Option<&Group>) -> bool {
    old.is_none_or(|old| old.target_namespaces != group.target_namespaces || old.selector != group.selector)
}

fn restrict_changed(group: &Group, old: Option<&Group>) -> bool {
    old.is_some_and(|old| old.restrict != group.restrict)
}

fn without_account(cx: &Review<'_>, group: &Group, old: Option<&Group>) -> Verdict {
    if cx.settings.operator_groups.require_service_account {
        return Err(Refusal::forbidden(
            Reason::AccountRequired,
            format!(
                "{group} names no service account, and the policy requires one: name the account that bounds its \
                 operators in spec.serviceAccountName"
            ),
        ));
    }
    if let Some(removed) = old.and_then(|old| old.account.as_deref()) {
        let act = format!("remove ServiceAccount {}/{removed} from {group}", group.namespace);
        guard::check(cx, cx.requester.as_ref(), cx.settings.guard, &act, &Choice::UNBOUNDED_GROUP)?;
        let there = installed(&cx.lookups, &group.namespace)?;
        cx.warn(&format!(
            "{group} no longer names a service account: what is installed or upgraded in it from now on is not bounded{}",
            operators(&there)
        ));
    } else if restrict_changed(group, old) && old.is_some_and(|old| !old.restrict.is_empty()) {
        let act = format!("change operator-bounds/restrict on {group}, which names no account");
        guard::check(cx, cx.requester.as_ref(), cx.settings.guard, &act, &Choice::UNBOUNDED_GROUP)?;
    } else if targets_changed(group, old) {
        let act = format!("choose no service account for {group}");
        guard::check(cx, cx.requester.as_ref(), cx.settings.guard_unbounded, &act, &Choice::UNBOUNDED_GROUP)?;
    }
    Ok(Admitted("unbounded"))
}

fn with_account(cx: &Review<'_>, group: &Group, old: Option<&Group>, boundary: &Boundary) -> Verdict {
    let account = group.account.as_deref().unwrap_or_default();
    let account_changed = old.is_none_or(|old| old.account != group.account);
    let exists = cx.lookups.account_exists(&group.namespace, account)?;
    if !exists {
        missing_account(cx, group, account)?;
    }
    // The status still reflects the old choice; what is chosen now is in the spec.
    let targets = groups::targets(&Group { status_namespaces: Vec::new(), ..group.clone() }, &cx.lookups)?;
    if account_changed || targets_changed(group, old) || restrict_changed(group, old) {
        let act = format!("choose {} for {group}", boundary.description);
        guard::check(cx, cx.requester.as_ref(), cx.settings.guard, &act, &Choice::Boundary(boundary))?;
    }
    let holder = holder_in(cx, group, boundary, &targets)?;
    check_cluster_writes(cx, group, boundary, &holder)?;
    let grant = holder.grant(&cx.lookups)?;
    let authority = Authority { identity: &boundary.identity, grant: &grant };
    if account_changed {
        if exists {
            warn_of_needs(cx, group, boundary, &authority)?;
        }
        warn_of_operators(cx, group, old, &authority, &targets)?;
    }
    Ok(Admitted("judged"))
}

fn missing_account(cx: &Review<'_>, group: &Group, account: &str) -> Result<(), Refusal> {
    let namespace = &group.namespace;
    let text = format!(
        "the service account that {group} names does not exist: nothing new is admitted under the group until \
         ServiceAccount {namespace}/{account} is there. Create it with: kubectl create serviceaccount \
         --namespace {namespace} {}",
        message::shell(account)
    );
    cx.object(cx.settings.operator_groups.missing_service_account.into(), Reason::AccountMissing, text)
}

/// What the account holds in the namespaces that its operators reach.
fn holder_in(cx: &Review<'_>, group: &Group, boundary: &Boundary, targets: &Targets) -> Result<Holder, Refusal> {
    let mut namespaces = ordered([group.namespace.clone()]);
    if let Targets::Namespaces(targets) = targets {
        namespaces.extend(targets.iter().cloned());
    }
    Ok(holder(&cx.lookups, boundary.identity.clone(), Reach::Namespaces(&namespaces))?)
}

/// The account must not write what is reserved for OLM. Here a role whose name cannot be looked up leads to a refusal.
fn check_cluster_writes(cx: &Review<'_>, group: &Group, boundary: &Boundary, holder: &Holder) -> Result<(), Refusal> {
    if !writes::is_judged(cx) {
        return Ok(());
    }
    let mut rules = Vec::new();
    for held in holder.held.iter().filter(|held| held.scope == Scope::Cluster) {
        rules.extend(cx.lookups.role(&held.role)?);
    }
    let rules = rules.iter().flat_map(|rules| rules.iter());
    let account = &boundary.description;
    let what = match cx.settings.operator_groups.cluster_writes {
        Severity::Deny => format!("{group} cannot use {account}: it can"),
        Severity::Warn | Severity::Off => format!("{account} of {group} can"),
    };
    writes::check(cx, &what, rules)
}

fn warn_of_needs(
    cx: &Review<'_>,
    group: &Group,
    boundary: &Boundary,
    authority: &Authority<'_>,
) -> Result<(), Refusal> {
    let needed = needs::in_namespace();
    let demand = [Demand::plain(Scope::Namespace(group.namespace.clone()), DemandedRules::Declared(&needed))];
    let shortfall = authority.shortfall(cx, &demand, Escalation::Ignore)?;
    let missing = message::lines(&shortfall.excess);
    if !missing.is_empty() {
        cx.warn(&format!(
            "{} lacks what OLM needs to install anything in {group}: {}",
            boundary.description,
            missing.join("; ")
        ));
    }
    Ok(())
}

fn operators(installed: &[Installed]) -> String {
    if installed.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = installed.iter().map(|operator| operator.name.as_str()).collect();
    format!(". Already there: {}", message::names(&names))
}

/// Warns what a new account means for existing operators: they keep running, and are judged at their next upgrade.
fn warn_of_operators(
    cx: &Review<'_>,
    group: &Group,
    old: Option<&Group>,
    authority: &Authority<'_>,
    targets: &Targets,
) -> Result<(), Refusal> {
    let there = installed(&cx.lookups, &group.namespace)?;
    if there.is_empty() {
        return Ok(());
    }
    let account = group.account.as_deref().unwrap_or_default();
    let change = match old.and_then(|old| old.account.as_deref()) {
        Some(old) => format!("{group} changes its service account from {old} to {account}"),
        None => format!("{group} is now bounded by ServiceAccount {}/{account}", group.namespace),
    };
    cx.warn(&format!(
        "{change}: running operators keep running, and are judged by {account} at their next upgrade{}",
        operators(&there)
    ));
    let mut exceeding = Vec::new();
    for operator in there.iter().take(MAX_COMPARED) {
        let csv = operator.csv()?;
        let demands = demand::of_csv(&cx.lookups, &csv, &group.namespace, targets)?;
        let exceeds = match authority.shortfall(cx, &demands, cx.settings.operator_groups.escalation) {
            Ok(shortfall) => !shortfall.excess.is_empty(),
            // An operator that is too large to be judged is no reason to refuse the group.
            Err(refusal) if refusal.is_for(Reason::OverLimit) => true,
            Err(other) => return Err(other),
        };
        if exceeds {
            exceeding.push(operator.name.as_str());
        }
    }
    if !exceeding.is_empty() {
        cx.fact("exceeding", exceeding.join(","));
        cx.warn(&format!(
            "these operators hold more than ServiceAccount {}/{account} and would be refused at their next upgrade: {}",
            group.namespace,
            message::names(&exceeding)
        ));
    }
    Ok(())
}
