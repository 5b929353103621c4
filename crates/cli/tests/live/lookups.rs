//! What look-ups in a live cluster give.

use std::sync::Arc;

use bounds::cluster::{Get, LookupError, OPERATOR_GROUPS, Resource, SERVICE_ACCOUNTS};
use operator_bounds::host::{CanI, GetResource, HostError, ListResources, ResourceAttributes, SubjectAccessReview};
use operator_bounds::live::{Cluster, Connection};
use operator_bounds::policy::Policy;
use operator_bounds::source::Source;
use serde_json::{Value, json};

use crate::Stage;

const SERVICE_ACCOUNT: (&str, &str) = ("v1", "ServiceAccount");
const ROLE_BINDING: (&str, &str) = ("rbac.authorization.k8s.io/v1", "RoleBinding");

fn connect(stage: &Stage) -> Cluster {
    Cluster::connect(&Connection { kubeconfig: Some(&stage.kubeconfig()), context: None }).unwrap()
}

/// As the policy gets to know of it.
fn reported(error: &HostError) -> LookupError {
    LookupError::new(&"", error.to_string())
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

pub(crate) fn an_access_review_counts_groups(stage: &Stage) {
    let cluster = connect(stage);
    let may = |group: &str| {
        let resource_attributes = ResourceAttributes {
            verb: "get".to_owned(),
            resource: "secrets".to_owned(),
            ..ResourceAttributes::default()
        };
        let groups = Some(vec![group.to_owned()]);
        let request = SubjectAccessReview { groups, resource_attributes, user: "jane".to_owned() };
        let answer = cluster.can_i(&CanI { request, disable_cache: true }).unwrap();
        serde_json::from_slice::<Value>(&answer).unwrap()["allowed"].as_bool().unwrap()
    };
    assert!(!may("system:authenticated"));
    assert!(may("system:masters"));
}

pub(crate) fn what_is_not_there_and_what_is_not_served_are_told_apart(stage: &Stage) {
    let cluster = connect(stage);
    let missing = GetResource {
        api_version: "v1".to_owned(),
        kind: "ServiceAccount".to_owned(),
        name: "nobody".to_owned(),
        namespace: Some("default".to_owned()),
        disable_cache: true,
        field_masks: None,
    };
    let error = reported(&cluster.get(&missing).unwrap_err());
    let asked = Get { resource: SERVICE_ACCOUNTS, namespace: Some("default"), name: "nobody" };
    assert!(error.is_not_found(&asked), "{error}");
    for kind in [
        ("operators.coreos.com/v7", "OperatorGroup"),
        ("nothing.example.com/v1", "OperatorGroup"),
        ("operators.coreos.com/v1", "Nothing"),
    ] {
        let error = reported(&cluster.list(&list(kind, None, &[])).unwrap_err());
        let resource = Resource { api_version: kind.0, kind: kind.1, ..OPERATOR_GROUPS };
        assert!(error.is_not_served(resource) && !error.is_not_found(&asked), "{error}");
    }
}

pub(crate) fn what_the_metadata_does_not_declare_is_not_looked_up(stage: &Stage) {
    let host = Policy::native().unwrap().host_on(Arc::new(connect(stage)));
    let secrets = json!({"api_version": "v1", "kind": "Secret"}).to_string();
    let refused = host.call("kubewarden", "kubernetes", "list_resources_all", secrets.as_bytes()).unwrap_err();
    assert!(refused.to_string().contains("not been granted access to Kubernetes v1/Secret"), "{refused}");
    assert_eq!(host.exchanges(), []);
}

pub(crate) fn lists_are_masked_and_sorted(stage: &Stage) {
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"});
    let account = |name: &str| {
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
               "metadata": {"name": name, "namespace": "listed", "annotations": annotations}})
    };
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "installer", "namespace": "listed"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "b", "namespace": "listed"}]});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "listed"}});
    stage.create(&[namespace, account("b"), account("a"), binding]);
    let cluster = connect(stage);
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
    let accounts = read(&list(SERVICE_ACCOUNT, Some("listed"), &["metadata.name"]));
    let named =
        |name: &str| accounts["items"].as_array().unwrap().iter().position(|item| item["metadata"]["name"] == name);
    let (first, second) = (named("a").unwrap(), named("b").unwrap());
    assert!(first < second);
    assert_eq!(accounts["items"][first]["metadata"]["annotations"], json!({"kept": "yes"}));
    let namespaced = cluster.list(&list(("v1", "Namespace"), Some("listed"), &[])).unwrap_err();
    assert!(namespaced.to_string().contains("is cluster wide"), "{namespaced}");
}
