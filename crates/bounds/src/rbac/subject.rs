//! The subjects that a binding names, and the identities that they match.

use crate::read::object::object;
use crate::read::text::Text;

/// The prefix of a service account's user name.
pub(crate) const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// The group of all service accounts; followed by a colon and a namespace, the group of those in the namespace.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// The group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";

object! {
    /// A subject of a RoleBinding or ClusterRoleBinding.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Subject<'a> {
        /// `User`, `Group` or `ServiceAccount`.
        pub kind: Text<'a> = "kind",
        /// The API group; absent means the default for the kind.
        pub(crate) api_group: Text<'a> = "apiGroup",
        /// The name of the user, group or service account.
        pub name: Text<'a> = "name",
        /// The namespace of a service account; absent means the namespace of the binding.
        pub namespace: Text<'a> = "namespace",
    }
}

impl Subject<'_> {
    /// Namespace and name of the service account that it names, as a ServiceAccount or as a User, in a binding of this
    /// namespace.
    #[must_use]
    pub(crate) fn account<'s>(&'s self, binding_namespace: Option<&'s str>) -> Option<(&'s str, &'s str)> {
        match self.kind.as_str() {
            "User" if is_rbac(&self.api_group) => self.name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':'),
            "ServiceAccount" if self.api_group.is_empty() => {
                let own = Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty());
                Some((own.or(binding_namespace)?, &self.name))
            }
            _ => None,
        }
    }

    /// The service accounts that it names in any way, in a binding of this namespace. It does not allocate: lists of
    /// bindings have tens of thousands of subjects.
    #[must_use]
    pub(crate) fn accounts<'s>(&'s self, binding_namespace: Option<&'s str>) -> Accounts<&'s str> {
        if let Some((namespace, name)) = self.account(binding_namespace) {
            return Accounts::One(namespace, name);
        }
        if self.kind != "Group" || !is_rbac(&self.api_group) {
            return Accounts::None;
        }
        match self.name.strip_prefix(SERVICE_ACCOUNTS) {
            Some("") => Accounts::All,
            Some(rest) => rest.strip_prefix(':').map_or(Accounts::None, Accounts::AllOf),
            None if self.name == AUTHENTICATED => Accounts::All,
            None => Accounts::None,
        }
    }
}

/// The service accounts that a subject names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accounts<S> {
    /// A single account, named as a ServiceAccount or as a User: its namespace and its name.
    One(S, S),
    /// All accounts of a namespace, through their group.
    AllOf(S),
    /// All accounts of the cluster, through a group that every account belongs to.
    All,
    /// No service account: it names someone else.
    None,
}

impl<'s> Accounts<&'s str> {
    /// The namespace, if all of them are in one.
    #[must_use]
    pub(crate) fn namespace(self) -> Option<&'s str> {
        match self {
            Accounts::One(namespace, _) | Accounts::AllOf(namespace) => Some(namespace),
            Accounts::All | Accounts::None => None,
        }
    }

    /// The same, independent of the subject.
    #[must_use]
    pub(crate) fn into_owned(self) -> Accounts<String> {
        match self {
            Accounts::One(namespace, name) => Accounts::One(namespace.to_owned(), name.to_owned()),
            Accounts::AllOf(namespace) => Accounts::AllOf(namespace.to_owned()),
            Accounts::All => Accounts::All,
            Accounts::None => Accounts::None,
        }
    }
}

impl Accounts<String> {
    /// The same, borrowed.
    #[must_use]
    pub(crate) fn as_ref(&self) -> Accounts<&str> {
        match self {
            Accounts::One(namespace, name) => Accounts::One(namespace, name),
            Accounts::AllOf(namespace) => Accounts::AllOf(namespace),
            Accounts::All => Accounts::All,
            Accounts::None => Accounts::None,
        }
    }
}

/// An identity: a user name and groups, as the API server authenticates them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    user: String,
    groups: Vec<String>,
}

impl Identity {
    /// A service account, in the groups that every service account belongs to.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Identity {
            user: format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
            groups: vec![
                SERVICE_ACCOUNTS.to_owned(),
                format!("{SERVICE_ACCOUNTS}:{namespace}"),
                AUTHENTICATED.to_owned(),
            ],
        }
    }

    /// A user with these groups.
    #[must_use]
    pub fn user_in(user: &str, groups: Vec<String>) -> Self {
        Identity { user: user.to_owned(), groups }
    }

    /// The same user without any groups, to find what is granted to its own name only.
    #[must_use]
    pub fn itself(&self) -> Self {
        Identity { user: self.user.clone(), groups: Vec::new() }
    }

    /// The user name; for a service account, `system:serviceaccount:<namespace>:<name>`.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The groups, including those that every service account belongs to.
    #[must_use]
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Namespace and name, if this is a service account.
    #[must_use]
    pub fn as_service_account(&self) -> Option<(&str, &str)> {
        self.user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')
    }

    /// Whether a subject of a binding names this identity. A service account without a namespace belongs to the
    /// namespace of the binding; in a ClusterRoleBinding it matches nothing.
    ///
    /// ```
    /// use bounds::rbac::{Identity, Subject};
    ///
    /// let installer = Identity::service_account("team-a", "installer");
    /// let subject: Subject = serde_json::from_str(r#"{"kind": "ServiceAccount", "name": "installer"}"#)?;
    /// assert!(installer.named_by(&subject, Some("team-a")));
    /// assert!(!installer.named_by(&subject, None));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn named_by(&self, subject: &Subject<'_>, binding_namespace: Option<&str>) -> bool {
        match subject.kind.as_str() {
            "User" => is_rbac(&subject.api_group) && self.user == *subject.name,
            "Group" => is_rbac(&subject.api_group) && self.groups.iter().any(|group| *group == *subject.name),
            "ServiceAccount" => {
                let account = subject.account(binding_namespace);
                account.is_some() && self.as_service_account() == account
            }
            _ => false,
        }
    }
}

fn is_rbac(api_group: &str) -> bool {
    matches!(api_group, "" | "rbac.authorization.k8s.io")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject<'a>(kind: &'a str, api_group: &'a str, namespace: &'a str, name: &'a str) -> Subject<'a> {
        Subject { kind: kind.into(), api_group: api_group.into(), namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn a_service_account_is_named_as_account_as_user_and_through_its_groups() {
        let me = Identity::service_account("ns", "me");
        assert!(me.named_by(&subject("ServiceAccount", "", "ns", "me"), None));
        assert!(me.named_by(&subject("User", "rbac.authorization.k8s.io", "", "system:serviceaccount:ns:me"), None));
        for group in ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"] {
            assert!(me.named_by(&subject("Group", "", "", group), None), "{group}");
            assert!(!me.itself().named_by(&subject("Group", "", "", group), None), "{group}");
        }
    }

    #[test]
    fn a_subject_of_another_api_group_or_kind_or_namespace_is_somebody_else() {
        let me = Identity::service_account("ns", "me");
        assert!(!me.named_by(&subject("ServiceAccount", "example.com", "ns", "me"), None));
        assert!(!me.named_by(&subject("User", "example.com", "", "system:serviceaccount:ns:me"), None));
        assert!(!me.named_by(&subject("serviceaccount", "", "ns", "me"), None));
        assert!(!me.named_by(&subject("ServiceAccount", "", "other", "me"), Some("ns")));
        assert!(!me.named_by(&subject("ServiceAccount", "", "", ""), Some("ns")));
    }

    #[test]
    fn the_accounts_of_a_subject_are_those_whose_identity_it_names() {
        let kinds = ["ServiceAccount", "User", "Group", "serviceaccount"];
        let api_groups = ["", "rbac.authorization.k8s.io", "example.com"];
        let names = [
            "me",
            "system:serviceaccount:ns:me",
            "system:serviceaccount:ns:",
            "system:serviceaccounts",
            "system:serviceaccounts:",
            "system:serviceaccounts:ns",
            "system:serviceaccountsns",
            "system:authenticated",
            "",
        ];
        for (kind, api_group, namespace, name) in kinds.iter().flat_map(|kind| {
            let named = api_groups.iter().flat_map(move |api_group| names.map(|name| (kind, api_group, name)));
            named.flat_map(|(kind, api_group, name)| ["", "ns", "else"].map(|of| (kind, api_group, of, name)))
        }) {
            let subject = subject(kind, api_group, namespace, name);
            for binding in [None, Some("ns"), Some("else")] {
                for (of, account) in [("ns", "me"), ("ns", "you"), ("else", "me"), ("ns", "")] {
                    let named = match subject.accounts(binding) {
                        Accounts::One(namespace, name) => (namespace, name) == (of, account),
                        Accounts::AllOf(namespace) => namespace == of,
                        Accounts::All => true,
                        Accounts::None => false,
                    };
                    let me = Identity::service_account(of, account);
                    assert_eq!(named, me.named_by(&subject, binding), "{subject:?} in {binding:?} for {of}/{account}");
                }
            }
        }
    }

    #[test]
    fn a_colon_in_a_name_does_not_make_another_account() {
        let odd = Identity::user_in("system:serviceaccount:a:b:c", vec![]);
        assert!(!odd.named_by(&subject("ServiceAccount", "", "a:b", "c"), None));
        assert!(odd.named_by(&subject("ServiceAccount", "", "a", "b:c"), None));
    }
}
