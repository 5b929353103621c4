//! OperatorGroups: which one is active in a namespace, what it targets, whom it names.

use std::collections::BTreeSet;
use std::fmt;

use crate::olm::meta::Meta;
use crate::olm::selector::Selector;
use crate::read::object::object;
use crate::read::text::Text;

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
            name: group.metadata.display_name(),
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

    /// Whether the scope is wider than the spec says, because the status still says so.
    #[must_use]
    pub fn status_widens(&self) -> bool {
        let all_by_spec = self.target_namespaces.is_empty() && self.selector.is_empty();
        !all_by_spec && self.status_namespaces.iter().any(String::is_empty)
    }
}
