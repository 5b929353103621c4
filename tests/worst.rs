//! The worst that is still answered: every limit of the policy filled to the brim, in the module, with 64 MiB of memory. The time
//! is printed and not asserted.

// A test that cannot go on fails.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Write;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use operator_bounds::engine::Limits;
use operator_bounds::policy::Policy;
use serde_json::{Value, json};
use test_support::{cluster, judge, raw, say};

const MIB: usize = 1024 * 1024;
const RBAC: &str = "rbac.authorization.k8s.io";

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

fn object(api: &str, kind: &str, namespace: &str, name: &str, fields: Value) -> Value {
    let mut object = fields;
    object["apiVersion"] = json!(api);
    object["kind"] = json!(kind);
    object["metadata"]["name"] = json!(name);
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn role(namespace: &str, name: &str, rules: &Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    object("rbac.authorization.k8s.io/v1", kind, namespace, name, json!({"rules": rules}))
}

fn bound(namespace: &str, name: &str, kind: &str, role: &str, subject: &Value) -> Value {
    let own = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    let fields = json!({"roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}, "subjects": [subject]});
    object("rbac.authorization.k8s.io/v1", own, namespace, name, fields)
}

fn installer() -> Value {
    json!({"kind": "ServiceAccount", "namespace": "team-a", "name": "installer"})
}

/// A group with an account and these targets.
fn group(targets: &[String]) -> Vec<Value> {
    vec![
        object("v1", "ServiceAccount", "team-a", "installer", json!({})),
        object(
            "operators.coreos.com/v1",
            "OperatorGroup",
            "team-a",
            "og",
            json!({"spec": {"serviceAccountName": "installer", "targetNamespaces": targets}, "status": {"namespaces": targets}}),
        ),
    ]
}

fn csv(rules: &Value) -> Value {
    let install = json!({
        "permissions": [{"serviceAccountName": "op", "rules": rules}],
        "deployments": [{"name": "op", "spec": {"template": {"spec": {"serviceAccountName": "op"}}}}],
    });
    let fields = json!({"spec": {"install": {"strategy": "deployment", "spec": install}}});
    object("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "team-a", "op.v1", fields)
}

fn request(object: &Value, user: &str) -> Value {
    let (group, version) = object["apiVersion"].as_str().unwrap().rsplit_once('/').unwrap_or(("", "v1"));
    let kind = object["kind"].as_str().unwrap();
    json!({
        "uid": "worst", "operation": "CREATE",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": format!("{}s", kind.to_lowercase())},
        "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"].as_str().unwrap_or_default(),
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": object,
    })
}

/// Permissions that no shorter list of rules says: each resource has a verb that no other has.
fn apart(count: usize) -> Value {
    let rule = |number: usize| json!({"apiGroups": ["g"], "resources": [format!("r{number}")], "verbs": [format!("v{number}")]});
    (0..count).map(rule).collect()
}

/// Half of them cover parts of the others.
fn overlapping() -> Value {
    let broad = (0..990).map(|number| json!({"apiGroups": ["*"], "resources": [format!("r{number}")], "verbs": ["*"]}));
    let narrow =
        (0..9_000).map(|number| json!({"apiGroups": ["g"], "resources": [format!("r{number}")], "verbs": ["get"]}));
    broad.chain(narrow).collect()
}

fn packed(text: &[u8]) -> String {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(text).unwrap();
    STANDARD.encode(packer.finish().unwrap())
}

fn release(content: &[u8]) -> Value {
    let data = json!({"chunk": packed(content), "extraChunks": "W10="});
    object(
        "v1",
        "Secret",
        "olmv1-system",
        "sh.helm.release.v1.x.v1",
        json!({"type": "operatorframework.io/index.v1", "data": data}),
    )
}

/// The approval of a plan whose one step is in a ConfigMap, and that ConfigMap: a Role of a MiB of YAML.
fn approval() -> (Value, Value) {
    let role: String = std::iter::once("kind: Role\nrules:\n".to_owned())
        .chain((0..22_000).map(|number| format!("- verbs: [get]\n  resources: [r{number}]\n  a: [x]\n")))
        .collect();
    let data = json!({"data": {"role.yaml": packed(role.as_bytes())}});
    let reference = json!({"kind": "ConfigMap", "name": "bundle", "namespace": "olm", "catalogSourceName": "hub"});
    let step =
        json!({"resolving": "op.v1", "resource": {"kind": "Role", "name": "r", "manifest": reference.to_string()}});
    (approving(&json!([step])), object("v1", "ConfigMap", "olm", "bundle", data))
}

/// The approval of a plan of these steps.
fn approving(steps: &Value) -> Value {
    let plan = |approved: bool| {
        let fields = json!({"spec": {"approved": approved}, "status": {"plan": steps}});
        object("operators.coreos.com/v1alpha1", "InstallPlan", "team-a", "install-x", fields)
    };
    let mut request = request(&plan(true), "dev");
    request["operation"] = json!("UPDATE");
    request["oldObject"] = plan(false);
    request
}

/// A binding in a namespace of somebody's own, with as many subjects as fit into one object.
fn crowded(name: &str, subjects: usize) -> Value {
    let mut binding = bound("own", name, "ClusterRole", "view", &Value::Null);
    binding["subjects"] = people(subjects);
    binding
}

fn people(count: usize) -> Value {
    names("g", count).iter().map(|name| json!({"kind": "Group", "apiGroup": RBAC, "name": name})).collect()
}

/// OLM changes a ClusterRole that it made, beside many groups with accounts and bindings of 60,000 subjects.
fn lifted() -> (Value, Vec<Value>) {
    let cluster_role = |verbs: &[&str]| {
        let mut role = role("", "lifted", &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]));
        role["metadata"]["labels"] = json!({"olm.managed": "true"});
        role
    };
    let mut request = request(&cluster_role(&["get", "list"]), OLM_V0);
    request["operation"] = json!("UPDATE");
    request["oldObject"] = cluster_role(&["get"]);
    let groups = names("team-", 500).into_iter().map(|namespace| {
        let spec = json!({"serviceAccountName": "installer", "targetNamespaces": [namespace]});
        let fields = json!({"spec": spec, "status": {"namespaces": [namespace]}});
        object("operators.coreos.com/v1", "OperatorGroup", &namespace, "og", fields)
    });
    (request, groups.chain(names("b", 4).iter().map(|name| crowded(name, 15_000))).collect())
}

/// The group's account binds 10,000 subjects beside a hundred restrictions and a hundred operators of 90 KB.
fn restricted() -> (Value, Vec<Value>) {
    let binding = bound("team-a", "x", "Role", "r", &Value::Null);
    let mut request = request(&binding, "system:serviceaccount:team-a:installer");
    request["object"]["subjects"] = people(10_000);
    let mut cluster = group(&["team-a".to_owned()]);
    let restrict: serde_json::Map<String, Value> =
        names("small", 100).into_iter().map(|account| (format!("{account}.*"), json!(account))).collect();
    cluster[1]["metadata"]["annotations"]["operator-bounds/restrict"] = json!(json!(restrict).to_string());
    let rules = json!([{"apiGroups": ["g"], "resources": names("r", 11_000), "verbs": ["get"]}]);
    cluster.extend(names("op", 100).iter().map(|name| {
        let mut csv = csv(&rules);
        csv["metadata"]["name"] = json!(name);
        csv
    }));
    cluster.push(role("team-a", "r", &json!([])));
    (request, cluster)
}

/// The approval of as many operators as one plan may bring, each of which runs as many accounts, beside 20,000 bindings.
fn many_operators() -> (Value, Vec<Value>) {
    let steps: Vec<Value> = names("op", 32)
        .iter()
        .map(|name| {
            let mut csv = csv(&json!([]));
            csv["metadata"]["name"] = json!(name);
            let account = |account: String| json!({"spec": {"template": {"spec": {"serviceAccountName": account}}}});
            let deployments = names(name, 300).into_iter().map(account);
            csv["spec"]["install"]["spec"]["deployments"] = deployments.collect();
            let resource = json!({"kind": "ClusterServiceVersion", "name": name, "manifest": csv.to_string()});
            json!({"resolving": name, "resource": resource})
        })
        .collect();
    let subject = |number: usize| json!({"kind": "ServiceAccount", "namespace": format!("n{number}"), "name": "op0"});
    let bindings = (0..20_000).map(|number| {
        let name = format!("b{number}");
        bound(&format!("n{number}"), &name, "ClusterRole", "view", &subject(number))
    });
    (approving(&json!(steps)), group(&["team-a".to_owned()]).into_iter().chain(bindings).collect())
}

struct Case {
    what: &'static str,
    request: Value,
    cluster: Vec<Value>,
    /// A word of the answer, so that it is the answer that was meant.
    reason: &'static str,
}

const OLM_V0: &str = "system:serviceaccount:olm:olm-operator-serviceaccount";
const OLM_V1: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";

// One list, however long.
#[allow(clippy::too_many_lines)]
fn cases() -> Vec<Case> {
    let targets = names("ns", 2);
    let mut differing = group(&targets);
    for (number, namespace) in targets.iter().enumerate() {
        differing.push(role(
            namespace,
            "own",
            &json!([{"apiGroups": ["x"], "resources": [format!("y{number}")], "verbs": ["get"]}]),
        ));
        differing.push(bound(namespace, "own", "Role", "own", &installer()));
    }
    let here = ["team-a".to_owned()];
    let long_lists = json!([{"apiGroups": ["g"], "resources": names("r", 100_000), "verbs": ["get"]}]);
    let mut long_roles = group(&here);
    long_roles.push(role("", "long", &long_lists));
    long_roles.push(bound("", "long", "ClusterRole", "long", &installer()));
    let many_rules: Value = (0..9_000)
        .map(|number| json!({"apiGroups": ["g"], "resources": [format!("r{number}"), "common"], "verbs": ["get", format!("v{number}")]}))
        .collect();
    let mut many = group(&here);
    many.push(role("", "many", &many_rules));
    many.push(bound("", "many", "ClusterRole", "many", &installer()));
    let mut annotated = group(&here);
    for number in 0..120 {
        let mut binding = bound("team-a", &format!("b{number}"), "Role", "none", &installer());
        binding["metadata"]["annotations"]["a"] = json!("x".repeat(MIB / 4));
        annotated.push(binding);
    }
    let mut everywhere = group(&here);
    for number in 0..20_000 {
        everywhere.push(bound(&format!("n{number}"), "b", "ClusterRole", "view", &installer()));
    }
    let mut hundreds = group(&here);
    for number in 0..900 {
        hundreds.push(role(
            "team-a",
            &format!("r{number}"),
            &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
        ));
        hundreds.push(bound("team-a", &format!("b{number}"), "Role", &format!("r{number}"), &installer()));
    }
    let brackets = |count: usize| format!(r#"{{"hooks":[{}{{}}]}}"#, "{},".repeat(count));
    let (approved, bundle) = approval();
    let mut unpacked = group(&here);
    unpacked.push(bundle);
    let (lift, crowd) = lifted();
    let (bind, restrictions) = restricted();
    let (approve, operators) = many_operators();
    vec![
        Case {
            what: "a ClusterRole of OLM's beside 500 groups and 60,000 subjects",
            request: lift,
            cluster: crowd,
            reason: "not-judged",
        },
        Case {
            what: "10,000 subjects beside 100 restrictions and 100 operators",
            request: bind,
            cluster: restrictions,
            reason: "bounded",
        },
        Case {
            what: "32 operators of 300 accounts beside 20,000 bindings",
            request: approve,
            cluster: operators,
            reason: "bounded",
        },
        Case { what: "an unpacked bundle of one MiB", request: approved, cluster: unpacked, reason: "bounded" },
        Case {
            what: "permissions that cannot be joined, three scopes apart",
            request: request(&csv(&apart(9_999)), "dev"),
            cluster: differing,
            reason: "exceeds",
        },
        Case {
            what: "permissions that cover each other",
            request: request(&csv(&overlapping()), "dev"),
            cluster: group(&here),
            reason: "exceeds",
        },
        Case {
            what: "a role of a hundred thousand resources",
            request: request(&csv(&apart(9_999)), "dev"),
            cluster: long_roles,
            reason: "exceeds",
        },
        Case {
            what: "a role of nine thousand rules",
            request: request(&csv(&apart(9_999)), "dev"),
            cluster: many,
            reason: "exceeds",
        },
        Case {
            what: "bindings with 30 MB of annotations",
            request: request(&csv(&apart(10)), "dev"),
            cluster: annotated,
            reason: "exceeds",
        },
        Case {
            what: "20,000 bindings of the account",
            request: request(&csv(&apart(10)), "dev"),
            cluster: everywhere,
            reason: "exceeds",
        },
        Case {
            what: "900 roles of the account",
            request: request(&csv(&apart(9_999)), "dev"),
            cluster: hundreds,
            reason: "exceeds",
        },
        Case {
            what: "a release of five million hooks",
            request: request(&release(brackets(5_500_000).as_bytes()), OLM_V1),
            cluster: Vec::new(),
            reason: "helm-hooks",
        },
        Case {
            what: "a release that is a bomb",
            request: request(&release(&vec![b' '; 64 * MIB]), OLM_V1),
            cluster: Vec::new(),
            reason: "unreadable-release",
        },
    ]
}

#[test]
fn the_worst_that_is_accepted_fits_into_64_mib() {
    let policy = Policy::embedded(Limits { seconds: None, memory: 64 * MIB }).unwrap();
    let settings = raw(&json!({"clusterExtensions": {"bound": "synthetic"}}));
    for case in cases() {
        let cluster = cluster(case.cluster.iter());
        let request = raw(&case.request);
        let start = Instant::now();
        let answer = judge(&policy, &request, &settings, &cluster);
        let took = start.elapsed();
        let reason = answer.fact("reason");
        say(&format!("worst: {:>6} ms, look-ups included: {} ({reason})", took.as_millis(), case.what));
        assert_eq!(reason, case.reason, "{}: {}", case.what, answer.message());
    }
}
