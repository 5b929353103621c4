//! The part of an object's metadata that affects a verdict. Everything else is skipped, not built.

use crate::read::object::object;
use crate::read::text::Text;

object! {
    /// Any object, of which only the metadata is read.
    #[derive(Debug, Default)]
    pub(crate) struct MetaOnly<'a> {
        pub(crate) metadata: Meta<'a> = "metadata",
    }
}

object! {
    /// The part of `metadata` that affects a verdict.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Meta<'a> {
        /// The name; empty until the API server generates one from `generateName`.
        pub name: Text<'a> = "name",
        /// The prefix of a name that the API server will generate.
        pub(crate) generate_name: Text<'a> = "generateName",
        /// The namespace; empty for cluster-scoped objects.
        pub(crate) namespace: Text<'a> = "namespace",
        /// The labels that OLM sets.
        pub(crate) labels: Labels<'a> = "labels",
        /// The annotations that affect a verdict.
        pub(crate) annotations: Annotations<'a> = "annotations",
        /// The owner references.
        pub(crate) owner_references: Vec<OwnerReference<'a>> = "ownerReferences",
        /// Set while a finalizer keeps the object from being deleted.
        pub(crate) deletion_timestamp: Option<Text<'a>> = "deletionTimestamp",
    }
}

object! {
    /// The labels that OLM sets on what belongs to an operator.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct Labels<'a> {
        /// The owner's name.
        pub(crate) owner: Text<'a> = "olm.owner",
        /// The owner's kind.
        pub(crate) owner_kind: Text<'a> = "olm.owner.kind",
        /// The owner's namespace.
        pub(crate) owner_namespace: Text<'a> = "olm.owner.namespace",
        /// The namespace of the original, on a copy.
        pub(crate) copied_from: Text<'a> = "olm.copiedFrom",
        /// The kind of the owner, on what OLM v1 installs.
        pub(crate) owner_kind_v1: Text<'a> = "olm.operatorframework.io/owner-kind",
        /// The name of the owner, on what OLM v1 installs.
        pub(crate) owner_name_v1: Text<'a> = "olm.operatorframework.io/owner-name",
    }
}

object! {
    /// The part of a binding's metadata that says which operator it belongs to.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct BindingMeta<'a> {
        /// The name of the binding.
        pub name: Text<'a> = "name",
        /// The namespace of a RoleBinding; empty for a ClusterRoleBinding.
        pub(crate) namespace: Text<'a> = "namespace",
        /// The labels that OLM sets.
        pub(crate) labels: Labels<'a> = "labels",
        /// The owner references.
        pub(crate) owner_references: Vec<OwnerReference<'a>> = "ownerReferences",
    }
}

impl BindingMeta<'_> {
    /// The same, independent of the list that it comes from.
    #[must_use]
    pub(crate) fn into_owned(self) -> BindingMeta<'static> {
        let labels = self.labels;
        let own = |owner: OwnerReference<'_>| OwnerReference {
            api_version: owner.api_version.into_owned(),
            kind: owner.kind.into_owned(),
            name: owner.name.into_owned(),
        };
        BindingMeta {
            name: self.name.into_owned(),
            namespace: self.namespace.into_owned(),
            labels: Labels {
                owner: labels.owner.into_owned(),
                owner_kind: labels.owner_kind.into_owned(),
                owner_namespace: labels.owner_namespace.into_owned(),
                copied_from: labels.copied_from.into_owned(),
                owner_kind_v1: labels.owner_kind_v1.into_owned(),
                owner_name_v1: labels.owner_name_v1.into_owned(),
            },
            owner_references: self.owner_references.into_iter().map(own).collect(),
        }
    }

    /// Whether this belongs to the operator of that name: by label, or by an owner (a ClusterServiceVersion, or the
    /// OperatorCondition of the same name) in the same namespace.
    #[must_use]
    pub(crate) fn belongs_to(&self, namespace: &str, csv: &str) -> bool {
        let labels = &self.labels;
        // OLM labels copies with the target namespace as the owner's, and with the original namespace as
        // `olm.copiedFrom`.
        let from = if labels.copied_from.is_empty() { &labels.owner_namespace } else { &labels.copied_from };
        let by_label = labels.is_operators() && labels.owner == *csv && *from == *namespace;
        let by_owner = self.namespace == *namespace
            && self.owner_references.iter().any(|owner| {
                owner.name == *csv
                    && matches!(owner.kind.as_str(), "ClusterServiceVersion" | "OperatorCondition")
                    && owner.api_version.starts_with("operators.coreos.com/")
            });
        by_label || by_owner
    }
}

impl Labels<'_> {
    /// Whether the object says that it belongs to a ClusterServiceVersion.
    #[must_use]
    pub(crate) fn is_operators(&self) -> bool {
        self.owner_kind == "ClusterServiceVersion"
    }
}

object! {
    /// The annotations that affect a verdict.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct Annotations<'a> {
        /// On a ClusterServiceVersion: the namespace of the original.
        pub(crate) operator_namespace: Text<'a> = "olm.operatorNamespace",
        /// On an OperatorGroup: the operators that are held to less.
        pub(crate) restrict: Text<'a> = "operator-bounds/restrict",
        /// Makes Helm treat an object as a hook, whatever the value.
        pub(crate) hook: Option<Text<'a>> = "helm.sh/hook",
        /// Set by Helm on the objects of a release.
        pub(crate) helm_release: Option<Text<'a>> = "meta.helm.sh/release-name",
    }
}

object! {
    /// The part of an owner reference that affects a verdict.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct OwnerReference<'a> {
        /// `group/version`.
        pub(crate) api_version: Text<'a> = "apiVersion",
        /// The owner's kind.
        pub(crate) kind: Text<'a> = "kind",
        /// The owner's name.
        pub(crate) name: Text<'a> = "name",
    }
}

impl Meta<'_> {
    /// The name as shown to a person, including `generateName`.
    #[must_use]
    pub fn display_name(&self) -> String {
        if self.name.is_empty() && !self.generate_name.is_empty() {
            format!("{}*", self.generate_name)
        } else {
            self.name.to_string()
        }
    }

    /// The namespace that a ClusterServiceVersion in this namespace claims to be copied from: by label, or by an
    /// annotation that names another namespace.
    #[must_use]
    pub(crate) fn copied_from(&self, namespace: &str) -> Option<&str> {
        let label = self.labels.copied_from.as_str();
        let annotation = self.annotations.operator_namespace.as_str();
        if !label.is_empty() {
            Some(label)
        } else if !annotation.is_empty() && annotation != namespace {
            Some(annotation)
        } else {
            None
        }
    }
}
