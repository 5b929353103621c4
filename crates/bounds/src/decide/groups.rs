//! OperatorGroups: which one is active in a namespace, what it targets, and which operators it restricts.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{List, LookupError, NAMESPACES, OPERATOR_GROUPS};
use crate::decide::lookups::{Lookups, each_item};
use crate::decide::message::shell;
use crate::decide::verdict::{Reason, Refusal};
use crate::olm::group::{Group, OperatorGroup, Targets};
use crate::olm::selector::Selector;
use crate::read::json;
use crate::read::name::is_object_name;
use crate::read::object::object;
use crate::read::order::ordered;
use crate::read::text::Text;

/// What the spec and the status reach together. The status lags behind the spec, so both count.
pub fn targets(group: &Group, lookups: &Lookups<'_>) -> Result<Targets, Refusal> {
    if group.target_namespaces.iter().any(String::is_empty) {
        return Err(empty_target(group));
    }
    let by_spec = if !group.target_namespaces.is_empty() {
        ordered(group.target_namespaces.iter().cloned())
    } else if group.selector.is_empty() {
        return Ok(Targets::All);
    } else {
        selected(lookups, &group.selector)?
    };
    if group.status_namespaces.iter().any(String::is_empty) {
        return Ok(Targets::All);
    }
    Ok(Targets::Namespaces(ordered(by_spec.into_iter().chain(group.status_namespaces.iter().cloned()))))
}

/// The command line arguments with which RBAC is derived for these targets.
#[must_use]
pub(crate) fn arguments(targets: &Targets, own: &str) -> String {
    const SHOWN: usize = 20;
    match targets {
        Targets::All => " --install-mode AllNamespaces".to_owned(),
        Targets::Namespaces(namespaces) => {
            let others: Vec<&str> = namespaces.iter().map(String::as_str).filter(|name| *name != own).collect();
            match others.len() {
                0 => String::new(),
                1..=SHOWN => format!(" --target {}", shell(&others.join(","))),
                _ => format!(" --target {},…", shell(&others[..SHOWN].join(","))),
            }
        }
    }
}

/// The maximum number of restrictions in one group: each is compared with each operator in the namespace.
const MAX_RESTRICTIONS: usize = 100;

/// Reads the `operator-bounds/restrict` annotation: a JSON map from glob to account name.
pub(crate) fn read_restrict(group: &Group) -> Result<BTreeMap<Text<'_>, Text<'_>>, Refusal> {
    if group.restrict.is_empty() {
        return Ok(BTreeMap::new());
    }
    // Forbidden rather than bad request: the operator itself is fine, and installs once the group is corrected.
    let broken = |reason: String| {
        Refusal::forbidden(
            Reason::InvalidRestrict,
            format!(
                "annotation operator-bounds/restrict of {group} cannot be read: {reason}. Write it as \
                 {{\"<glob on the CSV's name>\": \"<service account in {}>\"}}.",
                group.namespace
            ),
        )
    };
    let restrict: BTreeMap<Text<'_>, Text<'_>> =
        json::read(&group.restrict, "value").map_err(|error| broken(error.to_string()))?;
    if restrict.len() > MAX_RESTRICTIONS {
        return Err(broken(format!("it has {} entries, over the limit of {MAX_RESTRICTIONS}", restrict.len())));
    }
    for (pattern, account) in &restrict {
        if pattern.is_empty() {
            return Err(broken("no operator has an empty name; use \"*\" for every operator".to_owned()));
        }
        if !is_object_name(account) {
            let reason = format!("this is not the name of a service account: {account:?}, for operators {pattern:?}");
            return Err(broken(reason));
        }
    }
    Ok(restrict)
}

/// OLM treats `""` among the targets as an error.
#[must_use]
pub(crate) fn empty_target(group: &Group) -> Refusal {
    Refusal::forbidden(
        Reason::EmptyTargetNamespace,
        format!(
            "{group} has an empty name among spec.targetNamespaces, which OLM treats as an error. Remove it; leave \
             out targetNamespaces and selector altogether to target all namespaces."
        ),
    )
}

/// The groups that `wanted` accepts, sorted.
pub(crate) fn groups(
    lookups: &Lookups<'_>,
    wanted: &dyn Fn(&OperatorGroup<'_>) -> bool,
) -> Result<Vec<Group>, LookupError> {
    let answer = lookups.list(OPERATOR_GROUPS, None)?;
    let mut found: Vec<Group> = Vec::new();
    each_item(
        &answer,
        &List { resource: OPERATOR_GROUPS, namespace: None },
        None,
        &mut |_, group: OperatorGroup<'_>| {
            if wanted(&group) {
                let group = Group::from(group);
                let after =
                    found.partition_point(|other| (&other.namespace, &other.name) < (&group.namespace, &group.name));
                found.insert(after, group);
            }
        },
    )?;
    Ok(found)
}

/// All groups of a namespace, active or not.
pub(crate) fn groups_of(lookups: &Lookups<'_>, namespace: &str) -> Result<Vec<Group>, LookupError> {
    groups(lookups, &|group| group.metadata.namespace == *namespace)
}

/// The active group of a namespace.
pub(crate) fn active(lookups: &Lookups<'_>, namespace: &str) -> Result<Option<Group>, Refusal> {
    let mut all = groups_of(lookups, namespace)?;
    let active = all.iter().filter(|group| group.is_active()).count();
    match (active, all.len()) {
        (_, 0) => Ok(None),
        // The moment before OLM fills in the status must not be a way around the boundary.
        (0 | 1, 1) => Ok(all.pop()),
        (1, _) => Ok(all.into_iter().find(Group::is_active)),
        _ => Err(ambiguous(namespace, &all)),
    }
}

fn ambiguous(namespace: &str, groups: &[Group]) -> Refusal {
    let active: Vec<&str> = groups.iter().filter(|group| group.is_active()).map(|group| group.name.as_str()).collect();
    let (which, names) = if active.is_empty() {
        ("none of them active yet", groups.iter().map(|group| group.name.as_str()).collect())
    } else {
        ("all active", active)
    };
    Refusal::forbidden(
        Reason::AmbiguousOperatorGroup,
        format!(
            "more than one OperatorGroup manages namespace {namespace} ({}; {which}), so what bounds its operators \
             cannot be determined. Keep one: kubectl delete operatorgroup --namespace {namespace} <name>",
            names.join(", ")
        ),
    )
}

object! {
    #[derive(Debug, Default)]
    struct NamespaceRow<'a> {
        metadata: NamespaceMeta<'a> = "metadata",
    }
}

object! {
    #[derive(Debug, Default)]
    struct NamespaceMeta<'a> {
        name: Text<'a> = "name",
        labels: BTreeMap<Text<'a>, Text<'a>> = "labels",
    }
}

fn selected(lookups: &Lookups<'_>, selector: &Selector<'_>) -> Result<BTreeSet<String>, LookupError> {
    let answer = lookups.list(NAMESPACES, None)?;
    let mut found = BTreeSet::new();
    each_item(&answer, &List { resource: NAMESPACES, namespace: None }, None, &mut |_, row: NamespaceRow<'_>| {
        if selector.selects(&row.metadata.labels) {
            found.insert(row.metadata.name.to_string());
        }
    })?;
    Ok(found)
}

/// The value of a label on a Namespace.
pub(crate) fn label_of(lookups: &Lookups<'_>, namespace: &str, label: &str) -> Result<Option<String>, LookupError> {
    let answer = lookups.list(NAMESPACES, None)?;
    let mut found = None;
    each_item(&answer, &List { resource: NAMESPACES, namespace: None }, None, &mut |_, row: NamespaceRow<'_>| {
        if row.metadata.name == *namespace {
            found = row.metadata.labels.iter().find(|(key, _)| **key == *label).map(|(_, value)| value.to_string());
        }
    })?;
    Ok(found)
}
