//! What the watches do when the wire to the API server is cut or held, and when a kind goes away.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bounds::cluster::{LookupError, Resource};
use operator_bounds::host::{HostError, ListResources};
use operator_bounds::live::Connection;
use operator_bounds::source::Source;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_webhook::Watched;
use tokio::task::spawn_blocking;

use crate::proxy::{Proxy, Wire};
use crate::stage::{Case, Stage, grant, run, team, until};

pub(crate) const CASES: &[Case] = &[
    ("a_list_whose_watch_is_lost_fails_until_it_is_read_again", lost_list),
    ("lists_open_one_watch_for_each_query", queries),
    ("a_connection_that_dies_without_a_word_is_noticed", silent_list),
    ("a_kind_that_goes_away_is_no_longer_served", kind_goes_away),
];

const ROLE_BINDING: (&str, &str) = ("rbac.authorization.k8s.io/v1", "RoleBinding");

/// Its functions block.
async fn connect(kubeconfig: PathBuf) -> Watched {
    let connect = move || Watched::connect(&Connection { kubeconfig: Some(&kubeconfig), context: None }).unwrap();
    spawn_blocking(connect).await.unwrap()
}

fn list(kind: (&str, &str), namespace: Option<&str>, masks: &[&str]) -> ListResources {
    ListResources {
        api_version: kind.0.to_owned(),
        kind: kind.1.to_owned(),
        namespace: namespace.map(str::to_owned),
        label_selector: None,
        field_selector: (),
        field_masks: Some(masks.iter().map(|&mask| mask.to_owned()).collect()),
    }
}

fn queries(stage: &Arc<Stage>) {
    run(async {
        let cluster = connect(stage.kubeconfig()).await;
        let asked = [(&["subjects"], 1), (&["subjects"], 1), (&["roleRef"], 2)];
        spawn_blocking(move || {
            for (masks, watches) in asked {
                cluster.list(&list(ROLE_BINDING, Some("default"), masks)).unwrap();
                assert_eq!(cluster.watches(), watches);
            }
        })
        .await
        .unwrap();
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
async fn bindings(cluster: &Watched, namespace: &str) -> Result<usize, HostError> {
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
            spawn_blocking(move || cluster.list(&list))
                .await
                .unwrap()
                .map_err(|error| LookupError::new(&"", error.to_string()))
        };
        until("it is served", async || widgets().await.is_ok()).await;
        stage.delete(&definition).await;
        let resource = Resource { api_version: "example.com/v1", kind: "Widget", masks: &[] };
        let gone = async || widgets().await.is_err_and(|error| error.is_not_served(resource));
        until("it is not served", gone).await;
        assert_eq!(cluster.watches(), 0);
    });
}
