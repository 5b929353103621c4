//! What the policy says to an install: to the ClusterServiceVersion and its RBAC, written by the account, and to the roles
//! that OLM lifts and copies with its own rights.

use std::fs;
use std::sync::Arc;

use bounds::olm::Targets;
use operator_bounds::manifests::Manifests;
use operator_bounds::policy::Policy;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::olm::Install;

const OLM: &str = "system:serviceaccount:olm:olm-operator-serviceaccount";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The first refusal, if there is one.
pub(crate) fn refusal(policy: &Policy, install: &Install<'_>, targets: &Targets, granted: &[Value]) -> Option<String> {
    let namespace = install.namespace;
    let steps = install.step_objects();
    let (spec, status) = match targets {
        Targets::All => (json!(null), json!([""])),
        Targets::Namespaces(names) => (json!(names), json!(names)),
    };
    let mut cluster = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": namespace}}),
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "og", "namespace": namespace},
            "spec": {"serviceAccountName": "installer", "targetNamespaces": spec}, "status": {"namespaces": status}}),
    ];
    cluster.extend(granted.iter().cloned());
    cluster.extend(steps.iter().map(|(_, object)| object).filter(|object| object["rules"].is_array()).cloned());
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("cluster.json");
    fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": cluster}).to_string()).unwrap();
    let manifests = Arc::new(Manifests::load(&file).unwrap());
    let account = format!("system:serviceaccount:{namespace}:installer");
    let mut requests = vec![(account.as_str(), install.csv.clone())];
    let is_rbac = |object: &Value| object["apiVersion"] == RBAC;
    requests.extend(
        steps.iter().filter(|(_, object)| is_rbac(object)).map(|(_, object)| (account.as_str(), object.clone())),
    );
    requests.extend(lifted(install, targets).into_iter().map(|object| (OLM, object)));
    requests.iter().find_map(|(user, object)| judge(policy, &manifests, user, object))
}

/// The Roles as OLM lifts or copies them.
fn lifted(install: &Install<'_>, targets: &Targets) -> Vec<Value> {
    let roles = install
        .step_objects()
        .into_iter()
        .filter(|(path, object)| path.resource == "roles" && !object["metadata"]["labels"].is_null());
    let mut found = Vec::new();
    for (_, role) in roles {
        match targets {
            Targets::All => {
                let mut lifted = role.clone();
                lifted["kind"] = "ClusterRole".into();
                lifted["metadata"].as_object_mut().unwrap().remove("namespace");
                let mut rules = lifted["rules"].as_array().cloned().unwrap_or_default();
                rules.push(json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]}));
                lifted["rules"] = rules.into();
                found.push(lifted);
            }
            Targets::Namespaces(names) => {
                for name in names.iter().filter(|name| *name != install.namespace) {
                    let mut copy = role.clone();
                    copy["metadata"]["namespace"] = name.as_str().into();
                    copy["metadata"]["labels"]["olm.copiedFrom"] = install.namespace.into();
                    copy["metadata"]["labels"]["olm.owner.namespace"] = name.as_str().into();
                    found.push(copy);
                }
            }
        }
    }
    found
}

fn judge(policy: &Policy, manifests: &Arc<Manifests>, user: &str, object: &Value) -> Option<String> {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap();
    let kind = object["kind"].as_str().unwrap();
    let own = user.split(':').nth(2).unwrap();
    let request = json!({
        "uid": "1", "operation": "CREATE", "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": format!("{}s", kind.to_lowercase())},
        "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"].as_str().unwrap_or_default(),
        "userInfo": {"username": user, "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{own}"), "system:authenticated"]},
        "object": object,
    });
    let raw = |value: &Value| RawValue::from_string(value.to_string()).unwrap();
    let host = Arc::new(policy.host(manifests));
    let response = policy.validate(&raw(&request), &raw(&json!({})), &host).unwrap();
    (!response.accepted).then(|| response.message.unwrap_or_default())
}
