//! Permissions where the group's targets are. A ClusterServiceVersion declares them once; its plan brings them for its own
//! namespace. For the other targets OLM copies them, or lifts them to the whole cluster, with rights of its own. Here the
//! account does it, so it never gives more than it holds.

use bounds::group::Targets;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::apply::apply;
use crate::context::Context;
use crate::error::Error;
use crate::generated::role_name;
use crate::judge::Write;
use crate::olm::{ClusterServiceVersion, MANAGED_LABEL, OWNER_KIND_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Everything that the account has to be able to write for a ClusterServiceVersion that is there.
#[must_use]
pub(crate) fn writes(csv: &ClusterServiceVersion, namespace: &str, targets: &Targets) -> Vec<Write> {
    let write = |namespace: Option<&str>, group: &str, resource: &str| Write {
        namespace: namespace.map(str::to_owned),
        group: group.to_owned(),
        resource: resource.to_owned(),
    };
    let mut writes = vec![write(Some(namespace), "apps", "deployments")];
    if csv.spec.install.spec.permissions.as_ref().is_none_or(Vec::is_empty) {
        return writes;
    }
    match targets {
        Targets::All => {
            writes.extend(["clusterroles", "clusterrolebindings"].map(|resource| write(None, RBAC, resource)));
        }
        Targets::Namespaces(targets) => {
            for target in targets.iter().filter(|target| *target != namespace) {
                writes.extend(["roles", "rolebindings"].map(|resource| write(Some(target), RBAC, resource)));
            }
        }
    }
    writes
}

/// Writes them. The error names the one that was refused.
pub(super) async fn write(
    cx: &Context,
    client: &Client,
    csv: &ClusterServiceVersion,
    targets: &Targets,
) -> Result<Result<(), (String, kube::Error)>, Error> {
    for object in objects(csv, targets) {
        let kind = object["kind"].as_str().unwrap_or_default();
        let Some(served) = cx.kinds.find(&cx.stores, client, RBAC, "v1", kind, &[]).await? else { continue };
        if let Err(source) = apply(client, &served, &object).await {
            let metadata = &object["metadata"];
            let place = [&metadata["namespace"], &metadata["name"]].map(|text| text.as_str().unwrap_or_default());
            return Ok(Err((format!("{kind} {}", place.join("/").trim_start_matches('/')), source)));
        }
    }
    Ok(Ok(()))
}

/// The roles and bindings for the targets besides the operator's own namespace.
fn objects(csv: &ClusterServiceVersion, targets: &Targets) -> Vec<Value> {
    let (namespace, operator) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let places: Vec<Option<&str>> = match targets {
        Targets::All => vec![None],
        Targets::Namespaces(targets) => {
            targets.iter().map(String::as_str).filter(|target| *target != namespace).map(Some).collect()
        }
    };
    let mut objects = Vec::new();
    for permission in csv.spec.install.spec.permissions.iter().flatten() {
        let entry = serde_json::to_value(permission).unwrap_or_default();
        let Some(name) = role_name(&operator, None, &entry) else { continue };
        for place in &places {
            let mut metadata = json!({"name": name, "labels": {
                MANAGED_LABEL: "true", OWNER_LABEL: operator, OWNER_KIND_LABEL: "ClusterServiceVersion",
                OWNER_NAMESPACE_LABEL: namespace,
            }});
            if let Some(target) = place {
                metadata["namespace"] = json!(target);
            }
            let role = if place.is_some() { "Role" } else { "ClusterRole" };
            objects.push(json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": role, "metadata": metadata, "rules": rules(&permission.rules, place.is_none()),
            }));
            objects.push(json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": format!("{role}Binding"), "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": role, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": permission.service_account_name, "namespace": namespace}],
            }));
        }
    }
    objects
}

/// Whoever works in all namespaces may see which there are.
fn rules(declared: &Value, everywhere: bool) -> Value {
    let mut rules = declared.as_array().cloned().unwrap_or_default();
    if everywhere {
        rules.push(json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}));
    }
    Value::Array(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv() -> ClusterServiceVersion {
        serde_json::from_value(json!({
            "metadata": {"name": "op.v1", "namespace": "team-a"},
            "spec": {"install": {"spec": {"permissions": [{"serviceAccountName": "op", "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            ]}]}}},
        }))
        .unwrap()
    }

    #[test]
    fn other_targets_get_roles_and_all_namespaces_a_cluster_role() {
        let targets = Targets::Namespaces(["team-a", "team-b"].map(str::to_owned).into());
        let copied = objects(&csv(), &targets);
        let kinds: Vec<_> =
            copied.iter().map(|object| (object["kind"].as_str(), object["metadata"]["namespace"].as_str())).collect();
        assert_eq!(kinds, [(Some("Role"), Some("team-b")), (Some("RoleBinding"), Some("team-b"))]);
        assert_eq!(copied[1]["subjects"][0]["namespace"], "team-a");
        let lifted = objects(&csv(), &Targets::All);
        assert_eq!((lifted[0]["kind"].as_str(), lifted.len()), (Some("ClusterRole"), 2));
        assert_eq!(lifted[0]["rules"][1]["resources"][0], "namespaces");
        assert!(lifted[0]["metadata"]["namespace"].is_null());
    }

    #[test]
    fn the_account_must_be_able_to_write_what_is_copied() {
        let places = |targets: &Targets| -> Vec<(Option<String>, String)> {
            writes(&csv(), "team-a", targets).into_iter().map(|write| (write.namespace, write.resource)).collect()
        };
        let own = (Some("team-a".to_owned()), "deployments".to_owned());
        assert_eq!(places(&Targets::Namespaces(["team-a".to_owned()].into())), std::slice::from_ref(&own));
        let all = places(&Targets::All);
        assert_eq!(all, [own, (None, "clusterroles".to_owned()), (None, "clusterrolebindings".to_owned())]);
    }
}
