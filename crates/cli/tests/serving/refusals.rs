//! What the webhook does not start with: exit code 2, one line that says why, and nothing on standard output.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;

use super::webhook::PROGRAM;

pub(crate) const CASES: &[(&str, fn())] = &[
    ("a_port_in_use_is_named", port_in_use),
    ("a_dead_api_server_is_named", dead_api_server),
    ("a_silent_api_server_is_given_up", silent_api_server),
    ("an_expired_certificate_is_named_with_its_date", expired_certificate),
    ("a_key_of_another_certificate_is_named", key_of_another_certificate),
    ("an_unreadable_kubeconfig_is_named", unreadable_kubeconfig),
    ("a_context_that_does_not_exist_is_named", unknown_context),
    ("settings_that_are_not_valid_are_named_with_their_policy", invalid_settings),
    ("a_policies_file_that_is_none_is_named", no_policies_file),
];

fn serve(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("serve").args(arguments).env("RUST_LOG", "off").output().unwrap()
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

fn port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert_refused(&serve(&["--addr", &address]), &["cannot listen on", &address, "in use", "--addr"]);
}

fn dead_api_server() {
    let directory = TempDir::new().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let kubeconfig = kubeconfig(directory.path(), port);
    let url = format!("https://127.0.0.1:{port}/");
    let output = serve(&["--addr", "127.0.0.1:0", "--kubeconfig", &kubeconfig]);
    assert_refused(&output, &["the API server at", &url, "does not answer", "refused"]);
}

fn silent_api_server() {
    let directory = TempDir::new().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubeconfig = kubeconfig(directory.path(), silent.local_addr().unwrap().port());
    let output = serve(&["--addr", "127.0.0.1:0", "--kubeconfig", &kubeconfig]);
    assert_refused(&output, &["the API server at", "does not answer", "within 5 s"]);
}

fn unreadable_kubeconfig() {
    let output = serve(&["--addr", "127.0.0.1:0", "--kubeconfig", "/does/not/exist"]);
    assert_refused(&output, &["kubeconfig /does/not/exist", "No such file"]);
}

fn unknown_context() {
    let directory = TempDir::new().unwrap();
    let kubeconfig = kubeconfig(directory.path(), 1);
    let output = serve(&["--addr", "127.0.0.1:0", "--kubeconfig", &kubeconfig, "--context", "other"]);
    assert_refused(&output, &[&kubeconfig, "context", "other"]);
}

/// The paths of a certificate that ends with that year, and of its key.
fn certificate(directory: &Path, name: &str, year: i32) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_after = date_time_ymd(year, 12, 31);
    let certificate = params.self_signed(&key).unwrap();
    let (cert_file, key_file) = (directory.join(format!("{name}.pem")), directory.join(format!("{name}.key")));
    fs::write(&cert_file, certificate.pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    (cert_file.to_str().unwrap().to_owned(), key_file.to_str().unwrap().to_owned())
}

fn expired_certificate() {
    let directory = TempDir::new().unwrap();
    let (cert_file, key_file) = certificate(directory.path(), "old", 2020);
    let output = serve(&["--cert-file", &cert_file, "--key-file", &key_file]);
    assert_refused(&output, &[&cert_file, "expired on 2020-12-31"]);
}

fn key_of_another_certificate() {
    let directory = TempDir::new().unwrap();
    let (cert_file, _) = certificate(directory.path(), "one", 2999);
    let (_, key_file) = certificate(directory.path(), "other", 2999);
    let output = serve(&["--cert-file", &cert_file, "--key-file", &key_file]);
    assert_refused(&output, &[&key_file, "not the key of the certificate in", &cert_file]);
}

fn invalid_settings() {
    let directory = TempDir::new().unwrap();
    let policies = directory.path().join("policies.yml");
    fs::write(&policies, "good: {}\nbad: {settings: {mode: sometimes}}\n").unwrap();
    let output = serve(&["--addr", "127.0.0.1:0", "--policies", policies.to_str().unwrap()]);
    assert_refused(&output, &["policy bad: the settings are not valid", "sometimes"]);
}

fn no_policies_file() {
    let output = serve(&["--policies", "/does/not/exist.yml"]);
    assert_refused(&output, &["/does/not/exist.yml: No such file"]);
}
