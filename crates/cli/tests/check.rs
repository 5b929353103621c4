//! `check` from the outside: what it prints in each format, its exit codes, and what it does with input that is broken.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod fixture;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bounds::rbac::{Index, Rule, compact};
use fixture::files;
use flate2::write::GzEncoder;
use operator_bounds::documents;
use serde_json::{Value, json};
use tempfile::TempDir;

struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Outcome {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }

    /// The objects of a JSON report: kind, name and status.
    fn statuses(&self) -> Vec<(String, String)> {
        let report = self.json();
        let objects = report["objects"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let said =
            |object: &Value| (format!("{} {}", text(&object["kind"]), text(&object["name"])), text(&object["status"]));
        objects.iter().map(said).collect()
    }
}

fn run(mut command: Command) -> Outcome {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_operator-bounds")
}

fn check(directory: &Path, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(binary());
    command.current_dir(directory).arg("check").args(arguments);
    run(command)
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/etcd").join(name);
    fs::read_to_string(path).unwrap()
}

/// The example: an operator, and a namespace whose account holds less than it asks for.
fn etcd() -> TempDir {
    files(&[("etcd.yaml", &example("etcdoperator.v0.9.4.yaml")), ("team-a.yaml", &example("cluster/team-a.yaml"))])
}

const GROUP: &str = "
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {name: og, namespace: team-a}
spec: {serviceAccountName: installer, targetNamespaces: [team-a]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: installer, namespace: team-a}
";

/// An operator that wants to read pods, and to intercept the API.
const WEBHOOK_CSV: &str = "
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: hook.v1, namespace: placeholder}
spec:
  install:
    strategy: deployment
    spec:
      permissions:
      - serviceAccountName: hook
        rules:
        - {apiGroups: [''], resources: [pods], verbs: [get, list]}
      clusterPermissions:
      - serviceAccountName: hook
        rules:
        - {apiGroups: [''], resources: [nodes], verbs: [get]}
      deployments:
      - name: hook
        spec: {template: {spec: {serviceAccountName: hook}}}
  webhookdefinitions:
  - {type: ValidatingAdmissionWebhook, deploymentName: hook, generateName: v.example.com}
";

/// An operator that asks for one thing.
fn csv(name: &str, resource: &str) -> String {
    format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {{name: {name}}}\nspec:\n  install:\n    \
         strategy: deployment\n    spec:\n      permissions:\n      - serviceAccountName: x\n        rules:\n        \
         - {{apiGroups: [''], resources: [{resource}], verbs: [get]}}\n"
    )
}

const ANNOTATIONS: &str = "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
                           operators.operatorframework.io.bundle.manifests.v1: manifests/\n";

/// What lets the installer read pods in team-a.
const READS_PODS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pods, namespace: team-a}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: pods, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: pods}
subjects: [{kind: ServiceAccount, name: installer, namespace: team-a}]
";

#[test]
fn an_operator_that_asks_for_too_much_is_refused_with_exit_code_one() {
    let directory = etcd();
    let outcome = check(directory.path(), &["etcd.yaml", "--cluster", "team-a.yaml"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (1, ""));
    for words in [
        "refused    ClusterServiceVersion team-a/etcdoperator.v0.9.4  etcd.yaml:2\n",
        "asks for more than ServiceAccount team-a/installer allows (OperatorGroup team-a/og):\n",
        "apiGroups: [\"\"]  resources: [secrets]  verbs: [get]\n",
        "1 object in 1 file: 1 refused\n",
    ] {
        assert!(outcome.stdout.contains(words), "{words}: {}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains('\x1b'), "colour is for terminals: {}", outcome.stdout);
}

#[test]
fn what_derive_prints_is_all_that_was_missing() {
    let directory = etcd();
    let mut derive = Command::new(binary());
    derive.current_dir(directory.path());
    derive.args([
        "derive",
        "etcd.yaml",
        "--for",
        "serviceaccount",
        "team-a/installer",
        "--missing",
        "--cluster",
        "team-a.yaml",
    ]);
    fs::write(directory.path().join("granted.yaml"), run(derive).stdout).unwrap();
    let together = check(directory.path(), &[".", "--output", "json"]);
    assert_eq!(together.code, 0, "{}", together.stdout);
    assert!(
        together.statuses().contains(&("ClusterServiceVersion etcdoperator.v0.9.4".to_owned(), "bounded".to_owned()))
    );
    let alone = check(directory.path(), &["etcd.yaml", "granted.yaml", "--cluster", "team-a.yaml", "--cluster-only"]);
    assert_eq!(alone.code, 1, "what is given does not count with --cluster-only: {}", alone.stdout);
}

#[test]
fn json_names_the_line_of_each_rule_that_is_missing() {
    let directory = etcd();
    let outcome = check(directory.path(), &["etcd.yaml", "--cluster", "team-a.yaml", "--output", "json"]);
    assert_eq!(outcome.code, 1);
    let report = outcome.json();
    let object = &report["objects"][0];
    assert_eq!(
        (&object["status"], &object["reason"], &object["code"]),
        (&json!("refused"), &json!("exceeds"), &json!(403))
    );
    assert_eq!((&object["file"], &object["line"]), (&json!("etcd.yaml"), &json!(2)));
    let text = example("etcdoperator.v0.9.4.yaml");
    let lines: Vec<&str> = text.lines().collect();
    let missing = object["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 4);
    for missing in missing {
        let line = lines[usize::try_from(missing["line"].as_u64().unwrap()).unwrap() - 1];
        assert!(line.trim_start().starts_with("- apiGroups: "), "{line}");
        let group = line.split(['[', ']']).nth(1).unwrap();
        assert!(missing["text"].as_str().unwrap().contains(&format!("apiGroups: [{group}]")), "{line}: {missing}");
    }
    assert_eq!(report["summary"]["complete"], true);
}

#[test]
fn sarif_has_what_the_schema_asks_for_and_a_result_for_each_rule() {
    let directory = etcd();
    let outcome = check(directory.path(), &[".", "--output", "sarif"]);
    assert_eq!(outcome.code, 1);
    let log = outcome.json();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "operator-bounds");
    let rules: Vec<&Value> = driver["rules"].as_array().unwrap().iter().map(|rule| &rule["id"]).collect();
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for result in results {
        assert!(rules.contains(&&result["ruleId"]));
        assert_eq!(result["level"], "error");
        assert!(result["message"]["text"].as_str().unwrap().contains("in namespace team-a: apiGroups: "));
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "etcd.yaml");
        assert!(
            place["region"]["startLine"].as_u64().unwrap() > 20 && place["region"]["startColumn"].as_u64() == Some(11)
        );
    }
}

#[test]
fn junit_counts_and_has_a_case_for_each_object() {
    let directory = etcd();
    let outcome = check(directory.path(), &[".", "--output", "junit"]);
    assert_eq!(outcome.code, 1);
    let xml = &outcome.stdout;
    assert!(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"operator-bounds\" tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"2\">"), "{xml}");
    assert_eq!((xml.matches("<testcase ").count(), xml.matches("</testcase>").count()), (4, 4));
    assert!(
        xml.contains(
            "<failure type=\"exceeds\" message=\"ClusterServiceVersion team-a/etcdoperator.v0.9.4 asks for more"
        ),
        "{xml}"
    );
    assert!(xml.contains("etcd.yaml:22: missing in namespace team-a"), "{xml}");
}

#[test]
fn github_annotations_are_one_line_each_at_the_line_of_the_rule() {
    let directory = etcd();
    let outcome = check(directory.path(), &["etcd.yaml", "--cluster", "team-a.yaml", "--output", "github"]);
    assert_eq!(outcome.code, 1);
    let errors: Vec<&str> = outcome.stdout.lines().filter(|line| line.starts_with("::error ")).collect();
    assert_eq!(errors.len(), 4);
    assert!(errors[0].starts_with("::error file=etcd.yaml,line=22,col=11,title=ClusterServiceVersion team-a/etcdoperator.v0.9.4 refused::asks for more"), "{}", errors[0]);
    assert_eq!(outcome.stdout.lines().count(), 5);
}

#[test]
fn a_report_in_a_file_is_there_only_when_it_is_whole() {
    let directory = etcd();
    let written = check(
        directory.path(),
        &["etcd.yaml", "--cluster", "team-a.yaml", "-o", "json", "--output-file", "report.json"],
    );
    assert_eq!((written.code, written.stdout.as_str()), (1, ""));
    let report: Value = serde_json::from_slice(&fs::read(directory.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(report["summary"]["refused"], 1);
    fs::write(directory.path().join("broken.yaml"), "a: [\n").unwrap();
    let failed = check(directory.path(), &[".", "-o", "json", "--output-file", "other.json"]);
    assert_eq!(failed.code, 2);
    let names: Vec<String> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.iter().any(|name| name.contains("other") || name.contains(".part")), "{names:?}");
}

#[test]
fn explain_tells_the_whole_way_to_the_verdict() {
    let directory = etcd();
    for said in [
        "etcdoperator.v0.9.4",
        "ClusterServiceVersion/etcdoperator.v0.9.4",
        "ClusterServiceVersion/team-a/etcdoperator.v0.9.4",
    ] {
        let outcome = check(directory.path(), &[".", "--explain", said]);
        assert_eq!(outcome.code, 1, "{said}");
        for words in [
            "Group\n  OperatorGroup team-a/og, targets team-a\n",
            "Boundary\n  ServiceAccount team-a/installer (OperatorGroup team-a/og)\n  user system:serviceaccount:team-a:installer\n",
            "groups system:serviceaccounts, system:serviceaccounts:team-a, system:authenticated\n",
            "in namespace team-a: RoleBinding installer → Role team-a/installer, 4 rules\n",
            "etcd.yaml:31  spec.install.spec.permissions[0].rules[3] for account etcd-operator, in namespace team-a\n",
            "MISSING: apiGroups: [\"\"]  resources: [secrets]  verbs: [get]\n",
            "Verdict\n  refused (403): exceeds\n",
            "Looked up\n  list of OperatorGroups\n",
        ] {
            assert!(outcome.stdout.contains(words), "{words}: {}", outcome.stdout);
        }
    }
    let nobody = check(directory.path(), &[".", "--explain", "nobody"]);
    assert_eq!(nobody.code, 2);
    assert!(nobody.stderr.contains("none of the judged objects is named nobody"), "{}", nobody.stderr);
}

#[test]
fn explain_says_what_covers_what_is_implied_and_why() {
    let cluster = GROUP.replace("targetNamespaces: [team-a]", "targetNamespaces: []")
        + "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reader}\n\
           rules: [{apiGroups: ['*'], resources: [pods], verbs: [get]}]\n---\napiVersion: rbac.authorization.k8s.io/v1\n\
           kind: ClusterRoleBinding\nmetadata: {name: readers}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}\n\
           subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: 'system:serviceaccounts:team-a'}]\n";
    let directory = files(&[("cluster.yaml", &cluster), ("hook.yaml", WEBHOOK_CSV)]);
    let outcome = check(directory.path(), &[".", "--explain", "hook.v1"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    for words in [
        "targets all namespaces\n",
        "cluster-wide (OLM lifts it to a ClusterRole because the group targets all namespaces)\n",
        "covered by rule 1 of ClusterRole reader (ClusterRoleBinding readers): apiGroups: [\"\"]  resources: [pods]  verbs: [get]\n",
        "MISSING: apiGroups: [\"\"]  resources: [pods]  verbs: [list]\n",
        "implied, cluster-wide: reading namespaces comes from OLM, which adds it when it lifts permissions to all namespaces\n",
        "implied, cluster-wide: its webhookdefinitions make OLM create validatingwebhookconfigurations\n",
        "implied, in namespace team-a: OLM lets an operator with API services or webhooks read its certificate, Secret hook-service-cert\n",
    ] {
        assert!(outcome.stdout.contains(words), "{words}: {}", outcome.stdout);
    }
}

#[test]
fn a_borrowed_account_is_explained() {
    let stronger = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: admin}\nrules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n\
        ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: strong}\n\
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}\nsubjects: [{kind: ServiceAccount, name: hook, namespace: team-a}]\n";
    let directory = files(&[("cluster.yaml", &(GROUP.to_owned() + stronger)), ("hook.yaml", WEBHOOK_CSV)]);
    let outcome = check(directory.path(), &[".", "--explain", "hook.v1"]);
    let words = "implied, cluster-wide: ServiceAccount team-a/hook, which its Deployments run as, already holds ClusterRole admin through ClusterRoleBinding strong";
    assert!(outcome.stdout.contains(words), "{}", outcome.stdout);
}

#[test]
fn a_directory_is_judged_together_and_everything_bounded_is_exit_code_zero() {
    let directory = files(&[
        ("deep/group.yaml", GROUP),
        ("deep/rbac.yaml", READS_PODS),
        ("op.yaml", &csv("op.v1", "pods")),
        ("values.yaml", "replicas: 1\n"),
        ("README.md", "\0binary, but no manifest"),
    ]);
    let outcome = check(directory.path(), &["."]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains("bounded    ClusterServiceVersion team-a/op.v1  ./op.yaml:1\n"),
        "{}",
        outcome.stdout
    );
    fs::write(directory.path().join("op2.yaml"), csv("op.v2", "secrets")).unwrap();
    assert_eq!(check(directory.path(), &["."]).code, 1);
}

#[test]
fn lists_are_taken_apart_and_each_object_has_its_line() {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "a"}},
        {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "b"}},
    ]});
    let directory = files(&[("list.json", &serde_json::to_string_pretty(&list).unwrap())]);
    let report = check(directory.path(), &["list.json", "-o", "json"]).json();
    assert_eq!((&report["objects"][0]["line"], &report["objects"][1]["line"]), (&json!(4), &json!(11)));
}

#[test]
fn without_a_group_nothing_bounds_an_operator_and_that_is_said() {
    let directory = files(&[("op.yaml", &csv("op.v1", "pods"))]);
    let outcome = check(directory.path(), &["op.yaml"]);
    assert_eq!(outcome.code, 0);
    assert!(
        outcome.stdout.contains("unbounded  ClusterServiceVersion default/op.v1  op.yaml:1\n"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("no OperatorGroup in namespace default: nothing bounds it"), "{}", outcome.stdout);
}

#[test]
fn where_an_operator_goes_is_never_guessed_among_several() {
    let groups = GROUP.to_owned() + "---" + &GROUP.replace("team-a", "team-b");
    let directory = files(&[("groups.yaml", &groups), ("op.yaml", &csv("op.v1", "pods"))]);
    let outcome = check(directory.path(), &["."]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    assert!(outcome.stderr.contains("ClusterServiceVersion op.v1 has no namespace, and there are OperatorGroups in team-a, team-b: choose one with --namespace"), "{}", outcome.stderr);
    let told = check(directory.path(), &[".", "--namespace", "team-b", "-o", "json"]);
    assert_eq!(told.code, 1);
    assert!(told.stdout.contains("ServiceAccount team-b/installer"), "{}", told.stdout);
}

#[test]
fn the_guard_asks_who_sends_only_when_somebody_does() {
    let directory = files(&[("group.yaml", &(GROUP.to_owned() + "---" + READS_PODS))]);
    assert_eq!(check(directory.path(), &["group.yaml"]).code, 0);
    let jane = check(directory.path(), &["group.yaml", "--as", "jane", "--as-group", "developers"]);
    assert_eq!(jane.code, 1, "{}", jane.stdout);
    assert!(jane.stdout.contains("jane"), "{}", jane.stdout);
    assert_eq!(check(directory.path(), &["group.yaml", "--as", "root", "--as-group", "system:masters"]).code, 0);
}

#[test]
fn settings_are_the_policys_own() {
    let directory = etcd();
    let warned = check(directory.path(), &[".", "--settings-json", r#"{"mode":"warn"}"#, "-o", "json"]);
    assert_eq!(warned.code, 0);
    assert!(warned.statuses().iter().any(|(name, status)| name.ends_with("v0.9.4") && status == "warned"));
    let wrong = check(directory.path(), &[".", "--settings-json", r#"{"moed":"warn"}"#]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (2, ""));
}

#[test]
fn an_install_plan_is_judged_as_its_approval() {
    let manifest = serde_json::to_string(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}))
    .unwrap();
    let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "install-1", "namespace": "team-a"}, "spec": {"approved": true},
        "status": {"plan": [{"resolving": "op.v1", "resource": {"group": "rbac.authorization.k8s.io", "version": "v1",
            "kind": "Role", "name": "r", "manifest": manifest}}]}});
    let directory = files(&[("group.yaml", GROUP), ("plan.json", &plan.to_string())]);
    let outcome = check(directory.path(), &["."]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stdout.contains("refused    InstallPlan team-a/install-1"), "{}", outcome.stdout);
}

fn bundle() -> TempDir {
    files(&[
        ("bundle/manifests/hook.clusterserviceversion.yaml", WEBHOOK_CSV),
        ("bundle/metadata/annotations.yaml", ANNOTATIONS),
        ("cluster/group.yaml", GROUP),
    ])
}

#[test]
fn the_operator_of_a_bundle_is_judged_where_it_would_go() {
    let directory = bundle();
    for arguments in [&["bundle", "--cluster", "cluster"][..], &["bundle", "--cluster", "cluster", "-n", "team-a"][..]]
    {
        let outcome = check(directory.path(), arguments);
        assert_eq!(outcome.code, 1);
        assert!(
            outcome.stdout.contains("refused    ClusterServiceVersion team-a/hook.v1  bundle/manifests/"),
            "{}",
            outcome.stdout
        );
    }
}

#[test]
fn a_bundle_grants_itself_nothing_and_what_it_brings_is_judged() {
    let directory = bundle();
    let grab = READS_PODS
        .replace("resources: [pods]", "resources: ['*']")
        .replace("apiGroups: ['']", "apiGroups: ['*']")
        .replace("verbs: [get]", "verbs: ['*']");
    fs::write(directory.path().join("bundle/manifests/grab.yaml"), grab).unwrap();
    let outcome = check(directory.path(), &["bundle", "--cluster", "cluster", "-o", "json"]);
    assert_eq!(outcome.code, 1);
    let statuses = outcome.statuses();
    assert_eq!(
        statuses,
        [
            ("ClusterServiceVersion hook.v1".to_owned(), "refused".to_owned()),
            ("InstallPlan hook.v1".to_owned(), "refused".to_owned()),
        ]
    );
}

/// Packs a directory below a top directory of its own, as releases are packed.
fn pack(directory: &Path, archive: &Path) {
    let mut builder =
        tar::Builder::new(GzEncoder::new(fs::File::create(archive).unwrap(), flate2::Compression::fast()));
    builder.append_dir_all("hook-1.0", directory).unwrap();
    builder.into_inner().unwrap().finish().unwrap();
}

#[test]
fn a_packed_bundle_is_the_same_as_its_directory() {
    let directory = bundle();
    pack(&directory.path().join("bundle"), &directory.path().join("bundle.tar.gz"));
    let outcome = check(directory.path(), &["bundle.tar.gz", "--cluster", "cluster"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("ClusterServiceVersion team-a/hook.v1  bundle.tar.gz/hook-1.0/manifests/hook"),
        "{}",
        outcome.stdout
    );
    let whole = fs::read(directory.path().join("bundle.tar.gz")).unwrap();
    fs::write(directory.path().join("half.tar.gz"), &whole[..whole.len() / 2]).unwrap();
    let half = check(directory.path(), &["half.tar.gz", "--cluster", "cluster"]);
    assert_eq!((half.code, half.stdout.as_str()), (2, ""));
    assert!(half.stderr.contains("half.tar.gz: cannot be unpacked"), "{}", half.stderr);
}

#[test]
fn half_a_bundle_is_named() {
    let directory = bundle();
    let manifests = directory.path().join("bundle/manifests");
    fs::write(manifests.join("second.yaml"), csv("second.v1", "pods")).unwrap();
    let two = check(directory.path(), &["bundle", "--cluster", "cluster"]);
    assert_eq!(two.code, 2);
    assert!(
        two.stderr.contains("2 ClusterServiceVersions in bundle/manifests: a bundle must have exactly one"),
        "{}",
        two.stderr
    );
    fs::remove_dir_all(&manifests).unwrap();
    let none = check(directory.path(), &["bundle", "--cluster", "cluster"]);
    assert_eq!((none.code, none.stdout.as_str()), (2, ""));
    assert!(
        none.stderr.contains(
            "bundle/metadata/annotations.yaml: incomplete bundle: no ClusterServiceVersion in bundle/manifests"
        ),
        "{}",
        none.stderr
    );
}

/// A directory where almost everything is wrong, and one operator is fine.
#[cfg(unix)]
fn wreck() -> TempDir {
    let directory = files(&[
        ("good.yaml", &csv("good.v1", "pods")),
        ("broken.yaml", "a: 1\nb:\n  - x\n c: 2\n"),
        ("sub/broken.json", "{\n  \"a\": }"),
        ("half.yaml", "kind: ClusterServiceVersion\n"),
    ]);
    let path = |name: &str| directory.path().join(name);
    fs::write(path("image.yaml"), b"\x89PNG\r\n\x1a\n\0\0").unwrap();
    fs::write(path("latin.yaml"), b"name: caf\xe9\n").unwrap();
    fs::write(path("packed.yaml.gz"), b"not packed at all").unwrap();
    std::os::unix::fs::symlink(directory.path(), path("sub/loop")).unwrap();
    std::os::unix::fs::symlink("nowhere.yaml", path("dangling.yaml")).unwrap();
    assert!(Command::new("mkfifo").arg(path("pipe.yaml")).status().unwrap().success());
    directory
}

/// What [`wreck`] has to be told about, each at its place.
const WRECKED: [&str; 9] = [
    "./broken.yaml:4:2: ",
    "./dangling.yaml: ",
    "./half.yaml: document 1: ClusterServiceVersion without an apiVersion",
    "./image.yaml:1:1: not a text file",
    "./latin.yaml:1:10: not a text file",
    "./packed.yaml.gz: cannot be unpacked",
    "./pipe.yaml: not a regular file",
    "./sub/broken.json:2:8: ",
    "./sub/loop: links back to ",
];

#[cfg(unix)]
#[test]
fn everything_that_cannot_be_read_is_named_and_counted_and_nothing_is_reported() {
    let directory = wreck();
    for format in ["table", "json", "sarif", "junit", "github", "html"] {
        let outcome = check(directory.path(), &[".", "-o", format]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{format}");
        for words in WRECKED {
            assert!(outcome.stderr.contains(words), "{words}: {}", outcome.stderr);
        }
        assert!(
            outcome.stderr.ends_with(
                "error: 9 inputs cannot be read, so nothing was checked; use --keep-going to check the rest\n"
            ),
            "{}",
            outcome.stderr
        );
    }
}

#[cfg(unix)]
#[test]
fn who_keeps_going_is_told_in_every_format_that_it_is_not_the_whole() {
    let directory = wreck();
    for (format, words) in [
        ("table", "NOT READ: 9 problems, so this report is incomplete"),
        ("json", "\"complete\":false"),
        ("sarif", "\"executionSuccessful\":false"),
        ("junit", "errors=\"9\""),
        ("github", "::error file=./broken.yaml,line=4,col=2,title=not read::"),
        ("html", "This report is incomplete"),
    ] {
        let outcome = check(directory.path(), &[".", "--keep-going", "-o", format]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{format}");
        assert!(outcome.stdout.contains(words) && outcome.stdout.contains("good.v1"), "{format}: {}", outcome.stdout);
        assert!(outcome.stdout.contains("links back to"), "{format}: {}", outcome.stdout);
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let directory = files(&[("secret.yaml", &csv("a", "pods")), ("open.yaml", &csv("b", "pods"))]);
    fs::set_permissions(directory.path().join("secret.yaml"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(binary());
    if fs::read(directory.path().join("secret.yaml")).is_ok() {
        // Root reads everything; somebody else does not. The binary goes to where somebody else can reach it.
        let copy = directory.path().join("operator-bounds");
        fs::copy(binary(), &copy).unwrap();
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
    }
    let outcome = run({
        command.current_dir(directory.path()).args(["check", "."]);
        command
    });
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("./secret.yaml: Permission denied"), "{}", outcome.stderr);
}

#[test]
fn the_same_object_twice_is_a_problem_only_when_both_differ() {
    let directory = files(&[
        ("a.yaml", READS_PODS),
        ("b.yaml", READS_PODS),
        ("group.yaml", GROUP),
        ("op.yaml", &csv("op.v1", "pods")),
    ]);
    assert_eq!(check(directory.path(), &["."]).code, 0);
    fs::write(directory.path().join("b.yaml"), READS_PODS.replace("verbs: [get]", "verbs: ['*']")).unwrap();
    let outcome = check(directory.path(), &["."]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("./b.yaml: Role team-a/pods is also in ./a.yaml, with different content"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn what_is_given_counts_instead_of_what_is_in_the_cluster_and_the_status_stays() {
    let cluster = GROUP.replace(
        "spec: {serviceAccountName: installer, targetNamespaces: [team-a]}",
        "spec: {targetNamespaces: [team-a]}\nstatus: {namespaces: ['']}",
    );
    let directory =
        files(&[("cluster/c.yaml", &cluster), ("given/group.yaml", GROUP), ("given/op.yaml", &csv("op.v1", "pods"))]);
    let outcome = check(directory.path(), &["given", "--cluster", "cluster"]);
    assert_eq!(outcome.code, 1);
    assert!(
        outcome.stdout.contains("allows (OperatorGroup team-a/og):\n") && outcome.stdout.contains("cluster-wide"),
        "{}",
        outcome.stdout
    );
    assert_eq!(check(directory.path(), &["given", "--cluster", "cluster", "--cluster-only"]).code, 0);
}

#[test]
fn an_operator_that_is_installed_is_no_candidate() {
    let installed = csv("op.v1", "pods").replace("{name: op.v1}", "{name: op.v1, namespace: team-a, uid: 1-2-3}");
    let directory = files(&[("dump.yaml", &(GROUP.to_owned() + "---\n" + &installed))]);
    let outcome = check(directory.path(), &["dump.yaml"]);
    assert!(outcome.stdout.contains("Already there: op.v1"), "{}", outcome.stdout);
}

#[test]
fn standard_input_is_read_too_and_an_empty_directory_is_a_mistake() {
    let directory = files(&[]);
    let mut child = Command::new(binary())
        .current_dir(directory.path())
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(csv("op.v1", "pods").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("op.v1  standard input:1\n"));
    let empty = check(directory.path(), &["."]);
    assert_eq!(empty.code, 2);
    assert!(empty.stderr.contains(".: contains no YAML or JSON files"), "{}", empty.stderr);
    assert_eq!(check(directory.path(), &["gone"]).code, 2);
    assert_eq!(check(directory.path(), &[]).code, 2);
}

/// An operator whose author wants more than permissions.
const HOSTILE: &str = r#"{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
"metadata": {"name": "\"><script>document.title='pwned'</script>\u001b[31m\n::error::pwned\u202e"},
"spec": {"install": {"spec": {"permissions": [{"serviceAccountName": "</pre><b>x", "rules": [
  {"apiGroups": ["<img src=x onerror=alert(1)>"], "resources": ["'\"><svg onload=alert(2)>"], "verbs": ["</td><script>alert(3)</script>"],
   "resourceNames": ["]]>\u0000"]}]}]}}}}"#;

#[test]
fn no_text_of_a_manifest_becomes_anything_but_text() {
    let directory = files(&[("group.yaml", GROUP), ("hostile.json", HOSTILE)]);
    for format in ["table", "junit", "github", "html"] {
        let outcome = check(directory.path(), &[".", "-o", format]);
        assert_eq!(outcome.code, 1, "{format}: {}", outcome.stderr);
        let text = &outcome.stdout;
        assert!(text.contains("pwned") && !text.contains(['\x1b', '\0', '\u{202e}']), "{format}: {text}");
        if format == "github" {
            assert!(!text.lines().any(|line| line.starts_with("::error::")), "{text}");
        }
        if matches!(format, "html" | "junit") {
            for tag in ["<script>document", "<script>alert", "<img", "<svg", "<b>"] {
                assert!(!text.contains(tag), "{tag} in {format}: {text}");
            }
        }
    }
    assert!(!check(directory.path(), &[".", "--explain", "ClusterServiceVersion/team-a/x"]).stderr.is_empty());
}

#[test]
fn the_page_is_one_file_that_loads_nothing_and_runs_only_its_own_script() {
    let directory = etcd();
    let page = check(directory.path(), &[".", "-o", "html"]).stdout;
    assert!(
        page.contains("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-"),
        "{page}"
    );
    for outside in ["http://", "https://", "src=", "url(", "@import", "style=\"", "onclick", "unsafe-inline"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    let secrets =
        "<tr><th scope=row>secrets <small>core</small><td><td class=m><td class=by>permissions[0].rules[3], line 31\n";
    assert!(page.contains(secrets), "{page}");
    assert!(page.contains("kind: RoleBinding") && page.contains("data-copies=\"rbac-"), "{page}");
}

/// The account may read everything in its namespace, and nothing else.
const READS_ALL: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: view-all}
rules: [{apiGroups: ['*'], resources: ['*'], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: view-all, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view-all}
subjects: [{kind: ServiceAccount, name: installer, namespace: team-a}]
";

/// The rules of lines like `in namespace a: apiGroups: [apps]  resources: [x]  verbs: [get]`, by scope, compacted.
fn by_scope<'l>(lines: impl Iterator<Item = &'l str>) -> BTreeMap<String, Vec<String>> {
    let mut rules: BTreeMap<String, Vec<Rule<'static>>> = BTreeMap::new();
    for line in lines.filter(|line| !line.starts_with('(')) {
        let (scope, rule) = line.split_once(": ").unwrap();
        let yaml = format!("{{{}}}", rule.replace("]  ", "], "));
        let parsed = documents::parse(Path::new("rule"), yaml.as_bytes()).unwrap().remove(0).to_string();
        let parsed: Rule<'_> = serde_json::from_str(&parsed).unwrap();
        rules.entry(scope.to_owned()).or_default().push(parsed.into_owned());
    }
    let said = |rules: Vec<Rule<'static>>| {
        compact(Index::new(&[]).uncovered(&rules)).iter().map(ToString::to_string).collect()
    };
    rules.into_iter().map(|(scope, rules)| (scope, said(rules))).collect()
}

/// The module's answer and the explanation beside it, for every real operator of the corpus.
#[test]
fn every_real_operator_is_judged_and_the_explanation_says_what_the_module_says() {
    let corpus = std::env::var_os("OPERATOR_BOUNDS_CORPUS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"), PathBuf::from);
    let archive = corpus.join("csv.tar.gz");
    if !archive.exists() {
        test_parts::not_run(&format!("there is no corpus of real operators at {}", archive.display()));
        return;
    }
    let directory = files(&[("cluster.yaml", &format!("{GROUP}---{READS_ALL}"))]);
    let archive = archive.to_str().unwrap();
    let outcome = check(directory.path(), &[archive, "--cluster", "cluster.yaml", "-n", "team-a", "-o", "json"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (1, ""));
    let report = outcome.json();
    let objects = report["objects"].as_array().unwrap();
    assert!(objects.len() > 440, "{}", objects.len());
    let mut compared = 0;
    for object in objects {
        assert_eq!(object["namespace"], "team-a");
        let missing: Vec<&str> = object["missing"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|missing| missing["text"].as_str().unwrap().lines())
            .collect();
        let excess = object["facts"]["excess"].as_str().unwrap_or_default();
        assert_eq!(excess.is_empty(), missing.is_empty(), "{object}");
        // A fact has a limit; what was cut cannot be compared.
        if !excess.is_empty() && !excess.contains(" bytes more)") {
            let user = "system:serviceaccount:team-a:installer: ";
            let excess = excess.split("; ").map(|entry| entry.strip_prefix(user).unwrap());
            assert_eq!(by_scope(missing.into_iter()), by_scope(excess), "{object}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}
