//! OperatorGroups.

use serde_json::{Value, json};

use crate::Test;
use crate::fixtures::{account, group};
use crate::world::World;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("group::an_account_that_appears_is_found_and_one_that_goes_is_missed", account_comes_and_goes),
    ("group::a_second_group_is_said_on_both_and_forgotten_when_it_goes", two_groups),
    ("group::targets_follow_selectors_and_namespaces", targets),
    ("group::a_namespace_that_is_not_the_controllers_is_left_alone", out_of_scope),
];

fn condition<'s>(status: &'s Value, name: &str) -> Option<&'s Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == name)
}

fn account_comes_and_goes(world: &World) {
    let ns = world.namespace("group-account");
    world.apply(&[group(&ns, Some("installer"))]);
    let status =
        world.status("OperatorGroup", &ns, "og", |status| condition(status, "OperatorGroupServiceAccount").is_some());
    let missing = condition(&status, "OperatorGroupServiceAccount").unwrap();
    assert_eq!(missing["reason"], "ServiceAccountNotFound");
    assert!(
        missing["message"]
            .as_str()
            .unwrap()
            .contains("kubectl create serviceaccount --namespace group-account installer")
    );
    assert_eq!(status["namespaces"], json!([ns]));

    world.apply(&[account(&ns, "installer")]);
    let status = world.status("OperatorGroup", &ns, "og", |status| status["serviceAccountRef"]["name"] == "installer");
    assert!(condition(&status, "OperatorGroupServiceAccount").is_none(), "{status}");
    let uid = world.get("ServiceAccount", &ns, "installer").unwrap()["metadata"]["uid"].clone();
    assert_eq!(status["serviceAccountRef"]["uid"], uid);

    world.delete("ServiceAccount", &ns, "installer");
    let status = world.status("OperatorGroup", &ns, "og", |status| status["serviceAccountRef"].is_null());
    assert!(condition(&status, "OperatorGroupServiceAccount").is_some());
}

fn two_groups(world: &World) {
    let ns = world.namespace("group-two");
    let mut second = group(&ns, None);
    second["metadata"]["name"] = json!("second");
    world.apply(&[group(&ns, None), second]);
    for name in ["og", "second"] {
        let status =
            world.status("OperatorGroup", &ns, name, |status| condition(status, "MultipleOperatorGroup").is_some());
        assert_eq!(condition(&status, "MultipleOperatorGroup").unwrap()["reason"], "MultipleOperatorGroupsFound");
    }
    world.delete("OperatorGroup", &ns, "second");
    world.status("OperatorGroup", &ns, "og", |status| condition(status, "MultipleOperatorGroup").is_none());
}

fn targets(world: &World) {
    let ns = world.namespace("group-targets");
    let mut selecting = group(&ns, None);
    selecting["spec"] = json!({"selector": {"matchLabels": {"e2e/target": "yes"}}});
    world.apply(&[selecting]);
    let label = |name: &str, value: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"e2e/target": value}}});
    world.apply(&[label("group-target-b", "yes"), label("group-target-a", "yes"), label("group-target-c", "no")]);
    let both = json!(["group-target-a", "group-target-b"]);
    world.status("OperatorGroup", &ns, "og", |status| status["namespaces"] == both);
    world.apply(&[label("group-target-b", "no")]);
    world.status("OperatorGroup", &ns, "og", |status| status["namespaces"] == json!(["group-target-a"]));
    world.patch("OperatorGroup", &ns, "og", &json!({"spec": {"selector": null}}));
    world.status("OperatorGroup", &ns, "og", |status| status["namespaces"] == json!([""]));
}

fn out_of_scope(world: &World) {
    let ns = world.labelled_namespace("group-elsewhere", "nobody");
    world.apply(&[account(&ns, "installer"), group(&ns, Some("installer"))]);
    // Something that is the controller's, made later and seen to: by then it has seen this group too.
    let other = world.namespace("group-elsewhere-after");
    world.apply(&[group(&other, None)]);
    world.status("OperatorGroup", &other, "og", |status| status["namespaces"] == json!([other]));
    assert!(world.get("OperatorGroup", &ns, "og").unwrap()["status"].is_null());
    assert_eq!(world.audit().in_namespace(&ns).count(), 0);
}
