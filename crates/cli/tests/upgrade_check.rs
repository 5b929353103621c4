//! `upgrade-check` from the outside: what it finds, what it changes, and what it leaves alone.

#![allow(clippy::unwrap_used, missing_docs)]

mod fixture;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fixture::files;
use serde_json::Value;

fn run(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_operator-bounds"));
    let output: Output = command.current_dir(directory).arg("upgrade-check").args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code().unwrap(), text)
}

const WITH: &str = "# team a\napiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata:\n  name: foo\nspec:\n  \
                    namespace: ns  # where\n  serviceAccount:\n    name: installer\n  source: {sourceType: Catalog}\n";
const WITHOUT: &str = "# team a\napiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata:\n  name: foo\nspec:\n  \
                       namespace: ns  # where\n  source: {sourceType: Catalog}\n";

/// A definition of ClusterExtensions in which the field is gone.
const GONE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: olmv1-system}\n---\napiVersion: apiextensions.k8s.io/v1\nkind: \
                    CustomResourceDefinition\nmetadata: {name: clusterextensions.olm.operatorframework.io}\nspec:\n  versions:\n  - \
                    name: v1\n    schema: {openAPIV3Schema: {properties: {spec: {properties: {namespace: {}}}}}}\n";

/// The same with the field, as optional or as required.
fn having(required: &str) -> String {
    let field = "{serviceAccount: {description: deprecated}}";
    GONE.replace("{namespace: {}}}", &format!("{field}, required: [{required}]}}"))
}

/// Runs with a definition that comes.
fn run_to_crd(directory: &Path, definition: &str, arguments: &[&str]) -> (i32, String) {
    let comes = files(&[("comes.yaml", definition)]);
    let file = comes.path().join("comes.yaml");
    run(directory, &[&["--to-crd", file.to_str().unwrap()], arguments].concat())
}

#[test]
fn the_definition_that_comes_decides() {
    for (text, definition, code, words) in [
        (WITH, GONE.to_owned(), 1, "a.yaml:8:3: blocks: ClusterExtension foo: spec.serviceAccount is set, and"),
        (WITHOUT, GONE.to_owned(), 0, "1 ClusterExtensions: 0 blocking"),
        (WITH, having("namespace"), 0, "note: ClusterExtension foo:"),
        (WITHOUT, having("serviceAccount"), 1, "requires it: the API server refuses the object"),
        (WITHOUT, having("serviceAccount"), 1, "--release 1.10"),
        (
            WITH,
            "kind: List\n".to_owned(),
            2,
            "has no CustomResourceDefinition clusterextensions.olm.operatorframework.io",
        ),
    ] {
        let repository = files(&[("a.yaml", text)]);
        let (exit, said) = run_to_crd(repository.path(), &definition, &["a.yaml"]);
        assert_eq!(exit, code, "{definition}: {said}");
        assert!(said.contains(words), "{definition}: {said}");
    }
}

#[test]
fn what_was_planned_and_did_not_ship_is_said() {
    let repository = files(&[("a.yaml", WITH)]);
    for (to, planned) in [("4.21", "ignore"), ("4.23", "remove")] {
        let (exit, said) = run(repository.path(), &["--to", to, "a.yaml"]);
        assert_eq!(exit, 0, "{said}");
        assert!(said.contains(&format!("note: {to} was planned to {planned} spec.serviceAccount")), "{said}");
        assert!(said.contains("As it shipped, it requires the field"), "{said}");
    }
    let (_, said) = run(repository.path(), &["--to", "4.20", "a.yaml"]);
    assert!(!said.contains("planned"), "{said}");
}

#[test]
fn the_special_name_is_the_synthetic_user() {
    let repository = files(&[("a.yaml", &WITH.replace("installer", "olm.synthetic-user"))]);
    let (exit, said) = run(repository.path(), &["--to", "1.10", "a.yaml"]);
    assert_eq!(exit, 0, "{said}");
    assert!(said.contains("User olm:clusterextension:foo with the feature gate SyntheticPermissions"), "{said}");
    let (exit, said) = run(repository.path(), &["--from", "1.10", "--to", "1.11", "a.yaml"]);
    assert_eq!(exit, 0, "{said}");
    assert!(said.contains("1.11 has no synthetic users"), "{said}");
    let (exit, said) = run_to_crd(repository.path(), GONE, &["a.yaml"]);
    assert_eq!(exit, 1, "{said}");
    assert!(said.contains("User olm:clusterextension:foo keeps what it holds"), "{said}");
}

#[test]
fn a_missing_field_blocks_a_downgrade() {
    for (text, to, code, words) in [
        (WITH, "4.20", 0, "0 blocking 4.20"),
        (
            WITHOUT,
            "4.20",
            1,
            "a.yaml:2:1: blocks: ClusterExtension foo: spec.serviceAccount is not set, and 4.20 requires it",
        ),
        (WITH, "1.11", 0, "note: ClusterExtension foo: 1.11 ignores spec.serviceAccount"),
        (WITHOUT, "4.23", 1, "4.23 requires it"),
        (WITHOUT, "tech-preview", 0, "0 blocking tech-preview"),
    ] {
        let repository = files(&[("a.yaml", text)]);
        let (exit, said) = run(repository.path(), &["--to", to, "a.yaml"]);
        assert_eq!(exit, code, "{to}: {said}");
        assert!(said.contains(words), "{to}: {said}");
    }
}

#[test]
fn leaving_tech_preview_is_told() {
    let repository = files(&[("a.yaml", WITHOUT)]);
    let (exit, said) = run(repository.path(), &["--from", "tech-preview", "--to", "4.20", "."]);
    assert_eq!(exit, 1, "{said}");
    assert!(said.contains("it runs as its synthetic user, which 4.20 does not have"), "{said}");
    let (exit, said) = run(repository.path(), &["--from", "tech-preview", "--to", "1.11", "."]);
    assert_eq!(exit, 0, "{said}");
    assert!(said.contains("note: ClusterExtension foo: 1.11 has no synthetic users"), "{said}");
}

#[test]
fn fixing_changes_the_field_and_no_other_byte_and_then_nothing_is_in_the_way() {
    let list = "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n {\"apiVersion\": \"olm.operatorframework.io/v1\", \"kind\": \
                \"ClusterExtension\", \"metadata\": {\"name\": \"bar\"}, \"spec\": {\"serviceAccount\": {\"name\": \"x\"}, \"namespace\": \"n\"}}]}\n";
    let other = "apiVersion: v1\nkind:   ConfigMap\nmetadata: {name: 'ClusterExtension'}\n---\n";
    let repository =
        files(&[("deep/a.yaml", &format!("{other}{WITH}")), ("b.json", list), ("c.yaml", "not: [ yaml\n")]);
    let (exit, said) = run_to_crd(repository.path(), GONE, &["--fix", "."]);
    assert_eq!(exit, 0, "{said}");
    assert!(said.contains("2 fixed"), "{said}");
    let read = |name: &str| fs::read_to_string(repository.path().join(name)).unwrap();
    assert_eq!(read("deep/a.yaml"), format!("{other}{WITHOUT}"));
    assert_eq!(read("b.json"), list.replace("\"serviceAccount\": {\"name\": \"x\"}, ", ""));
    let (exit, said) = run(repository.path(), &["--to", "4.20", "--fix", "."]);
    assert_eq!(exit, 1, "{said}");
    assert!(said.contains("not fixed: choose the account with --service-account NAME"), "{said}");
    let (exit, said) = run(repository.path(), &["--to", "4.20", "--fix", "--service-account", "installer", "."]);
    assert_eq!(exit, 0, "{said}");
    assert_eq!(read("deep/a.yaml"), format!("{other}{WITH}"));
}

#[test]
fn what_cannot_be_read_is_named_and_is_exit_code_two() {
    let template = "apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nspec: {{- toYaml .Values.spec | nindent 2 }}\n";
    let repository =
        files(&[("templates/a.yaml", template), ("other.yaml", "{{ if .Values.x }}\n"), ("b.yaml", WITHOUT)]);
    let (exit, said) = run(repository.path(), &["--to", "1.11", "."]);
    assert_eq!(exit, 2, "{said}");
    assert!(said.contains("templates/a.yaml:3:") && said.contains("If it is a template"), "{said}");
    assert!(!said.contains("other.yaml"), "{said}");
    let (exit, said) = run(repository.path(), &["--to", "4.23", "nowhere"]);
    assert_eq!(exit, 2, "{said}");
    let (exit, said) = run(repository.path(), &["--to", "6.0", "."]);
    assert_eq!(exit, 2, "{said}");
    assert!(said.contains("1.11, 4.18 to 4.23, 5.0 to 5.1") && said.contains("--to-crd FILE"), "{said}");
}

#[test]
fn programs_get_json() {
    let repository = files(&[("a.yaml", WITH)]);
    let (exit, said) = run_to_crd(repository.path(), GONE, &["--output", "json", "a.yaml"]);
    assert_eq!(exit, 1);
    let report: Value = serde_json::from_str(&said).unwrap();
    let finding = &report["findings"][0];
    assert_eq!(
        (&finding["extension"], &finding["line"], &finding["blocks"]),
        (&"foo".into(), &8.into(), &true.into()),
        "{said}"
    );
}

#[cfg(unix)]
#[test]
fn permissions_stay_and_links_out_of_the_directory_are_left_alone() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let outside = files(&[("victim.yaml", WITH)]);
    let repository = files(&[("a.yaml", WITH)]);
    let path = repository.path().join("a.yaml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(outside.path().join("victim.yaml"), repository.path().join("link.yaml")).unwrap();
    symlink("a.yaml", repository.path().join("inside.yaml")).unwrap();
    let (exit, said) = run_to_crd(repository.path(), GONE, &["--fix", "."]);
    assert_eq!(exit, 2, "{said}");
    assert!(said.contains("link.yaml: links to"), "{said}");
    assert_eq!(fs::read_to_string(outside.path().join("victim.yaml")).unwrap(), WITH);
    assert_eq!(fs::read_to_string(&path).unwrap(), WITHOUT);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(repository.path().join("inside.yaml")).unwrap().is_symlink());
    let left: Vec<_> = fs::read_dir(repository.path()).unwrap().collect();
    assert_eq!(left.len(), 3, "nothing else is left behind");
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_written_stays_and_is_said() {
    use std::os::unix::fs::PermissionsExt;
    let repository = files(&[("a.yaml", WITH)]);
    let path = repository.path().join("a.yaml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let (exit, said) = run_to_crd(repository.path(), GONE, &["--fix", "a.yaml"]);
    assert_eq!(exit, 2, "{said}");
    assert!(said.contains("a.yaml: is read-only"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), WITH);
}
