//! The part of an object's metadata that decides something. Everything else is skipped, not built.

use serde::Deserialize;

use crate::json::null_default;
use crate::text::Text;

/// `metadata`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta<'a> {
    /// The name; empty while `generateName` waits for one.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub name: Text<'a>,
    /// The prefix of a name to come.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub generate_name: Text<'a>,
    /// The namespace.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub namespace: Text<'a>,
    /// The labels that OLM sets.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub labels: Labels<'a>,
    /// The annotations that count.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub annotations: Annotations<'a>,
    /// The owners.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub owner_references: Vec<OwnerReference<'a>>,
    /// Set while a finalizer keeps the object alive.
    #[serde(borrow, default)]
    pub deletion_timestamp: Option<Text<'a>>,
}

/// The labels that OLM v0 sets on what belongs to a ClusterServiceVersion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Labels<'a> {
    /// The owner's name.
    #[serde(borrow, default, rename = "olm.owner", deserialize_with = "null_default")]
    pub owner: Text<'a>,
    /// The owner's kind.
    #[serde(borrow, default, rename = "olm.owner.kind", deserialize_with = "null_default")]
    pub owner_kind: Text<'a>,
    /// The owner's namespace.
    #[serde(borrow, default, rename = "olm.owner.namespace", deserialize_with = "null_default")]
    pub owner_namespace: Text<'a>,
    /// The namespace of the original, on a copy.
    #[serde(borrow, default, rename = "olm.copiedFrom", deserialize_with = "null_default")]
    pub copied_from: Text<'a>,
}

impl Labels<'_> {
    /// Whether the object says that it belongs to a ClusterServiceVersion.
    #[must_use]
    pub fn is_operators(&self) -> bool {
        self.owner_kind == "ClusterServiceVersion"
    }
}

/// The annotations that count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Annotations<'a> {
    /// On a ClusterServiceVersion: the namespace of the original.
    #[serde(borrow, default, rename = "olm.operatorNamespace", deserialize_with = "null_default")]
    pub operator_namespace: Text<'a>,
    /// On an OperatorGroup: which operators are held to less.
    #[serde(borrow, default, rename = "operator-bounds/restrict", deserialize_with = "null_default")]
    pub restrict: Text<'a>,
}

/// An owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference<'a> {
    /// `group/version`.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub api_version: Text<'a>,
    /// The kind.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub kind: Text<'a>,
    /// The name.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub name: Text<'a>,
}

impl Meta<'_> {
    /// The name as a person would say it, `generateName` included.
    #[must_use]
    pub fn said_name(&self) -> String {
        if self.name.is_empty() && !self.generate_name.is_empty() {
            format!("{}*", self.generate_name)
        } else {
            self.name.to_string()
        }
    }

    /// Whether this belongs to the operator of that name: by label, or by an owner (a ClusterServiceVersion, or the
    /// OperatorCondition of the same name) in the same namespace.
    #[must_use]
    pub fn belongs_to(&self, namespace: &str, csv: &str) -> bool {
        let labels = &self.labels;
        // OLM labels copies with the target's namespace, and where they come from with `olm.copiedFrom`.
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
