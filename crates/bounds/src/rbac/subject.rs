//! Who a binding names, and who somebody is.

use crate::read::object::object;
use crate::read::text::Text;

/// The prefix of a service account's user name.
pub const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

object! {
    /// A subject of a RoleBinding or ClusterRoleBinding.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Subject<'a> {
        /// `User`, `Group` or `ServiceAccount`.
        pub kind: Text<'a> = "kind",
        /// The API group; absent means the default of the kind.
        pub api_group: Text<'a> = "apiGroup",
        /// The name.
        pub name: Text<'a> = "name",
        /// The namespace of a service account; absent means the binding's.
        pub namespace: Text<'a> = "namespace",
    }
}

impl Subject<'_> {
    /// Namespace and name of the service account that it names, as itself or as a user, in a binding of this namespace.
    #[must_use]
    pub fn account<'s>(&'s self, binding_namespace: Option<&'s str>) -> Option<(&'s str, &'s str)> {
        match self.kind.as_str() {
            "User" if is_rbac(&self.api_group) => self.name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':'),
            "ServiceAccount" if self.api_group.is_empty() => {
                let own = Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty());
                Some((own.or(binding_namespace)?, &self.name))
            }
            _ => None,
        }
    }

    /// The same subject, independent of the payload.
    #[must_use]
    pub fn into_owned(self) -> Subject<'static> {
        Subject {
            kind: self.kind.into_owned(),
            api_group: self.api_group.into_owned(),
            name: self.name.into_owned(),
            namespace: self.namespace.into_owned(),
        }
    }
}

/// Somebody: a user name and groups, as the API server authenticates them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    user: String,
    groups: Vec<String>,
}

impl Identity {
    /// A service account, in the groups that every service account is in.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Identity {
            user: format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
        }
    }

    /// A user with these groups.
    #[must_use]
    pub fn user_in(user: &str, groups: Vec<String>) -> Self {
        Identity { user: user.to_owned(), groups }
    }

    /// The same user in no group: what only its own name is granted.
    #[must_use]
    pub fn itself(&self) -> Self {
        Identity { user: self.user.clone(), groups: Vec::new() }
    }

    /// The user name.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The groups.
    #[must_use]
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Namespace and name, if this is a service account.
    #[must_use]
    pub fn as_service_account(&self) -> Option<(&str, &str)> {
        self.user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')
    }

    /// Whether a subject of a binding names this identity. A service account without a namespace is the binding's own;
    /// in a ClusterRoleBinding it is nobody.
    ///
    /// ```
    /// use bounds::rbac::subject::{Identity, Subject};
    ///
    /// let installer = Identity::service_account("team-a", "installer");
    /// let subject = Subject { kind: "ServiceAccount".into(), name: "installer".into(), ..Subject::default() };
    /// assert!(installer.named_by(&subject, Some("team-a")));
    /// assert!(!installer.named_by(&subject, None));
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
    fn a_colon_in_a_name_does_not_make_another_account() {
        let odd = Identity::user_in("system:serviceaccount:a:b:c", vec![]);
        assert!(!odd.named_by(&subject("ServiceAccount", "", "a:b", "c"), None));
        assert!(odd.named_by(&subject("ServiceAccount", "", "a", "b:c"), None));
    }
}
