//! `derive`: what it prints is what the policy asks for, no less and no more.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/etcd")
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_operator-bounds")).current_dir(example()).args(arguments).output().unwrap()
}

fn derive(more: &[&str]) -> String {
    let mut arguments = vec!["derive", "etcdoperator.v0.9.4.yaml", "--for", "serviceaccount", "team-a/installer"];
    arguments.extend(more);
    let output = run(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The verdict on the example, with these manifests in the cluster besides.
fn eval(manifests: &str, settings: &str) -> String {
    let cluster = TempDir::new().unwrap();
    fs::copy(example().join("cluster/team-a.yaml"), cluster.path().join("team-a.yaml")).unwrap();
    fs::write(cluster.path().join("more.yaml"), manifests).unwrap();
    let path = cluster.path().to_str().unwrap();
    let output = run(&[
        "eval",
        "--request-path",
        "request.json",
        "--settings-json",
        settings,
        "--cluster",
        path,
        "--output",
        "text",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_derived_lets_the_operator_in() {
    assert!(
        eval("", "{}").starts_with("refused (403)\nClusterServiceVersion team-a/etcdoperator.v0.9.4 asks for more")
    );
    assert_eq!(eval(&derive(&[]), "{}"), "admitted\n");
}

#[test]
fn what_is_missing_lets_the_operator_in_and_nothing_more_is_missing_then() {
    let cluster = TempDir::new().unwrap();
    fs::copy(example().join("cluster/team-a.yaml"), cluster.path().join("team-a.yaml")).unwrap();
    let path = cluster.path().to_str().unwrap();
    let missing = derive(&["--missing", "--cluster", path]);
    assert!(missing.contains("etcdclusters") && !missing.contains("clusterserviceversions"), "{missing}");
    assert_eq!(eval(&missing, "{}"), "admitted\n");
    fs::write(cluster.path().join("missing.yaml"), missing).unwrap();
    assert_eq!(derive(&["--missing", "--cluster", path]).trim(), "");
}

#[test]
fn without_any_one_rule_of_what_is_missing_the_operator_stays_out() {
    let path = example().join("cluster");
    let missing = derive(&["--missing", "--cluster", path.to_str().unwrap()]);
    let starts: Vec<usize> = missing.match_indices("- apiGroups: ").map(|(at, _)| at).collect();
    assert_eq!(starts.len(), 4, "{missing}");
    for start in starts {
        let length = missing[start..].find("verbs: ").unwrap();
        let end = start + length + missing[start + length..].find('\n').unwrap() + 1;
        let less = format!("{}{}", &missing[..start], &missing[end..]);
        assert!(eval(&less, "{}").starts_with("refused (403)"), "{less}");
    }
}

#[test]
fn targets_and_all_namespaces_land_where_the_operator_reaches() {
    let targets = derive(&["--target", "team-b,team-c"]);
    for namespace in ["team-a", "team-b", "team-c"] {
        assert_eq!(targets.matches(&format!("  namespace: {namespace}\n")).count(), 2, "{targets}");
    }
    let all = derive(&["--install-mode", "AllNamespaces"]);
    assert!(all.contains("kind: ClusterRole\n") && all.contains("resources: [namespaces]"), "{all}");
}

#[test]
fn a_synthetic_identity_gets_what_the_operator_holds_and_the_writing_of_its_bundle() {
    let bundle = TempDir::new().unwrap();
    fs::create_dir(bundle.path().join("manifests")).unwrap();
    fs::copy(example().join("etcdoperator.v0.9.4.yaml"), bundle.path().join("manifests/csv.yaml")).unwrap();
    let more = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: x}\n---\n\
                apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: y}\n";
    fs::write(bundle.path().join("manifests/more.yaml"), more).unwrap();
    let output = run(&["derive", bundle.path().to_str().unwrap(), "--for", "synthetic", "etcd"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "kind: User, name: 'olm:clusterextension:etcd'",
        "resources: [networkpolicies]",
        "resources: [etcdbackups, etcdclusters, etcdrestores]",
        "resources: [clusterrolebindings, clusterroles]",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("customresourcedefinitions"), "{text}");
}

#[test]
fn mistakes_are_named() {
    for (arguments, expected) in [
        (vec!["derive", "nowhere.yaml", "--for", "serviceaccount", "a/b"], "nowhere.yaml: "),
        (vec!["derive", "cluster/team-a.yaml", "--for", "serviceaccount", "a/b"], "contains no ClusterServiceVersion"),
        (vec!["derive", "etcdoperator.v0.9.4.yaml", "--for", "serviceaccount", "b"], "expected `--for serviceaccount"),
        (vec!["derive", "etcdoperator.v0.9.4.yaml", "--for", "user", "a/b"], "expected `--for serviceaccount"),
        (
            vec![
                "derive",
                "etcdoperator.v0.9.4.yaml",
                "--for",
                "serviceaccount",
                "a/b",
                "--install-mode",
                "AllNamespaces",
                "--target",
                "x",
            ],
            "--target cannot be combined",
        ),
        (vec!["derive", "etcdoperator.v0.9.4.yaml", "--for", "serviceaccount", "a/b", "--missing"], "--cluster"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

/// The example as a bundle with RBAC of its own.
fn bundle() -> TempDir {
    let bundle = TempDir::new().unwrap();
    for directory in ["manifests", "metadata", "tests"] {
        fs::create_dir(bundle.path().join(directory)).unwrap();
    }
    fs::copy(
        example().join("etcdoperator.v0.9.4.yaml"),
        bundle.path().join("manifests/etcd.clusterserviceversion.yaml"),
    )
    .unwrap();
    let rbac = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: scraper}\nrules:\n\
                - {apiGroups: [example.com], resources: [widgets], verbs: [scrape]}\n---\n\
                apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: scrapers}\n\
                roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}\n\
                subjects: [{kind: ServiceAccount, name: prometheus, namespace: monitoring}]\n---\n\
                apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reader}\nrules:\n\
                - {nonResourceURLs: [/metrics], verbs: [get]}\n";
    fs::write(bundle.path().join("manifests/rbac.yaml"), rbac).unwrap();
    fs::write(
        bundle.path().join("metadata/dependencies.yaml"),
        "dependencies:\n- {type: olm.package, value: {packageName: other}}\n",
    )
    .unwrap();
    fs::write(bundle.path().join("tests/config.yaml"), "not: [ a manifest of the bundle\n").unwrap();
    bundle
}

fn derive_bundle(path: &Path, more: &[&str]) -> String {
    let mut arguments = vec!["derive", path.to_str().unwrap()];
    arguments.extend(more);
    let output = run(&arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const FOR: [&str; 3] = ["--for", "serviceaccount", "team-a/installer"];

#[test]
fn a_bundle_brings_rbac_and_dependencies_and_each_rule_says_where_it_comes_from() {
    let bundle = bundle();
    let derived = derive_bundle(bundle.path(), &FOR);
    for expected in [
        "# Role scraper of the bundle, rbac.yaml, line 5\n- apiGroups: [example.com]\n  resources: [widgets]\n  verbs: [scrape]\n",
        "# ClusterRoleBinding scrapers of the bundle, which grants what ClusterRole reader holds, rbac.yaml, line 17\n",
        "- nonResourceURLs: ['/metrics']\n  verbs: [get]\n",
        "# OLM writes a Subscription for each operator that this one depends on\n",
        "  resources: [clusterrolebindings]\n  resourceNames: [scrapers]\n  verbs: [get, patch]\n",
        "# CSV permissions of service account etcd-operator, line 25\n",
    ] {
        assert!(derived.contains(expected), "{expected}: {derived}");
    }
}

#[test]
fn an_archive_is_the_same_as_the_directory_it_was_made_of() {
    let bundle = bundle();
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("bundle.tar.gz");
    let encoder = flate2::write::GzEncoder::new(fs::File::create(&path).unwrap(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(encoder);
    archive.append_dir_all("bundle", bundle.path()).unwrap();
    archive.into_inner().unwrap().finish().unwrap();
    assert_eq!(derive_bundle(&path, &FOR), derive_bundle(bundle.path(), &FOR));
}

#[test]
fn an_extension_says_for_whom_and_where() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("extension.yaml");
    let extension = |account: &str| {
        format!(
            "apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata: {{name: etcd}}\nspec:\n  namespace: etcd-ns\n\
                 {account}  source: {{sourceType: Catalog, catalog: {{packageName: etcd}}}}\n"
        )
    };
    fs::write(&path, extension("")).unwrap();
    let extension_path = path.to_str().unwrap();
    let synthetic = derive_bundle(Path::new("etcdoperator.v0.9.4.yaml"), &[extension_path]);
    assert!(synthetic.contains("kind: User, name: 'olm:clusterextension:etcd'"), "{synthetic}");
    assert!(
        synthetic.contains("kind: Role\nmetadata:\n  name: olm-clusterextension-etcd\n  namespace: etcd-ns\n"),
        "{synthetic}"
    );
    assert!(!synthetic.contains("finalizers") && !synthetic.contains("[list, watch]"), "{synthetic}");
    fs::write(&path, extension("  serviceAccount: {name: installer}\n")).unwrap();
    let account = derive_bundle(Path::new("etcdoperator.v0.9.4.yaml"), &[extension_path, "--release", "4.20"]);
    assert!(account.contains("- {kind: ServiceAccount, name: installer, namespace: etcd-ns}"), "{account}");
    for expected in [
        "resources: [clusterextensions/finalizers]\n  resourceNames: [etcd]",
        "verbs: [delete, get, patch, update]",
        "verbs: [list, watch]",
    ] {
        assert!(account.contains(expected), "{expected}: {account}");
    }
    let output = run(&["derive", extension_path]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("installs package etcd from a catalog: also pass the bundle"), "{error}");
}

#[test]
fn what_no_operator_needs_is_unused() {
    let cluster = TempDir::new().unwrap();
    fs::copy(example().join("cluster/team-a.yaml"), cluster.path().join("team-a.yaml")).unwrap();
    let path = cluster.path().to_str().unwrap();
    let unused = derive(&["--unused", "--cluster", path]);
    assert!(unused.starts_with("# Role team-a/installer\n# by RoleBinding team-a/installer\n"), "{unused}");
    assert!(unused.contains("  resources: [subscriptions]\n  verbs: [create, get, patch, update]\n"), "{unused}");
    assert!(!unused.contains("serviceaccounts]\n  verbs: [create"), "{unused}");
    fs::write(cluster.path().join("team-a.yaml"), derive(&["--with-account"])).unwrap();
    assert_eq!(derive(&["--unused", "--cluster", path]).trim(), "", "nothing of what is derived is unused");
}

#[test]
fn json_is_the_same_without_the_comments() {
    let list: serde_json::Value = serde_json::from_str(&derive(&["--output", "json"])).unwrap();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!(items[0]["rules"].as_array().unwrap().len(), derive(&[]).matches("\n- apiGroups").count());
    assert_eq!(eval(&list.to_string(), "{}"), "admitted\n");
}

#[test]
fn a_bundle_cannot_write_rules_through_a_comment() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("csv.json");
    let name = "x\n- apiGroups: ['*']\n  resources: ['*']\n  verbs: ['*']\n#";
    let csv = serde_json::json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"install": {"spec": {"permissions": [{"serviceAccountName": name, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}]}}}});
    fs::write(&path, csv.to_string()).unwrap();
    let derived = derive_bundle(&path, &FOR);
    assert!(!derived.lines().any(|line| line.starts_with("- apiGroups: ['*']")), "{derived}");
}

#[test]
fn a_binding_to_a_role_that_nobody_has_shown_is_an_error() {
    let bundle = bundle();
    let binding = "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: admins}\n\
                   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}\nsubjects: []\n";
    fs::write(bundle.path().join("manifests/admins.yaml"), binding).unwrap();
    let output = run(&["derive", bundle.path().to_str().unwrap(), FOR[0], FOR[1], FOR[2]]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("RoleBinding admins of the bundle refers to ClusterRole admin") && error.contains("--cluster"),
        "{error}"
    );
}

#[test]
fn a_mode_that_the_operator_does_not_support_brings_a_warning() {
    let output =
        run(&["derive", "etcdoperator.v0.9.4.yaml", FOR[0], FOR[1], FOR[2], "--install-mode", "AllNamespaces"]);
    assert!(output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("does not support AllNamespaces") && error.contains("OwnNamespace, SingleNamespace"),
        "{error}"
    );
}

#[test]
fn the_example_derives_what_it_always_did() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/etcd-derived.yaml");
    let derived = derive(&[]);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &derived).unwrap();
    }
    assert_eq!(derived, fs::read_to_string(golden).unwrap(), "UPDATE_GOLDEN=1 cargo test writes it anew");
}
