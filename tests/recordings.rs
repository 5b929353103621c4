//! What OLM really sends, request by request, against the cluster as it was at that moment.
//!
//! `../shared/recordings` has the admission requests that a real API server sent while unmodified OLM installed small
//! operators, and the cluster before and after each flow. Everything was admitted then, so the cluster evolves here as
//! it did there, whatever the policy says about a request.

// A test that cannot go on fails.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use operator_bounds::engine::Limits;
use operator_bounds::host::Request;
use operator_bounds::manifests::Manifests;
use operator_bounds::policy::Policy;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use test_support::rbac::{Atom, Rule, Scoped, excess, listed, uncovered};
use test_support::{Judged, cluster, items, judge, lines, raw, say, shared, text, unpack};

/// The kinds that the recorders listed; ConfigMaps, which hold unpacked bundles, are learnt from the requests.
const KEPT: [&str; 12] = [
    "ClusterExtension",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterServiceVersion",
    "ConfigMap",
    "InstallPlan",
    "Namespace",
    "OperatorGroup",
    "Role",
    "RoleBinding",
    "ServiceAccount",
    "Subscription",
];

/// Flows in which an OperatorGroup has the account `scoped`, which holds nothing that the operators ask for, and in
/// which that account creates the ClusterServiceVersion. (The recordings' README counts `v0-manual-approval` among the
/// flows without an account; `what-is-written.md` and its OperatorGroup say that it has one.)
const WITH_ACCOUNT: [&str; 6] = [
    "v0-all-account",
    "v0-manual-approval",
    "v0-multi-account",
    "v0-own-account",
    "v0-upgrade-account",
    "v0-webhook-account",
];

/// Flows that default settings let through without a single refusal: no account, or no OLM v0 at all.
const WITHOUT_REFUSAL: [&str; 12] = [
    "v0-all-noaccount",
    "v0-own-noaccount",
    "v0-uninstall",
    "v0-uninstall-all",
    "v0-unpack-partial",
    "v1-install",
    "v1-uninstall",
    "v1-upgrade",
    "v1-with-serviceaccount",
    "v110-install",
    "v110-uninstall",
    "v110-upgrade",
];

const TENANT: &str = "tenant";
const ACCOUNT: &str = "system:serviceaccount:tenant:scoped";

#[derive(Deserialize)]
struct Review {
    request: Box<RawValue>,
}

/// A cluster that changes with every admitted request.
#[derive(Default)]
struct Live {
    objects: BTreeMap<(String, String, String), Value>,
    loaded: Option<Arc<Manifests>>,
}

impl Live {
    fn read(path: &Path) -> Self {
        let list: Value = serde_json::from_reader(unpack(path)).unwrap();
        let mut live = Live::default();
        for object in items(&list, "/items") {
            live.objects.insert(Live::key(object), object.clone());
        }
        live
    }

    fn key(object: &Value) -> (String, String, String) {
        let part = |pointer| text(object, pointer).to_owned();
        (part("/kind"), part("/metadata/namespace"), part("/metadata/name"))
    }

    fn manifests(&mut self) -> Arc<Manifests> {
        Arc::clone(self.loaded.get_or_insert_with(|| cluster(self.objects.values())))
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |((found, ..), _)| found == kind).map(|(_, object)| object)
    }

    /// The rules that bindings give to the account by its name.
    fn held_by_the_account(&self) -> Scoped {
        let mut held = Scoped::new();
        for binding in self.of_kind("RoleBinding").chain(self.of_kind("ClusterRoleBinding")) {
            let is_account =
                |subject: &Value| text(subject, "/name") == "scoped" && text(subject, "/namespace") == TENANT;
            if !items(binding, "/subjects").iter().any(is_account) {
                continue;
            }
            let namespace = text(binding, "/metadata/namespace");
            let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
            let role_namespace = if kind == "Role" { namespace } else { "" };
            let role = &self.objects[&(kind.to_owned(), role_namespace.to_owned(), name.to_owned())];
            let scope = (!namespace.is_empty()).then(|| namespace.to_owned());
            held.entry(scope).or_default().extend(items(role, "/rules").iter().map(Rule::read));
        }
        held
    }

    /// What a ClusterServiceVersion declares, where the tenant's OperatorGroup makes it land.
    fn declared(&self, csv: &Value) -> Scoped {
        let group = &self.objects[&("OperatorGroup".to_owned(), TENANT.to_owned(), "og".to_owned())];
        let targets = items(group, "/spec/targetNamespaces").iter().filter_map(Value::as_str);
        let mut scopes: BTreeSet<Option<String>> = targets.map(|target| Some(target.to_owned())).collect();
        scopes.insert(if scopes.is_empty() { None } else { Some(TENANT.to_owned()) });
        let mut declared = Scoped::new();
        let mut declare = |scope: &Option<String>, permission: &Value| {
            declared.entry(scope.clone()).or_default().extend(items(permission, "/rules").iter().map(Rule::read));
        };
        for permission in items(csv, "/spec/install/spec/permissions") {
            for scope in &scopes {
                declare(scope, permission);
            }
        }
        for permission in items(csv, "/spec/install/spec/clusterPermissions") {
            declare(&None, permission);
        }
        declared
    }

    /// What the API server stores once a request is admitted.
    fn apply(&mut self, request: &Value) {
        let kept = KEPT.contains(&text(request, "/kind/kind"));
        let subresource = text(request, "/subResource");
        if !kept || request["dryRun"] == true || !matches!(subresource, "" | "status") {
            return;
        }
        self.loaded = None;
        match text(request, "/operation") {
            "CREATE" => {
                // OLM repeats its CREATEs; the later ones are admitted and then fail because the object is there.
                let object = named(request);
                self.objects.entry(Live::key(&object)).or_insert(object);
            }
            "UPDATE" => {
                let object = named(request);
                if is_gone(&object) {
                    self.objects.remove(&Live::key(&object));
                } else {
                    self.objects.insert(Live::key(&object), object);
                }
            }
            "DELETE" => {
                let key = Live::key(&request["oldObject"]);
                let Some(object) = self.objects.get_mut(&key) else { return };
                if items(object, "/metadata/finalizers").is_empty() {
                    self.objects.remove(&key);
                } else {
                    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                }
            }
            other => panic!("an operation of {other}"),
        }
    }
}

/// The new object, with the name and the namespace that the API server knows from the path.
fn named(request: &Value) -> Value {
    let mut object = request["object"].clone();
    for (field, from) in [("name", "/name"), ("namespace", "/namespace")] {
        let known = text(request, from);
        // The namespace of a Namespace is itself in a request, and none in the object.
        if !known.is_empty() && object["metadata"][field].is_null() && text(&object, "/kind") != "Namespace" {
            object["metadata"][field] = json!(known);
        }
    }
    object
}

/// Whether an update takes the last finalizer from an object that is being deleted.
fn is_gone(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null() && items(object, "/metadata/finalizers").is_empty()
}

/// Whether an UPDATE leaves what its row judges as it was (see [Request flow](../docs/architecture.md#request-flow), step 2), from the request alone. Null, missing
/// and empty are the same to the API server.
fn leaves_the_judged_alone(request: &Value) -> bool {
    if text(request, "/subResource") == "status" {
        return true;
    }
    let pointers: &[&str] = match text(request, "/kind/kind") {
        "ClusterServiceVersion" => &[
            "/spec/install/spec/permissions",
            "/spec/install/spec/clusterPermissions",
            "/spec/install/spec/deployments",
            "/spec/apiservicedefinitions/owned",
            "/spec/webhookdefinitions",
            "/spec/replaces",
            "/metadata/labels/olm.copiedFrom",
            "/metadata/annotations/olm.operatorNamespace",
        ],
        "OperatorGroup" => &["/spec", "/metadata/annotations/operator-bounds~1restrict"],
        "Role" | "ClusterRole" => &["/rules", "/aggregationRule"],
        "RoleBinding" | "ClusterRoleBinding" => &["/roleRef", "/subjects"],
        "Subscription" | "ClusterExtension" => &["/spec"],
        "InstallPlan" => &["/spec/approved"],
        // Not a judged kind: whatever changes.
        _ => &[],
    };
    let part = |object: &Value, pointer: &str| match object.pointer(pointer) {
        Some(Value::Array(list)) if list.is_empty() => Value::Null,
        // OLM notes the namespace of the operator on the CSV itself too: that does not make it a copy.
        Some(value) if pointer.ends_with("operatorNamespace") && *value == request["namespace"] => Value::Null,
        Some(value) => value.clone(),
        None => Value::Null,
    };
    pointers.iter().all(|pointer| part(&request["object"], pointer) == part(&request["oldObject"], pointer))
}

/// What a flow is judged with.
struct Setting {
    name: &'static str,
    json: Box<RawValue>,
}

/// What a flow came to with one setting.
#[derive(Default)]
struct Tally {
    requests: usize,
    refusals: Vec<String>,
    lookups: usize,
    most_lookups: usize,
    untouched: usize,
    deletes: usize,
    /// ClusterServiceVersions that the account created, and those of them that were refused.
    account_csvs: (usize, usize),
    /// What is wrong; everything is collected, so that one run tells all.
    wrong: Vec<String>,
}

fn replay(flow: &str, directory: &Path, policies: [&Policy; 2], settings: &[Setting]) -> Vec<Tally> {
    let mut live = Live::read(&directory.join(format!("{flow}.before.json.gz")));
    let mut tallies: Vec<Tally> = settings.iter().map(|_| Tally::default()).collect();
    for (number, line) in lines(&directory.join(format!("{flow}.jsonl.gz"))).iter().enumerate() {
        let review: Review = serde_json::from_str(line).unwrap();
        let request: Value = serde_json::from_str(review.request.get()).unwrap();
        let cluster = live.manifests();
        for (setting, tally) in settings.iter().zip(&mut tallies) {
            let [wasm, native] = policies.map(|policy| judge(policy, &review.request, &setting.json, &cluster));
            let place = format!("{flow} #{} {} ({})", number + 1, said(&request), setting.name);
            check(&place, &request, [&wasm, &native], &live, tally);
        }
        live.apply(&request);
    }
    compare_with_the_end(flow, directory, &live, &mut tallies[0]);
    tallies
}

fn said(request: &Value) -> String {
    let kind = text(request, "/kind/kind");
    let subresource = text(request, "/subResource");
    let slash = if subresource.is_empty() { "" } else { "/" };
    let (namespace, name) = (text(request, "/namespace"), text(request, "/name"));
    format!("{} {kind}{slash}{subresource} {namespace}/{name}", text(request, "/operation"))
}

fn check(place: &str, request: &Value, [wasm, native]: [&Judged; 2], live: &Live, tally: &mut Tally) {
    let looked_up = wasm.exchanges.len();
    tally.requests += 1;
    tally.lookups += looked_up;
    tally.most_lookups = tally.most_lookups.max(looked_up);
    if wasm.response != native.response || wasm.exchanges != native.exchanges {
        tally.wrong.push(format!("{place}: wasm and native differ: {:?} / {:?}", wasm.response, native.response));
    }
    check_lookups(place, request, wasm, tally);
    let operation = text(request, "/operation");
    if operation == "DELETE" {
        tally.deletes += 1;
        if !wasm.response.accepted || looked_up > 0 {
            tally.wrong.push(format!("{place}: a DELETE took {looked_up} look-ups: {}", wasm.message()));
        }
    }
    if operation == "UPDATE" && leaves_the_judged_alone(request) {
        tally.untouched += 1;
        if !wasm.response.accepted || looked_up > 0 {
            tally.wrong.push(format!("{place}: nothing judged changed, yet {looked_up} look-ups: {}", wasm.message()));
        }
    }
    if is_account_csv(request) {
        tally.account_csvs.0 += 1;
        tally.account_csvs.1 += usize::from(!wasm.response.accepted);
    }
    if !wasm.response.accepted {
        tally.refusals.push(format!("{place}: {:?} {}", wasm.response.code, wasm.message()));
        check_refusal(place, request, wasm, live, tally);
    }
}

/// Nothing is asked twice, and for a ClusterServiceVersion at most six questions are about anything but roles.
fn check_lookups(place: &str, request: &Value, wasm: &Judged, tally: &mut Tally) {
    let asked: Vec<&Request> = wasm.exchanges.iter().map(|exchange| &exchange.request).collect();
    if asked.iter().enumerate().any(|(number, request)| asked[..number].contains(request)) {
        tally.wrong.push(format!("{place}: a look-up was made twice: {asked:?}"));
    }
    let is_role = |request: &Request| matches!(request, Request::Get(get) if get.kind.ends_with("Role"));
    let others = asked.iter().filter(|request| !is_role(request)).count();
    if text(request, "/kind/kind") == "ClusterServiceVersion" && others > 6 {
        tally.wrong.push(format!("{place}: {others} look-ups besides roles: {asked:?}"));
    }
}

fn is_account_csv(request: &Value) -> bool {
    text(request, "/kind/kind") == "ClusterServiceVersion"
        && text(request, "/operation") == "CREATE"
        && text(request, "/userInfo/username") == ACCOUNT
}

/// A refused ClusterServiceVersion names everything that it declares and the account does not hold; what OLM would add
/// for it comes on top.
fn check_refusal(place: &str, request: &Value, wasm: &Judged, live: &Live, tally: &mut Tally) {
    if wasm.response.code != Some(403) || !wasm.message().contains(ACCOUNT_SAID) {
        tally.wrong.push(format!("{place}: refused with {:?}: {}", wasm.response.code, wasm.message()));
    }
    if !is_account_csv(request) {
        return;
    }
    let (said, left_out) = listed(wasm.message());
    let missing = excess(&live.held_by_the_account(), &live.declared(&request["object"]));
    for (scope, atoms) in &missing {
        let rules: Vec<Rule> = atoms.iter().map(Atom::rule).collect();
        let unsaid = uncovered(said.get(scope).map_or(&[], Vec::as_slice), &rules);
        if !unsaid.is_empty() {
            tally.wrong.push(format!("{place}: the refusal does not name {unsaid:?}: {}", wasm.message()));
        }
    }
    if missing.is_empty() || left_out > 0 {
        tally.wrong.push(format!("{place}: nothing declared is missing, or not all was listed: {}", wasm.message()));
    }
}

const ACCOUNT_SAID: &str = "ServiceAccount tenant/scoped";

/// The evolved cluster is the recorded one, in what the policy looks at: otherwise the flow was replayed wrongly.
fn compare_with_the_end(flow: &str, directory: &Path, live: &Live, tally: &mut Tally) {
    let end = Live::read(&directory.join(format!("{flow}.cluster.json.gz")));
    let listed: BTreeSet<&String> = end.objects.keys().map(|(kind, ..)| kind).collect();
    let keys = live.objects.keys().chain(end.objects.keys()).collect::<BTreeSet<_>>();
    for key in keys.into_iter().filter(|(kind, ..)| listed.contains(kind)) {
        let parts = ["/spec", "/rules", "/roleRef", "/subjects", "/metadata/labels"];
        let [ours, theirs] = [&live.objects, &end.objects].map(|objects| {
            objects.get(key).map(|object| parts.map(|part| object.pointer(part).cloned().unwrap_or_default()))
        });
        if ours != theirs && !is_written_by_a_controller(key, live.objects.get(key)) {
            tally
                .wrong
                .push(format!("{flow}: {key:?} is not as recorded: {}", difference(ours.as_ref(), theirs.as_ref())));
        }
    }
}

/// The recorders left out what Kubernetes' own controllers write: the rules of aggregated ClusterRoles, and the account
/// `default` of a new namespace.
fn is_written_by_a_controller((kind, _, name): &(String, String, String), object: Option<&Value>) -> bool {
    kind == "ServiceAccount" && name == "default"
        || object.is_some_and(|object| object.get("aggregationRule").is_some())
}

fn difference(ours: Option<&[Value; 5]>, theirs: Option<&[Value; 5]>) -> String {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => {
            let differing = ours.iter().zip(theirs).filter(|(ours, theirs)| ours != theirs);
            differing.map(|(ours, theirs)| format!("{ours} / {theirs}")).collect::<Vec<_>>().join(", ")
        }
        (ours, _) => (if ours.is_some() { "not recorded" } else { "not replayed" }).to_owned(),
    }
}

/// The recordings that come with the cluster as it was before them.
fn flows(directory: &Path) -> BTreeSet<String> {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(".before.json.gz").map(str::to_owned)).collect()
}

fn report(flow: &str, setting: &str, tally: &Tally) {
    #[allow(clippy::cast_precision_loss)]
    let mean = tally.lookups as f64 / tally.requests.max(1) as f64;
    say(&format!(
        "{flow:24} {setting:9} {:4} requests {:3} refusals, look-ups: {:2} at most, {mean:.2} on average; \
         {:3} updates of nothing judged, {:2} deletes",
        tally.requests,
        tally.refusals.len(),
        tally.most_lookups,
        tally.untouched,
        tally.deletes
    ));
}

#[test]
fn every_recorded_request_is_judged_as_its_flow_deserves() {
    let Some(directory) = shared("recordings", "OPERATOR_BOUNDS_RECORDINGS") else { return };
    let wasm = Policy::embedded(Limits { seconds: None, ..Limits::default() }).unwrap();
    let native = Policy::native().unwrap();
    let settings = [
        Setting { name: "default", json: raw(&json!({})) },
        Setting {
            name: "honoring",
            json: raw(&json!({"operatorGroups": {"escalation": "honor", "clusterWrites": "off"}})),
        },
    ];
    let mut wrong = Vec::new();
    let mut total = Tally::default();
    for flow in flows(&directory) {
        let tallies = replay(&flow, &directory, [&wasm, &native], &settings);
        for (setting, tally) in settings.iter().zip(&tallies) {
            report(&flow, setting.name, tally);
            total.requests += tally.requests;
            total.untouched += tally.untouched;
            total.deletes += tally.deletes;
            total.most_lookups = total.most_lookups.max(tally.most_lookups);
        }
        let [default, honoring] = &tallies[..] else { unreachable!() };
        if WITH_ACCOUNT.contains(&flow.as_str()) {
            let (created, refused) = default.account_csvs;
            if created == 0 || refused != created {
                wrong.push(format!("{flow}: {refused} of the account's {created} ClusterServiceVersions refused"));
            }
        } else {
            assert!(WITHOUT_REFUSAL.contains(&flow.as_str()), "{flow} is not in any list of this test");
            wrong.extend(default.refusals.iter().cloned());
        }
        wrong.extend(honoring.refusals.iter().cloned());
        wrong.extend(tallies.into_iter().flat_map(|tally| tally.wrong));
    }
    say(&format!(
        "recordings: {} verdicts, each as wasm and natively; {} on updates of nothing judged and {} on deletes without \
         a look-up; at most {} look-ups; {} disagreements",
        total.requests,
        total.untouched,
        total.deletes,
        total.most_lookups,
        wrong.len()
    ));
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
}

const CONTROLLER: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";

/// What OLM v1's controller writes for an extension: CRDs stay with OLM, and taking away is always allowed.
fn is_owned(request: &Value) -> bool {
    let label = |object: &Value| !text(object, "/metadata/labels/olm.operatorframework.io~1owner-name").is_empty();
    text(request, "/userInfo/username") == CONTROLLER
        && text(request, "/operation") != "DELETE"
        && text(request, "/kind/kind") != "CustomResourceDefinition"
        && (label(&request["object"]) || label(&request["oldObject"]))
}

/// The recordings have the contents of Secrets shortened: a release gets others that can be read.
fn with_a_release(request: &mut Value) {
    if text(request, "/object/type") == "operatorframework.io/index.v1" {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(br#"{"name":"demo-ext","manifest":""}"#).unwrap();
        request["object"]["data"]["chunk"] = json!(STANDARD.encode(packer.finish().unwrap()));
    }
}

/// The extension's synthetic identity is bound to cluster-admin.
fn granted(live: &mut Live) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "all-for-demo-ext"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "olm:clusterextension:demo-ext"}],
    });
    live.objects.insert(Live::key(&binding), binding);
}

#[test]
fn olm_v1_is_bounded_object_by_object_and_its_bookkeeping_passes() {
    let Some(directory) = shared("recordings", "OPERATOR_BOUNDS_RECORDINGS") else { return };
    let wasm = Policy::embedded(Limits { seconds: None, ..Limits::default() }).unwrap();
    let native = Policy::native().unwrap();
    let settings = raw(&json!({"clusterExtensions": {"bound": "synthetic"}}));
    let mut wrong = Vec::new();
    let (mut judged, mut refused) = (0, 0);
    for flow in flows(&directory).into_iter().filter(|flow| flow.starts_with("v1")) {
        for has_grant in [false, true] {
            let mut live = Live::read(&directory.join(format!("{flow}.before.json.gz")));
            if has_grant {
                granted(&mut live);
            }
            for (number, line) in lines(&directory.join(format!("{flow}.jsonl.gz"))).iter().enumerate() {
                let review: Review = serde_json::from_str(line).unwrap();
                let mut request: Value = serde_json::from_str(review.request.get()).unwrap();
                with_a_release(&mut request);
                let written = raw(&request);
                let cluster = live.manifests();
                let [wasm, native] = [&wasm, &native].map(|policy| judge(policy, &written, &settings, &cluster));
                let place = format!("{flow} #{} {} (granted: {has_grant})", number + 1, said(&request));
                let expected = !is_owned(&request) || has_grant;
                judged += 1;
                refused += usize::from(!wasm.response.accepted);
                if wasm.response.accepted != expected || wasm.response != native.response {
                    wrong.push(format!("{place}: expected admitted {expected}: {}", wasm.message()));
                }
                if !wasm.response.accepted
                    && (wasm.response.code != Some(403)
                        || !wasm.message().contains("User olm:clusterextension:demo-ext"))
                {
                    wrong.push(format!("{place}: refused with {:?}: {}", wasm.response.code, wasm.message()));
                }
                let is_role = |request: &Request| matches!(request, Request::Get(get) if get.kind.ends_with("Role"));
                let others = wasm.exchanges.iter().filter(|exchange| !is_role(&exchange.request)).count();
                if others > 4 {
                    wrong.push(format!("{place}: {others} look-ups besides roles"));
                }
                live.apply(&request);
            }
        }
    }
    say(&format!(
        "recordings: {judged} verdicts with OLM v1 bounded, {refused} refused; {} disagreements",
        wrong.len()
    ));
    assert!(refused > 0 && wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
}

/// The extension of a recorded release, with these rules for its synthetic user.
fn extension_with(name: &str, rules: &Value) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    vec![
        json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
            "spec": {"namespace": format!("ns-{name}")}}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": format!("olm:clusterextension:{name}")}]}),
    ]
}

/// Judges the recorded releases, an install, an upgrade and one with hooks, with these rules for each extension.
fn recorded_releases(directory: &Path, rules: &Value) -> Vec<Judged> {
    let wasm = Policy::embedded(Limits { seconds: None, ..Limits::default() }).unwrap();
    let native = Policy::native().unwrap();
    let settings = raw(&json!({"clusterExtensions": {"bound": "synthetic"}}));
    let cluster = cluster([extension_with("hello", rules), extension_with("hooky", rules)].concat().iter());
    let mut answers = Vec::new();
    for line in lines(&directory.join("v1-releases.jsonl.gz")) {
        let review: Review = serde_json::from_str(&line).unwrap();
        let answer = judge(&wasm, &review.request, &settings, &cluster);
        assert_eq!(answer.response, judge(&native, &review.request, &settings, &cluster).response);
        answers.push(answer);
    }
    answers
}

#[test]
fn recorded_releases_are_refused_once_and_in_full() {
    let Some(directory) = shared("recordings", "OPERATOR_BOUNDS_RECORDINGS") else { return };
    let [install, upgrade, hooks] = &recorded_releases(&directory, &json!([]))[..] else { panic!("three releases") };
    for (answer, bundle, own) in [(install, "hello.v1.0.0", ""), (upgrade, "hello.v1.1.0", "nodes")] {
        assert_eq!(answer.response.code, Some(403), "{}", answer.message());
        for words in [
            &format!(
                "Bundle {bundle} of ClusterExtension hello asks for more than User olm:clusterextension:hello allows"
            ),
            "resources: [configmaps, namespaces]  verbs: [get, list, watch]",
            "apiGroups: [example.com]  resources: [\"*\"]  verbs: [get, list, update, watch]",
            "resources: [clusterrolebindings, clusterroles]  verbs: [create]",
            "in namespace ns-hello",
            "apiGroups: [apps]  resources: [deployments]  verbs: [create]",
            "kubectl annotate --overwrite clusterextension hello",
            own,
        ] {
            assert!(answer.message().contains(words), "{words}: {}", answer.message());
        }
        assert!(!answer.message().contains("customresourcedefinitions"), "{}", answer.message());
        assert_eq!(answer.exchanges.len(), 4, "the extension, two lists of bindings, the one role");
    }
    for words in
        ["bundle hooky.v1.0.0, which brings Helm hooks: ClusterRoleBinding hooky-post-install", "hooky-pre-delete"]
    {
        assert!(hooks.message().contains(words), "{}", hooks.message());
    }
}

#[test]
fn recorded_releases_pass_with_what_they_need_but_for_the_one_with_hooks() {
    let Some(directory) = shared("recordings", "OPERATOR_BOUNDS_RECORDINGS") else { return };
    let rules = json!([
        {"apiGroups": [""], "resources": ["serviceaccounts", "configmaps"], "verbs": ["create"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["example.com"], "resources": ["*"], "verbs": ["get", "list", "watch", "update"]},
    ]);
    let answers = recorded_releases(&directory, &rules);
    let admitted: Vec<bool> = answers.iter().map(|answer| answer.response.accepted).collect();
    assert_eq!(admitted, [true, false, false]);
    // The new version wants more, and only that is said.
    let (said, left_out) = listed(answers[1].message());
    assert_eq!(left_out, 0);
    assert_eq!(said.values().map(Vec::len).sum::<usize>(), 1, "{}", answers[1].message());
    assert!(answers[1].message().contains("resources: [nodes]  verbs: [get, list]"), "{}", answers[1].message());
}
