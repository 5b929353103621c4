//! `make controller-bench`: what the controller takes for 1,000 OperatorGroups and 10,000 RBAC objects. Prints, and asserts
//! nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, reason = "shared with the end-to-end tests")]
#[path = "../tests/e2e/audit.rs"]
mod audit;
#[allow(dead_code, reason = "shared with the end-to-end tests")]
#[path = "../tests/e2e/world.rs"]
mod world;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use world::{Process, World};

const GROUPS: usize = 1_000;
const RBAC: usize = 10_000;

fn main() {
    if std::process::Command::new("go").arg("version").output().is_err() {
        eprintln!("NOT RUN: Go 1.26 is not on PATH, and the control plane is built with it.");
        return;
    }
    let world = World::start_without_controller();
    let began = Instant::now();
    create(&world, (0..GROUPS).map(namespace));
    create(&world, (0..GROUPS).flat_map(group));
    create(&world, (0..RBAC).map(rbac));
    println!("made {GROUPS} OperatorGroups and {RBAC} RBAC objects in {:.0} s", began.elapsed().as_secs_f64());

    let mut first = world.spawn(&["--namespaces", "*"], "operator-bounds", None);
    report("first start, every status to write", &first);
    first.terminate();
    let mut second = world.spawn(&["--namespaces", "*"], "operator-bounds", None);
    report("next start, nothing to write", &second);
    second.terminate();
    world.stop();
}

/// Waits until every group was looked at, and says what that took.
fn report(what: &str, controller: &Process) {
    let began = Instant::now();
    let mut filled = None;
    loop {
        let metrics = metrics(controller.port);
        let value = |name: &str| -> Option<u64> {
            let line = metrics.lines().find(|line| line.starts_with(&format!("operator_bounds_controller_{name} ")))?;
            line.rsplit(' ').next()?.parse().ok()
        };
        if filled.is_none() && value("start_milliseconds").is_some_and(|took| took > 0) {
            filled = Some(Instant::now());
        }
        let looked = value("reconciles_total{kind=\"OperatorGroup\"}").unwrap_or_default();
        let working = value("queue{kind=\"OperatorGroup\"}").unwrap_or_default();
        if let Some(filled) = filled.filter(|_| looked >= GROUPS as u64 && working == 0) {
            let (start, rest) = (value("start_milliseconds").unwrap_or_default(), filled.elapsed().as_secs_f64());
            let (now, peak) = (memory(controller, "VmRSS"), memory(controller, "VmHWM"));
            println!(
                "{what}: caches filled in {:.1} s, everything looked at {rest:.1} s later, {now} MB of memory, {peak} MB at its peak",
                Duration::from_millis(start).as_secs_f64()
            );
            return;
        }
        assert!(began.elapsed().as_secs() < 300, "{}", controller.log());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A figure of `/proc/PID/status`, in MB.
fn memory(controller: &Process, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", controller.id())).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(figure)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or_default() / 1024
}

fn metrics(port: u16) -> String {
    let mut text = String::new();
    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
        let _ = write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let _ = stream.read_to_string(&mut text);
    }
    text
}

fn create(world: &World, objects: impl Iterator<Item = Value>) {
    let client = &world.admin;
    let one = |object: Value| async move {
        let resource = world::resource(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    };
    world.runtime.block_on(futures::stream::iter(objects).for_each_concurrent(16, one));
}

fn name(number: usize) -> String {
    format!("tenant-{:04}", number % GROUPS)
}

fn namespace(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name(number)}})
}

fn group(number: usize) -> [Value; 2] {
    let namespace = name(number);
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": namespace}}),
        json!({
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "og", "namespace": namespace},
            "spec": {"serviceAccountName": "installer", "targetNamespaces": [namespace]},
        }),
    ]
}

/// Roles and RoleBindings, and now and then a ClusterRole.
fn rbac(number: usize) -> Value {
    let api = "rbac.authorization.k8s.io/v1";
    let (namespace, name) = (name(number), format!("role-{}", number / 2));
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps", "secrets", "services", "pods", "events"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["get", "list", "watch", "create", "update", "patch"]},
    ]);
    match number % 10 {
        0 => json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        even if even % 2 == 0 => {
            json!({"apiVersion": api, "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": rules})
        }
        _ => json!({
            "apiVersion": api, "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": namespace}],
        }),
    }
}
