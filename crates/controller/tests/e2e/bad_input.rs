//! Plans that are broken: the status names the step and the reason, and nothing of the plan is written.

use serde_json::{Value, json};

use crate::Test;
use crate::fixtures::{Operator, plan, rule, step, tenant, user};
use crate::world::World;

pub(crate) const TESTS: &[(&str, Test)] =
    &[("bad_input::each_is_named_with_its_step_and_nothing_of_the_plan_is_written", named_and_nothing_written)];

fn named_and_nothing_written(world: &World) {
    let ns = tenant(world, "bad-input");
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = |metadata: Value| {
        step(
            "op.v1",
            &json!({"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": [rule("", "configmaps", &["get"])]}),
        )
    };
    let binding = |subject: Value| {
        step(
            "op.v1",
            &json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "installing"}, "subjects": [subject]}),
        )
    };
    let with = |manifest: &str| {
        let mut broken = role(json!({"name": "r"}));
        broken["resource"]["manifest"] = json!(manifest);
        broken
    };
    let cases = [
        ("no-manifest", with(""), "has no manifest"),
        ("broken", with("{\"kind\": "), "has a broken manifest"),
        ("not-an-object", with("[]"), "has a manifest that is no object"),
        ("no-kind", with("{\"metadata\":{\"name\":\"r\"}}"), "without apiVersion or kind"),
        (
            "unknown-kind",
            step("op.v1", &json!({"apiVersion": "v1", "kind": "Gizmo", "metadata": {"name": "g"}})),
            "a kind that the API server does not serve",
        ),
        (
            "unknown-group",
            step("op.v1", &json!({"apiVersion": "gizmos.example.com/v1", "kind": "Gizmo", "metadata": {"name": "g"}})),
            "a kind that the API server does not serve",
        ),
        (
            "other-namespace",
            role(json!({"name": "r", "namespace": "kube-system"})),
            "brings an object for namespace \"kube-system\"",
        ),
        (
            "other-account",
            binding(json!({"kind": "ServiceAccount", "name": "x", "namespace": "kube-system"})),
            "names ServiceAccount \"x\" of namespace \"kube-system\"",
        ),
        ("other-name", role(json!({"name": "a/../../x"})), "cannot be the name of an object"),
        (
            "workload",
            step("op.v1", &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}})),
            "brings a Deployment",
        ),
        (
            "own-group",
            step(
                "op.v1",
                &json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "o"}}),
            ),
            "does not choose what bounds it",
        ),
        (
            "api-service",
            step(
                "op.v1",
                &json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.apps"}, "spec": {"group": "apps", "version": "v1", "service": {"name": "s", "namespace": "kube-system"}}}),
            ),
            "call a Service of namespace \"kube-system\"",
        ),
    ];
    for (name, broken, words) in cases.into_iter().chain(hostile(world, &ns)) {
        let good =
            |name: &str| step("op.v1", &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}));
        plan(world, &ns, name, &[good("before"), broken, good("after")]);
        let status = world.phase("InstallPlan", &ns, name, "Failed");
        let message = status["message"].as_str().unwrap();
        assert!(message.starts_with("step 2 (") && message.contains(words), "{name}: {message}");
        assert_eq!(status["conditions"][0]["reason"], "InstallComponentFailed");
        assert!(status["plan"].as_array().unwrap().iter().all(|step| step["status"] == "Unknown"), "{name}");
    }
    let written = world.audit().all().filter(|request| request.user() == user(&ns, "installer")).count();
    assert_eq!(written, 0);

    // What the API server finds wrong is named too, and the steps after it are not carried out.
    let invalid = step(
        "op.v1",
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not A Name?".replace([' ', '?'], "")}}),
    );
    let after = step("op.v1", &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "never"}}));
    plan(world, &ns, "invalid", &[invalid, after]);
    let status = world.phase("InstallPlan", &ns, "invalid", "Failed");
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .starts_with("step 1 (ConfigMap \"NotAName\") was refused to ServiceAccount bad-input/installer"),
        "{}",
        status["message"]
    );
    assert!(world.get("ConfigMap", &ns, "never").is_none());
}

/// What somebody would try who wants more than the account holds.
fn hostile(world: &World, ns: &str) -> Vec<(&'static str, Value, &'static str)> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "no-fields", "namespace": ns},
                     "data": {"csv.yaml": "{\"kind\": \"ClusterServiceVersion\", \"spec\": \"x\"}"}});
    world.apply(&[map]);
    let mut unpacked = step("op.v1", &Operator::new(ns, "op.v1").csv());
    let reference = json!({"kind": "ConfigMap", "name": "no-fields", "namespace": ns, "catalogSourceName": "catalog",
                           "catalogSourceNamespace": ns, "replaces": "", "properties": ""});
    unpacked["resource"]["manifest"] = json!(reference.to_string());
    vec![
        (
            "merged-api-service",
            step(
                "op.v1",
                &json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.apps"},
                        "spec": {"version": "v1", "insecureSkipTLSVerify": true, "service": {"name": "s", "namespace": ns}}}),
            ),
            "does not belong to its name \"v1.apps\"",
        ),
        (
            "not-a-definition",
            step(
                "op.v1",
                &json!({"apiVersion": "gizmos.example.com/v1", "kind": "Gizmo", "metadata": {"name": "g"},
                        "spec": {"group": "gizmos.example.com", "names": {"kind": "Gizmo", "plural": "gizmos?x="},
                                 "versions": [{"name": "v1", "served": true}]}}),
            ),
            "a kind that the API server does not serve",
        ),
        (
            "token",
            step(
                "op.v1",
                &json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                        "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "installer"}}}),
            ),
            "a token that never ends",
        ),
        ("other-operator", step("trusted.v1", &Operator::new(ns, "op.v1").csv()), "for another operator"),
        ("no-fields", unpacked, "are no object"),
    ]
}
