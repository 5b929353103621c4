//! What look-ups in a live cluster give, with a real API server behind them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bounds::cluster::{Get, LookupError, OPERATOR_GROUPS, Resource, SERVICE_ACCOUNTS};
use operator_bounds::host::{CanI, GetResource, HostError, ListResources, ResourceAttributes, SubjectAccessReview};
use operator_bounds::live::{Cluster, Connection};
use operator_bounds::policy::Policy;
use operator_bounds::source::Source;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::proxy::{Proxy, Wire};
use super::stage::{Case, Stage, grant, run, team, until};

pub(crate) const CASES: &[Case] = &[
    ("a_list_whose_watch_is_lost_fails_until_it_is_read_again", lost_list),
    ("a_get_is_remembered_for_as_long_as_it_may", get_cache),
    ("an_access_review_counts_groups", access_review),
    ("what_is_not_there_and_what_is_not_served_are_told_apart", not_found_and_not_served),
    ("what_the_metadata_does_not_declare_is_not_looked_up", allow_lists),
    ("lists_are_masked_and_open_one_watch_for_each_query", lists),
    ("a_connection_that_dies_without_a_word_is_noticed", silent_list),
    ("a_kind_that_goes_away_is_no_longer_served", kind_goes_away),
];

/// Its functions block.
async fn on_cluster(stage: &Arc<Stage>, ask: impl FnOnce(&Cluster) + Send + 'static) {
    let cluster = connect(stage.kubeconfig()).await;
    spawn_blocking(move || ask(&cluster)).await.unwrap();
}

async fn connect(kubeconfig: PathBuf) -> Cluster {
    let connect = move || Cluster::connect(&Connection { kubeconfig: Some(&kubeconfig), context: None }).unwrap();
    spawn_blocking(connect).await.unwrap()
}

/// As the policy gets to know of it.
fn said(error: &HostError) -> LookupError {
    LookupError::new(&"", error.to_string())
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
            std::thread::sleep(Duration::from_secs(5));
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
            let missing = get(SERVICE_ACCOUNT, Some("default"), "nobody", true);
            let error = said(&cluster.get(&missing).unwrap_err());
            let asked = Get { resource: SERVICE_ACCOUNTS, namespace: Some("default"), name: "nobody" };
            assert!(error.is_not_found(&asked), "{error}");
            for kind in [
                ("operators.coreos.com/v7", "OperatorGroup"),
                ("nothing.example.com/v1", "OperatorGroup"),
                ("operators.coreos.com/v1", "Nothing"),
            ] {
                let error = said(&cluster.list(&list(kind, None, &[])).unwrap_err());
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

/// What the watch saw last must not count any more.
fn lost_list(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("lost-list")).await;
        let [role, binding] = grant("lost-list");
        stage.create(&[role, binding.clone()]).await;
        let (proxy, directory) = (Proxy::to(stage.port()).await, TempDir::new().unwrap());
        let cluster = connect(stage.kubeconfig_by(proxy.port, directory.path())).await;
        assert_eq!(bindings(&cluster, "lost-list").await.unwrap(), 1);
        proxy.set(Wire::Cut);
        stage.delete(&binding).await;
        until("the list fails", async || bindings(&cluster, "lost-list").await.is_err()).await;
        assert_eq!(cluster.caches(), []);
        proxy.set(Wire::Open);
        // The first one may still meet a connection that broke.
        until("the list is read again", async || bindings(&cluster, "lost-list").await.is_ok()).await;
        assert_eq!(bindings(&cluster, "lost-list").await.unwrap(), 0);
    });
}

/// How many RoleBindings there are, for a policy with its two seconds.
async fn bindings(cluster: &Cluster, namespace: &str) -> Result<usize, HostError> {
    let cluster = cluster.until(Instant::now() + Duration::from_secs(2));
    let list = list(ROLE_BINDING, Some(namespace), &["subjects"]);
    let list = spawn_blocking(move || cluster.list(&list)).await.unwrap()?;
    let list: Value = serde_json::from_slice(&list).unwrap();
    Ok(list["items"].as_array().unwrap().len())
}

/// Nobody tells that nothing comes any more: what the watch saw last counts until it is due to be renewed, and not longer.
fn silent_list(stage: &Arc<Stage>) {
    run(async {
        stage.create(&team("silent")).await;
        stage.create(&grant("silent")).await;
        let (proxy, directory) = (Proxy::to(stage.port()).await, TempDir::new().unwrap());
        let cluster = connect(stage.kubeconfig_by(proxy.port, directory.path())).await;
        assert_eq!(bindings(&cluster, "silent").await.unwrap(), 1);
        proxy.set(Wire::Held);
        until("the list fails", async || bindings(&cluster, "silent").await.is_err()).await;
    });
}

fn kind_goes_away(stage: &Arc<Stage>) {
    run(async {
        let names = json!({"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"});
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                                "metadata": {"name": "widgets.example.com"},
                                "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}});
        stage.create(std::slice::from_ref(&definition)).await;
        let cluster = connect(stage.kubeconfig()).await;
        let widgets = async || {
            let (cluster, list) = (cluster.clone(), list(("example.com/v1", "Widget"), None, &[]));
            spawn_blocking(move || cluster.list(&list)).await.unwrap().map_err(|error| said(&error))
        };
        until("it is served", async || widgets().await.is_ok()).await;
        stage.delete(&definition).await;
        let resource = Resource { api_version: "example.com/v1", kind: "Widget", masks: &[] };
        let gone = async || widgets().await.is_err_and(|error| error.is_not_served(resource));
        until("it is not served", gone).await;
        assert_eq!(cluster.watches(), 0);
    });
}
