//! Prints the figures that `docs` and the release notes quote. It asserts nothing: times belong to a machine.
//!
//! What is compared is measured in the same run, in turns, so that a busy machine is busy for both.

mod check;
mod release;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bounds::rbac::{Index, Rule};
use operator_bounds::engine::{Engine, Limits};
use operator_bounds::host::{Host, Request};
use operator_bounds::manifests::Manifests;
use operator_bounds::policy::{MODULE, Policy};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use test_support::operators::{Shape, asked, create, csvs, objects};
use test_support::{Oracle, cluster, items, lines, raw, root, shared, text, unpack};

fn main() -> Result<()> {
    let baseline = test_parts::policy("baseline-policy")?;
    sizes(&baseline)?;
    release::reach(&baseline)?;
    if let Some(corpus) = shared("corpus", "OPERATOR_BOUNDS_CORPUS") {
        let operators = csvs(&corpus);
        against_the_baseline(&operators, &baseline)?;
        coverage(&corpus)?;
        many_bindings(&operators)?;
        check::reach(&operators)?;
    }
    if let Some(recordings) = shared("recordings", "OPERATOR_BOUNDS_RECORDINGS") {
        recorded(&recordings)?;
    }
    Ok(())
}

fn sizes(baseline: &[u8]) -> Result<()> {
    let plain = root().join("target/policy/wasm32-wasip1/wasm/operator_bounds_policy.wasm");
    let size = fs::metadata(&plain).with_context(|| plain.display().to_string())?.len();
    println!(
        "size: policy.wasm {size} bytes (at most 620,000 wanted), annotated {}; accept-everything baseline {}",
        MODULE.len(),
        baseline.len()
    );
    Ok(())
}

/// A module that is ready to run, and what it is called with.
struct Subject<'s> {
    engine: &'s Engine,
    payload: &'s [u8],
    cluster: &'s Arc<Manifests>,
    policy: &'s Policy,
}

impl Subject<'_> {
    fn host(&self) -> Arc<Host> {
        Arc::new(self.policy.host(self.cluster))
    }

    fn run(&self) -> Result<Duration> {
        let host = self.host();
        let start = Instant::now();
        let answer = self.engine.call(&host, "validate", self.payload)?;
        let time = start.elapsed();
        let answer: Value = serde_json::from_slice(&answer)?;
        ensure!(answer["accepted"] == true, "not admitted: {answer}");
        Ok(time)
    }

    /// The look-ups of one verdict, the bytes they bring, and the time this host takes to answer them.
    fn lookups(&self) -> Result<Lookups> {
        let host = self.host();
        self.engine.call(&host, "validate", self.payload)?;
        let mut lookups = Lookups::default();
        let exchanges = host.exchanges();
        for exchange in &exchanges {
            lookups.count += 1;
            lookups.bytes += exchange.response.as_ref().map_or(0, Vec::len);
            let (operation, payload) = match &exchange.request {
                Request::List(list) if list.namespace.is_none() => ("list_resources_all", serde_json::to_vec(list)?),
                Request::List(list) => ("list_resources_by_namespace", serde_json::to_vec(list)?),
                Request::Get(get) => ("get_resource", serde_json::to_vec(get)?),
                Request::CanI(_) => continue,
            };
            let times = (0..5).map(|_| {
                let start = Instant::now();
                // An object that is not there is an answer too.
                let _ = host.call("kubewarden", "kubernetes", operation, &payload);
                start.elapsed()
            });
            lookups.time += median(times.collect());
        }
        Ok(lookups)
    }
}

#[derive(Default)]
struct Lookups {
    count: usize,
    bytes: usize,
    time: Duration,
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[allow(clippy::cast_precision_loss)]
fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_nanos() as f64 / other.as_nanos() as f64
}

fn payload(request: &RawValue) -> Vec<u8> {
    json!({"request": request, "settings": {}}).to_string().into_bytes()
}

/// Real operators, admitted with exactly enough, against a policy that reads the same request and accepts it.
fn against_the_baseline(operators: &[Value], baseline: &[u8]) -> Result<()> {
    let policy = Policy::native()?;
    let ours = Engine::new(MODULE, Limits::default())?;
    let theirs = Engine::new(baseline, Limits::default())?;
    let atoms = |csv: &Value| asked(csv, Shape::Own).values().flatten().map(|rule| rule.atoms().len()).sum::<usize>();
    let largest = operators.iter().max_by_key(|csv| csv.to_string().len());
    let most = operators.iter().max_by_key(|csv| atoms(csv));
    for (what, csv) in [("largest", largest), ("most permissions", most)] {
        let csv = csv.context("the corpus is empty")?;
        let name = text(csv, "/metadata/name");
        let payload = payload(&create(csv));
        let cluster = cluster(&objects(&asked(csv, Shape::Own), Shape::Own, name));
        let [ours, theirs] =
            [&ours, &theirs].map(|engine| Subject { engine, payload: &payload, cluster: &cluster, policy: &policy });
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..101 {
            times[0].push(ours.run()?);
            times[1].push(theirs.run()?);
        }
        let [ours_time, theirs_time] = times.map(median);
        let lookups = ours.lookups()?;
        println!(
            "{what}: {name}, {} bytes, {} single permissions: {ours_time:.2?} in wasm, of which {:.2?} in {} look-ups; \
             baseline {theirs_time:.2?}: ratio {:.2}{}",
            payload.len(),
            atoms(csv),
            lookups.time,
            lookups.count,
            ratio(ours_time, theirs_time),
            if what == "largest" { " (at most 1.5 wanted)" } else { "" }
        );
    }
    Ok(())
}

#[derive(Deserialize)]
struct OracleTiming {
    pairs: usize,
    median_ns: u64,
}

/// What is held, and what is asked for. Go writes an empty list as `null`.
#[derive(Deserialize)]
struct Pair<'p> {
    #[serde(borrow)]
    owner: Option<Vec<Rule<'p>>>,
    #[serde(borrow)]
    requested: Option<Vec<Rule<'p>>>,
}

/// The time that the coverage of all pairs takes.
fn judged(pairs: &[Pair<'_>]) -> Duration {
    let start = Instant::now();
    for pair in pairs {
        let requested = pair.requested.as_deref().unwrap_or_default();
        std::hint::black_box(Index::new(pair.owner.as_deref().unwrap_or_default()).uncovered(requested));
    }
    start.elapsed()
}

/// Coverage of the corpus' pairs, reading and writing left out on both sides.
fn coverage(corpus: &Path) -> Result<()> {
    let Some(oracle) = Oracle::build() else { return Ok(()) };
    let lines = lines(&corpus.join("covers-pairs.jsonl.gz"));
    let pairs: Vec<Pair<'_>> = lines.iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>()?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        let ours = median((0..5).map(|_| judged(&pairs)).collect());
        let output = oracle.command().args(["bench", "--rounds", "5", "--corpus"]).arg(corpus).output()?;
        ensure!(output.status.success(), "oracle bench: {}", String::from_utf8_lossy(&output.stderr));
        let theirs: OracleTiming = serde_json::from_slice(&output.stdout)?;
        ensure!(pairs.len() == theirs.pairs, "{} pairs here, {} there", pairs.len(), theirs.pairs);
        times[0].push(ours);
        times[1].push(Duration::from_nanos(theirs.median_ns));
    }
    let [ours, theirs] = times.map(median);
    println!(
        "coverage: the corpus' pairs in {ours:.2?}, Kubernetes' Go code {theirs:.2?}: {:.1} times faster (10 wanted)",
        ratio(theirs, ours)
    );
    Ok(())
}

/// An ordinary operator in a cluster with very many RoleBindings, which it asks about because its Deployments' accounts
/// count in every namespace.
fn many_bindings(operators: &[Value]) -> Result<()> {
    let mut by_size: Vec<&Value> = operators.iter().collect();
    by_size.sort_by_cached_key(|csv| csv.to_string().len());
    let csv = by_size[by_size.len() / 2];
    let payload = payload(&create(csv));
    let policy = Policy::native()?;
    let engine = Engine::new(MODULE, Limits::default())?;
    let mut in_policy = Vec::new();
    for count in [2_000, 20_000] {
        let mut all = objects(&asked(csv, Shape::Own), Shape::Own, text(csv, "/metadata/name"));
        all.extend((0..count).map(binding));
        let cluster = cluster(&all);
        let subject = Subject { engine: &engine, payload: &payload, cluster: &cluster, policy: &policy };
        let total = median((0..11).map(|_| subject.run()).collect::<Result<_>>()?);
        let lookups = subject.lookups()?;
        let own = total.saturating_sub(lookups.time);
        in_policy.push(own);
        println!(
            "bindings: {count} RoleBindings: {total:.1?}, of which {own:.1?} in the policy; {} look-ups bring {} bytes",
            lookups.count, lookups.bytes
        );
    }
    println!("bindings: ten times as many take {:.1} times as long in the policy", ratio(in_policy[1], in_policy[0]));
    Ok(())
}

/// A binding of somebody else, as large as they are in a real cluster.
fn binding(number: usize) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
    "metadata": {
        "name": format!("team-binding-{number}"), "namespace": format!("team-{}", number % 500),
        "uid": format!("2b4f4b0e-6f0e-4b53-8d3a-{number:012}"), "resourceVersion": format!("{}", 100_000 + number),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app.kubernetes.io/managed-by": "argocd", "team": format!("team-{}", number % 500)},
        "annotations": {"argocd.argoproj.io/tracking-id":
            format!("tenants:rbac.authorization.k8s.io/RoleBinding:team-{}/team-binding-{number}", number % 500)},
    },
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": format!("oidc:team-{}", number % 500)},
        {"kind": "ServiceAccount", "name": "deployer", "namespace": format!("team-{}", number % 500)},
    ]})
}

#[derive(Deserialize)]
struct Review {
    request: Box<RawValue>,
}

/// What a verdict on a ClusterServiceVersion brings across in the cluster that OLM was recorded in: an upgrade.
fn recorded(recordings: &Path) -> Result<()> {
    let list: Value = serde_json::from_reader(unpack(&recordings.join("v0-upgrade-account.before.json.gz")))?;
    let cluster = cluster(items(&list, "/items"));
    let policy = Policy::native()?;
    let engine = Engine::new(MODULE, Limits::default())?;
    for line in lines(&recordings.join("v0-upgrade-account.jsonl.gz")) {
        let Review { request } = serde_json::from_str(&line)?;
        let head: Value = serde_json::from_str(request.get())?;
        if text(&head, "/kind/kind") == "ClusterServiceVersion" && text(&head, "/operation") == "CREATE" {
            let payload = payload(&raw(&request));
            let subject = Subject { engine: &engine, payload: &payload, cluster: &cluster, policy: &policy };
            let lookups = subject.lookups()?;
            println!(
                "recorded: the verdict on {} in OLM's own cluster: {} look-ups bring {} bytes",
                text(&head, "/name"),
                lookups.count,
                lookups.bytes
            );
            return Ok(());
        }
    }
    Ok(())
}
