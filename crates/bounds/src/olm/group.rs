//! OperatorGroups: the fields that determine which one is active in a namespace, what it targets, and its account.

use std::collections::BTreeSet;
use std::fmt;

use crate::olm::meta::Meta;
use crate::olm::selector::Selector;
use crate::read::object::object;
use crate::read::text::Text;

object! {
    /// An OperatorGroup.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct OperatorGroup<'a> {
        /// The object metadata that affects a verdict.
        pub(crate) metadata: Meta<'a> = "metadata",
        /// What the administrator asked for.
        pub(crate) spec: Spec<'a> = "spec",
        /// What OLM made of it.
        pub(crate) status: Status<'a> = "status",
    }
}

object! {
    /// The part of an OperatorGroup's `spec` that affects a verdict.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct Spec<'a> {
        /// The account that bounds every operator of the group.
        pub(crate) service_account_name: Text<'a> = "serviceAccountName",
        /// The targets by name.
        pub(crate) target_namespaces: Vec<Text<'a>> = "targetNamespaces",
        /// The targets by label.
        pub(crate) selector: Selector<'a> = "selector",
    }
}

object! {
    /// The part of an OperatorGroup's `status` that affects a verdict.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct Status<'a> {
        /// The targets as OLM resolved them; `""` means all namespaces.
        pub(crate) namespaces: Vec<Text<'a>> = "namespaces",
        /// The account as OLM resolved it.
        pub(crate) service_account_ref: AccountRef<'a> = "serviceAccountRef",
    }
}

object! {
    /// `status.serviceAccountRef`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct AccountRef<'a> {
        /// The name of the account.
        pub(crate) name: Text<'a> = "name",
    }
}

/// The part of an OperatorGroup that verdicts need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The namespace that it manages.
    pub(crate) namespace: String,
    /// The name of the group.
    pub name: String,
    /// The account it names; the spec is authoritative.
    pub(crate) account: Option<String>,
    /// The account that OLM still uses while the status lags behind.
    pub(crate) status_account: Option<String>,
    /// Targets by name.
    pub(crate) target_namespaces: Vec<String>,
    /// Targets by label.
    pub(crate) selector: Selector<'static>,
    /// Targets as OLM resolved them.
    pub(crate) status_namespaces: Vec<String>,
    /// The annotation `operator-bounds/restrict`, unparsed.
    pub(crate) restrict: String,
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

/// The namespaces that a group reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// All namespaces of the cluster.
    All,
    /// Only these namespaces.
    Namespaces(BTreeSet<String>),
}

impl Group {
    /// Whether OLM has filled in the status: only then does it install anything for the group.
    #[must_use]
    pub(crate) fn is_active(&self) -> bool {
        !self.status_namespaces.is_empty()
    }

    /// Whether this is the group's own namespace, or one that it targets by name.
    #[must_use]
    pub(crate) fn names(&self, namespace: &str) -> bool {
        self.namespace == namespace
            || self.target_namespaces.iter().chain(&self.status_namespaces).any(|target| target == namespace)
    }

    /// Whether this account is the group's, according to the spec or to a status that lags behind.
    #[must_use]
    pub(crate) fn uses(&self, account: &str) -> bool {
        [&self.account, &self.status_account].into_iter().flatten().any(|known| known == account)
    }

    /// Whether the scope is wider than the spec says, because the status still says so.
    #[must_use]
    pub(crate) fn status_widens(&self) -> bool {
        let all_by_spec = self.target_namespaces.is_empty() && self.selector.is_empty();
        !all_by_spec && self.status_namespaces.iter().any(String::is_empty)
    }
}
