//! One leader, probes, metrics, stopping, and exactly the rights that are needed.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

use controller::rbac::{CLUSTER, OWN, Right};
use serde_json::json;

use crate::Test;
use crate::audit::CONTROLLER;
use crate::fixtures::{group, tenant};
use crate::world::{LABEL, World};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("operations::the_manifest_is_what_the_program_prints", manifest),
    ("operations::probes_and_metrics_are_served", probes),
    ("operations::another_replica_takes_over_when_the_leader_stops_and_when_it_dies", replicas),
];

/// After everything else.
pub(crate) const LAST: &[(&str, Test)] = &[
    ("operations::nothing_is_asked_when_nothing_changes", silence),
    ("operations::it_stops_when_it_is_told_to", stops),
    ("operations::every_right_was_used_and_no_other_was_needed", rights),
];

fn manifest(_: &World) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/controller/rbac.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    assert_eq!(
        text,
        controller::rbac::manifest("operator-bounds"),
        "write it anew: operator-bounds-controller rbac > {file}"
    );
}

fn http(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn probes(world: &World) {
    tenant(world, "operations-probes");
    let get = |path: &str| http(world.port(), path);
    assert!(get("/healthz").starts_with("HTTP/1.1 200"));
    assert!(get("/readyz").starts_with("HTTP/1.1 200"));
    assert!(get("/secret").starts_with("HTTP/1.1 404"));
    let metrics = get("/metrics");
    for name in [
        "reconciles_total{kind=\"OperatorGroup\"}",
        "queue{kind=",
        "leader 1",
        "tokens_issued_total",
        "start_milliseconds",
    ] {
        assert!(metrics.contains(&format!("operator_bounds_controller_{name}")), "{name} is not in {metrics}");
    }
    let log = world.controller_log();
    let line: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).expect("JSON logs");
    assert_eq!(line["level"], "INFO");
}

fn replicas(world: &World) {
    let ns = world.labelled_namespace("replicas", "replicas");
    let selector = format!("{LABEL}=replicas");
    let start = |name: &str| world.spawn(&["--label-selector", &selector, "--identity", name], &ns, None);
    let holds = |name: &str| {
        world.until(&format!("{name} leads"), || {
            let lease = world.get("Lease", &ns, "operator-bounds-controller")?;
            (lease["spec"]["holderIdentity"] == name).then_some(())
        });
    };
    let mut first = start("first");
    holds("first");
    let mut second = start("second");
    assert!(first.terminate(), "{}", first.log());
    holds("second");
    let third = start("third");
    second.kill();
    holds("third");
    world.apply(&[group(&ns, None)]);
    world.status("OperatorGroup", &ns, "og", |status| status["namespaces"] == json!([ns]));
    assert!(third.log().contains("leading"));
}

fn silence(world: &World) {
    let asked = || {
        let audit = world.audit();
        let ours = audit.all().filter(|request| request.user() == CONTROLLER || request.user().ends_with(":installer"));
        // Watches are renewed now and then, and the Lease is.
        ours.filter(|request| request.verb() != "watch" && request.resource() != "leases")
            .map(super::audit::Request::text)
            .collect::<Vec<_>>()
    };
    // Backed-off retries of plans that stay broken end at five minutes: those are not what is meant here.
    let waiting: Vec<String> = world
        .list("InstallPlan", "")
        .iter()
        .filter(|plan| {
            plan["status"]["message"].as_str().is_some_and(|text| text.starts_with("step "))
                && plan["status"]["phase"] == "Installing"
        })
        .map(|plan| plan["metadata"]["namespace"].as_str().unwrap().to_owned())
        .collect();
    let before = asked().len();
    std::thread::sleep(std::time::Duration::from_secs(10));
    let new: Vec<String> = asked().split_off(before);
    let unexplained: Vec<&String> =
        new.iter().filter(|text| !waiting.iter().any(|namespace| text.contains(namespace.as_str()))).collect();
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}

fn stops(world: &World) {
    let (stopped_well, log) = world.stop_controller();
    assert!(stopped_well, "{log}");
    assert!(log.contains("stopping: what is being done is finished first"));
}

/// What the API server saw against the one list: with any one verb less something would have been refused, and with the
/// list as it is nothing was.
fn rights(world: &World) {
    let audit = world.audit();
    // Namespaces in which a test has let the controller do more, and what only those let it do.
    let unbounded = ["scenario-2", "scenario-3", "scenario-4", "scenario-6"];
    let mut used = BTreeSet::new();
    let mut refused = BTreeSet::new();
    for request in audit.all().filter(|request| request.user() == CONTROLLER && !request.resource().is_empty()) {
        let right = (request.group().to_owned(), request.resource(), request.verb().to_owned());
        if request.code() == 403 {
            refused.insert(request.text());
        }
        if !unbounded.contains(&request.namespace()) {
            used.insert(right);
        }
    }
    assert!(refused.is_empty(), "refused: {refused:#?}");
    let every = |right: &Right| {
        let (group, verbs) = (right.group, right.verbs);
        let resources = right.resources.iter();
        resources
            .flat_map(move |resource| {
                verbs.iter().map(move |verb| (group.to_owned(), (*resource).to_owned(), (*verb).to_owned()))
            })
            .collect::<Vec<_>>()
    };
    let granted: BTreeSet<_> = CLUSTER.iter().chain(OWN).flat_map(every).collect();
    let unused: Vec<_> = granted.difference(&used).collect();
    let needed: Vec<_> = used.difference(&granted).collect();
    assert!(unused.is_empty(), "granted and never used: {unused:#?}");
    assert!(needed.is_empty(), "used and not granted: {needed:#?}");
}
