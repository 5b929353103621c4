//! The commands with `--kubeconfig`: from an operator on disk to the RBAC that it needs.

use std::path::Path;
use std::process::Output;

use operator_bounds::documents;
use serde_json::{Value, json};

use crate::{Stage, operator_bounds};

fn live(stage: &Stage, arguments: &[&str]) -> Output {
    operator_bounds(&[arguments, &["--kubeconfig", stage.kubeconfig().to_str().unwrap()]].concat())
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub(crate) fn an_operator_is_refused_derived_granted_and_accepted(stage: &Stage) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/etcd");
    let team: Vec<Value> = documents::read(&example.join("cluster/team-a.yaml")).unwrap();
    // Without the rights that the example gives to the account.
    stage.create(&team[..3]);
    let csv = example.join("etcdoperator.v0.9.4.yaml");
    let csv = csv.to_str().unwrap();
    let refused = live(stage, &["check", csv]);
    assert_eq!(refused.status.code(), Some(1), "{}", printed(&refused));
    assert!(printed(&refused).contains("asks for more than ServiceAccount team-a/installer"), "{}", printed(&refused));

    let derive = ["derive", csv, "--for", "serviceaccount", "team-a/installer", "--missing"];
    let derived = live(stage, &derive);
    assert!(derived.status.success(), "{}", printed(&derived));
    let objects = documents::parse(Path::new("derived.yaml"), &derived.stdout).unwrap();
    assert!(!objects.is_empty());
    stage.create(&objects);

    let accepted = live(stage, &["check", csv]);
    assert!(accepted.status.success(), "{}", printed(&accepted));
    let nothing = live(stage, &derive);
    assert!(nothing.status.success() && !printed(&nothing).contains("kind:"), "{}", printed(&nothing));
}

pub(crate) fn extensions_that_block_an_upgrade_are_found(stage: &Stage) {
    let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "demo"}});
    let extension = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": "in-the-way"},
        "spec": {"namespace": "demo", "serviceAccount": {"name": "installer"}, "source": source}});
    stage.create(&[extension]);
    let found = live(stage, &["upgrade-check", "--to", "1.10"]);
    assert_eq!(found.status.code(), Some(1), "{}", printed(&found));
    let missing = "ClusterExtension in-the-way: ServiceAccount demo/installer, which it names, does not exist";
    assert!(printed(&found).contains(missing), "{}", printed(&found));
}

pub(crate) fn credentials_that_the_api_server_refuses_are_named(stage: &Stage) {
    let kubeconfig = std::fs::read(stage.kubeconfig()).unwrap();
    let mut kubeconfig = documents::parse(&stage.kubeconfig(), &kubeconfig).unwrap().remove(0);
    for user in kubeconfig["users"].as_array_mut().unwrap() {
        user["user"] = json!({"token": "made-up"});
    }
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    let output = operator_bounds(&["upgrade-check", "--to", "1.11", "--kubeconfig", path.to_str().unwrap()]);
    let said = printed(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in ["the API server at https://127.0.0.1", "Unauthorized", "rejected the credentials in the kubeconfig"] {
        assert!(said.contains(words), "{words} in {said}");
    }
}
