//! The scope in which a permission is held.

use std::fmt;

/// One namespace, or the whole cluster. The cluster sorts first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The whole cluster: only ClusterRoleBindings count.
    Cluster,
    /// One namespace: ClusterRoleBindings and its RoleBindings count.
    Namespace(String),
}

impl Scope {
    /// The scope of a namespace, or the cluster if there is none.
    #[must_use]
    pub fn of(namespace: Option<&str>) -> Self {
        namespace.map_or(Scope::Cluster, |namespace| Scope::Namespace(namespace.to_owned()))
    }

    /// The namespace; `None` for the cluster.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Scope::Cluster => None,
            Scope::Namespace(namespace) => Some(namespace),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Cluster => f.write_str("cluster-wide"),
            Scope::Namespace(namespace) => write!(f, "in namespace {namespace}"),
        }
    }
}
