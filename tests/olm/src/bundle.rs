//! Bundles: what one version of an operator brings.

use serde_json::{Value, json};

/// A ClusterServiceVersion and what comes with it.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// The ClusterServiceVersion.
    pub csv: Value,
    /// CustomResourceDefinitions, RBAC and whatever else a bundle may hold.
    pub others: Vec<Value>,
}

impl Bundle {
    /// Of the ClusterServiceVersion.
    #[must_use]
    pub fn name(&self) -> &str {
        self.csv["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// As in `spec.version`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.csv["spec"]["version"].as_str().unwrap_or_default()
    }

    /// All of them.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        std::iter::once(&self.csv).chain(&self.others)
    }

    /// Group, kind and version of what it defines.
    pub(crate) fn provided(&self) -> Vec<Value> {
        let owned = |pointer: &str| self.csv.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let definitions = owned("/spec/customresourcedefinitions/owned").map(|definition| {
            let name = definition["name"].as_str().unwrap_or_default();
            let group = name.split_once('.').map_or("", |(_, group)| group);
            json!({"group": group, "kind": definition["kind"], "version": definition["version"]})
        });
        let services = owned("/spec/apiservicedefinitions/owned")
            .map(|service| json!({"group": service["group"], "kind": service["kind"], "version": service["version"]}));
        let mut provided: Vec<Value> = definitions.chain(services).collect();
        let mut seen = std::collections::BTreeSet::new();
        provided.retain(|one| seen.insert(one.to_string()));
        provided
    }
}

/// A rule of RBAC.
#[derive(Debug, Clone)]
pub struct Rule(pub Value);

impl Rule {
    /// Verbs on one resource.
    #[must_use]
    pub fn on(group: &str, resource: &str, verbs: &[&str]) -> Self {
        Rule(json!({"apiGroups": [group], "resources": [resource], "verbs": verbs}))
    }
}

/// An operator of no use, of one Deployment without pods.
#[derive(Debug, Clone)]
pub struct Tiny {
    name: String,
    version: String,
    account: String,
    permissions: Vec<Value>,
    cluster_permissions: Vec<Value>,
    others: Vec<Value>,
    /// Laid over `spec`.
    more: Vec<(&'static str, Value)>,
}

impl Tiny {
    /// Its account has its name. It can be installed in every mode.
    #[must_use]
    pub fn new(name: &str, version: &str) -> Self {
        Tiny {
            name: name.to_owned(),
            version: version.to_owned(),
            account: name.to_owned(),
            permissions: Vec::new(),
            cluster_permissions: Vec::new(),
            others: Vec::new(),
            more: Vec::new(),
        }
    }

    /// It wants this in its namespaces.
    #[must_use]
    pub fn permission(mut self, rule: Rule) -> Self {
        self.permissions.push(rule.0);
        self
    }

    /// It wants this in the whole cluster.
    #[must_use]
    pub fn cluster_permission(mut self, rule: Rule) -> Self {
        self.cluster_permissions.push(rule.0);
        self
    }

    /// Its Deployment runs as this account.
    #[must_use]
    pub fn account(mut self, name: &str) -> Self {
        name.clone_into(&mut self.account);
        self
    }

    /// Its bundle brings this object too.
    #[must_use]
    pub fn bringing(mut self, object: Value) -> Self {
        self.others.push(object);
        self
    }

    /// Its ClusterServiceVersion has this in its `spec`.
    #[must_use]
    pub fn with(mut self, field: &'static str, value: Value) -> Self {
        self.more.push((field, value));
        self
    }

    /// It owns a definition, `<name>s.<name>.example.com`, and brings it.
    #[must_use]
    pub fn defining(self) -> Self {
        let (name, group) = (self.name.clone(), format!("{}.example.com", self.name));
        let definition = json!({"name": format!("{name}s.{group}"), "kind": format!("K{name}"), "version": "v1"});
        self.bringing(minimal_definition(&definition)).with("customresourcedefinitions", json!({"owned": [definition]}))
    }

    /// The bundle.
    #[must_use]
    pub fn bundle(self) -> Bundle {
        let Tiny { name, version, account, permissions, cluster_permissions, others, more } = self;
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels}, "spec": {"serviceAccountName": account,
            "containers": [{"name": "operator", "image": format!("example.com/{name}:{version}")}]}});
        let deployment =
            json!({"name": name, "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}});
        let mut install = json!({"deployments": [deployment]});
        for (field, rules) in [("permissions", permissions), ("clusterPermissions", cluster_permissions)] {
            if !rules.is_empty() {
                install[field] = json!([{"serviceAccountName": account, "rules": rules}]);
            }
        }
        let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
        let mut spec = json!({
            "displayName": name, "description": "For tests.", "version": version, "maturity": "alpha",
            "provider": {"name": "tests"}, "install": {"strategy": "deployment", "spec": install},
            "installModes": modes.map(|mode| json!({"type": mode, "supported": true})),
        });
        for (field, value) in more {
            spec[field] = value;
        }
        let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("{name}.v{version}")}, "spec": spec});
        Bundle { csv, others }
    }
}

/// A CustomResourceDefinition for what a ClusterServiceVersion says that it owns.
pub(crate) fn minimal_definition(owned: &Value) -> Value {
    let name = owned["name"].as_str().unwrap_or_default();
    let kind = owned["kind"].as_str().unwrap_or_default();
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let mut metadata = json!({"name": name});
    if group.ends_with("k8s.io") || group.ends_with("kubernetes.io") {
        // Groups of Kubernetes itself are protected.
        metadata["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, for tests"});
    }
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata,
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": owned["version"], "served": true, "storage": true, "schema": schema}]}})
}

/// Binds a service account to a ClusterRole.
#[must_use]
pub fn cluster_role_binding(name: &str, role: &str, namespace: &str, account: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]})
}
