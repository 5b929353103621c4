//! Clusters that cannot be reached: exit code 2, one line that says why, and nothing on standard output. No control plane needed.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::operator_bounds;

fn connect(arguments: &[&str]) -> Output {
    operator_bounds(&[&["upgrade-check", "--to", "1.11"], arguments].concat())
}

#[track_caller]
fn assert_refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.starts_with("error: ") && words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
    assert_eq!(output.stdout, b"");
}

fn kubeconfig(directory: &Path, port: u16) -> String {
    let path = directory.join("kubeconfig");
    let cluster = format!("{{server: 'https://127.0.0.1:{port}', insecure-skip-tls-verify: true}}");
    let content = format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {cluster}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    );
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

pub(crate) fn a_dead_api_server_is_named() {
    let directory = TempDir::new().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let kubeconfig = kubeconfig(directory.path(), port);
    let url = format!("https://127.0.0.1:{port}/");
    let output = connect(&["--kubeconfig", &kubeconfig]);
    assert_refused(&output, &["the API server at", &url, "does not answer", "refused"]);
}

pub(crate) fn a_silent_api_server_is_given_up() {
    let directory = TempDir::new().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubeconfig = kubeconfig(directory.path(), silent.local_addr().unwrap().port());
    let output = connect(&["--kubeconfig", &kubeconfig]);
    assert_refused(&output, &["the API server at", "does not answer", "no response within 5 s"]);
}

pub(crate) fn an_unreadable_kubeconfig_is_named() {
    let output = connect(&["--kubeconfig", "/does/not/exist"]);
    assert_refused(&output, &["kubeconfig /does/not/exist", "No such file"]);
}

pub(crate) fn a_broken_kubeconfig_is_named_and_not_quoted() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("kubeconfig");
    fs::write(&path, "users: [{name: u, user: {token: s3cret}}]\nclusters: [\n").unwrap();
    let output = connect(&["--kubeconfig", path.to_str().unwrap()]);
    assert_refused(&output, &[path.to_str().unwrap(), "line 2"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("s3cret"));
}

pub(crate) fn a_context_that_does_not_exist_is_named() {
    let directory = TempDir::new().unwrap();
    let kubeconfig = kubeconfig(directory.path(), 1);
    let output = connect(&["--kubeconfig", &kubeconfig, "--context", "other"]);
    assert_refused(&output, &[&kubeconfig, "context", "other"]);
}
