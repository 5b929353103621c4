//! Roles: which one a binding refers to, and its rules.

use std::fmt;
use std::rc::Rc;

use crate::rbac::rule::Rule;
use crate::read::object::object;
use crate::read::text::Text;

/// The rules of a role, shared by everyone bound to it.
pub type Rules = Rc<[Rule<'static>]>;

/// A role: a ClusterRole, or a Role of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleKey {
    /// The namespace of a Role; `None` for a ClusterRole.
    pub namespace: Option<String>,
    /// The name of the Role or ClusterRole.
    pub name: String,
}

impl RoleKey {
    /// `roles` or `clusterroles`.
    #[must_use]
    pub(crate) fn resource(&self) -> &'static str {
        if self.namespace.is_some() { "roles" } else { "clusterroles" }
    }
}

impl fmt::Display for RoleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "Role {namespace}/{}", self.name),
            None => write!(f, "ClusterRole {}", self.name),
        }
    }
}

object! {
    /// The `roleRef` of a binding.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct RoleRef<'a> {
        /// `Role` or `ClusterRole`.
        pub(crate) kind: Text<'a> = "kind",
        /// The name of the role.
        pub(crate) name: Text<'a> = "name",
    }
}

impl RoleRef<'_> {
    /// The role as a binding in this namespace refers to it. A ClusterRoleBinding can only refer to a ClusterRole.
    #[must_use]
    pub(crate) fn key(&self, binding_namespace: Option<&str>) -> Option<RoleKey> {
        match (self.kind.as_str(), binding_namespace) {
            ("ClusterRole", _) => Some(RoleKey { namespace: None, name: self.name.to_string() }),
            ("Role", Some(namespace)) => {
                Some(RoleKey { namespace: Some(namespace.to_owned()), name: self.name.to_string() })
            }
            _ => None,
        }
    }
}
