//! `audit` on a real API server: real operators in groups of every kind, extensions with their releases, an auditor who may not
//! read everything, and the proposals applied.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_plane::Plane;
use test_plane::api::Api;

use crate::operators::{
    account, binding, bundled, corpus, extension, group, installed, namespace, release, role, runs_as,
};
use crate::{Stage, operator_bounds};

/// Namespace, what its group targets (nothing: all namespaces), whether that names an account, and its operators.
const INSTALLED: [(&str, &[&str], bool, &[&str]); 11] = [
    // Together they fit one account.
    ("monitoring", &[], false, &["grafana-operator", "prometheus", "zookeeper-operator"]),
    // One of them is cluster-admin, so that each of the others gets an account of its own.
    ("operators", &[], false, &["flux-operator", "keycloak-operator", "strimzi-kafka-operator"]),
    ("team-a", &["team-a"], false, &["etcd"]),
    ("postgres", &["team-a", "postgres"], false, &["postgresql"]),
    // What they write themselves takes a setting.
    ("platform", &[], false, &["cert-manager", "datadog-operator"]),
    ("savings", &[], false, &["kube-green"]),
    ("edge", &["edge"], false, &["varnish-operator"]),
    ("delivery", &[], false, &["knative-operator", "argocd-operator"]),
    ("cache", &[], true, &["redis-operator"]),
    ("databases", &[], true, &["mariadb-operator"]),
    ("vault", &[], true, &["external-secrets-operator"]),
];

/// What an audit said, by the name of the operator.
struct Audit {
    output: Output,
    report: Value,
}

impl Audit {
    fn run(kubeconfig: &Path, arguments: &[&str]) -> Self {
        let common = ["audit", "--output", "json", "--kubeconfig", kubeconfig.to_str().unwrap()];
        let output = operator_bounds(&[&common, arguments].concat());
        let report = serde_json::from_slice(&output.stdout);
        let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let report = report.unwrap_or_else(|error| panic!("{error}: {}", said()));
        Audit { output, report }
    }

    fn operators(&self) -> BTreeMap<&str, &Value> {
        let operators = self.report["operators"].as_array().unwrap().iter();
        operators.map(|operator| (operator["name"].as_str().unwrap(), operator)).collect()
    }

    #[track_caller]
    fn verdict(&self, name: &str) -> &str {
        self.operators()[name]["verdict"].as_str().unwrap()
    }

    #[track_caller]
    fn outcome(&self, name: &str) -> &str {
        self.operators()[name]["proposal"]["outcome"].as_str().unwrap_or("none")
    }
}

/// kubectl with the administrator's kubeconfig; its words if it fails.
fn kubectl(kubeconfig: &Path, script: &str) -> Result<String, String> {
    let run = Command::new("bash")
        .args(["-c", &format!("set -euo pipefail; {script}")])
        .env("KUBECONFIG", kubeconfig)
        .output();
    let run = run.unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    if run.status.success() { Ok(said) } else { Err(said) }
}

pub(crate) fn a_cluster_of_real_operators_is_audited_bounded_and_audited_again(_: &Stage) {
    if kubectl(Path::new("/dev/null"), "kubectl version --client").is_err() {
        test_parts::not_run("no cluster was audited: kubectl is not on PATH");
        return;
    }
    let Some(corpus) = corpus() else { return };
    // Of its own: what the other cases create would be audited too.
    let plane = Plane::start(&[]).expect("a control plane");
    let directory = TempDir::new().unwrap();
    set_up(&plane, &corpus, directory.path());
    let administrator = plane.kubeconfig();
    let name = |operator: &str| corpus[operator]["metadata"]["name"].as_str().unwrap().to_owned();

    let first = Audit::run(&administrator, &[]);
    show(&administrator);
    everything_is_seen(&first, &name);
    an_auditor_is_told_what_is_missing(&plane, directory.path(), &first);
    let team = Audit::run(&directory.path().join("team"), &["--namespace", "team-a"]);
    assert_eq!((team.verdict(&name("etcd")), team.outcome(&name("etcd"))), ("unbounded", "bounded"));
    assert_eq!(team.report["unread"].as_array().unwrap().len(), 1, "Secrets: {}", team.report["unread"]);

    let proposed = directory.path().join("proposed");
    let proposed = proposed.to_str().unwrap();
    let written = Audit::run(&administrator, &["--write", proposed]);
    assert_eq!(written.output.status.code(), Some(1));
    kubectl(&administrator, &format!("kubectl apply -f {proposed}")).unwrap();
    let settings = format!("{proposed}/settings/operator-bounds.yaml");
    let second = Audit::run(&administrator, &["--settings-path", &settings]);
    everything_proposed_bounds(&written, &second);
    // What was proposed once is not proposed again, and is not overwritten.
    let again = operator_bounds(&["audit", "--kubeconfig", administrator.to_str().unwrap(), "--write", proposed]);
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("is not empty"),
        "{}",
        String::from_utf8_lossy(&again.stderr)
    );
}

/// Keeps what people would see, where somebody wants to look at it.
fn show(kubeconfig: &Path) {
    let Some(directory) = std::env::var_os("AUDIT_OUTPUT") else { return };
    for (format, file) in [("table", "audit.txt"), ("json", "audit.json"), ("html", "audit.html")] {
        let file = Path::new(&directory).join(file);
        let arguments = ["audit", "--kubeconfig", kubeconfig.to_str().unwrap(), "--output", format];
        std::fs::write(file, operator_bounds(&arguments).stdout).unwrap();
    }
}

/// Creates everything. The default account of a namespace is Kubernetes' to make.
fn set_up(plane: &Plane, corpus: &BTreeMap<String, Value>, directory: &Path) {
    let mut objects = vec![namespace("olmv1-system"), namespace("extensions"), namespace("auditors")];
    for (place, targets, has_account, operators) in INSTALLED {
        objects.push(namespace(place));
        if has_account {
            objects.push(account(place, "installer"));
        }
        objects.push(group(place, targets, has_account.then_some("installer")));
        for operator in operators {
            objects.extend(installed(&corpus[*operator], place, targets.is_empty()));
        }
    }
    objects.extend(grants(corpus, directory));
    objects.extend(copies(corpus));
    objects.extend(extensions());
    objects.push(account("auditors", "auditor"));
    // Somebody else may read operators in a single namespace.
    objects.push(account("team-a", "team"));
    let operators = json!([{"apiGroups": ["operators.coreos.com"], "resources": ["operatorgroups", "clusterserviceversions"], "verbs": ["list"]}]);
    objects.push(role(Some("team-a"), "team", &operators));
    objects.push(binding(Some("team-a"), "team", "team", ("team-a", "team")));
    objects.push(role(None, "audit-operators", &operators));
    objects.push(binding(None, "audit-operators", "audit-operators", ("auditors", "auditor")));
    let readable = json!([
        {"apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions"], "verbs": ["list"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings", "roles"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["serviceaccounts", "namespaces"], "verbs": ["list"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list"]}]);
    objects.push(role(None, "audit-auditor", &readable));
    objects.push(binding(None, "audit-auditor", "audit-auditor", ("auditors", "auditor")));
    objects.push(binding(None, "audit-team", "audit-auditor", ("team-a", "team")));
    objects.push(role(
        None,
        "audit-bindings",
        &json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["list"]}]),
    ));
    objects.push(binding(None, "audit-bindings", "audit-bindings", ("team-a", "team")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let api = Api::connect(&plane.kubeconfig()).await.unwrap();
        let mut uids: BTreeMap<String, Value> = BTreeMap::new();
        for object in &mut objects {
            // What belongs to something that is not there is collected as garbage.
            if let Some(owner) = object.pointer_mut("/metadata/ownerReferences/0") {
                owner["uid"] = uids[owner["name"].as_str().unwrap()].clone();
            }
            let created = api.create(object).await;
            let created =
                created.unwrap_or_else(|error| panic!("{} {}: {error:#}", object["kind"], object["metadata"]["name"]));
            if object["kind"] == "ClusterExtension" {
                uids.insert(
                    object["metadata"]["name"].as_str().unwrap().to_owned(),
                    created["metadata"]["uid"].clone(),
                );
            }
        }
        plane.kubeconfig_of(&api, "auditors", "auditor", &directory.join("auditor")).await.unwrap();
        plane.kubeconfig_of(&api, "team-a", "team", &directory.join("team")).await.unwrap();
    });
}

/// What accounts hold besides: exactly enough, too little, too much, and something borrowed.
fn grants(corpus: &BTreeMap<String, Value>, directory: &Path) -> Vec<Value> {
    let csv = directory.join("redis.json");
    std::fs::write(&csv, corpus["redis-operator"].to_string()).unwrap();
    let derived = operator_bounds(&[
        "derive",
        csv.to_str().unwrap(),
        "--for",
        "serviceaccount",
        "cache/installer",
        "--install-mode",
        "AllNamespaces",
        "--output",
        "json",
    ]);
    let derived: Value = serde_json::from_slice(&derived.stdout).unwrap();
    let mut objects = derived["items"].as_array().unwrap().clone();
    let more = json!([{"apiGroups": ["example.com"], "resources": ["nobodyneeds"], "verbs": ["get"]}]);
    objects.push(role(Some("cache"), "more", &more));
    objects.push(binding(Some("cache"), "more", "more", ("cache", "installer")));
    let some = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    objects.push(role(None, "audit-some", &some));
    objects.push(binding(None, "audit-some", "audit-some", ("databases", "installer")));
    objects.push(binding(None, "vault", "cluster-admin", ("vault", "installer")));
    let borrower = ("edge", runs_as(&corpus["varnish-operator"]));
    let lent = json!([{"apiGroups": ["example.com"], "resources": ["treasures"], "verbs": ["get", "update"]}]);
    objects.push(role(Some("team-a"), "lent", &lent));
    objects.push(binding(Some("team-a"), "lent", "lent", borrower));
    objects
}

/// A copy as OLM makes them, and something that only calls itself one.
fn copies(corpus: &BTreeMap<String, Value>) -> Vec<Value> {
    let copy = |operator: &str, from: &str, name: Option<&str>| {
        let mut copy = installed(&corpus[operator], "team-a", false).remove(0);
        copy["metadata"]["labels"]["olm.copiedFrom"] = from.into();
        if let Some(name) = name {
            copy["metadata"]["name"] = name.into();
        }
        copy
    };
    vec![copy("grafana-operator", "monitoring", None), copy("zookeeper-operator", "nowhere", Some("lone.v1"))]
}

fn extensions() -> Vec<Value> {
    let within = "extensions";
    let modest =
        json!([{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list", "watch", "update"]}]);
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let mut objects = vec![account(within, "installer")];
    for (name, account, rules) in
        [("widgets", None, &modest), ("gadgets", Some("installer"), &modest), ("everything", None, &everything)]
    {
        let bundle = bundled(name, within, rules);
        objects.push(extension(name, within, account));
        objects.push(release(name, within, &bundle));
        // What a cluster without nodes has no use for stays in the release.
        objects.extend(
            bundle.into_iter().filter(|object| object["kind"] != "Deployment" && object["kind"] != "ConfigMap"),
        );
    }
    objects
}

fn everything_is_seen(audit: &Audit, name: &dyn Fn(&str) -> String) {
    assert_eq!(audit.output.status.code(), Some(1), "{}", audit.report["unread"]);
    assert_eq!(audit.report["unread"], json!([]));
    let count = INSTALLED.iter().map(|(.., operators)| operators.len()).sum::<usize>();
    assert!(count >= 15, "{count} operators");
    // Besides them one that only calls itself a copy, and the extensions; not the copy.
    assert_eq!(audit.operators().len(), count + 1 + 3);
    for (place, .., operators) in INSTALLED {
        for operator in operators {
            let (verdict, outcome) = match place {
                "cache" | "vault" => ("bounded", "none"),
                "databases" => ("exceeds", "none"),
                "delivery" => ("unbounded", "impossible"),
                "operators" if *operator == "flux-operator" => ("unbounded", "impossible"),
                _ => ("unbounded", "bounded"),
            };
            let name = name(operator);
            assert_eq!(
                (audit.verdict(&name), audit.outcome(&name)),
                (verdict, outcome),
                "{name}: {}",
                audit.operators()[&*name]
            );
        }
    }
    let operators = audit.operators();
    let of = |operator: &str| operators[&*name(operator)];
    assert_eq!(of("flux-operator")["clusterAdmin"][0]["way"], "everything");
    assert_eq!(of("knative-operator")["clusterAdmin"][0]["way"], "escalate");
    let reason = of("flux-operator")["proposal"]["reason"].as_str().unwrap();
    let words = format!("this is cluster-admin, because {} asks for apiGroups: [\"*\"]", name("flux-operator"));
    assert!(reason.starts_with(&words), "{reason}");
    assert_eq!(of("external-secrets-operator")["boundaries"][0]["clusterAdmin"][0]["way"], "everything");
    assert!(of("mariadb-operator")["missing"].as_array().unwrap().iter().any(|missing| missing["namespace"].is_null()));
    let holds = of("varnish-operator")["holds"].as_array().unwrap();
    let borrowed: Vec<&Value> = holds.iter().filter(|holding| holding["origin"] == "borrowed").collect();
    assert_eq!(borrowed.len(), 1, "{holds:?}");
    assert_eq!(
        (&borrowed[0]["namespace"], &borrowed[0]["rules"][0]["resources"]),
        (&json!("team-a"), &json!(["treasures"]))
    );
    assert!(
        operators["lone.v1"]["notes"][0].as_str().unwrap().contains("says that it is a copy"),
        "{}",
        operators["lone.v1"]
    );
    let accounts = audit.report["accounts"].as_array().unwrap();
    let surplus = accounts.iter().find(|account| account["identity"] == "ServiceAccount cache/installer").unwrap();
    assert_eq!(surplus["unused"][0]["rules"][0]["resources"], json!(["nobodyneeds"]), "{surplus}");
    for (extension, outcome) in [("widgets", "bounded"), ("gadgets", "bounded"), ("everything", "impossible")] {
        assert_eq!(
            (audit.verdict(extension), audit.outcome(extension)),
            ("unbounded", outcome),
            "{}",
            operators[extension]
        );
    }
    assert!(operators["gadgets"]["why"].as_str().unwrap().contains("OLM ignores spec.serviceAccount"));
}

/// Without RoleBindings and Secrets nothing is guessed; with what the report says to paste, everything is there.
fn an_auditor_is_told_what_is_missing(plane: &Plane, directory: &Path, complete: &Audit) {
    let kubeconfig = directory.join("auditor");
    let partial = Audit::run(&kubeconfig, &[]);
    assert_eq!(partial.output.status.code(), Some(2));
    let unread: Vec<&str> = partial.report["unread"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unread| unread["resource"].as_str().unwrap())
        .collect();
    assert_eq!(unread, ["rolebindings", "secrets"]);
    assert_eq!(partial.verdict("mariadb-operator.v26.6.0"), "unknown");
    // That nothing bounds it, and that it is cluster-admin, is known all the same.
    let known = partial.operators();
    let mighty = known["everything"];
    assert_eq!((&mighty["verdict"], &mighty["clusterAdmin"][0]["way"]), (&json!("unbounded"), &json!("everything")));
    assert!(mighty["notes"][0].as_str().unwrap().contains("its release could not be read"), "{mighty}");
    assert_eq!(partial.outcome("widgets"), "impossible");

    let commands: Vec<&str> =
        partial.report["grant"].as_array().unwrap().iter().map(|command| command.as_str().unwrap()).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    for command in commands {
        kubectl(&plane.kubeconfig(), command).unwrap();
    }
    let granted = Audit::run(&kubeconfig, &[]);
    assert_eq!(granted.output.status.code(), Some(1));
    for (name, operator) in complete.operators() {
        assert_eq!(granted.operators()[name], operator);
    }
}

fn everything_proposed_bounds(before: &Audit, after: &Audit) {
    assert_eq!(after.output.status.code(), Some(1), "what is cluster-admin still is");
    let proposed: Vec<&str> = before
        .operators()
        .into_iter()
        .filter(|(name, _)| before.outcome(name) == "bounded")
        .map(|(name, _)| name)
        .collect();
    assert_eq!(proposed.len(), 14, "{proposed:?}");
    for name in proposed {
        assert_eq!(after.verdict(name), "bounded", "{}", after.operators()[name]);
    }
    // Nothing else has changed but for the setting, which holds every extension to its own identity.
    assert_eq!(after.verdict("everything"), "exceeds");
    assert_eq!(after.verdict("flux-operator.v0.58.1"), "unbounded");
    let accounts = after.report["accounts"].as_array().unwrap();
    let identities: Vec<&str> = accounts.iter().map(|account| account["identity"].as_str().unwrap()).collect();
    assert_eq!(
        identities,
        ["ServiceAccount cache/installer", "ServiceAccount vault/installer"],
        "nothing proposed is too much"
    );
}
