//! The scenarios of the design documents: seven of the first, three of the second.

use serde_json::{Value, json};

use crate::Test;
use crate::audit::CONTROLLER;
use crate::fixtures::{
    Operator, account, grant, grant_everywhere, group, installing, plan, rule, serving, tenant, user,
};
use crate::world::World;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("scenario_1::a_new_group_with_an_account_installs_and_runs_within_it", new_group_with_account),
    ("scenario_2::a_new_group_without_an_account_installs_as_today", new_group_without_account),
    ("scenario_3::an_existing_group_without_an_account_goes_on_as_today", existing_group_without_account),
    ("scenario_4::a_group_that_gets_an_account_leaves_operators_running_and_bounds_their_upgrades", account_added),
    ("scenario_5::permissions_of_the_account_come_and_go_and_the_account_is_swapped", account_changes),
    ("scenario_6::the_account_is_removed_from_the_group", account_removed),
    ("scenario_7::an_untrusted_operator_is_held_to_less", untrusted),
    ("second_1::a_csv_is_not_greater_than_the_account", csv_not_greater),
    ("second_2::permissions_that_an_earlier_version_owned_are_cleaned_up", cleaned_up),
    ("second_3::resources_of_api_services_are_checked", api_services),
];

/// Lets the controller itself install in a namespace: what OLM has everywhere.
fn own_rights(world: &World, namespace: &str) {
    let rbac = "rbac.authorization.k8s.io/v1";
    world.apply(&[json!({
        "apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "unbounded", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator-bounds-controller", "namespace": "operator-bounds"}],
    })]);
}

fn writer(world: &World, namespace: &str, resource: &str, name: &str) -> Vec<String> {
    let audit = world.audit();
    let of = audit.all().filter(|request| {
        request.resource() == resource
            && request.namespace() == namespace
            && request.name() == name
            && request.is_write()
    });
    let ours = of.filter(|request| request.user() == CONTROLLER || request.user().starts_with(&user(namespace, "")));
    ours.map(|request| request.user().to_owned()).collect()
}

fn versions(world: &World, namespace: &str) -> Vec<Value> {
    let object = |kind: &str, name: &str| world.get(kind, namespace, name).unwrap()["metadata"].clone();
    let role = object("Role", "op.v1-op");
    let account = object("ServiceAccount", "op");
    let deployment = object("Deployment", "op");
    vec![role["resourceVersion"].clone(), account["resourceVersion"].clone(), deployment["generation"].clone()]
}

fn excess(world: &World, kind: &str, namespace: &str, name: &str, words: &str) -> Value {
    world.status(kind, namespace, name, |status| {
        status["message"].as_str().is_some_and(|message| message.contains(words))
    })
}

fn new_group_with_account(world: &World) {
    let ns = tenant(world, "scenario-1");
    plan(world, &ns, "install", &Operator::new(&ns, "op.v1").steps());
    world.phase("InstallPlan", &ns, "install", "Complete");
    let status = world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
    assert_eq!(status["reason"], "InstallSucceeded");
    assert_eq!(writer(world, &ns, "deployments", "op"), [user(&ns, "installer")]);
    assert_eq!(writer(world, &ns, "roles", "op.v1-op"), [user(&ns, "installer")]);

    let mut greedy = Operator::new(&ns, "greedy.v1");
    greedy.rules = json!([rule("", "secrets", &["get"])]);
    plan(world, &ns, "greedy", &greedy.steps());
    let status = excess(world, "InstallPlan", &ns, "greedy", "apiGroups: [\"\"]  resources: [secrets]  verbs: [get]");
    assert_eq!(status["phase"], "Installing");
    assert!(world.get("ClusterServiceVersion", &ns, "greedy.v1").is_none());
}

fn new_group_without_account(world: &World) {
    let ns = world.namespace("scenario-2");
    own_rights(world, &ns);
    world.apply(&[group(&ns, None)]);
    let mut operator = Operator::new(&ns, "op.v1");
    operator.rules = json!([rule("", "secrets", &["*"])]);
    plan(world, &ns, "install", &operator.steps());
    let status = world.phase("InstallPlan", &ns, "install", "Complete");
    assert!(status["attenuatedServiceAccountRef"].is_null());
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
    assert_eq!(writer(world, &ns, "roles", "op.v1-op"), [CONTROLLER]);
    assert_eq!(writer(world, &ns, "deployments", "op"), [CONTROLLER]);
}

fn existing_group_without_account(world: &World) {
    // Installed when the namespace was not the controller's yet, as OLM has left it.
    let ns = world.labelled_namespace("scenario-3", "nobody");
    own_rights(world, &ns);
    let operator = Operator::new(&ns, "op.v1");
    world.apply(&[group(&ns, None)]);
    world.apply(&operator.objects());
    let csv = operator.csv();
    let spec = &csv["spec"]["install"]["spec"]["deployments"][0]["spec"];
    let labels = json!({"olm.owner": "op.v1", "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": ns});
    world.apply(&[json!({"apiVersion": "apps/v1", "kind": "Deployment",
                         "metadata": {"name": "op", "namespace": ns, "labels": labels}, "spec": spec})]);
    let now = json!({"lastUpdated": "2026-01-01T00:00:00Z", "namespaces": [ns]});
    world.patch_status("OperatorGroup", &ns, "og", &now);
    let succeeded = json!({"phase": "Succeeded", "reason": "InstallSucceeded", "message": "install strategy completed with no errors"});
    world.patch_status("ClusterServiceVersion", &ns, "op.v1", &succeeded);
    world.status("Deployment", &ns, "op", |status| status["availableReplicas"] == 1);
    let before = versions(world, &ns);

    world.namespace("scenario-3");
    let mut more = Operator::new(&ns, "more.v1");
    more.rules = json!([rule("", "secrets", &["*"])]);
    let mut steps = more.steps();
    steps.remove(0);
    steps.remove(2);
    plan(world, &ns, "more", &steps);
    world.phase("InstallPlan", &ns, "more", "Complete");
    assert_eq!(writer(world, &ns, "roles", "more.v1-op"), [CONTROLLER]);
    assert_eq!(versions(world, &ns), before);
    assert_eq!(world.get("ClusterServiceVersion", &ns, "op.v1").unwrap()["status"]["phase"], "Succeeded");
}

fn account_added(world: &World) {
    let ns = world.namespace("scenario-4");
    own_rights(world, &ns);
    world.apply(&[group(&ns, None)]);
    let operator = Operator::new(&ns, "op.v1");
    plan(world, &ns, "install", &operator.steps());
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
    world.quiet(&ns);
    let before = versions(world, &ns);

    world.apply(&[account(&ns, "weak"), group(&ns, Some("weak"))]);
    world.status("OperatorGroup", &ns, "og", |status| status["serviceAccountRef"]["name"] == "weak");
    world.quiet(&ns);
    assert_eq!(versions(world, &ns), before);
    assert_eq!(world.get("ClusterServiceVersion", &ns, "op.v1").unwrap()["status"]["phase"], "Succeeded");

    let replaces = Some("op.v1".to_owned());
    let next = Operator { name: "op.v2".to_owned(), replaces, ..operator.clone() };
    plan(world, &ns, "upgrade", &next.steps());
    excess(world, "InstallPlan", &ns, "upgrade", "asks for more than ServiceAccount scenario-4/weak allows");
    assert_eq!(versions(world, &ns), before);
    world.apply(&grant(&ns, "weak", "installing", &installing()));
    world.apply(&grant(&ns, "weak", "operators", &operator.rules));
    world.phase("InstallPlan", &ns, "upgrade", "Complete");
    world.phase("ClusterServiceVersion", &ns, "op.v2", "Succeeded");
    world.until("the old version is gone", || world.get("ClusterServiceVersion", &ns, "op.v1").is_none().then_some(()));
    assert_eq!(writer(world, &ns, "roles", "op.v2-op"), [user(&ns, "weak")]);
}

fn account_changes(world: &World) {
    let ns = tenant(world, "scenario-5");
    plan(world, &ns, "first", &Operator::new(&ns, "op.v1").steps());
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
    world.quiet(&ns);
    let before = versions(world, &ns);

    world.delete("RoleBinding", &ns, "operators");
    world.quiet(&ns);
    assert_eq!(versions(world, &ns), before);
    assert_eq!(world.get("ClusterServiceVersion", &ns, "op.v1").unwrap()["status"]["phase"], "Succeeded");
    let mut other = Operator::new(&ns, "other.v1");
    other.rules = json!([rule("", "configmaps", &["get", "list"])]);
    let steps: Vec<Value> = other.steps().into_iter().skip(2).collect();
    plan(world, &ns, "second", &steps);
    excess(world, "InstallPlan", &ns, "second", "apiGroups: [\"\"]  resources: [configmaps]  verbs: [get, list]");

    // Swapped for an account that holds enough: the plan goes on by itself, as that account.
    world.apply(&[account(&ns, "stronger")]);
    world.apply(&grant(&ns, "stronger", "stronger-installing", &installing()));
    world.apply(&grant(&ns, "stronger", "stronger-operators", &other.rules));
    world.apply(&[group(&ns, Some("stronger"))]);
    let status = world.phase("InstallPlan", &ns, "second", "Complete");
    assert_eq!(status["attenuatedServiceAccountRef"]["name"], "stronger");
    assert_eq!(writer(world, &ns, "roles", "other.v1-op"), [user(&ns, "stronger")]);
}

fn account_removed(world: &World) {
    let ns = world.namespace("scenario-6");
    own_rights(world, &ns);
    world.apply(&[account(&ns, "weak"), group(&ns, Some("weak"))]);
    plan(world, &ns, "install", &Operator::new(&ns, "op.v1").steps());
    excess(world, "InstallPlan", &ns, "install", "asks for more than ServiceAccount scenario-6/weak allows");
    world.patch("OperatorGroup", &ns, "og", &json!({"spec": {"serviceAccountName": null}}));
    let status = world.phase("InstallPlan", &ns, "install", "Complete");
    assert!(status["attenuatedServiceAccountRef"].is_null());
    assert_eq!(writer(world, &ns, "roles", "op.v1-op"), [CONTROLLER]);
    world.status("OperatorGroup", &ns, "og", |status| status["serviceAccountRef"].is_null());
}

fn untrusted(world: &World) {
    let ns = tenant(world, "scenario-7");
    world.apply(&[account(&ns, "little")]);
    world.patch(
        "OperatorGroup",
        &ns,
        "og",
        &json!({"metadata": {"annotations": {"operator-bounds/restrict": "{\"op.*\": \"little\"}"}}}),
    );
    plan(world, &ns, "install", &Operator::new(&ns, "op.v1").steps());
    let status =
        excess(world, "InstallPlan", &ns, "install", "asks for more than ServiceAccount scenario-7/little allows");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("operator-bounds/restrict on OperatorGroup scenario-7/og")
            && !message.contains("installer allows")
    );
    // Another operator of the same group is not held back.
    let mut trusted = Operator::new(&ns, "trusted.v1");
    trusted.rules = json!([rule("", "configmaps", &["get"])]);
    let steps: Vec<Value> = trusted.steps().into_iter().skip(2).collect();
    plan(world, &ns, "trusted", &steps);
    world.phase("InstallPlan", &ns, "trusted", "Complete");
    world.apply(&grant(&ns, "little", "little", &json!([rule("", "configmaps", &["get", "list"])])));
    world.phase("InstallPlan", &ns, "install", "Complete");
}

fn csv_not_greater(world: &World) {
    let ns = tenant(world, "second-1");
    let mut operator = Operator::new(&ns, "op.v1");
    operator.cluster_rules = json!([rule("", "nodes", &["get"])]);
    // Not through a plan: somebody has created it, with everything it needs, past the account.
    world.apply(&operator.objects());
    let status = excess(
        world,
        "ClusterServiceVersion",
        &ns,
        "op.v1",
        "asks for more than ServiceAccount second-1/installer allows",
    );
    assert_eq!((status["phase"].as_str(), status["reason"].as_str()), (Some("Pending"), Some("RequirementsNotMet")));
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("cluster-wide\n    apiGroups: [\"\"]  resources: [nodes]  verbs: [get]")
    );
    world.quiet(&ns);
    assert!(world.get("Deployment", &ns, "op").is_none());
    world.apply(&grant_everywhere(&ns, "installer", "second-1-nodes", &operator.cluster_rules));
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
    assert_eq!(writer(world, &ns, "deployments", "op"), [user(&ns, "installer")]);
}

fn cleaned_up(world: &World) {
    let ns = tenant(world, "second-2");
    let mut old = Operator::new(&ns, "op.v1");
    old.cluster_rules = json!([rule("", "nodes", &["get"])]);
    let rbac = json!([
        rule("", "nodes", &["get"]),
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"], "verbs": ["create", "patch"]},
    ]);
    world.apply(&grant_everywhere(&ns, "installer", "second-2-more", &rbac));
    plan(world, &ns, "install", &old.steps());
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
    assert!(world.get("ClusterRole", "", "second-2-op.v1").is_some());
    let mut new = Operator::new(&ns, "op.v2");
    new.replaces = Some("op.v1".to_owned());
    plan(world, &ns, "upgrade", &new.steps());
    world.phase("ClusterServiceVersion", &ns, "op.v2", "Succeeded");
    for (kind, namespace, name) in [
        ("ClusterServiceVersion", ns.as_str(), "op.v1"),
        ("Role", ns.as_str(), "op.v1-op"),
        ("RoleBinding", ns.as_str(), "op.v1-op"),
        ("ClusterRole", "", "second-2-op.v1"),
        ("ClusterRoleBinding", "", "second-2-op.v1"),
    ] {
        world.until(&format!("{kind} {name} is gone"), || world.get(kind, namespace, name).is_none().then_some(()));
    }
    world.quiet(&ns);
    for (kind, name) in
        [("ServiceAccount", "op"), ("Role", "op.v2-op"), ("Deployment", "op"), ("ConfigMap", "op-config")]
    {
        assert!(world.get(kind, &ns, name).is_some(), "{kind} {name}");
    }
    // And when the operator goes altogether.
    world.delete("ClusterServiceVersion", &ns, "op.v2");
    world.until("its Role is gone", || world.get("Role", &ns, "op.v2-op").is_none().then_some(()));
}

fn api_services(world: &World) {
    let ns = tenant(world, "second-3");
    let mut operator = Operator::new(&ns, "op.v1");
    operator.apiservices = json!([{"group": "second-3.example.org", "version": "v1", "kind": "Gadget", "name": "gadgets",
                                   "deploymentName": "op", "containerPort": 8443}]);
    plan(world, &ns, "install", &operator.steps());
    let status = excess(
        world,
        "InstallPlan",
        &ns,
        "install",
        "OLM binds an operator with API services or webhooks to ClusterRole system:auth-delegator",
    );
    let message = status["message"].as_str().unwrap();
    for words in ["resources: [tokenreviews]", "in namespace kube-system", "resourceNames: [op-service-cert]"] {
        assert!(message.contains(words), "{words} is not in {message}");
    }
    serving(world, &ns);
    world.phase("InstallPlan", &ns, "install", "Complete");
    // What the operator would serve has no certificate here, and the status says so.
    excess(world, "ClusterServiceVersion", &ns, "op.v1", "needs a serving certificate");
}
