//! Operators that are made for a case.

use serde_json::json;
use test_olm::{Package, Rule, Tiny};

const READ: [&str; 3] = ["get", "list", "watch"];

/// An operator of three versions: the second asks for nothing new, the third for Secrets and nodes.
pub(crate) const GROWING: &str = "growing";
/// Asks for ConfigMaps in its namespaces, and nothing else.
pub(crate) const MODEST: &str = "modest";
/// Asks for Secrets in its namespaces, and nodes in the cluster.
pub(crate) const GREEDY: &str = "greedy";
/// Runs as an account that it does not bring.
pub(crate) const BORROWER: &str = "borrower";
/// Brings RBAC and a ConfigMap of its own.
pub(crate) const CARRIER: &str = "carrier";
/// Brings an API service.
pub(crate) const SERVING: &str = "serving";

fn configmaps() -> Rule {
    Rule::on("", "configmaps", &READ)
}

/// All of them.
pub(crate) fn all() -> Vec<Package> {
    let growing = |version: &str| Tiny::new(GROWING, version).permission(configmaps());
    let wider = growing("3.0.0").permission(Rule::on("", "secrets", &["get"])).cluster_permission(Rule::on(
        "",
        "nodes",
        &["list"],
    ));
    let greedy = Tiny::new(GREEDY, "1.0.0").permission(Rule::on("", "secrets", &["get"])).cluster_permission(Rule::on(
        "",
        "nodes",
        &["list"],
    ));
    vec![
        Package::new(GROWING, vec![growing("1.0.0").bundle(), growing("2.0.0").bundle(), wider.bundle()]),
        Package::new(MODEST, vec![Tiny::new(MODEST, "1.0.0").permission(configmaps()).bundle()]),
        Package::new(GREEDY, vec![greedy.bundle()]),
        Package::new(BORROWER, vec![Tiny::new(BORROWER, "1.0.0").account("strong").bundle()]),
        Package::new(CARRIER, vec![carrier("1.0.0"), carrier("2.0.0")]),
        Package::new(SERVING, vec![serving()]),
    ]
}

fn carrier(version: &str) -> test_olm::Bundle {
    let rbac = "rbac.authorization.k8s.io";
    let name = format!("carried-{}", version.replace('.', "-"));
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    Tiny::new(CARRIER, version)
        .permission(configmaps())
        .bringing(json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": {"name": name}, "rules": rules}))
        .bringing(json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name}, "subjects": [{"kind": "ServiceAccount", "name": CARRIER}]}))
        .bringing(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "carried"}, "data": {"version": version}}))
        .bundle()
}

fn serving() -> test_olm::Bundle {
    let owned = json!([{"name": "things", "group": "things.example.com", "version": "v1", "kind": "Thing",
        "deploymentName": SERVING, "containerPort": 5443, "displayName": "Things", "description": "For tests."}]);
    Tiny::new(SERVING, "1.0.0").permission(configmaps()).with("apiservicedefinitions", json!({"owned": owned})).bundle()
}
