//! The program as a plugin of kubectl: its names, and the manifest that krew installs it by.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use operator_bounds::documents;
use serde_json::Value;
use tempfile::TempDir;

/// The program under another name.
fn called(directory: &TempDir, name: &str) -> PathBuf {
    let link = directory.path().join(name);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_operator-bounds"), &link).unwrap();
    link
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn help_and_errors_name_what_people_type() {
    let directory = TempDir::new().unwrap();
    let plugin = called(&directory, "kubectl-operator_bounds");
    let run = |arguments: &[&str]| said(&Command::new(&plugin).args(arguments).output().unwrap());
    assert!(run(&["--help"]).contains("Usage: kubectl operator-bounds <COMMAND>"), "{}", run(&["--help"]));
    let help = run(&["audit", "--help"]);
    assert!(help.contains("Usage: kubectl operator-bounds audit"), "{help}");
    assert!(help.contains("\n  kubectl operator-bounds audit\n"), "{help}");
    assert!(run(&["audit", "--no-such-option"]).contains("Usage: kubectl operator-bounds audit"));
    assert!(run(&["completion", "bash"]).contains("kubectl-operator_bounds"));
}

#[test]
fn kubectl_runs_it_and_completes_it() {
    const CANDIDATES: &str = "table\njson\nhtml\n:4\n";
    let directory = TempDir::new().unwrap();
    called(&directory, "kubectl-operator_bounds");
    let completer = called(&directory, "kubectl_complete-operator_bounds");
    // As kubectl asks it.
    let asked = Command::new(completer).args(["audit", "--output", ""]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout), CANDIDATES);

    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let kubectl = |arguments: &[&str]| Command::new("kubectl").args(arguments).env("PATH", &path).output();
    let Ok(version) = kubectl(&["version", "--client", "--output", "json"]) else {
        test_parts::not_run("the plugin was not run by kubectl, which is not on PATH");
        return;
    };
    let ran = kubectl(&["operator-bounds", "audit", "--help"]).unwrap();
    assert!(ran.status.success() && said(&ran).contains("kubectl operator-bounds audit"), "{}", said(&ran));
    let version: Value = serde_json::from_slice(&version.stdout).unwrap();
    let minor: u32 = version["clientVersion"]["minor"].as_str().unwrap().trim_end_matches('+').parse().unwrap();
    // Older ones do not ask plugins.
    if minor >= 26 {
        let completed = kubectl(&["__complete", "operator-bounds", "audit", "--output", ""]).unwrap();
        assert_eq!(String::from_utf8_lossy(&completed.stdout), CANDIDATES, "{}", said(&completed));
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The targets that a release has archives for.
fn released() -> BTreeSet<String> {
    let workflow = documents::read(&root().join(".github/workflows/release.yml")).unwrap().remove(0);
    let targets = workflow["jobs"]["command-line"]["strategy"]["matrix"]["include"].as_array().unwrap().iter();
    targets.map(|entry| entry["target"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn krew_finds_every_archive_of_a_release() {
    let directory = TempDir::new().unwrap();
    let archives: Vec<PathBuf> = released()
        .iter()
        .map(|target| {
            let archive = directory.path().join(format!("operator-bounds-v1.2.3-{target}.tar.gz"));
            std::fs::write(&archive, target).unwrap();
            archive
        })
        .collect();
    let render = |archives: &[PathBuf]| {
        Command::new(root().join("plugins/krew/render.sh")).arg("v1.2.3").args(archives).output().unwrap()
    };
    let rendered = render(&archives);
    assert!(rendered.status.success(), "{}", said(&rendered));
    let manifest: Value = documents::parse(Path::new("krew.yaml"), &rendered.stdout).unwrap().remove(0);
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!((&manifest["kind"], &manifest["metadata"]["name"]), (&"Plugin".into(), &"operator-bounds".into()));
    assert_eq!(manifest["spec"]["version"], "v1.2.3");
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    let uris: BTreeSet<&str> = platforms.iter().map(|platform| platform["uri"].as_str().unwrap()).collect();
    let base = format!("{}/releases/download/v1.2.3", env!("CARGO_PKG_REPOSITORY"));
    let expected: BTreeSet<String> =
        released().iter().map(|target| format!("{base}/operator-bounds-v1.2.3-{target}.tar.gz")).collect();
    assert_eq!(uris, expected.iter().map(String::as_str).collect());
    let systems: BTreeSet<String> = platforms.iter().map(|platform| platform["selector"].to_string()).collect();
    assert_eq!(systems.len(), platforms.len());
    for platform in platforms {
        let checksum = platform["sha256"].as_str().unwrap();
        assert!(checksum.len() == 64 && checksum.chars().all(|digit| digit.is_ascii_hexdigit()), "{checksum}");
        assert_eq!(platform["bin"], "operator-bounds");
        assert_eq!(platform["files"].as_array().unwrap().len(), 2);
    }
    let incomplete = render(&archives[1..]);
    assert!(
        !incomplete.status.success() && said(&incomplete).contains("no archive was given for"),
        "{}",
        said(&incomplete)
    );
}
