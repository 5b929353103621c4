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
        (vec!["derive", "cluster/team-a.yaml", "--for", "serviceaccount", "a/b"], "has no ClusterServiceVersion in it"),
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
            "--target makes no sense",
        ),
        (vec!["derive", "etcdoperator.v0.9.4.yaml", "--for", "serviceaccount", "a/b", "--missing"], "--cluster"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
