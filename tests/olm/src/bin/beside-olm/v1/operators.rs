//! Packages that are made for a case.

use serde_json::{Value, json};
use test_olm::{Package, Rule, Tiny, cluster_role_binding};

/// Two versions; the second asks for nodes.
pub(crate) const HELLO: &str = "hello";
/// The same under other names: two extensions may not own one definition.
pub(crate) const SERVUS: &str = "servus";
/// Another one, which is there before the policy.
pub(crate) const EARLY: &str = "early";
/// And those of the cases that run at the same time.
pub(crate) const WIDENING: &str = "widening";
pub(crate) const LEAVING: &str = "leaving";
pub(crate) const ESCALATING: &str = "escalating";
pub(crate) const ACCOUNTED: &str = "accounted";
/// Rights come by hooks alone.
pub(crate) const HOOKY: &str = "hooky";
/// A hook that claims to belong to another extension.
pub(crate) const FORGER: &str = "forger";
/// A hook whose name is that of something that is there: Helm would delete it first.
pub(crate) const DELETER: &str = "deleter";

/// All of them.
pub(crate) fn all() -> Vec<Package> {
    let mut all: Vec<Package> =
        [HELLO, SERVUS, EARLY, WIDENING, LEAVING, ESCALATING, ACCOUNTED].into_iter().map(two_versions).collect();
    let binding =
        |name: &str| cluster_role_binding(&format!("{name}-by-hook"), "cluster-admin", &format!("ns-{name}"), name);
    all.push(hooked(
        HOOKY,
        vec![hook(binding(HOOKY), "pre-install"), hook(binding(&format!("{HOOKY}-later")), "post-upgrade")],
    ));
    let mut forged = hook(binding(FORGER), "post-install");
    forged["metadata"]["labels"] = json!({"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": EARLY});
    all.push(hooked(FORGER, vec![forged]));
    let victim = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "victim"}, "rules": []});
    all.push(hooked(DELETER, vec![hook(victim, "pre-install")]));
    all
}

fn two_versions(name: &str) -> Package {
    let group = format!("{name}.example.com");
    let version = |version: &str| {
        Tiny::new(name, version)
            .permission(Rule::on("", "configmaps", &["get", "list", "watch"]))
            .cluster_permission(Rule::on(&group, "*", &["get", "list", "watch"]))
            .defining()
    };
    Package::new(
        name,
        vec![
            version("1.0.0").bundle(),
            version("1.1.0").cluster_permission(Rule::on("", "nodes", &["get", "list"])).bundle(),
        ],
    )
}

fn hooked(name: &str, hooks: Vec<Value>) -> Package {
    let operator = Tiny::new(name, "1.0.0").permission(Rule::on("", "configmaps", &["get"])).defining();
    Package::new(name, vec![hooks.into_iter().fold(operator, Tiny::bringing).bundle()])
}

fn hook(mut object: Value, when: &str) -> Value {
    object["metadata"]["annotations"] = json!({"helm.sh/hook": when});
    object
}
