//! The objects of a file, and which of them the policy judges.

use std::fmt;
use std::path::Path;

use serde_json::Value;

use crate::documents::{self, FileError};
use crate::manifests;

use super::report::one_line;

/// An object as it stands in a file.
#[derive(Debug)]
pub struct Object {
    /// The object.
    pub value: Value,
    /// The document it is in, from 0.
    pub document: usize,
    /// Its position in the lists around it.
    pub way: Vec<usize>,
}

/// A kind that the policy judges.
#[derive(Debug, PartialEq, Eq)]
pub struct Judged {
    /// The API group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The resource, as URLs name it.
    pub resource: &'static str,
    /// Whether it lives in a namespace.
    pub namespaced: bool,
}

const OLM_V0: &str = "operators.coreos.com";
const OLM_V1: &str = "olm.operatorframework.io";
const RBAC: &str = "rbac.authorization.k8s.io";

const JUDGED: [Judged; 11] = [
    judged(OLM_V0, "OperatorGroup", "operatorgroups", true),
    judged(OLM_V0, "ClusterServiceVersion", "clusterserviceversions", true),
    judged(OLM_V0, "InstallPlan", "installplans", true),
    judged(OLM_V0, "Subscription", "subscriptions", true),
    judged(OLM_V1, "ClusterExtension", "clusterextensions", false),
    judged(OLM_V1, "ClusterObjectSet", "clusterobjectsets", false),
    judged(OLM_V1, "ClusterExtensionRevision", "clusterextensionrevisions", false),
    judged(RBAC, "Role", "roles", true),
    judged(RBAC, "ClusterRole", "clusterroles", false),
    judged(RBAC, "RoleBinding", "rolebindings", true),
    judged(RBAC, "ClusterRoleBinding", "clusterrolebindings", false),
];

const fn judged(group: &'static str, kind: &'static str, resource: &'static str, namespaced: bool) -> Judged {
    Judged { group, kind, resource, namespaced }
}

/// What an object is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The kind.
    pub kind: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for Name {
    /// On one line, whatever is in the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.namespace.is_empty() { "" } else { "/" };
        f.write_str(&one_line(&format!("{} {}{separator}{}", self.kind, self.namespace, self.name)))
    }
}

impl Name {
    /// Whether a person means this object by `Kind/namespace/name`, `Kind/name` or `name`.
    #[must_use]
    pub fn is_meant_by(&self, given: &str) -> bool {
        let same_kind = |kind: &str| kind.eq_ignore_ascii_case(&self.kind);
        match *given.split('/').collect::<Vec<_>>() {
            [kind, namespace, name] => same_kind(kind) && namespace == self.namespace && name == self.name,
            [first, name] => (same_kind(first) || first == self.namespace) && name == self.name,
            [name] => name == self.name,
            _ => false,
        }
    }
}

impl Object {
    /// A text in the object; empty if there is none.
    #[must_use]
    pub fn text(&self, pointer: &str) -> &str {
        text(&self.value, pointer)
    }

    /// Whether it is an operator that is in no cluster yet: an API server would have given it a uid.
    #[must_use]
    pub fn is_candidate(&self) -> bool {
        is_candidate(&self.value)
    }

    /// The kind, if the policy judges it. The version is the policy's to look at; of a candidate OLM looks at the kind only.
    #[must_use]
    pub fn judged(&self) -> Option<&'static Judged> {
        let group = self.text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let is_group = |judged: &Judged| judged.group == group || self.is_candidate();
        JUDGED.iter().find(|judged| judged.kind == self.text("/kind") && is_group(judged))
    }

    /// The namespace that it says it is in; empty if it says none. The tools that write bundles fill in a placeholder.
    #[must_use]
    pub fn namespace(&self) -> &str {
        let namespace = self.text("/metadata/namespace");
        let is_placeholder = self.is_candidate() && namespace.to_ascii_lowercase().starts_with("placeholder");
        if is_placeholder { "" } else { namespace }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> Name {
        let mut name = self.text("/metadata/name").to_owned();
        if name.is_empty() {
            name = format!("{}*", self.text("/metadata/generateName"));
        }
        Name { kind: self.text("/kind").to_owned(), namespace: self.namespace().to_owned(), name }
    }
}

/// Whether an object is an operator that is in no cluster yet.
pub(super) fn is_candidate(object: &Value) -> bool {
    object["kind"] == "ClusterServiceVersion" && text(object, "/metadata/uid").is_empty()
}

/// A text in an object; empty if there is none.
pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The objects of a file. Documents that are not Kubernetes objects, such as the values of a chart, are ignored; one of a
/// judged kind without an apiVersion is an error, for nobody could tell what it is.
pub fn read(path: &Path, bytes: &[u8]) -> Result<Vec<Object>, FileError> {
    let mut objects = Vec::new();
    for (document, value) in documents::parse(path, bytes)?.into_iter().enumerate() {
        manifests::take_apart(value, &mut Vec::new(), &mut |way, value| {
            objects.push(Object { value, document, way: way.to_vec() });
        });
    }
    let nameless = |object: &&Object| {
        object.text("/apiVersion").is_empty() && JUDGED.iter().any(|judged| judged.kind == object.text("/kind"))
    };
    if let Some(object) = objects.iter().find(nameless) {
        let reason = format!("document {}: {} without an apiVersion", object.document + 1, object.text("/kind"));
        return Err(FileError::new(path, reason));
    }
    objects.retain(|object| !object.text("/apiVersion").is_empty() && !object.text("/kind").is_empty());
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_meant_by_its_name_with_or_without_kind_and_namespace() {
        let name = Name { kind: "Role".to_owned(), namespace: "team-a".to_owned(), name: "reader".to_owned() };
        for given in ["reader", "Role/reader", "role/reader", "team-a/reader", "Role/team-a/reader"] {
            assert!(name.is_meant_by(given), "{given}");
        }
        for given in ["", "read", "ClusterRole/reader", "Role/team-b/reader", "Role/team-a/reader/x"] {
            assert!(!name.is_meant_by(given), "{given}");
        }
    }

    #[test]
    fn what_is_no_object_is_left_out_and_half_an_object_is_named() {
        let objects = read(Path::new("values.yaml"), b"replicas: 1\n---\napiVersion: v1\nkind: Pod\n").unwrap();
        assert_eq!(objects.len(), 1);
        assert!(objects[0].judged().is_none());
        let error = read(Path::new("a.yaml"), b"kind: ClusterServiceVersion\n").unwrap_err().to_string();
        assert_eq!(error, "a.yaml: document 1: ClusterServiceVersion without an apiVersion");
    }
}
