//! What OLM makes of the permissions of a ClusterServiceVersion when its bundle was unpacked: accounts, roles and bindings.
//! The plan names them, and their names are hashes of what they hold: so they are made again here and found by name.

use bounds::rule::Rule;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha224};

use crate::olm::{OWNER_KIND_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL};

const RBAC: &str = "rbac.authorization.k8s.io";
/// Longer names are cut in front of their hash.
const MAX_NAME: usize = 63;

/// The object of this kind and name that belongs to the ClusterServiceVersion.
#[must_use]
pub fn find(csv: &Value, namespace: &str, kind: &str, name: &str) -> Option<Value> {
    let cluster = matches!(kind, "ClusterRole" | "ClusterRoleBinding");
    let list = if cluster { "clusterPermissions" } else { "permissions" };
    let strategy = &csv["spec"]["install"]["spec"];
    let entries = |list: &str| strategy[list].as_array().map(Vec::as_slice).unwrap_or_default();
    if kind == "ServiceAccount" {
        let mut all = entries("permissions").iter().chain(entries("clusterPermissions"));
        return all
            .any(|entry| entry["serviceAccountName"] == name)
            .then(|| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}));
    }
    if !matches!(kind, "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding") {
        return None;
    }
    let operator = csv["metadata"]["name"].as_str()?;
    let entry = entries(list)
        .iter()
        .find(|entry| role_name(operator, cluster.then_some(namespace), entry).as_deref() == Some(name))?;
    let metadata = json!({"name": name, "labels": {
        OWNER_LABEL: operator, OWNER_KIND_LABEL: "ClusterServiceVersion", OWNER_NAMESPACE_LABEL: namespace,
    }});
    let api_version = format!("{RBAC}/v1");
    if kind.ends_with("Binding") {
        let role = if cluster { "ClusterRole" } else { "Role" };
        return Some(json!({
            "apiVersion": api_version, "kind": kind, "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": role, "name": name},
            "subjects": [
                {"kind": "ServiceAccount", "name": entry["serviceAccountName"], "namespace": namespace},
            ],
        }));
    }
    Some(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": entry["rules"]}))
}

/// What OLM hashes, in its order.
#[derive(Serialize)]
struct Hashed<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    permission: HashedPermission<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HashedPermission<'a> {
    service_account_name: &'a str,
    rules: Vec<Rule<'a>>,
}

/// OLM's name of the role for an entry of `permissions`, or, with a namespace, of `clusterPermissions`.
#[must_use]
pub fn role_name(operator: &str, namespace: Option<&str>, entry: &Value) -> Option<String> {
    let account = entry["serviceAccountName"].as_str()?;
    if !operator.is_ascii() || !account.is_ascii() {
        return None; // no object can be called like this
    }
    let rules = entry["rules"].to_string();
    let hashed = Hashed {
        name: operator,
        namespace,
        permission: HashedPermission { service_account_name: account, rules: serde_json::from_str(&rules).ok()? },
    };
    let hash = hash(&serde_json::to_string(&hashed).ok()?);
    let mut base = if namespace.is_some() { operator.to_owned() } else { format!("{operator}-{account}") };
    if base.len() + hash.len() > MAX_NAME {
        base.truncate(MAX_NAME - hash.len() - 1);
    }
    Some(format!("{base}-{hash}"))
}

/// SHA-224 in base 62 of a line of JSON, as Go writes it: with `<`, `>` and `&` as escapes.
fn hash(json: &str) -> String {
    let escaped = json.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    let mut hasher = Sha224::new();
    hasher.update(escaped.as_bytes());
    hasher.update(b"\n");
    base62(&hasher.finalize())
}

fn base62(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut number = bytes.to_vec();
    let mut text = Vec::new();
    while number.iter().any(|byte| *byte != 0) {
        let mut rest = 0_usize;
        for byte in &mut number {
            let value = rest * 256 + usize::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or_default();
            rest = value % 62;
        }
        text.push(DIGITS[rest]);
    }
    text.reverse();
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv() -> Value {
        json!({"metadata": {"name": "demo2.v0.1.0"}, "spec": {"install": {"spec": {
            "permissions": [{"serviceAccountName": "demo2-agent", "rules": [
                {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
            ]}],
            "clusterPermissions": [{"serviceAccountName": "demo2-sa", "rules": [
                {"apiGroups": ["demo.example.com"], "resources": ["widgets", "widgets/status", "widgets/finalizers"],
                 "verbs": ["get", "list", "watch", "update", "patch"]},
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
                {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
                {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            ]}],
        }}}})
    }

    #[test]
    fn roles_get_the_very_names_that_olm_0_46_gave_them() {
        let role = "demo2.v0.1.0-demo2-agent-32FMh3zZqHd6kjaBeZWtwOnfh8xlJtPq7stzEQ";
        let found = find(&csv(), "tenant", "Role", role).expect(role);
        assert_eq!(found["rules"][0]["resources"][1], "pods/log");
        let binding = find(&csv(), "tenant", "RoleBinding", role).expect(role);
        assert_eq!(binding["subjects"][0]["name"], "demo2-agent");
        let cluster = "demo2.v0.1.0-70nG2TKlwwUFRAkVAZOcyr0Hp9ZNa3xtyYSXqz";
        let bound = ["tenant", "team-a", "operators"];
        assert!(bound.iter().any(|namespace| find(&csv(), namespace, "ClusterRole", cluster).is_some()));
    }

    #[test]
    fn what_is_not_among_the_permissions_is_not_made() {
        assert!(find(&csv(), "tenant", "ServiceAccount", "demo2-sa").is_some());
        assert!(find(&csv(), "tenant", "ServiceAccount", "cluster-admin").is_none());
        assert!(find(&csv(), "tenant", "Role", "demo2.v0.1.0-demo2-agent-x").is_none());
        assert!(find(&csv(), "tenant", "ConfigMap", "demo2-sa").is_none());
    }
}
