//! What the webhook answers, with a real API server behind it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::client::Protocol;
use crate::proxy::{Proxy, Wire};
use crate::stage::{Case, Stage, grant, operator, run, team, until};
use crate::webhook::{Webhook, review};

pub(crate) const CASES: &[Case] = &[
    ("it_is_ready_when_it_says_so", readiness),
    ("an_operator_is_refused_in_the_words_of_eval", refused_like_eval),
    ("a_new_binding_admits_within_moments_and_a_deleted_one_refuses", lists_follow),
    ("what_is_no_review_is_an_error_that_says_why", bad_requests),
    ("a_body_beyond_the_limit_is_413", body_limit),
    ("a_mutation_needs_leave", mutation),
    ("monitor_admits_and_audit_tells_the_truth", modes),
    ("two_hundred_at_once_each_get_their_own_answer", two_hundred),
    ("an_api_server_that_hangs_refuses", hanging_api_server),
    ("a_watch_that_is_lost_is_found_again", lost_watch),
    ("caches_show_names_and_versions", caches),
    ("it_answers_what_runs_before_it_stops", graceful_stop),
];

const VALIDATE: &str = "/validate/operator-bounds";

fn readiness(stage: &Arc<Stage>) {
    run(async {
        let webhook = Webhook::start(&stage.kubeconfig(), &[]);
        assert_eq!(webhook.ready["policies"], json!(["operator-bounds"]));
        assert!(Path::new(webhook.ready["caFile"].as_str().unwrap()).exists());
        assert_eq!(webhook.get("/readiness").await.status, 200);
    });
}

fn refused_like_eval(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("like-eval")).await;
        let webhook = Webhook::start(&stage.kubeconfig(), &[]);
        let directory = TempDir::new().unwrap();
        let request = operator("like-eval");
        let offline = stage.offline(&request, directory.path()).await;
        let message = offline["status"]["message"].as_str().unwrap();
        assert!(message.contains("asks for more than ServiceAccount like-eval/installer allows"), "{message}");
        assert_eq!(webhook.review(VALIDATE, &request).await, offline);
    });
}

fn lists_follow(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("follow")).await;
        let webhook = Webhook::start(&stage.kubeconfig(), &[]);
        let request = operator("follow");
        assert_eq!(webhook.review(VALIDATE, &request).await["allowed"], false);
        let [role, binding] = grant("follow");
        stage.create(&[role, binding.clone()]).await;
        until_allowed(&webhook, &request, true).await;
        stage.delete(&binding).await;
        until_allowed(&webhook, &request, false).await;
    });
}

async fn until_allowed(webhook: &Webhook, request: &Value, allowed: bool) {
    let what = format!("allowed is {allowed}");
    until(&what, async || webhook.review(VALIDATE, request).await["allowed"] == allowed).await;
}

fn bad_requests(stage: &Arc<Stage>) {
    run(async {
        let webhook = Webhook::start(&stage.kubeconfig(), &[]);
        let unknown = webhook.post("/validate/other", review(&operator("x")).to_string()).await;
        assert_eq!(
            (unknown.status, unknown.text.as_str()),
            (404, "there is no policy `other`; there is: operator-bounds")
        );
        let old = review(&operator("x")).to_string().replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1");
        for (body, words) in [("{oops", "key must be a string"), ("", "EOF"), (&old, "only admission.k8s.io/v1")] {
            let answer = webhook.post(VALIDATE, body).await;
            let error: Value = serde_json::from_str(&answer.text).unwrap();
            assert_eq!((answer.status, &error["status"]), (400, &json!(400)));
            assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        }
        assert_eq!(webhook.get(VALIDATE).await.status, 405);
        assert_eq!(webhook.get("/").await.status, 404);
    });
}

fn body_limit(stage: &Arc<Stage>) {
    run(async {
        let webhook = Webhook::start(&stage.kubeconfig(), &["--body-limit", "20000"]);
        for protocol in [Protocol::Http1, Protocol::Http2] {
            // One that fits into what is sent before anybody answers, and one that does not.
            for length in [20_001, 8 * 1024 * 1024] {
                let answer = webhook.post_by(protocol, VALIDATE, vec![b' '; length]).await;
                assert_eq!(answer.status, 413, "{protocol:?} {length}: {answer:?}");
                assert!(answer.text.contains("larger than 20000 bytes"), "{answer:?}");
            }
            // What is within it, is read.
            assert_eq!(webhook.post_by(protocol, VALIDATE, vec![b' '; 20_000]).await.status, 400);
        }
    });
}

/// A policy that takes the account out of ClusterExtensions, under three ids.
fn strip(directory: &Path) -> String {
    let path = directory.join("policies.yml");
    let settings = json!({"clusterExtensions": {"strip": true, "phase": "removed"}});
    let policies = json!({
        "may": {"settings": settings, "allowedToMutate": true},
        "may-not": {"settings": settings, "module": "registry://example.com/ignored:v1"},
        "monitor": {"settings": settings, "allowedToMutate": true, "policyMode": "monitor"},
        "watching": {"policyMode": "monitor"},
    });
    fs::write(&path, policies.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn extension() -> Value {
    let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "demo"}});
    let spec = json!({"namespace": "demo", "serviceAccount": {"name": "demo-installer"}, "source": source});
    let object = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
                        "metadata": {"name": "demo"}, "spec": spec});
    json!({"uid": "extension", "kind": {"group": "olm.operatorframework.io", "version": "v1", "kind": "ClusterExtension"},
           "resource": {"group": "olm.operatorframework.io", "version": "v1", "resource": "clusterextensions"},
           "operation": "CREATE", "name": "demo", "object": object,
           "userInfo": {"username": "alice", "groups": ["system:masters", "system:authenticated"]}})
}

fn mutation(stage: &Arc<Stage>) {
    run(async {
        let directory = TempDir::new().unwrap();
        let webhook = Webhook::start(&stage.kubeconfig(), &["--policies", &strip(directory.path())]);
        let may = webhook.review("/validate/may", &extension()).await;
        assert_eq!((&may["allowed"], &may["patchType"]), (&json!(true), &json!("JSONPatch")));
        let may_not = webhook.review("/validate/may-not", &extension()).await;
        assert_eq!(may_not["allowed"], false);
        assert_eq!(
            may_not["status"]["message"],
            "policy may-not wants to change the object and may not: its allowedToMutate is false"
        );
        assert!(may_not.get("patch").is_none());
        let monitor = webhook.review("/validate/monitor", &extension()).await;
        assert_eq!((&monitor["allowed"], monitor.get("patch")), (&json!(true), None));
    });
}

fn modes(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("modes")).await;
        let directory = TempDir::new().unwrap();
        let webhook = Webhook::start(&stage.kubeconfig(), &["--policies", &strip(directory.path())]);
        let request = operator("modes");
        let validated = webhook.review("/validate/watching", &request).await;
        assert_eq!((&validated["allowed"], validated.get("status")), (&json!(true), None));
        let audited = webhook.review("/audit/watching", &request).await;
        assert_eq!((&audited["allowed"], &audited["status"]["code"]), (&json!(false), &json!(403)));
    });
}

/// Half of the teams hold what their operators want, and nobody is told of another.
fn two_hundred(stage: &Arc<Stage>) {
    run(async {
        let webhook = Webhook::start(&stage.kubeconfig(), &["--evaluation-limit", "60"]);
        for team_number in 0..10 {
            let namespace = format!("crowd-{team_number}");
            stage.create(&team(&namespace)).await;
            if team_number % 2 == 0 {
                stage.create(&grant(&namespace)).await;
            }
        }
        let ask = async |number: usize| {
            let mut request = operator(&format!("crowd-{}", number % 10));
            request["uid"] = json!(format!("uid-{number}"));
            (number, webhook.review(VALIDATE, &request).await)
        };
        for (number, response) in join_all((0..200).map(ask)).await {
            assert_eq!(response["allowed"], number % 2 == 0, "{number}: {response}");
            let said = response.to_string();
            let others = (0..10).filter(|other| *other != number % 10).map(|other| format!("crowd-{other}"));
            for other in others {
                assert!(!said.contains(&other), "{number}: {said}");
            }
        }
    });
}

fn hanging_api_server(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("hanging")).await;
        let (proxy, directory) = (Proxy::to(stage.port()).await, TempDir::new().unwrap());
        let webhook = Webhook::start(&stage.kubeconfig_by(proxy.port, directory.path()), &[]);
        proxy.set(Wire::Held);
        let response = webhook.review(VALIDATE, &operator("hanging")).await;
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(500)));
        assert_eq!(response["status"]["message"], "the evaluation exceeded its time limit of 2 s");
        let readiness = webhook.get("/readiness").await;
        assert_eq!(readiness.status, 503);
        assert!(readiness.text.contains(&format!("127.0.0.1:{}", proxy.port)), "{readiness:?}");
        proxy.set(Wire::Open);
        until_ready(&webhook).await;
        let response = webhook.review(VALIDATE, &operator("hanging")).await;
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
    });
}

async fn until_ready(webhook: &Webhook) {
    until("it is ready", async || webhook.get("/readiness").await.status == 200).await;
}

fn lost_watch(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("lost")).await;
        let [role, binding] = grant("lost");
        stage.create(&[role, binding.clone()]).await;
        let (proxy, directory) = (Proxy::to(stage.port()).await, TempDir::new().unwrap());
        let webhook = Webhook::start(&stage.kubeconfig_by(proxy.port, directory.path()), &[]);
        let request = operator("lost");
        assert_eq!(webhook.review(VALIDATE, &request).await["allowed"], true);
        proxy.set(Wire::Cut);
        stage.delete(&binding).await;
        until_allowed(&webhook, &request, false).await;
        proxy.set(Wire::Open);
        until_ready(&webhook).await;
        let response = webhook.review(VALIDATE, &request).await;
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
        stage.create(&[binding]).await;
        until_allowed(&webhook, &request, true).await;
    });
}

fn caches(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("shown")).await;
        let webhook = Webhook::start(&stage.kubeconfig(), &[]);
        assert_eq!(webhook.get("/caches").await.text, "[]");
        webhook.review(VALIDATE, &operator("shown")).await;
        let caches: Vec<Value> = serde_json::from_str(&webhook.get("/caches").await.text).unwrap();
        let groups = caches.iter().find(|cache| cache["kind"] == "OperatorGroup").unwrap();
        assert_eq!((&groups["apiVersion"], &groups["namespace"]), (&json!("operators.coreos.com/v1"), &Value::Null));
        let version = stage.version(&team("shown")[2]).await;
        assert_eq!(groups["objects"]["shown/og"], json!(version));
        assert!(caches.iter().any(|cache| cache["objects"].get("/cluster-admin").is_some()), "{caches:?}");
    });
}

fn graceful_stop(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("stopping")).await;
        let (proxy, directory) = (Proxy::to(stage.port()).await, TempDir::new().unwrap());
        let kubeconfig = stage.kubeconfig_by(proxy.port, directory.path());
        let mut webhook = Webhook::start(&kubeconfig, &["--evaluation-limit", "60"]);
        let request = operator("stopping");
        proxy.set(Wire::Held);
        let running = webhook.review(VALIDATE, &request);
        let stopping = async {
            // Until the request is running, there is nothing to finish.
            proxy.until_held().await;
            webhook.terminate();
            until_closed(webhook.ready["address"].as_str().unwrap()).await;
            proxy.set(Wire::Open);
        };
        let (response, ()) = tokio::join!(running, stopping);
        assert_eq!(response["status"]["code"], 403);
        assert_eq!(spawn_blocking(move || webhook.wait()).await.unwrap().code(), Some(0));
    });
}

/// Until nobody accepts connections there any more.
async fn until_closed(address: &str) {
    let address = address.trim_start_matches("https://");
    until("the port is closed", async || tokio::net::TcpStream::connect(address).await.is_err()).await;
}
