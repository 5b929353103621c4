//! What the policy costs in the real policy-server, beside one that accepts everything in the same server. Asserts nothing.

use std::time::Duration;

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use operator_bounds::policy::MODULE;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_kubewarden::{Client, Module, PolicyServer, Start, admit, test_policy};
use test_plane::Plane;
use test_plane::api::Api;
use tokio::time::Instant;

use crate::report::Report;
use crate::support::{operators, shared};
use crate::world::{account, binding, cluster_role, operator_group, user};

/// As many real operators, by name.
const OPERATORS: usize = 40;
/// Each is asked about as often.
const ROUNDS: usize = 5;
/// How many requests are under way where the throughput is measured.
const AT_ONCE: usize = 8;
/// RoleBindings in the cluster, and the namespaces that they are in.
const BINDINGS: [usize; 3] = [20, 5_000, 20_000];
const NAMESPACES: usize = 200;
/// Objects that are created at the same time.
const WRITERS: usize = 32;
const NAMESPACE: &str = "measured";
const OURS: &str = "operator-bounds";
const BASELINE: &str = "accepts-everything";

/// Prints a table for `docs/performance.md`.
pub(crate) async fn run(report: &mut Report) -> anyhow::Result<()> {
    let Some(corpus) = shared("corpus", "OPERATOR_BOUNDS_CORPUS") else { return Ok(()) };
    let program = test_parts::find("policy-server")?.context("there is no policy-server to measure")?;
    let requests: Vec<Value> =
        operators::csvs(&corpus).iter().take(OPERATORS).map(request).collect::<Result<_, _>>()?;
    let plane = Plane::start(&["--olm-v1=none"])?;
    let api = Api::connect(&plane.kubeconfig()).await?;
    let directory = TempDir::new()?;
    let kubeconfig = admit(&plane, &api, directory.path()).await?;
    furnish(&api).await?;
    let module = Module::publish().await?;
    let policies = policies(&module, directory.path())?;
    let start = Start {
        program: &program,
        kubeconfig: &kubeconfig,
        policies: &policies,
        module: &module,
        directory: directory.path(),
        seconds: 20,
    };
    let mut there = 0;
    report.say("| RoleBindings | policy | load | memory | watches | first | p50 | p99 | verdicts/s |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|".to_owned());
    for bindings in BINDINGS {
        add_bindings(&api, there, bindings).await?;
        there = bindings;
        // A new server: its watches begin with what is there.
        let before = watches(&api).await?;
        let server = PolicyServer::start(&start)?;
        let client = Client::of(server.endpoint()).await?;
        for policy in [BASELINE, OURS] {
            let figures = measure(&client, policy, &requests).await?;
            let (_, most) = server.process().memory()?;
            let watching = watches(&api).await?.saturating_sub(before);
            let load = server.loading().as_secs_f64();
            report.say(format!("| {bindings} | {policy} | {load:.1} s | {most} MiB | {watching} | {figures} |"));
        }
    }
    Ok(())
}

/// A group whose account may do everything: every look-up is made, and every operator admitted.
async fn furnish(api: &Api) -> anyhow::Result<()> {
    api.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})).await?;
    api.create(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": NAMESPACE}})).await?;
    let everything =
        json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
    api.create(&cluster_role("measured", &everything)).await?;
    api.create(&binding(None, "measured", ("ClusterRole", "measured"), &account(NAMESPACE, "installer"))).await?;
    api.create(&operator_group(NAMESPACE, Some("installer"))).await.map(drop)
}

fn policies(module: &Module, directory: &std::path::Path) -> anyhow::Result<Value> {
    let metadata = policy_module::read_metadata(MODULE)?.context("the policy is not annotated")?;
    Ok(json!({
        BASELINE: {"module": test_policy("baseline-policy", directory)?},
        OURS: {"module": module.reference(), "settings": {}, "hostCapabilities": metadata.host_capabilities,
            "contextAwareResources": metadata.context_aware_resources},
    }))
}

/// An administrator creates the operator.
fn request(csv: &Value) -> anyhow::Result<Value> {
    let mut object = csv.clone();
    object["apiVersion"] = json!("operators.coreos.com/v1alpha1");
    object["metadata"]["namespace"] = json!(NAMESPACE);
    let kind = json!({"group": "operators.coreos.com", "version": "v1alpha1", "kind": "ClusterServiceVersion"});
    let resource =
        json!({"group": "operators.coreos.com", "version": "v1alpha1", "resource": "clusterserviceversions"});
    let name = object["metadata"]["name"].as_str().context("a ClusterServiceVersion without a name")?.to_owned();
    Ok(
        json!({"uid": name, "kind": kind, "resource": resource, "name": name, "namespace": NAMESPACE, "operation": "CREATE",
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]}, "object": object}),
    )
}

async fn add_bindings(api: &Api, there: usize, wanted: usize) -> anyhow::Result<()> {
    let namespaces = (there..wanted).take(NAMESPACES).map(|number| format!("tenant-{}", number % NAMESPACES));
    for name in namespaces {
        api.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await?;
    }
    let created = stream::iter(there..wanted).map(|number| async move {
        let namespace = format!("tenant-{}", number % NAMESPACES);
        let object = binding(
            Some(&namespace),
            &format!("binding-{number}"),
            ("ClusterRole", "view"),
            &user(&format!("user-{number}")),
        );
        api.create(&object).await.map(drop)
    });
    created.buffer_unordered(WRITERS).try_collect().await
}

/// The watches that are open, whoever has opened them.
async fn watches(api: &Api) -> anyhow::Result<u64> {
    let metrics = api.send(Method::GET, "/metrics", None).await?.ok(&"/metrics")?.body;
    let lines = metrics.as_str().unwrap_or_default().lines();
    let open =
        lines.filter(|line| line.starts_with("apiserver_longrunning_requests{") && line.contains("verb=\"WATCH\""));
    Ok(open.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

/// First answer, median, 99th percentile one after the other, and verdicts per second with several under way.
async fn measure(client: &Client, policy: &str, requests: &[Value]) -> anyhow::Result<String> {
    let ask = async |request: &Value| -> anyhow::Result<Duration> {
        let began = Instant::now();
        let answer = client.validate(policy, request).await?;
        anyhow::ensure!(
            answer["allowed"] == true,
            "{policy} refuses {}: {}",
            request["name"],
            answer["status"]["message"]
        );
        Ok(began.elapsed())
    };
    let first = ask(requests.first().context("no operator")?).await?;
    let mut times = Vec::new();
    for request in requests.iter().cycle().take(requests.len() * ROUNDS) {
        times.push(ask(request).await?);
    }
    times.sort();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)];
    let began = Instant::now();
    let many = stream::iter(requests.iter().cycle().take(requests.len() * ROUNDS)).map(ask);
    let done: Vec<Duration> = many.buffer_unordered(AT_ONCE).try_collect().await?;
    let per_second = done.len() as u128 * 1_000_000 / began.elapsed().as_micros().max(1);
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    Ok(format!("{} | {} | {} | {per_second}", milliseconds(first), milliseconds(at(50)), milliseconds(at(99))))
}
