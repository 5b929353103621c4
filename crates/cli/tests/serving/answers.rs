//! What the webhook answers, with a real API server behind it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures::future::join_all;
use operator_bounds::host::{CanI, GetResource, ListResources, ResourceAttributes, SubjectAccessReview};
use operator_bounds::live::{Cluster, Connection};
use operator_bounds::policy::Policy;
use operator_bounds::source::Source;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::proxy::{Proxy, Wire};
use super::stage::{Stage, grant, operator, run, team};
use super::webhook::{Webhook, review};

type Case = (&'static str, fn(&Arc<Stage>));

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
    ("it_answers_what_runs_before_it_stops", graceful_stop),
    ("a_get_is_remembered_for_as_long_as_it_may", get_cache),
    ("an_access_review_counts_groups", access_review),
    ("what_is_not_there_and_what_is_not_served_are_told_apart", not_found_and_not_served),
    ("what_the_metadata_does_not_declare_is_not_looked_up", allow_lists),
    ("lists_are_masked_and_open_one_watch_for_each_query", lists),
];

const VALIDATE: &str = "/validate/operator-bounds";

fn readiness(stage: &Arc<Stage>) {
    run(async {
        let webhook = Webhook::start(&stage.kubeconfig(), &[]).await;
        assert_eq!(webhook.ready["policies"], json!(["operator-bounds"]));
        assert!(Path::new(webhook.ready["caFile"].as_str().unwrap()).exists());
        assert_eq!(webhook.get("/readiness").await.status, 200);
    });
}

fn refused_like_eval(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("like-eval")).await;
        let webhook = Webhook::start(&stage.kubeconfig(), &[]).await;
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
        let webhook = Webhook::start(&stage.kubeconfig(), &[]).await;
        let request = operator("follow");
        assert_eq!(webhook.review(VALIDATE, &request).await["allowed"], false);
        let [role, binding] = grant("follow");
        stage.create(&[role, binding.clone()]).await;
        until_allowed(&webhook, &request, true).await;
        stage.delete(&binding).await;
        until_allowed(&webhook, &request, false).await;
    });
}

/// Asks until the answer is the right one: a watch is a moment behind. That it never comes, the test's own time limit says.
async fn until_allowed(webhook: &Webhook, request: &Value, allowed: bool) {
    for _ in 0..100 {
        if webhook.review(VALIDATE, request).await["allowed"] == allowed {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the watch never saw that it should be {allowed}");
}

fn bad_requests(stage: &Arc<Stage>) {
    run(async {
        let webhook = Webhook::start(&stage.kubeconfig(), &[]).await;
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
        let webhook = Webhook::start(&stage.kubeconfig(), &["--body-limit", "20000"]).await;
        let answer = webhook.post(VALIDATE, vec![b' '; 20001]).await;
        assert_eq!(answer.status, 413, "{answer:?}");
        assert!(answer.text.contains("larger than 20000 bytes"), "{answer:?}");
        // What is within it, is read.
        assert_eq!(webhook.post(VALIDATE, vec![b' '; 20000]).await.status, 400);
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
        let webhook = Webhook::start(&stage.kubeconfig(), &["--policies", &strip(directory.path())]).await;
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
        let webhook = Webhook::start(&stage.kubeconfig(), &["--policies", &strip(directory.path())]).await;
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
        let webhook = Webhook::start(&stage.kubeconfig(), &["--evaluation-limit", "60"]).await;
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
        let (proxy, directory) = (Proxy::to(stage.port().await).await, TempDir::new().unwrap());
        let webhook = Webhook::start(&stage.kubeconfig_by(proxy.port, directory.path()), &[]).await;
        proxy.set(Wire::Held);
        let response = webhook.review(VALIDATE, &operator("hanging")).await;
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(500)));
        assert_eq!(response["status"]["message"], "the evaluation was ended after its time limit of 2 s");
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
    for _ in 0..100 {
        if webhook.get("/readiness").await.status == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("it never became ready");
}

fn lost_watch(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("lost")).await;
        let [role, binding] = grant("lost");
        stage.create(&[role, binding.clone()]).await;
        let (proxy, directory) = (Proxy::to(stage.port().await).await, TempDir::new().unwrap());
        let webhook = Webhook::start(&stage.kubeconfig_by(proxy.port, directory.path()), &[]).await;
        let request = operator("lost");
        assert_eq!(webhook.review(VALIDATE, &request).await["allowed"], true);
        proxy.set(Wire::Cut);
        stage.delete(&binding).await;
        // What the watch saw last would admit: it must not count any more.
        let response = webhook.review(VALIDATE, &request).await;
        assert_eq!(response["allowed"], false, "{response}");
        proxy.set(Wire::Open);
        until_ready(&webhook).await;
        let response = webhook.review(VALIDATE, &request).await;
        assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(403)));
        stage.create(&[binding]).await;
        until_allowed(&webhook, &request, true).await;
    });
}

fn graceful_stop(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("stopping")).await;
        let (proxy, directory) = (Proxy::to(stage.port().await).await, TempDir::new().unwrap());
        let kubeconfig = stage.kubeconfig_by(proxy.port, directory.path());
        let mut webhook = Webhook::start(&kubeconfig, &["--evaluation-limit", "60"]).await;
        let request = operator("stopping");
        proxy.set(Wire::Held);
        let running = webhook.review(VALIDATE, &request);
        let stopping = async {
            // Until the request is running, there is nothing to finish.
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
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
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The library itself, as `check` uses it: its functions block.
async fn on_cluster(stage: &Arc<Stage>, ask: impl FnOnce(&Cluster) + Send + 'static) {
    let kubeconfig = stage.kubeconfig();
    let asked = spawn_blocking(move || {
        let connection = Connection { kubeconfig: Some(&kubeconfig), context: None };
        ask(&Cluster::connect(&connection).unwrap());
    });
    asked.await.unwrap();
}

fn get(kind: (&str, &str), namespace: Option<&str>, name: &str, disable_cache: bool) -> GetResource {
    GetResource {
        api_version: kind.0.to_owned(),
        kind: kind.1.to_owned(),
        name: name.to_owned(),
        namespace: namespace.map(str::to_owned),
        disable_cache,
        field_masks: Some(["metadata.name".to_owned()].into()),
    }
}

fn list(kind: (&str, &str), namespace: Option<&str>, masks: &[&str]) -> ListResources {
    ListResources {
        api_version: kind.0.to_owned(),
        kind: kind.1.to_owned(),
        namespace: namespace.map(str::to_owned),
        label_selector: None,
        field_selector: None,
        field_masks: Some(masks.iter().map(|&mask| mask.to_owned()).collect()),
    }
}

const SERVICE_ACCOUNT: (&str, &str) = ("v1", "ServiceAccount");
const ROLE_BINDING: (&str, &str) = ("rbac.authorization.k8s.io/v1", "RoleBinding");

fn get_cache(stage: &Arc<Stage>) {
    run(async {
        let objects = team("cached");
        stage.create(&objects).await;
        let (handle, deleting) = (tokio::runtime::Handle::current(), Arc::clone(stage));
        on_cluster(stage, move |cluster| {
            let cached = get(SERVICE_ACCOUNT, Some("cached"), "installer", false);
            let fresh = get(SERVICE_ACCOUNT, Some("cached"), "installer", true);
            let object: Value = serde_json::from_slice(&cluster.get(&cached).unwrap()).unwrap();
            assert_eq!((&object["kind"], object.get("secrets")), (&json!("ServiceAccount"), None));
            handle.block_on(deleting.delete(&objects[1]));
            assert!(cluster.get(&fresh).is_err(), "what is asked for fresh is fresh");
            assert!(cluster.get(&cached).is_ok(), "a success is kept");
            std::thread::sleep(std::time::Duration::from_secs(5));
            assert!(cluster.get(&cached).is_err(), "but for five seconds only");
            handle.block_on(deleting.create(&objects[1..2]));
            assert!(cluster.get(&cached).is_ok(), "a failure is not kept");
        })
        .await;
    });
}

fn access_review(stage: &Arc<Stage>) {
    run(async {
        on_cluster(stage, |cluster| {
            let may = |groups: &[&str]| {
                let resource_attributes = ResourceAttributes {
                    verb: "get".to_owned(),
                    resource: "secrets".to_owned(),
                    ..ResourceAttributes::default()
                };
                let groups = Some(groups.iter().map(|&group| group.to_owned()).collect());
                let request = SubjectAccessReview { groups, resource_attributes, user: "jane".to_owned() };
                let answer = cluster.can_i(&CanI { request, disable_cache: false }).unwrap();
                serde_json::from_slice::<Value>(&answer).unwrap()["allowed"].as_bool().unwrap()
            };
            assert!(!may(&["system:authenticated"]));
            assert!(may(&["system:masters"]));
        })
        .await;
    });
}

fn not_found_and_not_served(stage: &Arc<Stage>) {
    run(async {
        on_cluster(stage, |cluster| {
            use bounds::cluster::{Get, LookupError, OPERATOR_GROUPS, Resource, SERVICE_ACCOUNTS};
            let said = |error: operator_bounds::host::HostError| LookupError {
                lookup: String::new(),
                reason: format!("Host error: {error}"),
            };
            let missing = get(SERVICE_ACCOUNT, Some("default"), "nobody", true);
            let error = said(cluster.get(&missing).unwrap_err());
            let asked = Get { resource: SERVICE_ACCOUNTS, namespace: Some("default"), name: "nobody" };
            assert!(error.is_not_found(&asked), "{error}");
            for kind in [
                ("operators.coreos.com/v7", "OperatorGroup"),
                ("nothing.example.com/v1", "OperatorGroup"),
                ("operators.coreos.com/v1", "Nothing"),
            ] {
                let error = said(cluster.list(&list(kind, None, &[])).unwrap_err());
                let resource = Resource { api_version: kind.0, kind: kind.1, ..OPERATOR_GROUPS };
                assert!(error.is_not_served(resource) && !error.is_not_found(&asked), "{error}");
            }
        })
        .await;
    });
}

fn allow_lists(stage: &Arc<Stage>) {
    run(async {
        on_cluster(stage, |cluster| {
            let host = Policy::native().unwrap().host_on(Arc::new(cluster.clone()));
            let secrets = json!({"api_version": "v1", "kind": "Secret"}).to_string();
            let refused = host.call("kubewarden", "kubernetes", "list_resources_all", secrets.as_bytes()).unwrap_err();
            assert!(refused.to_string().contains("not been granted access to Kubernetes v1/Secret"), "{refused}");
            assert_eq!(cluster.watches(), 0);
        })
        .await;
    });
}

fn lists(stage: &Arc<Stage>) {
    run(async {
        let mut objects = team("listed");
        objects[1]["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"});
        stage.create(&objects).await;
        stage.create(&grant("listed")).await;
        on_cluster(stage, |cluster| {
            let read = |list: &ListResources| serde_json::from_slice::<Value>(&cluster.list(list).unwrap()).unwrap();
            let bindings = read(&list(ROLE_BINDING, Some("listed"), &["subjects"]));
            assert_eq!(
                (&bindings["apiVersion"], &bindings["kind"]),
                (&json!("rbac.authorization.k8s.io/v1"), &json!("RoleBindingList"))
            );
            let binding = &bindings["items"][0];
            let fields: Vec<&String> = binding.as_object().unwrap().keys().collect();
            assert_eq!(fields, ["metadata", "subjects"]);
            assert_eq!(binding["metadata"]["managedFields"], json!([]));
            read(&list(ROLE_BINDING, Some("listed"), &["subjects"]));
            assert_eq!(cluster.watches(), 1);
            read(&list(ROLE_BINDING, Some("listed"), &["roleRef"]));
            assert_eq!(cluster.watches(), 2);
            let accounts = read(&list(SERVICE_ACCOUNT, Some("listed"), &["metadata.name"]));
            let installer =
                accounts["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "installer");
            assert_eq!(installer.unwrap()["metadata"]["annotations"], json!({"kept": "yes"}));
            let namespaced = cluster.list(&list(("v1", "Namespace"), Some("listed"), &[])).unwrap_err();
            assert!(namespaced.to_string().contains("is cluster wide"), "{namespaced}");
        })
        .await;
    });
}
