//! A crash or a lost connection between any two steps loses nothing and does nothing twice.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::Test;
use crate::fixtures::{Operator, account, grant, group, installing, plan, rule, step};
use crate::world::{LABEL, World};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("interrupted::killed_between_steps_it_goes_on_and_does_nothing_twice", killed),
    ("interrupted::a_lost_connection_between_steps_loses_nothing", lost_connection),
];

/// A line to the API server that is slow, and can be cut.
struct Line {
    port: u16,
    cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Line {
    fn new(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let line = Line { port: listener.local_addr().unwrap().port(), cut: Arc::default(), open: Arc::default() };
        let (cut, open) = (Arc::clone(&line.cut), Arc::clone(&line.open));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if cut.load(Ordering::Relaxed) {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                open.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                carry(client.try_clone().unwrap(), server.try_clone().unwrap(), Duration::from_millis(40));
                carry(server, client, Duration::ZERO);
            }
        });
        line
    }

    fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    fn cut(&self, is_cut: bool) {
        self.cut.store(is_cut, Ordering::Relaxed);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    std::thread::spawn(move || {
        let mut bytes = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            std::thread::sleep(delay);
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// A namespace of a controller of its own, and a plan of twenty steps for it.
fn prepare(world: &World, name: &str) -> (String, Vec<String>) {
    let ns = world.labelled_namespace(name, name);
    world.apply(&[account(&ns, "installer"), group(&ns, Some("installer"))]);
    world.apply(&grant(&ns, "installer", "installing", &installing()));
    world.apply(&grant(&ns, "installer", "operators", &json!([rule("", "configmaps", &["get", "list"])])));
    let mut steps = Operator::new(&ns, "op.v1").steps();
    let mut names = Vec::new();
    for number in 0..20 {
        let map = format!("step-{number:02}");
        steps.push(step(
            "op.v1",
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map}, "data": {"a": "b"}}),
        ));
        names.push(map);
    }
    plan(world, &ns, "install", &steps);
    (ns, names)
}

fn seen(world: &World, ns: &str) -> BTreeMap<String, Value> {
    let maps = world.list("ConfigMap", ns).into_iter();
    maps.map(|map| (map["metadata"]["name"].as_str().unwrap().to_owned(), map["metadata"].clone())).collect()
}

/// Everything that was there before is what it was: the same object, written once.
fn nothing_twice(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) {
    for (name, old) in before {
        let new = after.get(name).unwrap_or_else(|| panic!("{name} is lost"));
        assert_eq!((&old["uid"], &old["resourceVersion"]), (&new["uid"], &new["resourceVersion"]), "{name}");
    }
}

fn killed(world: &World) {
    let (ns, names) = prepare(world, "killed");
    let line = Line::new(world.server_port());
    let selector = format!("{LABEL}=killed");
    // Killed after the first step, in the middle, and near the end.
    for after in ["step-00", "step-07", "step-15"] {
        let mut controller = world.spawn(&["--label-selector", &selector], &ns, Some(&line.server()));
        world.until(after, || world.get("ConfigMap", &ns, after));
        controller.kill();
        let before = seen(world, &ns);
        assert_ne!(world.get("InstallPlan", &ns, "install").unwrap()["status"]["phase"], "Complete", "killed too late");
        let _next = world.spawn(&["--label-selector", &selector], &ns, Some(&line.server()));
        let done = before.len();
        world.until("one step more", || (seen(world, &ns).len() > done).then_some(()));
        nothing_twice(&before, &seen(world, &ns));
    }
    let before = seen(world, &ns);
    let _last = world.spawn(&["--label-selector", &selector], &ns, None);
    world.phase("InstallPlan", &ns, "install", "Complete");
    let after = seen(world, &ns);
    nothing_twice(&before, &after);
    assert!(names.iter().all(|name| after.contains_key(name)));
    world.phase("ClusterServiceVersion", &ns, "op.v1", "Succeeded");
}

fn lost_connection(world: &World) {
    let (ns, names) = prepare(world, "cut-off");
    let line = Line::new(world.server_port());
    let _controller = world.spawn(&["--label-selector", &format!("{LABEL}=cut-off")], &ns, Some(&line.server()));
    for after in ["step-02", "step-11"] {
        world.until(after, || world.get("ConfigMap", &ns, after));
        line.cut(true);
        let before = seen(world, &ns);
        std::thread::sleep(Duration::from_millis(500));
        line.cut(false);
        let done = before.len();
        world.until("one step more", || (seen(world, &ns).len() > done).then_some(()));
        nothing_twice(&before, &seen(world, &ns));
    }
    world.phase("InstallPlan", &ns, "install", "Complete");
    let after = seen(world, &ns);
    assert!(names.iter().all(|name| after.contains_key(name)));
}
