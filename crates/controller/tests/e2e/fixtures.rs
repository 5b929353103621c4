//! Operators, plans, groups and grants for the tests.

use serde_json::{Value, json};

use crate::world::World;

/// An operator: a ClusterServiceVersion and what its bundle brings.
#[derive(Clone)]
pub(crate) struct Operator {
    pub namespace: String,
    pub name: String,
    pub replaces: Option<String>,
    pub rules: Value,
    pub cluster_rules: Value,
    /// Its pods wait until the test lets them run.
    pub hold: bool,
    pub apiservices: Value,
}

impl Operator {
    /// It reads ConfigMaps in its namespace, and runs as the account `op`.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Operator {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            replaces: None,
            rules: json!([rule("", "configmaps", &["get", "list"])]),
            cluster_rules: json!([]),
            hold: false,
            apiservices: json!([]),
        }
    }

    pub(crate) fn crd_name(&self) -> String {
        format!("widgets.{}.example.com", self.namespace)
    }

    pub(crate) fn crd(&self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.crd_name()},
            "spec": {
                "group": format!("{}.example.com", self.namespace), "scope": "Namespaced",
                "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"size": {"type": "integer"}},
                }}}],
            },
        })
    }

    pub(crate) fn csv(&self) -> Value {
        let permission = |rules: &Value| json!([{"serviceAccountName": "op", "rules": rules}]);
        let is_empty = |rules: &Value| rules.as_array().is_none_or(Vec::is_empty);
        let mut labels = json!({"app": "op"});
        if self.hold {
            labels["e2e/hold"] = json!("yes");
        }
        let mut csv = json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "displayName": "Op", "version": "1.0.0", "replaces": self.replaces,
                "installModes": [
                    {"type": "OwnNamespace", "supported": true}, {"type": "SingleNamespace", "supported": true},
                    {"type": "MultiNamespace", "supported": true}, {"type": "AllNamespaces", "supported": true},
                ],
                "customresourcedefinitions": {"owned": [{"name": self.crd_name(), "version": "v1", "kind": "Widget"}]},
                "apiservicedefinitions": {"owned": self.apiservices},
                "install": {"strategy": "deployment", "spec": {
                    "permissions": if is_empty(&self.rules) { json!([]) } else { permission(&self.rules) },
                    "clusterPermissions": if is_empty(&self.cluster_rules) { json!([]) } else { permission(&self.cluster_rules) },
                    "deployments": [{"name": "op", "spec": {
                        "replicas": 1, "selector": {"matchLabels": {"app": "op"}},
                        "template": {"metadata": {"labels": labels}, "spec": {
                            "serviceAccountName": "op", "containers": [{"name": "op", "image": format!("op:{}", self.name)}],
                        }},
                    }}],
                }},
            },
        });
        if self.replaces.is_none() {
            csv["spec"].as_object_mut().unwrap().remove("replaces");
        }
        csv
    }

    /// The objects in the order in which OLM plans them.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let metadata = |name: &str| json!({"name": name, "namespace": self.namespace});
        let rbac = "rbac.authorization.k8s.io/v1";
        let subjects = json!([{"kind": "ServiceAccount", "name": "op", "namespace": self.namespace}]);
        let reference =
            |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let mut objects = vec![
            self.csv(),
            self.crd(),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("op-config"), "data": {"a": self.name}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("op")}),
        ];
        let role = format!("{}-op", self.name);
        objects.push(json!({"apiVersion": rbac, "kind": "Role", "metadata": metadata(&role), "rules": self.rules}));
        objects.push(json!({
            "apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata(&role),
            "roleRef": reference("Role", &role), "subjects": subjects,
        }));
        if self.cluster_rules.as_array().is_some_and(|rules| !rules.is_empty()) {
            let name = format!("{}-{}", self.namespace, self.name);
            objects.push(json!({
                "apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": name}, "rules": self.cluster_rules,
            }));
            objects.push(json!({
                "apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": reference("ClusterRole", &name), "subjects": subjects,
            }));
        }
        objects
    }

    pub(crate) fn steps(&self) -> Vec<Value> {
        self.objects().iter().map(|object| step(&self.name, object)).collect()
    }
}

pub(crate) fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

/// The step that brings an object, as OLM writes it.
pub(crate) fn step(operator: &str, object: &Value) -> Value {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    json!({
        "resolving": operator, "status": "Unknown",
        "resource": {
            "group": group, "version": version, "kind": object["kind"], "name": object["metadata"]["name"],
            "manifest": object.to_string(), "sourceName": "catalog", "sourceNamespace": "olm",
        },
    })
}

/// A plan, approved, as OLM leaves it to be carried out.
pub(crate) fn plan(world: &World, namespace: &str, name: &str, steps: &[Value]) {
    world.apply(&[json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"approval": "Automatic", "approved": true, "clusterServiceVersionNames": ["op"]},
    })]);
    let status = json!({"phase": "Installing", "catalogSources": ["catalog"], "plan": steps});
    world.patch_status("InstallPlan", namespace, name, &status);
}

pub(crate) fn group(namespace: &str, account: Option<&str>) -> Value {
    let mut spec = json!({"targetNamespaces": [namespace]});
    if let Some(account) = account {
        spec["serviceAccountName"] = json!(account);
    }
    json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "og", "namespace": namespace}, "spec": spec,
    })
}

pub(crate) fn account(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
}

/// A Role and its binding for an account.
pub(crate) fn grant(namespace: &str, account: &str, name: &str, rules: &Value) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io/v1";
    vec![
        json!({"apiVersion": rbac, "kind": "Role", "metadata": {"name": name, "namespace": namespace}, "rules": rules}),
        json!({
            "apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": name, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }),
    ]
}

/// A ClusterRole and its binding for an account.
pub(crate) fn grant_everywhere(namespace: &str, account: &str, name: &str, rules: &Value) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io/v1";
    vec![
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        json!({
            "apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }),
    ]
}

/// What it takes to install the operator above, apart from what the operator asks for itself.
pub(crate) fn installing() -> Value {
    let write = ["create", "patch"];
    json!([
        rule("operators.coreos.com", "clusterserviceversions", &write),
        {"apiGroups": [""], "resources": ["serviceaccounts", "configmaps", "services", "secrets"], "verbs": write},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": write},
        rule("apps", "deployments", &write),
    ])
}

/// A namespace with a group whose account can install the operator, and holds what it asks for.
pub(crate) fn tenant(world: &World, name: &str) -> String {
    let namespace = world.namespace(name);
    world.apply(&[account(&namespace, "installer"), group(&namespace, Some("installer"))]);
    world.apply(&grant(&namespace, "installer", "installing", &installing()));
    world.apply(&grant(&namespace, "installer", "operators", &json!([rule("", "configmaps", &["get", "list"])])));
    world.status("OperatorGroup", &namespace, "og", |status| status["serviceAccountRef"]["name"] == "installer");
    namespace
}

pub(crate) fn user(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}

/// What an account must hold so that an operator of its namespace may serve an API.
pub(crate) fn serving(world: &World, ns: &str) {
    let delegate = json!([
        rule("authentication.k8s.io", "tokenreviews", &["create"]),
        rule("authorization.k8s.io", "subjectaccessreviews", &["create"])
    ]);
    world.apply(&grant_everywhere(ns, "installer", &format!("{ns}-delegate"), &delegate));
    let reader = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"], "resourceNames": ["extension-apiserver-authentication"]}]);
    let mut binding = grant(ns, "installer", &format!("{ns}-reader"), &reader);
    for object in &mut binding {
        object["metadata"]["namespace"] = json!("kube-system");
    }
    world.apply(&binding);
    let certificate =
        json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["op-service-cert"]}]);
    world.apply(&grant(ns, "installer", &format!("{ns}-certificate"), &certificate));
}
