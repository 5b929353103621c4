//! The background audit, as Kubewarden's audit scanner does it: with its own account and the RBAC that is shipped for it, it lists
//! every object of a policy's rules, and sends each to the policy server, past the API server.

use anyhow::ensure;
use http::Method;
use operator_bounds::documents;
use serde_json::{Value, json};
use test_parts::root;
use test_plane::api::{Api, Sender};

use crate::world::{account, binding};

const NAMESPACE: &str = "kubewarden";
const ACCOUNT: &str = "audit-scanner";

/// A policy that takes part, and an object that it is asked about.
pub(crate) struct Scanned {
    pub(crate) policy: String,
    pub(crate) request: Value,
}

/// Its account, with what Kubewarden gives it and what is shipped.
pub(crate) async fn admit(api: &Api) -> anyhow::Result<()> {
    api.apply(
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}),
    )
    .await?;
    api.apply(&binding(None, "kubewarden-audit-scanner", ("ClusterRole", "view"), &account(NAMESPACE, ACCOUNT)))
        .await?;
    for object in documents::read(&root().join("policy-metadata/audit-scanner-rbac.yaml"))? {
        api.apply(&object).await?;
    }
    Ok(())
}

/// What the scanner would send of one namespace, for each of these policies.
pub(crate) async fn scan(api: &Api, policies: &[Value], namespace: &str) -> anyhow::Result<Vec<Scanned>> {
    let mut scanned = Vec::new();
    for policy in policies.iter().filter(|policy| policy["spec"]["backgroundAudit"] == true) {
        let name = format!("clusterwide-{}", policy["metadata"]["name"].as_str().unwrap_or_default());
        for path in paths(policy) {
            for object in list(api, &path).await? {
                if object["metadata"]["namespace"] == namespace {
                    scanned.push(Scanned { policy: name.clone(), request: request(&object) });
                }
            }
        }
    }
    Ok(scanned)
}

/// The collections that a policy's rules name.
fn paths(policy: &Value) -> Vec<String> {
    let strings = |rule: &Value, field: &str| -> Vec<String> {
        rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut paths = Vec::new();
    for rule in policy["spec"]["rules"].as_array().into_iter().flatten() {
        for group in strings(rule, "apiGroups") {
            for version in strings(rule, "apiVersions") {
                let resources = strings(rule, "resources").into_iter();
                paths.extend(resources.map(|resource| format!("/apis/{group}/{version}/{resource}")));
            }
        }
    }
    paths
}

/// The objects of a collection, with their kind. What the cluster does not have is no object; what the account may not list would be
/// missing in the report.
async fn list(api: &Api, path: &str) -> anyhow::Result<Vec<Value>> {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:kubewarden"].map(str::to_owned).to_vec();
    let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let answer = api.send_as(Some(&Sender { user, groups, extra: Vec::new() }), Method::GET, path, None).await?;
    if answer.code == 404 {
        return Ok(Vec::new());
    }
    ensure!(answer.is_success(), "the audit scanner may not list {path}: {}", answer.message());
    let kind = answer.body["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
    let mut items = answer.body["items"].as_array().cloned().unwrap_or_default();
    for item in &mut items {
        item["apiVersion"] = answer.body["apiVersion"].clone();
        item["kind"] = json!(kind);
    }
    Ok(items)
}

/// It knows neither a user nor the name of the resource.
fn request(object: &Value) -> Value {
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap_or_default(), &object["kind"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (gvk, gvr) = (
        json!({"group": group, "version": version, "kind": kind}),
        json!({"group": group, "version": version, "resource": kind}),
    );
    let metadata = &object["metadata"];
    json!({"uid": metadata["uid"], "kind": gvk, "requestKind": gvk, "resource": gvr, "requestResource": gvr,
        "name": metadata["name"], "namespace": metadata["namespace"], "operation": "CREATE", "userInfo": {}, "object": object})
}
