//! From one version to the next.

use serde_json::json;

use crate::Test;
use crate::fixtures::{Operator, plan, rule, tenant};
use crate::world::World;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("upgrade::the_old_version_stays_until_the_new_one_works", old_stays_until_new_works),
    ("upgrade::a_csv_that_is_edited_is_judged_again_and_its_deployment_runs_on", edited),
];

fn old_stays_until_new_works(world: &World) {
    let ns = tenant(world, "upgrade-hold");
    plan(world, &ns, "install", &Operator::new(&ns, "op.v1").steps());
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
    let mut next = Operator::new(&ns, "op.v2");
    next.replaces = Some("op.v1".to_owned());
    next.hold = true;
    plan(world, &ns, "upgrade", &next.steps());
    let status = world.status("ClusterServiceVersion", &ns, "op.v2", |status| status["reason"] == "InstallWaiting");
    assert_eq!(status["phase"], "Installing");
    let old = world.status("ClusterServiceVersion", &ns, "op.v1", |status| status["phase"] == "Replacing");
    assert_eq!(old["reason"], "BeingReplaced");
    world.quiet(&ns);
    assert!(world.get("Role", &ns, "op.v1-op").is_some());
    assert_eq!(world.get("Deployment", &ns, "op").unwrap()["status"]["availableReplicas"], 1);

    for pod in world.list("Pod", &ns) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        world.patch_status("Pod", &ns, name, &ready);
    }
    world.phase("ClusterServiceVersion", &ns, "op.v2", "Succeeded");
    world.until("the old version is gone", || world.get("ClusterServiceVersion", &ns, "op.v1").is_none().then_some(()));
}

fn edited(world: &World) {
    let ns = tenant(world, "upgrade-edited");
    let operator = Operator::new(&ns, "op.v1");
    plan(world, &ns, "install", &operator.steps());
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
    let before = world.get("Deployment", &ns, "op").unwrap();
    let mut strategy = operator.csv()["spec"]["install"]["spec"].clone();
    strategy["clusterPermissions"] = json!([{"serviceAccountName": "op", "rules": [rule("", "nodes", &["get"])]}]);
    world.patch("ClusterServiceVersion", &ns, "op.v1", &json!({"spec": {"install": {"spec": strategy}}}));
    let status = world.status("ClusterServiceVersion", &ns, "op.v1", |status| {
        status["message"]
            .as_str()
            .is_some_and(|text| text.contains("asks for more than ServiceAccount upgrade-edited/installer"))
    });
    assert_eq!(status["phase"], "Pending");
    let after = world.get("Deployment", &ns, "op").unwrap();
    assert_eq!(before["metadata"]["generation"], after["metadata"]["generation"]);
    strategy["clusterPermissions"] = json!([]);
    strategy["deployments"][0]["spec"]["replicas"] = json!(2);
    world.patch("ClusterServiceVersion", &ns, "op.v1", &json!({"spec": {"install": {"spec": strategy}}}));
    world.status("Deployment", &ns, "op", |status| status["availableReplicas"] == 2);
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
}
