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

#[test]
fn a_removed_field_blocks_an_upgrade_and_a_missing_one_a_downgrade() {
    for (text, to, code, words) in [
        (
            WITH,
            "4.23",
            1,
            "a.yaml:8:3: blocks: ClusterExtension foo: spec.serviceAccount is set, and 4.23 no longer has the field",
        ),
        (WITHOUT, "4.23", 0, "1 ClusterExtensions: 0 blocking 4.23"),
        (WITH, "4.20", 0, "0 blocking 4.20"),
        (
            WITHOUT,
            "4.20",
            1,
            "a.yaml:2:1: blocks: ClusterExtension foo: spec.serviceAccount is not set, and 4.20 requires it",
        ),
        (WITH, "4.22", 0, "note: ClusterExtension foo: 4.22 ignores spec.serviceAccount"),
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
    let (exit, said) = run(repository.path(), &["--from", "tech-preview", "--to", "4.21", "."]);
    assert_eq!(exit, 0, "{said}");
    assert!(said.contains("note: ClusterExtension foo: 4.21 has no synthetic users"), "{said}");
}

#[test]
fn fixing_changes_the_field_and_no_other_byte_and_then_nothing_is_in_the_way() {
    let list = "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n {\"apiVersion\": \"olm.operatorframework.io/v1\", \"kind\": \
                \"ClusterExtension\", \"metadata\": {\"name\": \"bar\"}, \"spec\": {\"serviceAccount\": {\"name\": \"x\"}, \"namespace\": \"n\"}}]}\n";
    let other = "apiVersion: v1\nkind:   ConfigMap\nmetadata: {name: 'ClusterExtension'}\n---\n";
    let repository =
        files(&[("deep/a.yaml", &format!("{other}{WITH}")), ("b.json", list), ("c.yaml", "not: [ yaml\n")]);
    let (exit, said) = run(repository.path(), &["--to", "4.23", "--fix", "."]);
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
    let (exit, said) = run(repository.path(), &["--to", "4.23", "."]);
    assert_eq!(exit, 2, "{said}");
    assert!(said.contains("templates/a.yaml:3:") && said.contains("If it is a template"), "{said}");
    assert!(!said.contains("other.yaml"), "{said}");
    let (exit, said) = run(repository.path(), &["--to", "4.23", "nowhere"]);
    assert_eq!(exit, 2, "{said}");
    let (exit, said) = run(repository.path(), &["--to", "5.0", "."]);
    assert_eq!(exit, 2, "{said}");
    assert!(said.contains("4.20, tech-preview, 4.21, 4.22, 4.23"), "{said}");
}

#[test]
fn programs_get_json() {
    let repository = files(&[("a.yaml", WITH)]);
    let (exit, said) = run(repository.path(), &["--to", "4.23", "--output", "json", "a.yaml"]);
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
    let (exit, said) = run(repository.path(), &["--to", "4.23", "--fix", "."]);
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
    let (exit, said) = run(repository.path(), &["--to", "4.23", "--fix", "a.yaml"]);
    assert_eq!(exit, 2, "{said}");
    assert!(said.contains("a.yaml: is read-only"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), WITH);
}
