//! The control plane that all cases share, and what they put into it.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use operator_bounds::admission::{AdmissionResponse, Request};
use operator_bounds::engine::Limits;
use operator_bounds::manifests::Manifests;
use operator_bounds::policy::Policy;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use test_plane::Plane;

/// A case that needs the control plane, and its name.
pub(crate) type Case = (&'static str, fn(&Arc<Stage>));

/// Started by the first case that needs it.
#[derive(Default)]
pub(crate) struct Stage {
    plane: OnceLock<Plane>,
}

impl Stage {
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.plane.get_or_init(|| Plane::start(&[]).expect("a control plane")).kubeconfig()
    }

    /// The same cluster, reached through another port.
    pub(crate) fn kubeconfig_by(&self, port: u16, directory: &Path) -> PathBuf {
        let mut kubeconfig = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        for cluster in &mut kubeconfig.clusters {
            cluster.cluster.as_mut().unwrap().server = Some(format!("https://127.0.0.1:{port}"));
        }
        let path = directory.join("kubeconfig");
        fs::write(&path, serde_json::to_string(&kubeconfig).unwrap()).unwrap();
        path
    }

    pub(crate) async fn client(&self) -> kube::Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }

    /// The port that the API server is on.
    pub(crate) fn port(&self) -> u16 {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let server = kubeconfig.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap();
        server.rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap()
    }

    /// Creates objects, in order.
    pub(crate) async fn create(&self, objects: &[Value]) {
        for object in objects {
            let api = self.api(object).await;
            let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap_or_else(|error| panic!("{object:?}: {error}"));
        }
    }

    pub(crate) async fn delete(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.api(object).await.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// The resourceVersion of an object.
    pub(crate) async fn version(&self, object: &Value) -> String {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.api(object).await.get(name).await.unwrap().metadata.resource_version.unwrap()
    }

    async fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let resource = resource(text("/apiVersion").unwrap(), text("/kind").unwrap());
        match text("/metadata/namespace") {
            Some(namespace) => Api::namespaced_with(self.client().await, namespace, &resource),
            None => Api::all_with(self.client().await, &resource),
        }
    }

    /// The response to a request, with a dump of the cluster as it is now.
    pub(crate) async fn offline(&self, request: &Value, directory: &Path) -> Value {
        let client = self.client().await;
        let mut items = Vec::new();
        for (api_version, kind) in KINDS {
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(api_version, kind));
            for object in api.list(&ListParams::default()).await.unwrap() {
                let mut object = serde_json::to_value(object).unwrap();
                (object["apiVersion"], object["kind"]) = (json!(api_version), json!(kind));
                items.push(object);
            }
        }
        let dump = directory.join("dump.json");
        fs::write(&dump, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
        let policy = Policy::embedded(Limits { seconds: None, ..Limits::default() }).unwrap();
        let host = Arc::new(policy.host(&Arc::new(Manifests::load(&dump).unwrap())));
        let request = Request::new(to_raw_value(request).unwrap()).unwrap();
        let response = policy.validate(&request.json, &to_raw_value(&json!({})).unwrap(), &host).unwrap();
        serde_json::to_value(AdmissionResponse::new(&request, response).unwrap()).unwrap()
    }
}

/// What the policy looks up of OLM v0.
const KINDS: [(&str, &str); 8] = [
    ("operators.coreos.com/v1", "OperatorGroup"),
    ("operators.coreos.com/v1alpha1", "ClusterServiceVersion"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
];

fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&kube::api::GroupVersionKind::gvk(group, version, kind))
}

/// Asks until it is so: a watch is a moment behind.
pub(crate) async fn until(what: &str, so: impl AsyncFn() -> bool) {
    for _ in 0..1200 {
        if so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never came to this: {what}");
}

/// Runs a case.
pub(crate) fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(case);
}

/// A namespace whose OperatorGroup chose an account that holds nothing.
pub(crate) fn team(namespace: &str) -> Vec<Value> {
    let metadata = |name: &str| json!({"name": name, "namespace": namespace});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("installer")}),
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": metadata("og"),
               "spec": {"serviceAccountName": "installer", "targetNamespaces": [namespace]}}),
    ]
}

/// A role for that account that lets it do everything in its namespace, and its binding.
pub(crate) fn grant(namespace: &str) -> [Value; 2] {
    let metadata = json!({"name": "installer", "namespace": namespace});
    let everything = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "installer"});
    let subject = json!({"kind": "ServiceAccount", "name": "installer", "namespace": namespace});
    [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": [everything]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
               "roleRef": role_ref, "subjects": [subject]}),
    ]
}

/// The request to create an operator that wants to read Secrets in that namespace.
pub(crate) fn operator(namespace: &str) -> Value {
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]);
    let template = json!({"spec": {"serviceAccountName": "etcd", "containers": [{"name": "c", "image": "i"}]}});
    let install = json!({"permissions": [{"serviceAccountName": "etcd", "rules": rules}],
                         "deployments": [{"name": "etcd", "spec": {"template": template}}]});
    let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
                        "metadata": {"name": "etcd.v1", "namespace": namespace},
                        "spec": {"displayName": "etcd", "install": {"strategy": "deployment", "spec": install}}});
    json!({"uid": format!("uid-{namespace}"),
           "kind": {"group": "operators.coreos.com", "version": "v1alpha1", "kind": "ClusterServiceVersion"},
           "resource": {"group": "operators.coreos.com", "version": "v1alpha1", "resource": "clusterserviceversions"},
           "operation": "CREATE", "name": "etcd.v1", "namespace": namespace, "object": object,
           "userInfo": {"username": "jane", "groups": ["system:authenticated"]}})
}
