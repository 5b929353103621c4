//! From one version to the next.

use serde_json::json;

use crate::Test;
use crate::fixtures::{Operator, plan, tenant};
use crate::world::World;

pub(crate) const TESTS: &[(&str, Test)] =
    &[("upgrade::the_old_version_stays_until_the_new_one_works", old_stays_until_new_works)];

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
