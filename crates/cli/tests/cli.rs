//! The command line from the outside: what it prints, and its exit codes.

#![allow(clippy::unwrap_used, missing_docs)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const POD_RULE: &str = "- {apiGroups: [''], resources: [pods], verbs: [get]}\n";

struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(directory: &Path, arguments: &[&str], stdin: &str) -> Outcome {
    let mut child = Command::new(env!("CARGO_BIN_EXE_operator-bounds"))
        .current_dir(directory)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that fails before it reads its input closes the pipe.
    _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A directory with an empty cluster, and a request on a kind that the policy does not know.
fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, content: &str| std::fs::write(directory.path().join(name), content).unwrap();
    std::fs::create_dir(directory.path().join("cluster")).unwrap();
    write("request.json", &request().to_string());
    write("pods.yaml", POD_RULE);
    write(
        "nodes.yaml",
        "kind: ClusterRole\nrules:\n- {apiGroups: [''], resources: [nodes, pods], verbs: [get, list]}\n",
    );
    directory
}

fn request() -> Value {
    json!({
        "uid": "1299d386-525b-4032-98ae-1949f69f9cfc",
        "kind": {"group": "", "version": "v1", "kind": "Event"},
        "resource": {"group": "", "version": "v1", "resource": "events"},
        "operation": "CREATE",
        "namespace": "a",
        "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
        "object": {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "a"}},
    })
}

fn eval(extra: &[&str], stdin: &str) -> Outcome {
    let directory = directory();
    run(directory.path(), &[&["eval", "--cluster", "cluster"], extra].concat(), stdin)
}

#[test]
fn a_kind_that_the_policy_does_not_know_is_admitted_in_one_line() {
    let outcome = eval(&["--request-path", "request.json"], "");
    assert_eq!((outcome.code, outcome.stderr.as_str(), outcome.stdout.lines().count()), (0, "", 1));
    let response: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&response["uid"], &response["allowed"]), (&request()["uid"], &json!(true)));
}

#[test]
fn a_review_on_standard_input_gives_the_same_answer_natively_too() {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request()});
    let expected = eval(&["--request-path", "request.json"], "").stdout;
    assert_eq!(eval(&["--request-path", "-"], &review.to_string()).stdout, expected);
    assert_eq!(eval(&["--request-path", "-", "--native"], &review.to_string()).stdout, expected);
}

#[test]
fn settings_that_the_policy_refuses_are_an_error_with_its_words() {
    let outcome = eval(&["--request-path", "request.json", "--settings-json", r#"{"guarb":"off"}"#], "");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    assert!(outcome.stderr.starts_with("error: the settings are not valid: "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("guarb"), "{}", outcome.stderr);
}

#[test]
fn settings_may_be_yaml_and_may_be_empty() {
    let directory = directory();
    for settings in ["", "guard: off\n", "{\"guard\": \"off\"}"] {
        std::fs::write(directory.path().join("settings.yaml"), settings).unwrap();
        let arguments =
            ["eval", "--cluster", "cluster", "--request-path", "request.json", "--settings-path", "settings.yaml"];
        let outcome = run(directory.path(), &arguments, "");
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{settings:?}");
    }
}

#[test]
fn what_cannot_be_read_is_one_error_that_names_it() {
    for (arguments, stdin, words) in [
        (vec!["--request-path", "gone.json"], "", "gone.json: "),
        (vec!["--request-path", "-"], "{\n oops", "standard input:2:2: "),
        (vec!["--request-path", "-"], "{\"kind\":{}}", "standard input: not an admission request: missing field `uid`"),
        (vec!["--request-path", "request.json", "--settings-path", "gone.yaml"], "", "gone.yaml: "),
        (vec!["--request-path", "request.json", "--settings-json", "{"], "", "--settings-json: "),
    ] {
        let outcome = eval(&arguments, stdin);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(outcome.stderr.starts_with("error: ") && outcome.stderr.contains(words), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    }
    let outcome = run(directory().path(), &["eval", "--request-path", "request.json", "--cluster", "gone"], "");
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("gone: "), "{}", outcome.stderr);
}

#[test]
fn a_session_is_a_list_of_exchanges_in_a_file_or_on_standard_output() {
    let directory = directory();
    let arguments = ["session", "--cluster", "cluster", "--request-path", "request.json"];
    let printed = run(directory.path(), &arguments, "");
    assert_eq!((printed.code, printed.stdout.as_str()), (0, "[]\n"));
    let written = run(directory.path(), &[&arguments[..], &["--output", "session.yaml"]].concat(), "");
    assert_eq!((written.code, written.stdout.as_str()), (0, ""));
    assert_eq!(std::fs::read_to_string(directory.path().join("session.yaml")).unwrap(), printed.stdout);
}

#[test]
fn a_session_records_what_the_policy_looked_up() {
    let directory = directory();
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                       "metadata": {"name": "og", "namespace": "a"}, "spec": {"serviceAccountName": "installer"}});
    let mut request = request();
    request["kind"] = json!({"group": "operators.coreos.com", "version": "v1", "kind": "OperatorGroup"});
    request["resource"] = json!({"group": "operators.coreos.com", "version": "v1", "resource": "operatorgroups"});
    request["object"] = group;
    let arguments = ["session", "--cluster", "cluster", "--request-path", "-"];
    let session = run(directory.path(), &arguments, &request.to_string());
    assert_eq!(session.code, 0, "{}", session.stderr);
    for words in
        ["- type: Exchange\n  request: |\n    !Kubernetes", "kind: OperatorGroup", "type: Success", "payload: '{"]
    {
        assert!(session.stdout.contains(words), "{words}: {}", session.stdout);
    }
    let native = run(directory.path(), &[&arguments[..], &["--native"]].concat(), &request.to_string());
    assert_eq!(native.stdout, session.stdout);
}

#[test]
fn a_difference_is_printed_and_is_exit_code_one() {
    let directory = directory();
    let covered = run(directory.path(), &["diff", "nodes.yaml", "pods.yaml"], "");
    assert_eq!((covered.code, covered.stdout.as_str()), (0, ""));
    let excess = run(directory.path(), &["diff", "pods.yaml", "nodes.yaml"], "");
    assert_eq!(excess.code, 1);
    assert!(excess.stdout.contains("nodes") && excess.stdout.ends_with('\n'), "{}", excess.stdout);
    let failed = run(directory.path(), &["diff", "pods.yaml", "gone.yaml"], "");
    assert_eq!((failed.code, failed.stdout.as_str()), (2, ""));
    assert!(failed.stderr.contains("gone.yaml: "), "{}", failed.stderr);
}

#[test]
fn pairs_are_answered_line_by_line() {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let pair = json!({"owner": [], "requested": [rule]});
    let outcome = run(Path::new("."), &["diff", "--jsonl"], &format!("{pair}\n{pair}\n"));
    let answers: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers, vec![json!({"covers": false, "uncovered": [rule]}); 2]);
    assert_eq!(outcome.code, 0);
    let failed = run(Path::new("."), &["diff", "--jsonl"], &format!("{pair}\n[\n"));
    assert_eq!((failed.code, failed.stdout.lines().count()), (2, 1));
    assert!(failed.stderr.starts_with("error: standard input: line 2, "), "{}", failed.stderr);
}

#[test]
fn wrong_arguments_are_exit_code_two_and_help_has_examples() {
    assert_eq!(run(Path::new("."), &["diff", "only-one.yaml"], "").code, 2);
    assert_eq!(run(Path::new("."), &["eval", "--settings-json", "{}", "--settings-path", "x"], "").code, 2);
    for command in ["eval", "session", "diff"] {
        let help = run(Path::new("."), &[command, "--help"], "");
        assert_eq!(help.code, 0);
        assert!(help.stdout.contains("Example") && !help.stdout.contains('\x1b'), "{}", help.stdout);
    }
    assert!(run(Path::new("."), &["--version"], "").stdout.starts_with("operator-bounds "));
}
