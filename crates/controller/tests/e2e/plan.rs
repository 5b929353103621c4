//! InstallPlans that are carried out, wait, and go on.

use std::collections::BTreeSet;
use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::Test;
use crate::audit::CONTROLLER;
use crate::fixtures::{
    Operator, account, grant, grant_everywhere, group, installing, plan, rule, serving, step, tenant, user,
};
use crate::world::World;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("plan::everything_is_written_as_the_account_and_definitions_as_the_controller", who_writes_what),
    ("plan::the_whole_excess_is_told_before_anything_is_written_and_it_goes_on_when_granted", excess),
    ("plan::no_group_several_groups_and_a_missing_account_are_said_and_healed", blocked),
    ("plan::manifests_in_an_unpacked_config_map_plain_and_packed", unpacked),
    ("plan::a_hundred_steps_take_a_hundred_writes_and_at_most_ten_other_requests", hundred_steps),
    ("plan::an_account_that_is_re_created_gets_a_new_token", recreated_account),
    ("plan::a_definition_of_somebody_else_is_not_changed", foreign_definition),
    ("plan::api_services_come_and_change_and_go_with_their_operator", api_services),
    ("plan::permissions_reach_the_targets_as_the_account_and_go_with_the_operator", targets),
    ("plan::a_step_that_is_refused_is_named_and_tried_again_until_it_is_not", refused),
    ("plan::a_plan_that_is_not_approved_waits", not_approved),
    ("plan::of_two_operators_with_one_deployment_the_first_keeps_it", two_operators),
    ("plan::a_time_that_cannot_be_read_does_not_hide_the_account_of_a_group", unreadable_time),
    ("plan::an_account_that_is_taken_away_is_not_used_to_the_end", swapped_account),
    ("plan::what_cannot_be_removed_does_not_keep_the_rest", one_stays),
    ("plan::nothing_is_asked_when_nothing_changes", no_polling),
];

fn installed(status: &Value) -> &Value {
    status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == "Installed").unwrap()
}

fn who_writes_what(world: &World) {
    let ns = tenant(world, "plan-who");
    let operator = Operator::new(&ns, "op.v1");
    plan(world, &ns, "install", &operator.steps());
    let status = world.phase("InstallPlan", &ns, "install", "Complete");
    assert_eq!(installed(&status)["status"], "True");
    assert_eq!(status["attenuatedServiceAccountRef"]["name"], "installer");
    for step in status["plan"].as_array().unwrap() {
        assert_eq!(step["status"], "Created", "{step}");
    }
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");

    let audit = world.audit();
    let mine = user(&ns, "installer");
    let by_account: BTreeSet<String> = audit
        .all()
        .filter(|request| request.user() == mine && request.is_write())
        .map(super::audit::Request::resource)
        .collect();
    let expected = ["clusterserviceversions", "configmaps", "deployments", "rolebindings", "roles", "serviceaccounts"];
    assert_eq!(by_account.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    assert!(
        audit
            .all()
            .filter(|request| request.user() == mine)
            .all(|request| request.is_write() && !request.impersonates())
    );
    let own: BTreeSet<String> = audit
        .in_namespace(&ns)
        .filter(|request| request.user() == CONTROLLER && request.is_write())
        .map(super::audit::Request::resource)
        .collect();
    let expected = [
        "clusterserviceversions/status",
        "events",
        "installplans/status",
        "operatorgroups/status",
        "serviceaccounts/token",
    ];
    assert_eq!(own.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    let definition: Vec<&str> = audit
        .all()
        .filter(|request| {
            request.name() == operator.crd_name()
                && request.is_write()
                && request.resource() == "customresourcedefinitions"
        })
        .map(super::audit::Request::user)
        .collect();
    assert_eq!(definition, [CONTROLLER]);

    let csv = world.get("ClusterServiceVersion", &ns, "op.v1").unwrap();
    let role = world.get("Role", &ns, "op.v1-op").unwrap();
    assert_eq!(role["metadata"]["ownerReferences"][0]["uid"], csv["metadata"]["uid"]);
    assert_eq!(role["metadata"]["labels"]["olm.managed"], "true");
    let deployment = world.get("Deployment", &ns, "op").unwrap();
    assert_eq!(deployment["metadata"]["labels"]["olm.owner"], "op.v1");
    assert_eq!(deployment["metadata"]["ownerReferences"][0]["uid"], csv["metadata"]["uid"]);
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["olm.targetNamespaces"], json!(ns));
    assert!(!world.controller_log().contains("eyJ"), "a token is in the log");
}

fn excess(world: &World) {
    let ns = world.namespace("plan-excess");
    world.apply(&[account(&ns, "installer"), group(&ns, Some("installer"))]);
    world.apply(&grant(&ns, "installer", "some", &json!([rule("", "configmaps", &["create", "patch", "get"])])));
    let mut operator = Operator::new(&ns, "op.v1");
    operator.cluster_rules = json!([rule("", "nodes", &["get", "list"])]);
    plan(world, &ns, "install", &operator.steps());
    let status = world
        .status("InstallPlan", &ns, "install", |status| !status["message"].as_str().unwrap_or_default().is_empty());
    assert_eq!(status["phase"], "Installing");
    let condition = installed(&status);
    assert_eq!(
        (condition["status"].as_str(), condition["reason"].as_str()),
        (Some("False"), Some("InstallComponentFailed"))
    );
    let message = status["message"].as_str().unwrap();
    for line in [
        "asks for more than ServiceAccount plan-excess/installer allows (OperatorGroup plan-excess/og)",
        "cluster-wide\n    apiGroups: [\"\"]  resources: [nodes]  verbs: [get, list]",
        "apiGroups: [\"\"]  resources: [configmaps]  verbs: [list]",
        "carrying out InstallPlan plan-excess/install asks for more",
        "apiGroups: [apps]  resources: [deployments]  verbs: [create, patch]",
        "apiGroups: [rbac.authorization.k8s.io]  resources: [clusterrolebindings, clusterroles]  verbs: [create, patch]",
        "Grant it with: operator-bounds derive",
    ] {
        assert!(message.contains(line), "{line:?} is not in\n{message}");
    }
    world.quiet(&ns);
    assert_eq!(world.audit().all().filter(|request| request.user() == user(&ns, "installer")).count(), 0);
    assert!(world.get("CustomResourceDefinition", "", &operator.crd_name()).is_none());
    let events = world.list("Event", &ns);
    assert!(events.iter().any(|event| event["reason"] == "InstallComponentFailed"), "{events:?}");

    let mut rules = installing();
    rules.as_array_mut().unwrap().push(rule("", "configmaps", &["get", "list"]));
    world.apply(&grant(&ns, "installer", "some", &rules));
    let more = json!([
        rule("", "nodes", &["get", "list"]),
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"], "verbs": ["create", "patch"]},
    ]);
    world.apply(&grant_everywhere(&ns, "installer", "plan-excess-more", &more));
    let status = world.phase("InstallPlan", &ns, "install", "Complete");
    assert_eq!(status["message"].as_str().unwrap_or_default(), "");
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
}

fn blocked(world: &World) {
    let ns = world.namespace("plan-blocked");
    let operator = Operator::new(&ns, "op.v1");
    plan(world, &ns, "install", &operator.steps());
    let says = |words: &str| {
        let status = world.status("InstallPlan", &ns, "install", |status| {
            status["message"].as_str().is_some_and(|message| message.contains(words))
        });
        assert_eq!(installed(&status)["reason"], "InstallCheckFailed");
        assert_eq!(status["phase"], "Installing");
    };
    says("there is no OperatorGroup in namespace plan-blocked");
    world.apply(&[group(&ns, Some("installer"))]);
    says(
        "ServiceAccount plan-blocked/installer, which bounds everything in OperatorGroup plan-blocked/og, does not exist",
    );
    let mut second = group(&ns, None);
    second["metadata"]["name"] = json!("second");
    world.apply(&[second]);
    says("more than one OperatorGroup manages namespace plan-blocked (og, second; all active)");
    world.delete("OperatorGroup", &ns, "second");
    world.apply(&[account(&ns, "installer")]);
    world.apply(&grant(&ns, "installer", "installing", &installing()));
    world.apply(&grant(&ns, "installer", "operators", &operator.rules));
    world.phase("InstallPlan", &ns, "install", "Complete");
}

fn packed(text: &str) -> String {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    STANDARD.encode(encoder.finish().unwrap())
}

fn unpacked(world: &World) {
    let ns = tenant(world, "plan-unpacked");
    let catalog = world.labelled_namespace("plan-unpacked-catalog", "nobody");
    let operator = Operator::new(&ns, "op.v1");
    let mut csv = operator.csv();
    csv["metadata"].as_object_mut().unwrap().remove("namespace");
    let map = |name: &str, namespace: &str, labels: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, "labels": labels},
               "data": {"csv.yaml": packed(&csv.to_string()), "crd.json": operator.crd().to_string(),
                        "service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: op-service}\nspec:\n  ports: [{port: 8443}]\n"}})
    };
    world.apply(&[map("bundle", &catalog, json!({"olm.managed": "true"})), map("forged", &catalog, json!({}))]);
    let steps = |name: &str| -> Vec<Value> {
        let reference = json!({"kind": "ConfigMap", "name": name, "namespace": catalog, "catalogSourceName": "catalog",
                               "catalogSourceNamespace": catalog, "replaces": "", "properties": "{\"properties\":[]}"});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "op-service"}});
        [csv.clone(), operator.crd(), service, account("", "op")]
            .iter()
            .map(|object| {
                let mut step = step("op.v1", object);
                step["resource"]["manifest"] = json!(reference.to_string());
                step
            })
            .collect()
    };
    plan(world, &ns, "forged", &steps("forged"));
    let status = world.phase("InstallPlan", &ns, "forged", "Failed");
    assert!(status["message"].as_str().unwrap().contains("which OLM has not unpacked"), "{}", status["message"]);
    plan(world, &ns, "install", &steps("bundle"));
    world.phase("InstallPlan", &ns, "install", "Complete");
    assert_eq!(world.get("Service", &ns, "op-service").unwrap()["spec"]["ports"][0]["port"], 8443);
    let written = world.get("ClusterServiceVersion", &ns, "op.v1").unwrap();
    assert_eq!(written["metadata"]["annotations"]["operatorframework.io/properties"], "{\"properties\":[]}");
}

fn hundred_steps(world: &World) {
    let ns = tenant(world, "plan-hundred");
    let operator = Operator::new(&ns, "op.v1");
    let mut steps = operator.steps();
    while steps.len() < 100 {
        let name = format!("config-{}", steps.len());
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
        steps.push(step("op.v1", &map));
    }
    plan(world, &ns, "install", &steps);
    world.phase("InstallPlan", &ns, "install", "Complete");
    let audit = world.audit();
    let mine = user(&ns, "installer");
    // Deployments and the phases of the operator come after the plan.
    let of_plan = |request: &&crate::audit::Request<'_>| {
        !matches!(
            request.resource().as_str(),
            "deployments" | "clusterserviceversions/status" | "operatorgroups/status"
        ) && !request.name().starts_with("op.v1.")
            && !request.name().starts_with("og.")
    };
    let requests: Vec<_> = audit
        .all()
        .filter(|request| {
            let definition = request.name() == operator.crd_name() && request.user() == CONTROLLER;
            request.user() == mine || definition || (request.user() == CONTROLLER && request.namespace() == ns)
        })
        .collect();
    let requests: Vec<_> = requests.iter().filter(of_plan).collect();
    let is_step = |request: &&&crate::audit::Request<'_>| {
        request.is_write() && (request.user() == mine || request.resource() == "customresourcedefinitions")
    };
    let written = requests.iter().filter(|request| is_step(request)).count();
    let others: Vec<String> =
        requests.iter().filter(|request| !is_step(request)).map(|request| request.text()).collect();
    println!("a plan of 100 steps: {written} writes of steps, {} other requests", others.len());
    assert_eq!(written, 100);
    assert!(others.len() <= 10, "{others:#?}");
}

fn recreated_account(world: &World) {
    let ns = tenant(world, "plan-recreated");
    plan(world, &ns, "first", &Operator::new(&ns, "op.v1").steps());
    world.phase("InstallPlan", &ns, "first", "Complete");
    let tokens = || {
        let audit = world.audit();
        audit.in_namespace(&ns).filter(|request| request.resource() == "serviceaccounts/token").count()
    };
    assert_eq!(tokens(), 1);
    world.delete("ServiceAccount", &ns, "installer");
    world.status("OperatorGroup", &ns, "og", |status| status["serviceAccountRef"].is_null());
    world.apply(&[account(&ns, "installer")]);
    world.status("OperatorGroup", &ns, "og", |status| status["serviceAccountRef"]["name"] == "installer");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "later"}, "data": {"a": "b"}});
    plan(world, &ns, "second", &[step("op.v1", &map)]);
    world.phase("InstallPlan", &ns, "second", "Complete");
    assert_eq!(tokens(), 2);
    let unauthorized = world.audit().all().filter(|request| request.code() == 401).count();
    assert_eq!(unauthorized, 0);
}

fn foreign_definition(world: &World) {
    let (first, second) = (tenant(world, "plan-crd-a"), tenant(world, "plan-crd-b"));
    let operator = Operator::new(&first, "op.v1");
    plan(world, &first, "install", &operator.steps());
    world.phase("InstallPlan", &first, "install", "Complete");
    let before = world.get("CustomResourceDefinition", "", &operator.crd_name()).unwrap();

    let mut changed = operator.crd();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] = json!({"type": "string"});
    let mut thief = Operator::new(&second, "thief.v1").csv();
    thief["spec"]["customresourcedefinitions"]["owned"][0]["name"] = json!(operator.crd_name());
    plan(world, &second, "steal", &[step("thief.v1", &thief), step("thief.v1", &changed)]);
    let says = |name: &str, words: &str| {
        world.status("InstallPlan", &second, name, |status| {
            status["message"].as_str().is_some_and(|text| text.contains(words))
        });
    };
    says("steal", "belongs to ClusterServiceVersion plan-crd-a/op.v1");
    assert!(world.get("ClusterServiceVersion", &second, "thief.v1").is_none(), "written before it was looked at");
    // To say that it is theirs does not make it so, and does not keep the owner from it.
    world.apply(&[thief]);
    // The same definition, unchanged, is fine: nothing is written.
    plan(world, &second, "same", &[step("thief.v1", &operator.crd())]);
    world.phase("InstallPlan", &second, "same", "Complete");
    let mut olms = world.get("CustomResourceDefinition", "", "operatorgroups.operators.coreos.com").unwrap();
    olms["metadata"] = json!({"name": "operatorgroups.operators.coreos.com"});
    olms["spec"]["names"]["shortNames"] = json!(["mine"]);
    plan(world, &second, "olm", &[step("thief.v1", &olms)]);
    says("olm", "which no operator has brought");
    // Nor by saying so of what was there before any operator.
    let claimed = world.get("ClusterServiceVersion", &second, "thief.v1").unwrap();
    let mut owned = claimed["spec"]["customresourcedefinitions"]["owned"].clone();
    owned
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "operatorgroups.operators.coreos.com", "version": "v1", "kind": "OperatorGroup"}));
    world.patch(
        "ClusterServiceVersion",
        &second,
        "thief.v1",
        &json!({"spec": {"customresourcedefinitions": {"owned": owned}}}),
    );
    plan(world, &second, "olm-claimed", &[step("thief.v1", &olms)]);
    says("olm-claimed", "which no operator has brought");
    // What is new has to be the operator's by its own words.
    let undeclared = Operator { namespace: format!("{second}-more"), ..operator.clone() };
    plan(world, &second, "undeclared", &[step("thief.v1", &undeclared.crd())]);
    says("undeclared", "is not among the spec.customresourcedefinitions.owned");
    assert!(world.get("CustomResourceDefinition", "", &undeclared.crd_name()).is_none());
    let after = world.get("CustomResourceDefinition", "", &operator.crd_name()).unwrap();
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);

    // Its own operator may add to it, and may not take a stored version away.
    let replaces = Some("op.v1".to_owned());
    let next = Operator { name: "op.v2".to_owned(), replaces, ..operator.clone() };
    let mut steps = next.steps();
    let mut renamed = changed.clone();
    renamed["spec"]["versions"][0]["name"] = json!("v2");
    steps[1] = step("op.v2", &renamed);
    plan(world, &first, "lose", &steps);
    world.status("InstallPlan", &first, "lose", |status| {
        status["message"].as_str().is_some_and(|text| text.contains("would take version \"v1\" out of"))
    });
    steps[1] = step("op.v2", &changed);
    plan(world, &first, "add", &steps);
    world.phase("InstallPlan", &first, "add", "Complete");
    // The next version brings the same, and owns it from then on.
    let replaces = Some("op.v2".to_owned());
    let last = Operator { name: "op.v3".to_owned(), replaces, ..operator.clone() };
    let mut steps = last.steps();
    steps[1] = step("op.v3", &changed);
    plan(world, &first, "same", &steps);
    world.phase("InstallPlan", &first, "same", "Complete");
    let after = world.get("CustomResourceDefinition", "", &operator.crd_name()).unwrap();
    assert_eq!(after["metadata"]["labels"]["olm.owner"], "op.v3");
}

fn two_operators(world: &World) {
    let ns = tenant(world, "plan-two");
    let first = Operator::new(&ns, "op.v1");
    plan(world, &ns, "first", &first.steps());
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
    let before = world.get("Deployment", &ns, "op").unwrap();
    let second = Operator::new(&ns, "other.v1");
    plan(world, &ns, "second", &second.steps());
    let status = world.phase("ClusterServiceVersion", &ns, "other.v1", "Failed");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("Deployment plan-two/op belongs to ClusterServiceVersion op.v1"), "{message}");
    world.quiet(&ns);
    let after = world.get("Deployment", &ns, "op").unwrap();
    assert_eq!(before["metadata"]["generation"], after["metadata"]["generation"]);
    assert_eq!(after["metadata"]["labels"]["olm.owner"], "op.v1");
    world.delete("ClusterServiceVersion", &ns, "op.v1");
    world.phase("ClusterServiceVersion", &ns, "other.v1", "Succeeded");
}

fn swapped_account(world: &World) {
    let ns = tenant(world, "plan-swapped");
    world.apply(&[account(&ns, "next")]);
    let map =
        |number: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c-{number}")}});
    let steps: Vec<Value> = (0..400).map(|number| step("op.v1", &map(number))).collect();
    plan(world, &ns, "install", &steps);
    world.until("the first step", || world.get("ConfigMap", &ns, "c-0"));
    world.apply(&[group(&ns, Some("next"))]);
    let status = world.status("InstallPlan", &ns, "install", |status| {
        let is_refused = |text: &str| text.contains("more than ServiceAccount plan-swapped/next allows");
        status["phase"] == "Complete" || status["message"].as_str().is_some_and(is_refused)
    });
    assert_eq!(status["phase"], "Installing", "carried out to the end with the account that was taken away");
    assert!(world.get("ConfigMap", &ns, "c-399").is_none());
}

fn one_stays(world: &World) {
    let ns = tenant(world, "plan-stays");
    let more = json!([
        rule("", "nodes", &["get"]),
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"], "verbs": ["create", "patch"]},
    ]);
    world.apply(&grant_everywhere(&ns, "installer", "plan-stays-more", &more));
    let mut operator = Operator::new(&ns, "op.v1");
    operator.cluster_rules = json!([rule("", "nodes", &["get"])]);
    plan(world, &ns, "install", &operator.steps());
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
    let name = "plan-stays-op.v1";
    // A finalizer would not refuse; a policy does.
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "plan-stays"},
        "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
                "operations": ["DELETE"], "resources": ["clusterrolebindings"], "resourceNames": [name, "plan-stays-probe"]}]},
            "validations": [{"expression": "false", "message": "it stays", "reason": "Invalid"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "plan-stays"},
        "spec": {"policyName": "plan-stays", "validationActions": ["Deny"]},
    });
    let mut probe = world.get("ClusterRoleBinding", "", name).unwrap();
    probe["metadata"] = json!({"name": "plan-stays-probe"});
    world.apply(&[policy, binding]);
    world.until("the policy", || {
        world.apply(&[probe.clone()]);
        world.try_delete("ClusterRoleBinding", "", "plan-stays-probe").is_err().then_some(())
    });
    world.delete("ClusterServiceVersion", &ns, "op.v1");
    world.until("the role is gone", || world.get("ClusterRole", "", name).is_none().then_some(()));
    assert!(world.get("ClusterRoleBinding", "", name).is_some(), "the test refuses nothing");
    world.delete("ValidatingAdmissionPolicyBinding", "", "plan-stays");
    world.until("the binding is gone", || world.get("ClusterRoleBinding", "", name).is_none().then_some(()));
}

fn unreadable_time(world: &World) {
    let ns = tenant(world, "plan-time");
    let condition = json!([{"type": "Odd", "status": "True", "reason": "Odd", "message": "",
                            "lastTransitionTime": "2024-01-01T00:00:00+99:99"}]);
    world.patch_status("OperatorGroup", &ns, "og", &json!({"conditions": condition}));
    world.apply(&[account(&ns, "next"), group(&ns, Some("next"))]);
    world.status("OperatorGroup", &ns, "og", |status| status["serviceAccountRef"]["name"] == "next");
    plan(world, &ns, "install", &Operator::new(&ns, "op.v1").steps());
    world.status("InstallPlan", &ns, "install", |status| {
        status["message"].as_str().is_some_and(|text| text.contains("more than ServiceAccount plan-time/next allows"))
    });
}

fn not_approved(world: &World) {
    let ns = tenant(world, "plan-manual");
    plan(world, &ns, "other", &[]);
    let operator = Operator::new(&ns, "op.v1");
    world.apply(&[json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "install", "namespace": ns},
        "spec": {"approval": "Manual", "approved": false, "clusterServiceVersionNames": ["op.v1"]},
    })]);
    let status = json!({"phase": "RequiresApproval", "catalogSources": [], "plan": operator.steps()});
    world.patch_status("InstallPlan", &ns, "install", &status);
    world.quiet(&ns);
    assert_eq!(world.get("InstallPlan", &ns, "install").unwrap()["status"]["phase"], "RequiresApproval");
    assert!(world.get("ClusterServiceVersion", &ns, "op.v1").is_none());
    world.patch("InstallPlan", &ns, "install", &json!({"spec": {"approved": true}}));
    world.phase("InstallPlan", &ns, "install", "Complete");
}

fn no_polling(world: &World) {
    let ns = world.namespace("plan-quiet");
    world.apply(&[account(&ns, "installer"), group(&ns, Some("installer"))]);
    plan(world, &ns, "install", &Operator::new(&ns, "op.v1").steps());
    world.status("InstallPlan", &ns, "install", |status| {
        status["message"].as_str().is_some_and(|text| text.contains("asks for more"))
    });
    world.quiet(&ns);
    let writes = |world: &World| world.audit().in_namespace(&ns).filter(|request| request.is_write()).count();
    let before = writes(world);
    std::thread::sleep(std::time::Duration::from_secs(6));
    assert_eq!(writes(world), before);
}

fn api_services(world: &World) {
    let (ns, other) = (tenant(world, "plan-serving"), tenant(world, "plan-serving-other"));
    let owned = json!([{"group": "plan-serving.example.org", "version": "v1", "kind": "Gadget", "name": "gadgets",
                        "deploymentName": "op", "containerPort": 8443}]);
    let service = |namespace: &str, priority: u32| {
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.plan-serving.example.org"},
               "spec": {"group": "plan-serving.example.org", "version": "v1", "groupPriorityMinimum": 1000,
                        "versionPriority": priority, "insecureSkipTLSVerify": true,
                        "service": {"name": "op", "namespace": namespace, "port": 443}}})
    };
    let install = |namespace: &str, name: &str, priority: u32| {
        let mut operator = Operator::new(namespace, "op.v1");
        operator.apiservices = owned.clone();
        let mut steps = operator.steps();
        steps.push(step("op.v1", &service(namespace, priority)));
        plan(world, namespace, name, &steps);
    };
    serving(world, &ns);
    serving(world, &other);
    install(&ns, "install", 15);
    world.phase("InstallPlan", &ns, "install", "Complete");
    install(&ns, "again", 16);
    world.phase("InstallPlan", &ns, "again", "Complete");
    let found = world.get("APIService", "", "v1.plan-serving.example.org").unwrap();
    assert_eq!(found["spec"]["versionPriority"], 16);
    install(&other, "steal", 17);
    world.status("InstallPlan", &other, "steal", |status| {
        status["message"].as_str().is_some_and(|text| text.contains("is served by somebody else already"))
    });
    let audit = world.audit();
    let is_it = |request: &crate::audit::Request<'_>| {
        request.resource() == "apiservices" && request.name() == "v1.plan-serving.example.org" && request.is_write()
    };
    let writers: BTreeSet<&str> = audit.all().filter(is_it).map(super::audit::Request::user).collect();
    assert_eq!(writers, BTreeSet::from([CONTROLLER]));
    world.delete("InstallPlan", &other, "steal");
    world.delete("ClusterServiceVersion", &ns, "op.v1");
    world.until("the APIService is gone", || {
        world.get("APIService", "", "v1.plan-serving.example.org").is_none().then_some(())
    });
}

fn targets(world: &World) {
    let (ns, other) = (tenant(world, "plan-targets"), world.labelled_namespace("plan-targets-other", "nobody"));
    let mut both = group(&ns, Some("installer"));
    both["spec"]["targetNamespaces"] = json!([ns, other]);
    world.apply(&[both]);
    let operator = Operator::new(&ns, "op.v1");
    plan(world, &ns, "install", &operator.steps());
    let status = world.status("InstallPlan", &ns, "install", |status| {
        status["message"].as_str().is_some_and(|text| text.contains("in namespace plan-targets-other"))
    });
    let message = status["message"].as_str().unwrap();
    for line in
        ["resources: [configmaps]  verbs: [get, list]", "resources: [rolebindings, roles]  verbs: [create, patch]"]
    {
        assert!(message.contains(line), "{line} is not in {message}");
    }
    let mut rules = installing();
    rules.as_array_mut().unwrap().push(rule("", "configmaps", &["get", "list"]));
    let mut grants = grant(&ns, "installer", "targets", &rules);
    for object in &mut grants {
        object["metadata"]["namespace"] = json!(other);
    }
    world.apply(&grants);
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
    let copies = || -> Vec<String> {
        let roles =
            world.list("Role", &other).into_iter().filter(|role| role["metadata"]["labels"]["olm.owner"] == "op.v1");
        roles.map(|role| role["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let [copy] = copies().try_into().expect("one Role");
    let audit = world.audit();
    let is_it = |request: &crate::audit::Request<'_>| {
        request.name() == copy && request.namespace() == other && request.is_write()
    };
    let writers: BTreeSet<&str> = audit.all().filter(is_it).map(crate::audit::Request::user).collect();
    assert_eq!(writers, BTreeSet::from([user(&ns, "installer").as_str()]));
    let deployment = world.get("Deployment", &ns, "op").unwrap();
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(annotations["olm.targetNamespaces"], "plan-targets,plan-targets-other");

    world.delete("ClusterServiceVersion", &ns, "op.v1");
    world.until("the copies are gone", || copies().is_empty().then_some(()));
}

fn refused(world: &World) {
    let ns = tenant(world, "plan-refused");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "plan-refused"},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
                "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
            },
            "validations": [{"expression": "object.metadata.name != 'unwanted'", "message": "no such thing here", "reason": "Forbidden"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "plan-refused"},
        "spec": {"policyName": "plan-refused", "validationActions": ["Deny"]},
    });
    world.apply(&[policy, binding]);
    let map =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": ns}});
    // The policy takes a moment to be in force.
    world.until("the policy", || {
        let is_refused = world.try_apply(&map("unwanted")).is_err();
        if !is_refused {
            world.delete("ConfigMap", &ns, "unwanted");
        }
        is_refused.then_some(())
    });
    let steps: Vec<Value> = ["first", "unwanted", "last"].iter().map(|name| step("op.v1", &map(name))).collect();
    plan(world, &ns, "install", &steps);
    let status = world
        .status("InstallPlan", &ns, "install", |status| !status["message"].as_str().unwrap_or_default().is_empty());
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("step 2 (ConfigMap \"unwanted\") was refused to ServiceAccount plan-refused/installer"),
        "{message}"
    );
    assert!(message.contains("no such thing here") && !message.contains("Status {"), "{message}");
    assert_eq!(
        (&status["phase"], &installed(&status)["reason"]),
        (&json!("Installing"), &json!("InstallComponentFailed"))
    );
    let statuses: Vec<&str> =
        status["plan"].as_array().unwrap().iter().map(|step| step["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["Created", "NotPresent", "Unknown"]);
    assert!(world.get("ConfigMap", &ns, "last").is_none());
    let first = world.get("ConfigMap", &ns, "first").unwrap();

    world.delete("ValidatingAdmissionPolicyBinding", "", "plan-refused");
    world.phase("InstallPlan", &ns, "install", "Complete");
    let after = world.get("ConfigMap", &ns, "first").unwrap();
    assert_eq!(first["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    let attempts = world
        .audit()
        .all()
        .filter(|request| request.user() == user(&ns, "installer") && request.name() == "unwanted")
        .count();
    println!("a step that was refused by admission was tried {attempts} times until it was let through");
}
