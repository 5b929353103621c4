//! The only thing that reaches outside: the look-ups a verdict may make.
//!
//! Every query is one of the constants below, with the mask of the fields that are read. Lists never carry a
//! selector or a name taken from a request: each distinct list opens a watch in the policy server that stays open,
//! and nobody but the administrator decides how many there are. What is selected is selected in here.

use std::fmt;

use crate::rbac::subject::Identity;

/// A kind of object as the host capabilities name it, and the fields that are read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// `group/version`, or the version alone for the core group.
    pub api_version: &'static str,
    /// The singular, as in a manifest.
    pub kind: &'static str,
    /// The fields that cross the boundary. `metadata` always does.
    pub masks: &'static [&'static str],
}

impl Resource {
    /// Whether an answer may be a few seconds old. A role that lost a rule, or an account that was deleted, five seconds ago
    /// must not admit anything; OLM itself is not upgraded that often.
    #[must_use]
    pub fn may_be_cached(self) -> bool {
        self == EXTENSION_DEFINITION
    }
}

/// Look up many objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List<'q> {
    /// What is listed.
    pub resource: Resource,
    /// In one namespace, or in all of them.
    pub namespace: Option<&'q str>,
}

/// Look up one object by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Get<'q> {
    /// What is read.
    pub resource: Resource,
    /// Its namespace; none for cluster-scoped kinds.
    pub namespace: Option<&'q str>,
    /// Its name.
    pub name: &'q str,
}

/// A question to the API server: may this identity do that?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question<'q> {
    /// Who.
    pub identity: &'q Identity,
    /// The verb, `*` for every verb.
    pub verb: &'q str,
    /// The API group.
    pub group: &'q str,
    /// The resource without its subresource.
    pub resource: &'q str,
    /// The subresource.
    pub subresource: Option<&'q str>,
    /// One object by name, or all of them.
    pub name: Option<&'q str>,
    /// One namespace, or the whole cluster.
    pub namespace: Option<&'q str>,
}

/// A look-up that was not answered. The verdict is a refusal that says which look-up it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", self.lookup(), self.reason())]
pub struct LookupError(Box<Failed>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Failed {
    lookup: String,
    answer: String,
    /// It was not asked at all: it would have been one too many.
    is_over_limit: bool,
}

impl LookupError {
    /// This look-up failed, and this is what the host said.
    #[must_use]
    #[inline(never)]
    pub fn new(lookup: &dyn fmt::Display, answer: impl Into<String>) -> Self {
        LookupError(Box::new(Failed { lookup: lookup.to_string(), answer: answer.into(), is_over_limit: false }))
    }

    /// This look-up, or what came of it, is more than one verdict may cost.
    #[must_use]
    pub fn over_limit(lookup: &dyn fmt::Display, why: String) -> Self {
        LookupError(Box::new(Failed { lookup: lookup.to_string(), answer: why, is_over_limit: true }))
    }

    /// Whether this would have cost too much: trying again does not help.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.0.is_over_limit
    }

    /// The same, with what it was for.
    #[must_use]
    pub fn because(&self, why: &str) -> Self {
        let mut failed = self.0.clone();
        failed.answer = format!("{} ({why})", self.reason());
        LookupError(failed)
    }

    /// Which look-up, in words: `list of OperatorGroups`.
    #[must_use]
    pub fn lookup(&self) -> &str {
        &self.0.lookup
    }

    /// What the host said: of several lines the first, for some hosts put a stack trace behind it.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.0.answer.lines().next().unwrap_or_default()
    }

    /// Whether the host says that this object does not exist. It has no other way of saying so than this text.
    #[must_use]
    pub fn is_not_found(&self, get: &Get<'_>) -> bool {
        let Resource { api_version, kind, .. } = get.resource;
        self.0.answer.contains(&format!("Cannot find {api_version}/{kind} named '{}' inside", get.name))
    }

    /// Whether the host says that the API server does not serve this kind at all: a cluster without OLM v0 has no
    /// OperatorGroups. Any other trouble with finding it is a failure.
    #[must_use]
    pub fn is_not_served(&self, resource: Resource) -> bool {
        let Resource { api_version, kind, .. } = resource;
        let group = format!("error finding resource {api_version} / {kind}: ");
        let kind = format!("Cannot find resource {api_version}/{kind}");
        // A stack trace may follow.
        self.0.answer.lines().any(|line| {
            line.split_once(&group).is_some_and(|(_, why)| why.contains("404 page not found")) || line.ends_with(&kind)
        })
    }
}

/// What answers the look-ups: Kubewarden's host capabilities, a directory of manifests, or a live client's cache.
pub trait Cluster {
    /// The JSON of a list: an object with `items`.
    fn list(&self, list: &List<'_>) -> Result<Vec<u8>, LookupError>;
    /// The JSON of one object, or nothing when it does not exist.
    fn get(&self, get: &Get<'_>) -> Result<Option<Vec<u8>>, LookupError>;
    /// The API server's own answer.
    fn can(&self, question: &Question<'_>) -> Result<bool, LookupError>;
}

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "list of {}s", self.resource.kind)?;
        match self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Get<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "get of {} ", self.resource.kind)?;
        match self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

impl fmt::Display for Question<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "access review of {}", self.identity.user())
    }
}

/// OperatorGroups, cluster-wide: few, and every row needs them.
pub const OPERATOR_GROUPS: Resource = Resource {
    api_version: "operators.coreos.com/v1",
    kind: "OperatorGroup",
    masks: &[
        "spec.selector",
        "spec.serviceAccountName",
        "spec.targetNamespaces",
        "status.namespaces",
        "status.serviceAccountRef",
    ],
};

/// ClusterServiceVersions: what their requests are made of.
pub const CLUSTER_SERVICE_VERSIONS: Resource = Resource {
    api_version: "operators.coreos.com/v1alpha1",
    kind: "ClusterServiceVersion",
    masks: &[
        "spec.apiservicedefinitions.owned.deploymentName",
        "spec.apiservicedefinitions.owned.group",
        "spec.apiservicedefinitions.owned.kind",
        "spec.apiservicedefinitions.owned.name",
        "spec.apiservicedefinitions.owned.version",
        "spec.customresourcedefinitions.owned.name",
        "spec.install.spec.clusterPermissions",
        "spec.install.spec.deployments.name",
        "spec.install.spec.deployments.spec.template.spec.serviceAccount",
        "spec.install.spec.deployments.spec.template.spec.serviceAccountName",
        "spec.install.spec.permissions",
        "spec.replaces",
        "spec.webhookdefinitions.deploymentName",
        "spec.webhookdefinitions.type",
    ],
};

/// ClusterRoleBindings, cluster-wide.
pub const CLUSTER_ROLE_BINDINGS: Resource = Resource {
    api_version: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    masks: &["roleRef", "subjects"],
};

/// RoleBindings, by namespace or cluster-wide.
pub const ROLE_BINDINGS: Resource =
    Resource { api_version: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", masks: &["roleRef", "subjects"] };

/// ClusterRoles, by name.
pub const CLUSTER_ROLES: Resource =
    Resource { api_version: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", masks: &["aggregationRule", "rules"] };

/// Roles, by name.
pub const ROLES: Resource = Resource { api_version: "rbac.authorization.k8s.io/v1", kind: "Role", masks: &["rules"] };

/// Namespaces, cluster-wide, for their labels.
pub const NAMESPACES: Resource = Resource { api_version: "v1", kind: "Namespace", masks: &["metadata.labels"] };

/// ServiceAccounts, by name: only whether they exist.
pub const SERVICE_ACCOUNTS: Resource =
    Resource { api_version: "v1", kind: "ServiceAccount", masks: &["metadata.name"] };

/// ClusterExtensions, by name.
pub const CLUSTER_EXTENSIONS: Resource = Resource {
    api_version: "olm.operatorframework.io/v1",
    kind: "ClusterExtension",
    masks: &["spec.namespace", "spec.serviceAccount"],
};

/// ClusterObjectSets, by name: they lead from an object to its ClusterExtension.
pub const CLUSTER_OBJECT_SETS: Resource =
    Resource { api_version: "olm.operatorframework.io/v1", kind: "ClusterObjectSet", masks: &["metadata.name"] };

/// ClusterExtensionRevisions: what ClusterObjectSets were called before.
pub const CLUSTER_EXTENSION_REVISIONS: Resource = Resource {
    api_version: "olm.operatorframework.io/v1",
    kind: "ClusterExtensionRevision",
    masks: &["metadata.name"],
};

/// CustomResourceDefinitions, by name: whether they exist, and with which operators they came.
pub const CUSTOM_RESOURCE_DEFINITIONS: Resource =
    Resource { api_version: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", masks: &["metadata.name"] };

/// The CustomResourceDefinition of ClusterExtensions: what this cluster's OLM says of `spec.serviceAccount`, in `spec` or, in the
/// later `v1alpha1`, in `spec.install`.
pub const EXTENSION_DEFINITION: Resource = Resource {
    api_version: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    masks: &[
        "spec.versions.name",
        "spec.versions.schema.openAPIV3Schema.properties.spec.properties.install.properties.serviceAccount",
        "spec.versions.schema.openAPIV3Schema.properties.spec.properties.install.required",
        "spec.versions.schema.openAPIV3Schema.properties.spec.properties.serviceAccount",
        "spec.versions.schema.openAPIV3Schema.properties.spec.required",
    ],
};

/// ConfigMaps, by name: unpacked bundles.
pub const CONFIG_MAPS: Resource = Resource { api_version: "v1", kind: "ConfigMap", masks: &["binaryData", "data"] };

#[cfg(test)]
mod tests {
    use super::*;

    fn error(reason: &str) -> LookupError {
        LookupError::new(&"", reason)
    }

    #[test]
    fn an_object_that_does_not_exist_is_told_from_every_other_trouble() {
        let get = Get { resource: ROLES, namespace: Some("team-a"), name: "reader" };
        let text = |name: &str| {
            format!(
                "Cannot find rbac.authorization.k8s.io/v1/Role named '{name}' inside of namespace 'Some(\"team-a\")'"
            )
        };
        assert!(error(&format!("Host error: {}", text("reader"))).is_not_found(&get));
        assert!(!error(&text("reader-2")).is_not_found(&get));
        assert!(!error("connection refused").is_not_found(&get));
        assert!(!error("Cannot find resource rbac.authorization.k8s.io/v1/Role").is_not_found(&get));
    }

    #[test]
    fn a_kind_that_is_not_served_is_told_from_every_other_trouble() {
        let served = |reason: &str| !error(reason).is_not_served(OPERATOR_GROUPS);
        assert!(!served(
            "Host error: error finding resource operators.coreos.com/v1 / OperatorGroup: ApiError: 404 page not found"
        ));
        assert!(!served("Cannot find resource operators.coreos.com/v1/OperatorGroup"));
        assert!(!served(
            "Cannot find resource operators.coreos.com/v1/OperatorGroup\n\nStack backtrace:\n   0: anyhow"
        ));
        assert!(served("error finding resource operators.coreos.com/v1 / OperatorGroup: connection refused"));
        assert!(served("error finding resource operators.coreos.com/v1 / OperatorGroup: ApiError: 503"));
        assert!(served("error finding resource operators.coreos.com/v1 / OperatorGroup: no answer after 404 ms"));
        assert!(served("Cannot find resource operators.coreos.com/v1/Subscription"));
        assert!(served("404"));
    }
}
