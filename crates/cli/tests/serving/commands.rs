//! The other commands with `--kubeconfig`: from an operator on disk to the RBAC that it needs, on a real API server.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use operator_bounds::documents;
use serde_json::json;
use tempfile::TempDir;

use super::stage::{Case, Stage, run, team};
use super::webhook::PROGRAM;

pub(crate) const CASES: &[Case] = &[
    ("an_operator_is_refused_derived_granted_and_accepted_in_a_live_cluster", derive_and_check),
    ("extensions_of_a_live_cluster_that_are_in_the_way_of_an_upgrade_are_found", upgrade_check),
];

fn operator_bounds(stage: &Stage, arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).arg("--kubeconfig").arg(stage.kubeconfig()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn derive_and_check(stage: &Arc<Stage>) {
    run(async { stage.create(&team("team-a")).await });
    let csv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/etcd/etcdoperator.v0.9.4.yaml");
    let csv = csv.to_str().unwrap();
    let refused = operator_bounds(stage, &["check", csv]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("asks for more than ServiceAccount team-a/installer"), "{}", said(&refused));

    let derive = ["derive", csv, "--for", "serviceaccount", "team-a/installer", "--missing"];
    let derived = operator_bounds(stage, &derive);
    assert!(derived.status.success(), "{}", said(&derived));
    let objects = documents::parse(Path::new("derived.yaml"), &derived.stdout).unwrap();
    assert!(!objects.is_empty());
    run(async { stage.create(&objects).await });

    let accepted = operator_bounds(stage, &["check", csv]);
    assert!(accepted.status.success(), "{}", said(&accepted));
    let nothing = operator_bounds(stage, &derive);
    assert!(nothing.status.success() && !said(&nothing).contains("kind:"), "{}", said(&nothing));
}

fn upgrade_check(stage: &Arc<Stage>) {
    let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "demo"}});
    let extension = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": "in-the-way"},
        "spec": {"namespace": "demo", "serviceAccount": {"name": "installer"}, "source": source}});
    run(async { stage.create(std::slice::from_ref(&extension)).await });
    let found = operator_bounds(stage, &["upgrade-check", "--to", "1.10"]);
    run(async { stage.delete(&extension).await });
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    let missing = "ClusterExtension in-the-way: ServiceAccount demo/installer, which it names, does not exist";
    assert!(said(&found).contains(missing), "{}", said(&found));

    let directory = TempDir::new().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    fs::write(&kubeconfig, "clusters: [").unwrap();
    let broken =
        Command::new(PROGRAM).args(["upgrade-check", "--to", "1.11", "--kubeconfig"]).arg(&kubeconfig).output();
    assert_eq!(broken.unwrap().status.code(), Some(2));
}
