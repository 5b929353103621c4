//! `audit` on dumps: what bounds each operator and extension, what it holds, and what would bound it. No cluster needed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "fixture/operators.rs"]
mod operators;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use operators::{account, binding, bundled, corpus, extension, group, installed, namespace, release, role};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A cluster on disk.
struct Dump {
    directory: TempDir,
    objects: Vec<Value>,
}

impl Dump {
    /// What every cluster has, and these objects.
    fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
        let mut all = vec![
            namespace("kube-system"),
            account("kube-system", "default"),
            role(None, "cluster-admin", &everything),
            role(Some("kube-system"), "nothing", &json!([])),
            binding(Some("kube-system"), "nothing", "nothing", ("kube-system", "default")),
        ];
        let mut admins = binding(None, "cluster-admin", "cluster-admin", ("", ""));
        admins["subjects"] =
            json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:masters"}]);
        all.push(admins);
        all.extend(objects);
        Dump { directory: TempDir::new().unwrap(), objects: all }
    }

    fn path(&self) -> PathBuf {
        let path = self.directory.path().join("cluster");
        std::fs::create_dir_all(&path).unwrap();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": self.objects});
        std::fs::write(path.join("all.json"), list.to_string()).unwrap();
        path
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let path = self.path();
        let common = ["audit", "--cluster", path.to_str().unwrap()];
        Command::new(env!("CARGO_BIN_EXE_operator-bounds")).args(common).args(arguments).output().unwrap()
    }

    /// The exit code, and the report.
    fn audit(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.run(&[&["--output", "json"], arguments].concat());
        let said = || format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said()));
        (output.status.code().unwrap(), report)
    }

    fn text(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.run(arguments).stdout).unwrap()
    }
}

#[track_caller]
fn of<'r>(report: &'r Value, name: &str) -> &'r Value {
    let mut operators = report["operators"].as_array().unwrap().iter();
    operators.find(|operator| operator["name"] == name).unwrap_or_else(|| panic!("{name} in {report}"))
}

/// An operator that asks for these rules: in its targets, and in the whole cluster.
fn csv(name: &str, permissions: &Value, cluster_permissions: &Value) -> Value {
    let entry = |rules: &Value| match rules.as_array() {
        Some(rules) if !rules.is_empty() => json!([{"serviceAccountName": "operator", "rules": rules}]),
        _ => json!([]),
    };
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name, "uid": name},
        "spec": {"installModes": [{"type": "AllNamespaces", "supported": true}, {"type": "OwnNamespace", "supported": true}],
            "install": {"strategy": "deployment", "spec": {
                "permissions": entry(permissions), "clusterPermissions": entry(cluster_permissions),
                "deployments": [{"name": "operator", "spec": {"template": {"spec": {"serviceAccountName": "operator"}}}}]}}}})
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!([{"apiGroups": [group], "resources": [resource], "verbs": verbs}])
}

fn nothing() -> Value {
    json!([])
}

/// A namespace with a group for itself, and an operator in it.
fn operator(place: &str, account_name: Option<&str>, csv: &Value) -> Vec<Value> {
    let mut objects = vec![namespace(place), group(place, &[place], account_name)];
    objects.extend(account_name.map(|name| account(place, name)));
    objects.extend(installed(csv, place, false));
    objects
}

#[test]
fn an_operator_that_nothing_bounds_gets_a_boundary_that_is_proven() {
    let dump = Dump::of(operator("team-a", None, &csv("small.v1", &rule("", "pods", &["get", "list"]), &nothing())));
    let (code, report) = dump.audit(&[]);
    assert_eq!(code, 1);
    let small = of(&report, "small.v1");
    assert_eq!((&small["verdict"], &small["clusterAdmin"]), (&json!("unbounded"), &json!([])));
    assert_eq!(small["why"], "OperatorGroup team-a/group names no service account: nothing bounds it");
    assert_eq!(
        small["proposal"],
        json!({"outcome": "bounded", "file": "operatorgroup-team-a-group.yaml", "boundary": "ServiceAccount team-a/operator-installer"})
    );
    let kinds: Vec<&str> = report["proposals"][0]["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["ServiceAccount", "Role", "RoleBinding", "OperatorGroup"]);
    assert_eq!(
        report["proposals"][0]["objects"][3]["spec"],
        json!({"serviceAccountName": "operator-installer", "targetNamespaces": ["team-a"]})
    );
    assert_eq!(report["proposedSettings"], Value::Null);
}

#[test]
fn what_is_proposed_bounds_when_it_is_applied() {
    let dump = Dump::of(operator(
        "team-a",
        None,
        &csv("small.v1", &rule("", "pods", &["get"]), &rule("", "nodes", &["list"])),
    ));
    let proposed = dump.directory.path().join("proposed");
    let output = dump.run(&["--write", proposed.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let files: BTreeSet<String> =
        std::fs::read_dir(&proposed).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, BTreeSet::from(["README.md".to_owned(), "operatorgroup-team-a-group.yaml".to_owned()]));
    // As `kubectl apply` would leave it.
    let applied = operator_bounds::documents::read(&proposed.join("operatorgroup-team-a-group.yaml")).unwrap();
    let mut after = Dump::of(dump.objects[6..].iter().filter(|object| object["kind"] != "OperatorGroup").cloned());
    after.objects.extend(applied);
    let (code, report) = after.audit(&[]);
    assert_eq!((code, &of(&report, "small.v1")["verdict"]), (0, &json!("bounded")), "{report}");
    assert_eq!(report["accounts"], json!([]), "nothing proposed is more than is needed");
    let again = dump.run(&["--write", proposed.to_str().unwrap()]);
    assert_eq!((again.status.code(), &*again.stdout), (Some(2), &b""[..]));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty: name a new directory"));
}

#[test]
fn a_boundary_that_lacks_something_is_exceeded_by_exactly_that() {
    let asks = rule("", "secrets", &["get", "list"]);
    let mut objects = operator("team-a", Some("installer"), &csv("more.v1", &asks, &nothing()));
    objects.push(role(Some("team-a"), "some", &rule("", "secrets", &["get"])));
    objects.push(binding(Some("team-a"), "some", "some", ("team-a", "installer")));
    let (code, report) = Dump::of(objects).audit(&[]);
    let more = of(&report, "more.v1");
    assert_eq!((code, &more["verdict"]), (1, &json!("exceeds")));
    let missing = json!([{"identity": "ServiceAccount team-a/installer", "namespace": "team-a",
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]}]);
    assert_eq!(more["missing"], missing);
    assert_eq!(more["boundaries"][0]["by"], "OperatorGroup team-a/group");
    assert_eq!(more["proposal"], Value::Null, "it has a boundary");
}

#[test]
fn declared_implied_and_borrowed_are_told_apart() {
    let mut webhook = csv("hooked.v1", &rule("", "pods", &["get"]), &nothing());
    webhook["spec"]["webhookdefinitions"] =
        json!([{"type": "ValidatingAdmissionWebhook", "deploymentName": "operator", "generateName": "v.example.com"}]);
    let mut objects = operator("team-a", None, &webhook);
    objects.push(namespace("vault"));
    objects.push(role(Some("vault"), "lent", &rule("", "secrets", &["get"])));
    objects.push(binding(Some("vault"), "lent", "lent", ("team-a", "operator")));
    let (_, report) = Dump::of(objects).audit(&[]);
    let hooked = of(&report, "hooked.v1");
    let origins: BTreeSet<(&str, &str)> = hooked["holds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|holding| (holding["origin"].as_str().unwrap(), holding["rules"][0]["resources"][0].as_str().unwrap()))
        .collect();
    for expected in [
        ("declared", "pods"),
        ("implied", "tokenreviews"),
        ("implied", "validatingwebhookconfigurations"),
        ("borrowed", "secrets"),
    ] {
        assert!(origins.contains(&expected), "{expected:?} in {origins:?}");
    }
    let borrowed = hooked["holds"].as_array().unwrap().iter().find(|holding| holding["origin"] == "borrowed").unwrap();
    assert_eq!(borrowed["namespace"], "vault");
    assert!(borrowed["why"].as_str().unwrap().contains("Role vault/lent through RoleBinding lent"), "{borrowed}");
    // What is borrowed has to be granted knowingly, or the binding removed.
    assert_eq!(hooked["proposal"]["outcome"], "bounded", "{hooked}");
}

#[test]
fn what_is_cluster_admin_is_said_with_its_rule_and_gets_no_boundary() {
    let dump = Dump::of(operator("team-a", None, &csv("god.v1", &nothing(), &rule("*", "*", &["*"]))));
    let (code, report) = dump.audit(&[]);
    let god = of(&report, "god.v1");
    assert_eq!((code, &god["clusterAdmin"][0]["way"]), (1, &json!("everything")));
    assert_eq!(god["clusterAdmin"][0]["identity"], "ServiceAccount team-a/operator");
    assert_eq!(
        god["proposal"]["reason"],
        "this is cluster-admin, because god.v1 asks for apiGroups: [\"*\"]  resources: [\"*\"]  verbs: [\"*\"] (clusterPermissions of \
         service account operator): ServiceAccount team-a/operator may do everything"
    );
    assert_eq!(report["proposals"], json!([]));
}

#[test]
fn an_account_that_is_cluster_admin_by_a_group_makes_its_operator_one() {
    let mut objects = operator("team-a", None, &csv("small.v1", &rule("", "pods", &["get"]), &nothing()));
    let mut everybody = binding(None, "oops", "cluster-admin", ("", ""));
    everybody["subjects"] =
        json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"}]);
    objects.push(everybody);
    let (_, report) = Dump::of(objects).audit(&[]);
    let small = of(&report, "small.v1");
    assert_eq!(small["clusterAdmin"][0]["rights"][0]["from"], "ClusterRole cluster-admin by ClusterRoleBinding oops");
}

#[test]
fn a_boundary_that_is_cluster_admin_bounds_nothing_and_is_a_finding() {
    let mut objects = operator("team-a", Some("installer"), &csv("small.v1", &rule("", "pods", &["get"]), &nothing()));
    objects.push(binding(None, "powerful", "cluster-admin", ("team-a", "installer")));
    let (code, report) = Dump::of(objects).audit(&[]);
    let small = of(&report, "small.v1");
    assert_eq!((code, &small["verdict"]), (1, &json!("bounded")));
    assert_eq!(small["boundaries"][0]["clusterAdmin"][0]["way"], "everything");
    assert_eq!(report["accounts"][0]["identity"], "ServiceAccount team-a/installer");
    assert_eq!(report["summary"]["clusterAdmin"], 1);
}

#[test]
fn where_one_operator_is_cluster_admin_the_others_get_an_account_each() {
    let mut objects = vec![namespace("operators"), group("operators", &[], None)];
    let rename = |mut csv: Value, account: &str| {
        csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["serviceAccountName"] =
            account.into();
        for list in ["permissions", "clusterPermissions"] {
            for entry in csv["spec"]["install"]["spec"][list].as_array_mut().unwrap() {
                entry["serviceAccountName"] = account.into();
            }
        }
        csv
    };
    for (name, rules) in [
        ("one.v1", rule("", "pods", &["get"])),
        ("god.v1", rule("*", "*", &["*"])),
        ("two.v1", rule("", "nodes", &["list"])),
    ] {
        objects.extend(installed(&rename(csv(name, &nothing(), &rules), name), "operators", true));
    }
    let (_, report) = Dump::of(objects).audit(&[]);
    assert_eq!(of(&report, "god.v1")["proposal"]["outcome"], "impossible");
    assert_eq!(of(&report, "one.v1")["proposal"]["boundary"], "ServiceAccount operators/one-bounds");
    assert_eq!(of(&report, "two.v1")["proposal"]["boundary"], "ServiceAccount operators/two-bounds");
    let group = report["proposals"][0]["objects"].as_array().unwrap().last().unwrap();
    assert_eq!(group["spec"].get("serviceAccountName"), None, "for OLM nothing changes");
    let restrict: BTreeMap<String, String> =
        serde_json::from_str(group["metadata"]["annotations"]["operator-bounds/restrict"].as_str().unwrap()).unwrap();
    assert_eq!(
        restrict.into_iter().collect::<Vec<_>>(),
        [("one.*".into(), "one-bounds".into()), ("two.*".into(), "two-bounds".into())]
    );
}

#[test]
fn an_operator_that_writes_definitions_takes_a_setting_that_is_said() {
    let asks = rule("apiextensions.k8s.io", "customresourcedefinitions", &["create", "update"]);
    let dump = Dump::of(operator("team-a", None, &csv("writer.v1", &nothing(), &asks)));
    let (_, report) = dump.audit(&[]);
    assert_eq!(of(&report, "writer.v1")["proposal"]["outcome"], "bounded");
    assert_eq!(report["proposals"][0]["settings"][0]["setting"], "operatorGroups.clusterWrites");
    assert_eq!(report["proposedSettings"], json!({"operatorGroups": {"clusterWrites": "warn"}}));
    assert!(dump.text(&[]).contains("it takes the setting operatorGroups.clusterWrites: warn"));
}

#[test]
fn an_account_that_happens_to_exist_is_not_proposed() {
    let mut objects = operator("team-a", None, &csv("small.v1", &rule("", "pods", &["get"]), &nothing()));
    objects.push(account("team-a", "operator-installer"));
    // Nobody is called so yet, and whoever is gets this.
    objects.push(binding(None, "waiting", "cluster-admin", ("team-a", "operator-installer-2")));
    let (_, report) = Dump::of(objects).audit(&[]);
    assert_eq!(of(&report, "small.v1")["proposal"]["boundary"], "ServiceAccount team-a/operator-installer-3");
}

#[test]
fn a_copy_is_left_out_and_what_only_calls_itself_one_is_not() {
    let original = csv("small.v1", &rule("", "pods", &["get"]), &nothing());
    let mut objects = operator("team-a", None, &original);
    objects.push(namespace("team-b"));
    for (name, from) in [("small.v1", "team-a"), ("lone.v1", "nowhere")] {
        let mut copy = installed(&original, "team-b", false).remove(0);
        copy["metadata"]["name"] = name.into();
        copy["metadata"]["labels"] = json!({"olm.copiedFrom": from});
        objects.push(copy);
    }
    let mut forged = installed(&csv("small.v1", &rule("", "secrets", &["*"]), &nothing()), "team-c", false).remove(0);
    forged["metadata"]["labels"] = json!({"olm.copiedFrom": "team-a"});
    objects.extend([namespace("team-c"), forged]);
    let (_, report) = Dump::of(objects).audit(&[]);
    let names: Vec<(&str, &str)> = report["operators"]
        .as_array()
        .unwrap()
        .iter()
        .map(|operator| (operator["namespace"].as_str().unwrap(), operator["name"].as_str().unwrap()))
        .collect();
    assert_eq!(names, [("team-a", "small.v1"), ("team-b", "lone.v1"), ("team-c", "small.v1")]);
    let lone = of(&report, "lone.v1");
    assert!(lone["why"].as_str().unwrap().starts_with("there is no OperatorGroup in namespace team-b"), "{lone}");
    assert!(
        lone["proposal"]["reason"].as_str().unwrap().starts_with("OLM does nothing for it without an OperatorGroup"),
        "{lone}"
    );
}

#[test]
fn a_mode_that_the_operator_does_not_support_is_noted() {
    let mut picky = csv("picky.v1", &rule("", "pods", &["get"]), &nothing());
    picky["spec"]["installModes"] =
        json!([{"type": "AllNamespaces", "supported": true}, {"type": "OwnNamespace", "supported": false}]);
    let (_, report) = Dump::of(operator("team-a", None, &picky)).audit(&[]);
    let note = of(&report, "picky.v1")["notes"][0].as_str().unwrap();
    assert_eq!(
        note,
        "it does not support OwnNamespace, so OLM does not run it in this OperatorGroup; it supports AllNamespaces"
    );
}

#[test]
fn olms_own_operator_and_exempt_namespaces_are_no_finding() {
    let mut packages = csv("packageserver", &nothing(), &rule("*", "*", &["*"]));
    packages["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["serviceAccountName"] =
        "olm-operator-serviceaccount".into();
    let mut objects = operator("olm", None, &packages);
    objects.extend(operator("team-a", None, &csv("small.v1", &rule("", "pods", &["get"]), &nothing())));
    let dump = Dump::of(objects);
    let (code, report) = dump.audit(&["--settings-json", r#"{"exempt": {"namespaces": ["team-a"]}}"#]);
    assert_eq!(code, 0, "{report}");
    assert_eq!(of(&report, "packageserver")["verdict"], "exempt");
    assert_eq!(of(&report, "small.v1")["why"], "the policy's settings exempt the operators of namespace team-a");
    // The name alone is not enough.
    let mut impostor = operator("team-b", None, &packages);
    impostor.extend(dump.objects[6..].iter().cloned());
    let (code, _) = Dump::of(impostor).audit(&["-n", "team-b"]);
    assert_eq!(code, 1);
}

#[test]
fn only_the_namespace_that_is_asked_for_is_reported() {
    let small = |name: &str| csv(name, &rule("", "pods", &["get"]), &nothing());
    let mut objects = operator("team-a", None, &small("a.v1"));
    objects.extend(operator("team-b", None, &small("b.v1")));
    objects.extend([namespace("olmv1-system"), extension("ext", "team-b", None)]);
    let dump = Dump::of(objects);
    let names = |arguments: &[&str]| {
        let (_, report) = dump.audit(arguments);
        let operators = report["operators"].as_array().unwrap().iter();
        operators.map(|operator| operator["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["-n", "team-b"]), ["ext", "b.v1"]);
    assert_eq!(names(&["-A"]).len(), 3);
    let mistyped = dump.run(&["-n", "team-c"]);
    assert_eq!(mistyped.status.code(), Some(2), "nothing is found where nothing is");
    assert_eq!(String::from_utf8_lossy(&mistyped.stderr), "error: there is no namespace team-c\n");
}

#[test]
fn a_cluster_without_operators_is_fine_and_says_so() {
    let (code, report) = Dump::of([]).audit(&[]);
    assert_eq!((code, &report["operators"]), (0, &json!([])));
    let notes = report["notes"].as_array().unwrap();
    assert!(notes.contains(&json!("there is no operator of OLM v0 and no extension of OLM v1")), "{notes:?}");
}

#[test]
fn a_dump_without_what_every_cluster_has_is_incomplete() {
    let objects = operator("team-a", Some("installer"), &csv("small.v1", &rule("", "pods", &["get"]), &nothing()));
    let mut dump = Dump::of(objects);
    dump.objects.retain(|object| object["kind"] != "ClusterRoleBinding");
    let (code, report) = dump.audit(&[]);
    assert_eq!(code, 2);
    assert_eq!(report["unread"][0]["kind"], "ClusterRoleBinding");
    assert!(report["unread"][0]["reason"].as_str().unwrap().contains("kubectl get -A -o yaml clusterrolebindings"));
    assert_eq!(of(&report, "small.v1")["verdict"], "unknown", "what could not be looked up is not guessed");
    assert_eq!(report["summary"]["complete"], false);
    assert!(dump.text(&[]).contains("Not read, so this report is incomplete:"));
}

#[test]
fn an_extension_is_judged_by_its_release() {
    let rules = rule("example.com", "widgets", &["get", "list"]);
    let bundle = bundled("ext", "team-x", &rules);
    let mut objects = vec![namespace("olmv1-system"), namespace("team-x"), extension("ext", "team-x", None)];
    objects.push(release("ext", "team-x", &bundle));
    let dump = Dump::of(objects);
    let (code, report) = dump.audit(&[]);
    let ext = of(&report, "ext");
    assert_eq!((code, &ext["verdict"]), (1, &json!("unbounded")));
    assert_eq!(ext["holds"][0]["rules"], rules);
    assert_eq!(ext["proposal"]["boundary"], "User olm:clusterextension:ext");
    assert_eq!(report["proposedSettings"], json!({"clusterExtensions": {"bound": "synthetic"}}));

    let bounding = r#"{"clusterExtensions": {"bound": "synthetic"}}"#;
    let (code, report) = dump.audit(&["--settings-json", bounding]);
    let ext = of(&report, "ext");
    assert_eq!((code, &ext["verdict"]), (1, &json!("exceeds")));
    assert_eq!(ext["boundaries"][0]["identity"], "User olm:clusterextension:ext");
    let missing: Vec<&Value> = ext["missing"].as_array().unwrap().iter().collect();
    assert!(missing.iter().any(|missing| missing["namespace"] == "team-x"), "{missing:?}");

    let (_, proposed) = dump.audit(&[]);
    let mut after = Dump::of(dump.objects[6..].iter().cloned());
    after.objects.extend(proposed["proposals"][0]["objects"].as_array().unwrap().iter().cloned());
    let (code, report) = after.audit(&["--settings-json", bounding]);
    assert_eq!((code, &of(&report, "ext")["verdict"]), (0, &json!("bounded")), "{report}");
    assert_eq!(report["accounts"], json!([]));
}

#[test]
fn releases_of_a_real_olm_are_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings/v1-releases.jsonl.gz");
    let Ok(file) = std::fs::File::open(&path) else {
        test_parts::not_run(&format!("no release of a real OLM was audited: {} is not there", path.display()));
        return;
    };
    let recorded = std::io::read_to_string(flate2::read::MultiGzDecoder::new(file)).unwrap();
    let releases =
        recorded.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["request"]["object"].take());
    let mut judged = Vec::new();
    for release in releases {
        let name = release["metadata"]["labels"]["name"].as_str().unwrap().to_owned();
        let place = format!("ns-{name}");
        let objects = [namespace("olmv1-system"), namespace(&place), extension(&name, &place, None), release];
        let (_, report) = Dump::of(objects).audit(&[]);
        let found = of(&report, &name);
        assert!(!found["holds"].as_array().unwrap().is_empty(), "{found}");
        judged.push((
            name,
            found["proposal"]["outcome"].as_str().unwrap().to_owned(),
            found["clusterAdmin"].as_array().unwrap().len(),
        ));
    }
    let expected = [("hello", "bounded", 0), ("hello", "bounded", 0), ("hooky", "impossible", 1)];
    assert_eq!(judged, expected.map(|(name, outcome, ways)| (name.to_owned(), outcome.to_owned(), ways)));
}

#[test]
fn a_release_of_nonsense_is_read_as_far_as_it_goes() {
    let nonsense = [json!(5), json!({"kind": "Role"}), json!({"kind": "RoleBinding", "metadata": "x", "subjects": 7})];
    let kept = release("ext", "team-x", &nonsense);
    let (code, report) =
        Dump::of([namespace("olmv1-system"), namespace("team-x"), extension("ext", "team-x", None), kept]).audit(&[]);
    assert_eq!((code, &of(&report, "ext")["holds"]), (1, &json!([])));
}

#[test]
fn what_an_extension_brings_as_helm_hooks_counts() {
    let bundle = bundled("ext", "team-x", &rule("example.com", "widgets", &["get"]));
    let hook = binding(None, "hook", "cluster-admin", ("team-x", "ext-operator"));
    let mut kept = release("ext", "team-x", &bundle);
    operators::add_hook(&mut kept, &hook);
    let (_, report) =
        Dump::of([namespace("olmv1-system"), namespace("team-x"), extension("ext", "team-x", None), kept]).audit(&[]);
    let ext = of(&report, "ext");
    assert_eq!(
        ext["clusterAdmin"][0]["rights"][0]["from"], "ClusterRole cluster-admin by ClusterRoleBinding hook",
        "{ext}"
    );
}

#[test]
fn without_its_release_an_extension_is_known_by_its_labels_alone() {
    let rules = rule("*", "*", &["*"]);
    let mut objects = vec![namespace("olmv1-system"), namespace("team-x"), extension("ext", "team-x", None)];
    objects.extend(bundled("ext", "team-x", &rules).into_iter().filter(|object| object["kind"] != "Deployment"));
    let (code, report) = Dump::of(objects).audit(&[]);
    let ext = of(&report, "ext");
    assert_eq!((code, &ext["clusterAdmin"][0]["way"]), (1, &json!("everything")));
    assert_eq!(
        ext["notes"][0],
        "OLM keeps no release of it: what it holds is taken from the RBAC that carries its labels"
    );
}

#[test]
fn an_extension_of_object_sets_is_judged_by_them() {
    let mut bundle = bundled("ext", "team-x", &rule("example.com", "widgets", &["get"]));
    let labels = json!({"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "ext"});
    let phases: Vec<Value> = bundle.drain(..).map(|object| json!({"object": object})).collect();
    let set = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "metadata": {"name": "ext-1", "labels": labels},
        "spec": {"lifecycleState": "Active", "revision": 1, "phases": [{"name": "all", "objects": phases}]}});
    let objects = vec![namespace("olmv1-system"), namespace("team-x"), extension("ext", "team-x", None), set];
    let (_, report) = Dump::of(objects).audit(&[]);
    let ext = of(&report, "ext");
    assert_eq!(ext["holds"][0]["rules"][0]["resources"], json!(["widgets"]));
    assert_eq!(ext["proposal"]["outcome"], "bounded", "{ext}");
}

#[test]
fn the_settings_of_the_registered_policy_count() {
    let bundle = bundled("ext", "team-x", &rule("example.com", "widgets", &["get"]));
    let mut objects = vec![namespace("olmv1-system"), namespace("team-x"), extension("ext", "team-x", None)];
    objects.push(release("ext", "team-x", &bundle));
    objects.push(json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "metadata": {"name": "bounds"},
        "spec": {"module": "registry://ghcr.io/operator-bounds/policies/operator-bounds:v0.1.0", "mode": "monitor",
            "rules": [{"resources": ["*"]}], "settings": {"clusterExtensions": {"bound": "synthetic"}}}}));
    let dump = Dump::of(objects);
    let (_, report) = dump.audit(&[]);
    assert_eq!(of(&report, "ext")["verdict"], "exceeds");
    assert_eq!(
        report["policy"],
        json!({"settings": "cluster", "registrations": [{"name": "bounds", "mode": "monitor"}]})
    );
    assert!(dump.text(&[]).contains("judged with the settings of the policy as it is registered: bounds (monitor)"));
}

#[test]
fn hostile_names_reach_neither_the_terminal_nor_a_file_name_nor_the_page() {
    let mut hostile = csv("a\u{1b}[31m<script>alert(1)</script>\n.v1", &rule("", "pods", &["get"]), &nothing());
    hostile["metadata"]["uid"] = "x".into();
    let place = "../../<img src=x>";
    let dump = Dump::of(operator(place, None, &hostile));
    let text = dump.text(&[]);
    assert!(!text.contains('\u{1b}'), "{text}");
    let page = dump.text(&["--output", "html"]);
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "no text of a manifest is markup");
    let (_, report) = dump.audit(&[]);
    for proposal in report["proposals"].as_array().unwrap() {
        let file = Path::new(proposal["file"].as_str().unwrap());
        assert_eq!(file.components().count(), 1, "{}", file.display());
    }
}

#[test]
fn without_a_terminal_nothing_is_shortened() {
    let dump = Dump::of(operator(
        "a-namespace-with-a-rather-long-name",
        None,
        &csv("an-operator-with-a-rather-long-name-too.v123.456.789", &rule("", "pods", &["get"]), &nothing()),
    ));
    let text = dump.text(&[]);
    assert!(
        text.lines()
            .nth(1)
            .unwrap()
            .contains("a-namespace-with-a-rather-long-name/an-operator-with-a-rather-long-name-too.v123.456.789")
    );
}

/// Real operators in namespaces of their own, in the widest mode that each supports.
fn real(operators: &[Value]) -> Vec<Value> {
    let mut objects = Vec::new();
    for (number, csv) in operators.iter().enumerate() {
        let modes = csv["spec"]["installModes"].as_array().into_iter().flatten();
        let is_lifted = { modes }.any(|mode| mode["type"] == "AllNamespaces" && mode["supported"] == true);
        let place = format!("real-{number}");
        let own = [place.as_str()];
        let mut csv = csv.clone();
        csv["metadata"]["uid"] = place.as_str().into();
        objects.push(namespace(&place));
        objects.push(group(&place, if is_lifted { &[] } else { &own }, None));
        objects.extend(installed(&csv, &place, is_lifted));
    }
    objects
}

#[test]
fn every_real_operator_is_bounded_by_what_is_proposed_or_told_why_not() {
    let Some(corpus) = corpus() else { return };
    let operators: Vec<Value> = corpus.into_values().collect();
    let (mut bounded, mut told) = (0, 0);
    // In clusters of a common size.
    for operators in operators.chunks(40) {
        let (code, report) = Dump::of(real(operators)).audit(&[]);
        assert_eq!(code, 1);
        assert_eq!(report["operators"].as_array().unwrap().len(), operators.len());
        for operator in report["operators"].as_array().unwrap() {
            let proposal = &operator["proposal"];
            if proposal["outcome"] == "bounded" {
                assert_eq!(operator["clusterAdmin"], json!([]), "{}", operator["name"]);
                bounded += 1;
            } else {
                let reason = proposal["reason"].as_str().unwrap();
                assert!(reason.starts_with("this is cluster-admin, because "), "{operator}");
                told += 1;
            }
        }
    }
    assert_eq!(bounded + told, operators.len());
    println!("{bounded} real operators get a boundary that is proven, and {told} are told that they are cluster-admin");
}
