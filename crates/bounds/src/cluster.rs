//! The look-ups that a verdict may make: the only access to the outside world.
//!
//! Every query is one of the constants below, with a mask of the fields that are read. Lists never carry a selector or
//! a name taken from a request: each distinct list opens a watch in the policy server that stays open, and only the
//! administrator may decide how many there are. Filtering happens here instead.

use std::fmt;

use crate::rbac::subject::Identity;

/// A kind of object as the host capabilities name it, and the fields of it that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// `group/version`, or the version alone for the core group.
    pub api_version: &'static str,
    /// The kind, as in a manifest.
    pub kind: &'static str,
    /// The fields that the host sends. `metadata` is always included.
    pub masks: &'static [&'static str],
}

/// A look-up of many objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List<'q> {
    /// The kind of the objects.
    pub resource: Resource,
    /// A single namespace, or `None` for all of them.
    pub namespace: Option<&'q str>,
}

/// A look-up of one object by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Get<'q> {
    /// The kind of the object.
    pub resource: Resource,
    /// Its namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<&'q str>,
    /// The object's name, which may come from a request.
    pub name: &'q str,
}

impl Get<'_> {
    /// Whether an answer may be a few seconds old. A role that lost a rule, or an account that was deleted, five
    /// seconds ago must not admit anything; OLM itself is not upgraded that often.
    ///
    /// Kubernetes' own roles for everyone do not change either, and every boundary holds a handful of them: the API
    /// server creates them, and repairs them when it starts. If an administrator widens one and reverts that, an
    /// identity may for a few seconds still be considered to hold what everyone held a moment ago. That is no more than
    /// the same request would have got a moment earlier, and nothing that was taken from a single account, because
    /// these roles do not belong to one. Bindings, which are what people use to revoke rights, come from watches that
    /// lag just as much.
    #[must_use]
    pub fn may_be_cached(&self) -> bool {
        self.resource == EXTENSION_DEFINITION || (self.resource == CLUSTER_ROLES && EVERYBODYS.contains(&self.name))
    }
}

/// The ClusterRoles that Kubernetes binds to all users, or to all service accounts.
const EVERYBODYS: &[&str] =
    &["system:basic-user", "system:discovery", "system:public-info-viewer", "system:service-account-issuer-discovery"];

/// A question to the API server: may this identity do this?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question<'q> {
    /// The identity whose access is reviewed.
    pub identity: &'q Identity,
    /// The verb, or `*` for every verb.
    pub verb: &'q str,
    /// The API group; empty for the core group.
    pub group: &'q str,
    /// The resource without its subresource.
    pub resource: &'q str,
    /// The subresource, if the question is about one.
    pub subresource: Option<&'q str>,
    /// The name of one object, or `None` for all of them.
    pub name: Option<&'q str>,
    /// A single namespace, or `None` for the whole cluster.
    pub namespace: Option<&'q str>,
}

/// A look-up that was not answered. It leads to a refusal that says which look-up failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", self.lookup(), self.reason())]
pub struct LookupError(Box<Failed>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Failed {
    lookup: String,
    answer: String,
    /// Whether the look-up was not made at all because it would have exceeded the limit.
    is_over_limit: bool,
}

impl LookupError {
    /// A look-up that failed, with the host's answer.
    #[must_use]
    #[inline(never)]
    pub fn new(lookup: &dyn fmt::Display, answer: impl Into<String>) -> Self {
        LookupError(Box::new(Failed { lookup: lookup.to_string(), answer: answer.into(), is_over_limit: false }))
    }

    /// A look-up that, itself or by its answer, exceeds what one verdict may cost.
    #[must_use]
    pub(crate) fn over_limit(lookup: &dyn fmt::Display, why: String) -> Self {
        LookupError(Box::new(Failed { lookup: lookup.to_string(), answer: why, is_over_limit: true }))
    }

    /// Whether this would have exceeded a limit: retrying does not help.
    #[must_use]
    pub(crate) fn is_over_limit(&self) -> bool {
        self.0.is_over_limit
    }

    /// The same error, with what the look-up was needed for.
    #[must_use]
    pub(crate) fn because(&self, why: &str) -> Self {
        let mut failed = self.0.clone();
        failed.answer = format!("{} ({why})", self.reason());
        LookupError(failed)
    }

    /// The look-up as shown to a person: `list of OperatorGroups`.
    #[must_use]
    pub(crate) fn lookup(&self) -> &str {
        &self.0.lookup
    }

    /// The host's answer: only its first line, because some hosts append a stack trace.
    #[must_use]
    pub(crate) fn reason(&self) -> &str {
        self.0.answer.lines().next().unwrap_or_default()
    }

    /// Whether the host reports that this object does not exist. This text is the only way it has to report that.
    #[must_use]
    pub fn is_not_found(&self, get: &Get<'_>) -> bool {
        let Resource { api_version, kind, .. } = get.resource;
        self.0.answer.contains(&format!("Cannot find {api_version}/{kind} named '{}' inside", get.name))
    }

    /// Whether the host reports that the API server does not serve this kind at all: a cluster without OLM v0 has no
    /// OperatorGroups. Any other error in finding the kind is a failure.
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

/// The source of the answers: Kubewarden's host capabilities, a directory of manifests, or a live client's cache.
pub trait Cluster {
    /// The JSON of a list: an object with `items`.
    fn list(&self, list: &List<'_>) -> Result<Vec<u8>, LookupError>;
    /// The JSON of one object, or `None` if it does not exist.
    fn get(&self, get: &Get<'_>) -> Result<Option<Vec<u8>>, LookupError>;
    /// The API server's answer to an access review.
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

/// OperatorGroups, cluster-wide: there are few, and every judged kind needs them.
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

/// ClusterServiceVersions, with the fields that their requests are derived from.
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

/// ClusterExtensionRevisions: the former name of ClusterObjectSets.
pub const CLUSTER_EXTENSION_REVISIONS: Resource = Resource {
    api_version: "olm.operatorframework.io/v1",
    kind: "ClusterExtensionRevision",
    masks: &["metadata.name"],
};

/// CustomResourceDefinitions, by name: whether they exist, and which operators they came with.
pub(crate) const CUSTOM_RESOURCE_DEFINITIONS: Resource =
    Resource { api_version: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", masks: &["metadata.name"] };

/// The CustomResourceDefinition of ClusterExtensions: what this cluster's OLM says about `spec.serviceAccount`, which
/// is in `spec` or, in the later `v1alpha1`, in `spec.install`.
pub(crate) const EXTENSION_DEFINITION: Resource = Resource {
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
    fn only_what_is_nobodys_to_take_away_may_be_a_few_seconds_old() {
        let may = |resource: Resource, name: &str| Get { resource, namespace: None, name }.may_be_cached();
        assert!(may(EXTENSION_DEFINITION, "clusterextensions.olm.operatorframework.io"));
        assert!(may(CLUSTER_ROLES, "system:discovery"));
        assert!(!may(CLUSTER_ROLES, "view"));
        assert!(!may(ROLES, "system:discovery"));
        assert!(!may(SERVICE_ACCOUNTS, "system:discovery"));
        assert!(!may(CUSTOM_RESOURCE_DEFINITIONS, "clusterextensions.olm.operatorframework.io"));
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
