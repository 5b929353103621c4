//! OperatorGroups: which one is active in a namespace, what it targets, whom it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::cluster::{List, LookupError, NAMESPACES, OPERATOR_GROUPS};
use crate::json;
use crate::lookups::{Lookups, each_item};
use crate::message::shell;
use crate::meta::Meta;
use crate::object::object;
use crate::order::ordered;
use crate::selector::Selector;
use crate::text::Text;
use crate::verdict::Refusal;

object! {
    /// An OperatorGroup.
    #[derive(Debug, Clone, Default)]
    pub struct OperatorGroup<'a> {
        /// `metadata`.
        pub metadata: Meta<'a> = "metadata",
        /// `spec`.
        pub spec: Spec<'a> = "spec",
        /// `status`.
        pub status: Status<'a> = "status",
    }
}

object! {
    /// `spec`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Spec<'a> {
        /// The account that bounds everything in the group.
        pub service_account_name: Text<'a> = "serviceAccountName",
        /// The targets by name.
        pub target_namespaces: Vec<Text<'a>> = "targetNamespaces",
        /// The targets by label.
        pub selector: Selector<'a> = "selector",
    }
}

object! {
    /// `status`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Status<'a> {
        /// The targets as OLM resolved them; `""` means all.
        pub namespaces: Vec<Text<'a>> = "namespaces",
        /// The account as OLM resolved it.
        pub service_account_ref: AccountRef<'a> = "serviceAccountRef",
    }
}

object! {
    /// `status.serviceAccountRef`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct AccountRef<'a> {
        /// The name.
        pub name: Text<'a> = "name",
    }
}

/// What verdicts need of an OperatorGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The account it names; the spec is authoritative.
    pub account: Option<String>,
    /// The account that OLM still uses, where the status lags behind.
    pub status_account: Option<String>,
    /// Targets by name.
    pub target_namespaces: Vec<String>,
    /// Targets by label.
    pub selector: Selector<'static>,
    /// Targets as OLM resolved them.
    pub status_namespaces: Vec<String>,
    /// `operator-bounds/restrict`.
    pub restrict: String,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorGroup {}/{}", self.namespace, self.name)
    }
}

impl From<OperatorGroup<'_>> for Group {
    fn from(group: OperatorGroup<'_>) -> Self {
        let some = |text: Text<'_>| Some(text.to_string()).filter(|text| !text.is_empty());
        let strings = |list: Vec<Text<'_>>| list.iter().map(Text::to_string).collect();
        Group {
            namespace: group.metadata.namespace.to_string(),
            name: group.metadata.said_name(),
            account: some(group.spec.service_account_name),
            status_account: some(group.status.service_account_ref.name),
            target_namespaces: strings(group.spec.target_namespaces),
            selector: group.spec.selector.into_owned(),
            status_namespaces: strings(group.status.namespaces),
            restrict: group.metadata.annotations.restrict.to_string(),
        }
    }
}

/// The namespaces a group reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// All of them.
    All,
    /// These.
    Namespaces(BTreeSet<String>),
}

impl Targets {
    /// What the command line has to be told to derive RBAC for these targets.
    #[must_use]
    pub fn arguments(&self, own: &str) -> String {
        const SHOWN: usize = 20;
        match self {
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
}

impl Group {
    /// Whether OLM has filled in the status: only then does it install anything for the group.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.status_namespaces.is_empty()
    }

    /// Whether this is the group's own namespace, or one that it targets by name.
    #[must_use]
    pub fn names(&self, namespace: &str) -> bool {
        self.namespace == namespace
            || self.target_namespaces.iter().chain(&self.status_namespaces).any(|target| target == namespace)
    }

    /// Whether this account is the group's, by spec or by the status that lags behind.
    #[must_use]
    pub fn uses(&self, account: &str) -> bool {
        [&self.account, &self.status_account].into_iter().flatten().any(|known| known == account)
    }

    /// What the spec and the status together reach. The status lags behind the spec, so both count.
    pub fn targets(&self, lookups: &Lookups<'_>) -> Result<Targets, Refusal> {
        if self.target_namespaces.iter().any(String::is_empty) {
            return Err(empty_target(self));
        }
        let by_spec = if !self.target_namespaces.is_empty() {
            ordered(self.target_namespaces.iter().cloned())
        } else if self.selector.is_empty() {
            return Ok(Targets::All);
        } else {
            selected(lookups, &self.selector)?
        };
        if self.status_namespaces.iter().any(String::is_empty) {
            return Ok(Targets::All);
        }
        Ok(Targets::Namespaces(ordered(by_spec.into_iter().chain(self.status_namespaces.iter().cloned()))))
    }

    /// Whether the scope is wider than the spec says, because the status still says so.
    #[must_use]
    pub fn status_widens(&self) -> bool {
        let all_by_spec = self.target_namespaces.is_empty() && self.selector.is_empty();
        !all_by_spec && self.status_namespaces.iter().any(String::is_empty)
    }

    /// The accounts that `operator-bounds/restrict` holds an operator to.
    pub fn restricted_to(&self, operator: &str) -> Result<Vec<String>, Refusal> {
        let restrict = read_restrict(self)?;
        let matching = restrict.iter().filter(|(pattern, _)| crate::glob::matches(pattern, operator));
        Ok(matching.map(|(_, account)| account.to_string()).collect())
    }
}

/// Reads the annotation: a JSON map from glob to account name.
pub fn read_restrict(group: &Group) -> Result<BTreeMap<Text<'_>, Text<'_>>, Refusal> {
    if group.restrict.is_empty() {
        return Ok(BTreeMap::new());
    }
    // Forbidden, not a bad request: the operator that is judged is fine, and installs once the group is mended.
    let broken = |reason: String| {
        Refusal::forbidden(
            "invalid-restrict",
            format!(
                "annotation operator-bounds/restrict of {group} cannot be read: {reason}. Write it as \
                 {{\"<glob on the CSV's name>\": \"<service account in {}>\"}}.",
                group.namespace
            ),
        )
    };
    let restrict: BTreeMap<Text<'_>, Text<'_>> =
        json::read(&group.restrict, "value").map_err(|error| broken(error.to_string()))?;
    match restrict.iter().find(|(_, account)| !crate::settings::is_object_name(account)) {
        None => Ok(restrict),
        Some((pattern, account)) => {
            Err(broken(format!("this is not the name of a service account: {account:?}, for operators {pattern:?}")))
        }
    }
}

/// `""` among the targets is an error in OLM.
#[must_use]
pub fn empty_target(group: &Group) -> Refusal {
    Refusal::forbidden(
        "empty-target-namespace",
        format!(
            "{group} has an empty name among spec.targetNamespaces, which OLM takes for an error. \
             Remove it; leave out targetNamespaces and selector altogether to target all namespaces."
        ),
    )
}

/// The groups for which `wanted` says yes, sorted.
pub fn groups(lookups: &Lookups<'_>, wanted: &dyn Fn(&OperatorGroup<'_>) -> bool) -> Result<Vec<Group>, LookupError> {
    let answer = lookups.list(OPERATOR_GROUPS, None)?;
    let mut found: Vec<Group> = Vec::new();
    each_item(&answer, &List { resource: OPERATOR_GROUPS, namespace: None }, &mut |group: OperatorGroup<'_>| {
        if wanted(&group) {
            let group = Group::from(group);
            let after =
                found.partition_point(|other| (&other.namespace, &other.name) < (&group.namespace, &group.name));
            found.insert(after, group);
        }
    })?;
    Ok(found)
}

/// The groups of a namespace.
pub fn groups_of(lookups: &Lookups<'_>, namespace: &str) -> Result<Vec<Group>, LookupError> {
    groups(lookups, &|group| group.metadata.namespace == *namespace)
}

/// The active group of a namespace (specification 2.2).
pub fn active(lookups: &Lookups<'_>, namespace: &str) -> Result<Option<Group>, Refusal> {
    let mut all = groups_of(lookups, namespace)?;
    let active = all.iter().filter(|group| group.is_active()).count();
    match (active, all.len()) {
        (_, 0) => Ok(None),
        // The moment before OLM fills in the status must not be a way past the boundary.
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
        "ambiguous-operator-group",
        format!(
            "more than one OperatorGroup manages namespace {namespace} ({}; {which}), so nobody can tell what bounds \
             its operators. Keep one: kubectl delete operatorgroup --namespace {namespace} <name>",
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
    each_item(&answer, &List { resource: NAMESPACES, namespace: None }, &mut |row: NamespaceRow<'_>| {
        if selector.selects(&row.metadata.labels) {
            found.insert(row.metadata.name.to_string());
        }
    })?;
    Ok(found)
}
