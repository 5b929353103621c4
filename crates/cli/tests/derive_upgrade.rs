//! `derive OLD NEW`: what an upgrade needs, and that the policy has nothing to say against what is derived.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fixture::files;
use serde_json::Value;

fn run(directory: &Path, arguments: &[&str]) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_operator-bounds"));
    let output = command.current_dir(directory).args(arguments).output().unwrap();
    let said = String::from_utf8([output.stdout.clone(), output.stderr.clone()].concat()).unwrap();
    (output, said)
}

/// A version of an operator: what it does with nodes, and a role that it brings.
fn version(version: &str, verbs: &str, config: &str) -> (String, String) {
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {{name: demo.v{version}}}\nspec:\n  \
         install:\n    strategy: deployment\n    spec:\n      clusterPermissions:\n      - serviceAccountName: demo\n        \
         rules:\n        - {{apiGroups: [''], resources: [nodes], verbs: [{verbs}]}}\n        - {{apiGroups: \
         [example.com], resources: ['*'], verbs: ['*']}}\n      deployments:\n      - name: demo\n        spec: {{template: \
         {{spec: {{serviceAccountName: demo}}}}}}\n"
    );
    (csv, format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {config}}}\n"))
}

fn bundles() -> tempfile::TempDir {
    let ((old, old_config), (new, new_config)) =
        (version("1", "get", "old-config"), version("2", "get, list", "config"));
    files(&[
        ("old/manifests/csv.yaml", &old),
        ("old/manifests/config.yaml", &old_config),
        ("new/manifests/csv.yaml", &new),
        ("new/manifests/config.yaml", &new_config),
    ])
}

const FOR: [&str; 5] = ["--for", "synthetic", "demo", "--namespace", "demo-ns"];

#[test]
fn an_upgrade_needs_what_the_new_version_needs_and_says_what_is_new() {
    let bundles = bundles();
    let (output, both) = run(bundles.path(), &[&["derive", "old", "new"], &FOR[..]].concat());
    assert!(output.status.success(), "{both}");
    assert!(
        both.contains("# new: demo.v1 does not need apiGroups: [\"\"]  resources: [nodes]  verbs: [list]"),
        "{both}"
    );
    assert!(
        both.contains("note: no longer needed after the upgrade from demo.v1: ") && both.contains("old-config"),
        "{both}"
    );
    let rules = |arguments: &[&str]| -> Value {
        let (output, said) = run(bundles.path(), &[arguments, &FOR[..], &["--output", "json"]].concat());
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(rules(&["derive", "old", "new"]), rules(&["derive", "new"]));
}

#[test]
fn where_olm_acts_as_the_identity_it_also_puts_the_old_version_away() {
    let bundles = bundles();
    let (output, said) = run(bundles.path(), &[&["derive", "old", "new", "--release", "1.10"], &FOR[..]].concat());
    assert!(output.status.success(), "{said}");
    assert!(said.contains("# OLM puts away ConfigMap old-config"), "{said}");
    let (_, alone) = run(bundles.path(), &[&["derive", "new", "--release", "1.10"], &FOR[..]].concat());
    assert!(!alone.contains("old-config"), "{alone}");
}

#[test]
fn two_operators_are_no_upgrade() {
    let bundles = bundles();
    let other =
        fs::read_to_string(bundles.path().join("old/manifests/csv.yaml")).unwrap().replace("demo.v1", "other.v1");
    fs::write(bundles.path().join("old/manifests/csv.yaml"), other).unwrap();
    let (output, said) = run(bundles.path(), &[&["derive", "old", "new"], &FOR[..]].concat());
    assert!(output.status.success(), "{said}");
    assert!(said.contains("old-config") && !said.contains("new:"), "{said}");
}

/// The registration for bindings sends each of them with default settings.
#[test]
fn the_policy_has_nothing_to_say_against_what_is_derived() {
    let bundles = bundles();
    let (output, said) = run(bundles.path(), &[&["derive", "new"], &FOR[..], &["--output", "json"]].concat());
    assert!(output.status.success(), "{said}");
    let mut derived: Value = serde_json::from_slice(&output.stdout).unwrap();
    let extension = serde_json::json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": "demo"}, "spec": {"namespace": "demo-ns"}});
    derived["items"].as_array_mut().unwrap().push(extension);
    fs::write(bundles.path().join("cluster.json"), derived.to_string()).unwrap();
    let bindings: Vec<Value> = derived["items"].as_array().unwrap().iter().cloned().collect();
    let bindings = bindings.iter().filter(|object| object["kind"].as_str().unwrap().ends_with("Binding"));
    let mut judged = 0;
    for binding in bindings {
        let kind = binding["kind"].as_str().unwrap();
        let request = serde_json::json!({"uid": "1", "operation": "CREATE", "object": binding,
            "kind": {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": kind},
            "resource": {"group": "rbac.authorization.k8s.io", "version": "v1", "resource": format!("{}s", kind.to_lowercase())},
            "name": binding["metadata"]["name"], "namespace": binding["metadata"]["namespace"].as_str().unwrap_or_default(),
            "userInfo": {"username": "admin", "groups": ["system:authenticated"]}});
        fs::write(bundles.path().join("request.json"), request.to_string()).unwrap();
        let (output, said) =
            run(bundles.path(), &["eval", "--request-path", "request.json", "--cluster", "cluster.json"]);
        let response: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(response["allowed"], true, "{said}");
        assert!(response["warnings"].is_null(), "{said}");
        judged += 1;
    }
    assert_eq!(judged, 2, "cluster-wide and in the namespace");
}

/// A cluster with a ClusterExtension whose release was refused, or is installed.
fn cluster(extension: &Value, release: Option<&Value>) -> tempfile::TempDir {
    let items: Vec<&Value> = std::iter::once(extension).chain(release).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    files(&[("cluster.json", &list.to_string())])
}

fn extension(message: &str) -> Value {
    serde_json::json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "demo"},
        "spec": {"namespace": "demo-ns"},
        "status": {"conditions": [{"type": "Progressing", "status": "True", "reason": "Retrying", "message": message}]}})
}

const LIVE: [&str; 5] = ["derive", "--extension", "demo", "--cluster", "cluster.json"];

#[test]
fn what_was_refused_is_read_from_the_conditions_of_an_extension() {
    let message = "admission webhook denied the request: Bundle demo.v2 of ClusterExtension demo asks for more than User \
                   olm:clusterextension:demo allows (ClusterExtension demo):\n  in namespace demo-ns\n    apiGroups: [apps]  \
                   resources: [deployments]  verbs: [create]\n  nothing of it was written\nGrant it with: …";
    let cluster = cluster(&extension(message), None);
    let (output, said) = run(cluster.path(), &LIVE);
    assert!(output.status.success(), "{said}");
    for words in
        ["name: olm-clusterextension-demo-demo.v2", "namespace: demo-ns", "resources: [deployments]", "kind: User"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn what_the_installed_release_lacks_is_what_the_policy_says() {
    let manifest = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"demo-ns"}}"#;
    let content = serde_json::json!({"name": "demo", "namespace": "demo-ns", "manifest": manifest,
        "labels": {"olm.operatorframework.io/bundle-name": "demo.v1"}});
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packer, content.to_string().as_bytes()).unwrap();
    let chunk = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, packer.finish().unwrap());
    let owner =
        serde_json::json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "demo"});
    let release = serde_json::json!({"apiVersion": "v1", "kind": "Secret", "type": "operatorframework.io/index.v1",
        "metadata": {"name": "sh.helm.release.v1.demo.v1", "namespace": "olmv1-system", "ownerReferences": [owner],
            "labels": {"owner": "operator-controller", "name": "demo", "type": "index", "version": "1"}},
        "data": {"chunk": chunk, "extraChunks": "W10="}});
    let cluster = cluster(&extension("Installed bundle demo.v1"), Some(&release));
    let (output, said) = run(cluster.path(), &LIVE);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("resources: [configmaps]") && said.contains("name: olm-clusterextension-demo-demo.v1"),
        "{said}"
    );
}

#[test]
fn an_extension_without_a_release_is_an_error_that_says_what_to_do() {
    let cluster = cluster(&extension("nothing"), None);
    let (output, said) = run(cluster.path(), &LIVE);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("ClusterExtension demo has no release") && said.contains("name its bundle instead"),
        "{said}"
    );
    let (output, said) = run(cluster.path(), &["derive", "--extension", "other", "--cluster", "cluster.json"]);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("ClusterExtension other does not exist"), "{said}");
}
