//! The API server's RBAC authorizer over a directory of manifests: what a SubjectAccessReview answers.

use bounds::rbac::{Identity, Rule, Subject};
use bounds::read::Text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host::{ResourceAttributes, SubjectAccessReview};
use crate::manifests::Manifests;

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// The group that the API server lets do everything, before it asks RBAC.
const MASTERS: &str = "system:masters";

/// The status of a SubjectAccessReview.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// Only of authorizers that can say no for good; RBAC cannot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) denied: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Binding<'m> {
    #[serde(borrow)]
    metadata: Metadata<'m>,
    #[serde(borrow)]
    role_ref: RoleRef<'m>,
    #[serde(borrow, default)]
    subjects: Option<Vec<Subject<'m>>>,
}

#[derive(Deserialize)]
struct Metadata<'m> {
    #[serde(borrow)]
    name: Text<'m>,
}

#[derive(Deserialize)]
struct RoleRef<'m> {
    #[serde(borrow)]
    kind: Text<'m>,
    #[serde(borrow)]
    name: Text<'m>,
}

/// Cluster-wide bindings first, then those of the namespace that is asked about.
pub(crate) fn review(manifests: &Manifests, review: &SubjectAccessReview) -> Result<Decision, String> {
    let identity = Identity::user_in(&review.user, review.groups.clone().unwrap_or_default());
    if identity.groups().iter().any(|group| group == MASTERS) {
        return Ok(Decision { allowed: true, ..Decision::default() });
    }
    let namespace = review.resource_attributes.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    for (kind, namespace) in [("ClusterRoleBinding", None), ("RoleBinding", namespace)] {
        if kind == "RoleBinding" && namespace.is_none() {
            continue;
        }
        for object in manifests.list(API_VERSION, kind, namespace) {
            let binding: Binding<'_> = read(object)?;
            let subjects = binding.subjects.iter().flatten();
            let Some(subject) = { subjects }.find(|subject| identity.named_by(subject, namespace)) else { continue };
            if allows(manifests, &binding.role_ref, namespace, &review.resource_attributes)? {
                let reason = reason(kind, namespace, &binding, subject);
                return Ok(Decision { allowed: true, reason, ..Decision::default() });
            }
        }
    }
    Ok(Decision::default())
}

/// Whether a rule of the role allows it. A role that does not exist allows nothing.
fn allows(
    manifests: &Manifests,
    role_ref: &RoleRef<'_>,
    namespace: Option<&str>,
    asked: &ResourceAttributes,
) -> Result<bool, String> {
    let namespace = if role_ref.kind == "Role" { namespace } else { None };
    let Some(role) = manifests.get(API_VERSION, &role_ref.kind, namespace, &role_ref.name) else { return Ok(false) };
    let Some(rules) = role.get("rules") else { return Ok(false) };
    let rules: Option<Vec<Rule<'_>>> = read(rules)?;
    Ok(rules.iter().flatten().any(|rule| rule_allows(rule, asked)))
}

fn rule_allows(rule: &Rule<'_>, asked: &ResourceAttributes) -> bool {
    let has = |list: &[Text<'_>], wanted: &str| list.iter().any(|item| *item == *"*" || *item == *wanted);
    let subresource = asked.subresource.as_deref().filter(|subresource| !subresource.is_empty());
    let resource_matches = match subresource {
        None => has(&rule.resources, &asked.resource),
        Some(subresource) => {
            has(&rule.resources, &format!("{}/{subresource}", asked.resource))
                || has(&rule.resources, &format!("*/{subresource}"))
        }
    };
    let name = asked.name.as_deref().unwrap_or_default();
    resource_matches
        && has(&rule.verbs, &asked.verb)
        && has(&rule.api_groups, asked.group.as_deref().unwrap_or_default())
        && (rule.resource_names.is_empty() || rule.resource_names.iter().any(|allowed| *allowed == *name))
}

/// In the words of the API server.
fn reason(kind: &str, namespace: Option<&str>, binding: &Binding<'_>, subject: &Subject<'_>) -> String {
    let name = match namespace {
        Some(namespace) => format!("{}/{namespace}", binding.metadata.name),
        None => binding.metadata.name.to_string(),
    };
    let RoleRef { kind: role_kind, name: role } = &binding.role_ref;
    let subject_name = match subject.kind.as_str() {
        "ServiceAccount" => format!("{}/{}", subject.name, subject.namespace),
        _ => subject.name.to_string(),
    };
    format!("RBAC: allowed by {kind} {name:?} of {role_kind} {role:?} to {} {subject_name:?}", subject.kind)
}

fn read<'m, T: Deserialize<'m>>(value: &'m Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| format!("cannot read RBAC object: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods, "*/status"], verbs: [get, list]}
- {apiGroups: [""], resources: [secrets], verbs: [get], resourceNames: [mine]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: a}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: Group, name: readers}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: dangling}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gone}
subjects: [{kind: User, name: jane}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writers, namespace: a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects: [{kind: ServiceAccount, name: robot}]
"#;

    fn decide(user: &str, groups: &[&str], attributes: ResourceAttributes) -> Decision {
        let directory = tempfile::TempDir::new().unwrap();
        std::fs::write(directory.path().join("rbac.yaml"), CLUSTER).unwrap();
        let manifests = Manifests::load(directory.path()).unwrap();
        let groups = Some(groups.iter().map(|group| (*group).to_owned()).collect());
        review(&manifests, &SubjectAccessReview { user: user.to_owned(), groups, resource_attributes: attributes })
            .unwrap()
    }

    fn on(verb: &str, resource: &str) -> ResourceAttributes {
        ResourceAttributes { verb: verb.to_owned(), resource: resource.to_owned(), ..ResourceAttributes::default() }
    }

    fn within(namespace: &str, attributes: ResourceAttributes) -> ResourceAttributes {
        ResourceAttributes { namespace: Some(namespace.to_owned()), ..attributes }
    }

    #[test]
    fn a_group_reads_what_its_cluster_role_says_and_no_more() {
        let allowed = |attributes| decide("anyone", &["readers"], attributes).allowed;
        assert!(allowed(on("get", "pods")));
        assert!(allowed(within("b", on("get", "pods"))));
        assert!(!allowed(on("delete", "pods")));
        assert!(!allowed(on("*", "pods")));
        assert!(!allowed(ResourceAttributes { group: Some("apps".to_owned()), ..on("get", "pods") }));
        assert!(allowed(ResourceAttributes { subresource: Some("status".to_owned()), ..on("get", "anything") }));
        assert!(!allowed(ResourceAttributes { subresource: Some("log".to_owned()), ..on("get", "pods") }));
    }

    #[test]
    fn a_rule_with_names_allows_those_names_only() {
        let allowed = |name: Option<&str>| {
            let attributes = ResourceAttributes { name: name.map(str::to_owned), ..on("get", "secrets") };
            decide("anyone", &["readers"], attributes).allowed
        };
        assert!(allowed(Some("mine")));
        assert!(!allowed(Some("yours")));
        assert!(!allowed(None));
    }

    #[test]
    fn a_role_binding_allows_in_its_own_namespace_only() {
        let robot = "system:serviceaccount:a:robot";
        assert!(decide(robot, &[], within("a", on("delete", "pods"))).allowed);
        assert!(!decide(robot, &[], within("b", on("delete", "pods"))).allowed);
        assert!(!decide(robot, &[], on("delete", "pods")).allowed);
        assert!(!decide("system:serviceaccount:b:robot", &[], within("a", on("delete", "pods"))).allowed);
    }

    #[test]
    fn a_binding_to_a_missing_role_allows_nothing() {
        assert_eq!(decide("jane", &[], on("get", "pods")), Decision::default());
    }

    #[test]
    fn masters_may_do_everything() {
        assert!(decide("root", &["system:masters"], on("delete", "nodes")).allowed);
    }

    #[test]
    fn the_reason_names_binding_role_and_subject() {
        let reason = decide("anyone", &["readers"], on("get", "pods")).reason;
        assert_eq!(
            reason,
            r#"RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "readers""#
        );
    }
}
