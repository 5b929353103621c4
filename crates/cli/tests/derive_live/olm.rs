//! What OLM v0.46 does with the account of an OperatorGroup, request by request: the steps of the InstallPlan by the catalog
//! operator, run twice as it does, then the Deployments and what is behind webhooks and API services by the OLM operator, run
//! twice too. Written from OLM's code, not from `derive`'s.

use operator_bounds::derive::names;
use serde_json::{Value, json};

use crate::server::{Path, Refused, Server};

const RBAC: &str = "rbac.authorization.k8s.io";

/// A bundle and where it is installed.
pub(crate) struct Install<'b> {
    pub(crate) csv: &'b Value,
    pub(crate) others: &'b [Value],
    pub(crate) namespace: &'b str,
}

fn list<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    value.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl Install<'_> {
    pub(crate) fn name(&self) -> &str {
        self.csv["metadata"]["name"].as_str().unwrap()
    }

    pub(crate) fn run(&self, server: &mut dyn Server) -> Result<(), Refused> {
        for _ in 0..2 {
            self.steps(server)?;
        }
        for _ in 0..2 {
            self.deploy(server)?;
        }
        Ok(())
    }

    fn own(&self, group: &str, version: &str, resource: &str, name: &str) -> Path {
        Path::new(group, version, resource, Some(self.namespace), name)
    }

    /// The objects that the InstallPlan's steps write, in order.
    pub(crate) fn step_objects(&self) -> Vec<(Path, Value)> {
        let mut objects = Vec::new();
        let strategy = "/spec/install/spec";
        let owner = json!({"olm.owner": self.name(), "olm.owner.namespace": self.namespace, "olm.owner.kind": "ClusterServiceVersion"});
        let entries = |kind: &str| list(self.csv, &format!("{strategy}/{kind}"));
        let mut accounts: Vec<&str> = entries("permissions")
            .iter()
            .chain(entries("clusterPermissions"))
            .filter_map(|entry| entry["serviceAccountName"].as_str())
            .collect();
        accounts.sort_unstable();
        accounts.dedup();
        for name in accounts {
            objects.push((self.own("", "v1", "serviceaccounts", name), json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": self.namespace}})));
        }
        for (kind, prefix) in [("permissions", ""), ("clusterPermissions", "Cluster")] {
            for entry in entries(kind) {
                let namespace = Some(self.namespace).filter(|_| prefix.is_empty());
                let name = match namespace {
                    Some(_) => names::v0_role(self.name(), entry),
                    None => names::v0_cluster_role(self.name(), self.namespace, entry),
                };
                let account = entry["serviceAccountName"].as_str().unwrap_or("default");
                let mut metadata = json!({"name": name, "labels": owner});
                if let Some(namespace) = namespace {
                    metadata["namespace"] = namespace.into();
                }
                let (roles, bindings) =
                    if prefix.is_empty() { ("roles", "rolebindings") } else { ("clusterroles", "clusterrolebindings") };
                objects.push((Path::new(RBAC, "v1", roles, namespace, &name), json!({"apiVersion": format!("{RBAC}/v1"), "kind": format!("{prefix}Role"), "metadata": metadata, "rules": entry["rules"]})));
                objects.push((Path::new(RBAC, "v1", bindings, namespace, &name), json!({"apiVersion": format!("{RBAC}/v1"), "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
                    "roleRef": {"apiGroup": RBAC, "kind": format!("{prefix}Role"), "name": name},
                    "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": self.namespace}]})));
            }
        }
        for object in self.others {
            objects.push((self.path_of(object), self.landed(object)));
        }
        objects
    }

    /// Bundles are written without a namespace.
    fn landed(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if self.path_of(&object).namespace.is_some() {
            object["metadata"]["namespace"] = self.namespace.into();
        }
        object
    }

    fn path_of(&self, object: &Value) -> Path {
        let api_version = object["apiVersion"].as_str().unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let name = object["metadata"]["name"].as_str().unwrap();
        let (resource, namespaced) = match object["kind"].as_str().unwrap() {
            "ConfigMap" => ("configmaps", true),
            "Secret" => ("secrets", true),
            "Service" => ("services", true),
            "Role" => ("roles", true),
            "RoleBinding" => ("rolebindings", true),
            "ClusterRole" => ("clusterroles", false),
            "ClusterRoleBinding" => ("clusterrolebindings", false),
            "PodDisruptionBudget" => ("poddisruptionbudgets", true),
            "PriorityClass" => ("priorityclasses", false),
            other => panic!("{other}"),
        };
        Path::new(group, version, resource, Some(self.namespace).filter(|_| namespaced), name)
    }

    fn steps(&self, server: &mut dyn Server) -> Result<(), Refused> {
        let csv = self.own("operators.coreos.com", "v1alpha1", "clusterserviceversions", self.name());
        unless_there(server.create(&csv, self.csv))?;
        if !list(self.csv, "/spec/customresourcedefinitions/required").is_empty() {
            let name = format!("{}-needs", self.name());
            let subscription = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"name": "other", "source": "catalog", "sourceNamespace": "olm"}});
            unless_there(
                server.create(&self.own("operators.coreos.com", "v1alpha1", "subscriptions", &name), &subscription),
            )?;
        }
        for (path, object) in self.step_objects() {
            match server.create(&path, &object) {
                Err(Refused::Exists) => {}
                result => {
                    result?;
                    continue;
                }
            }
            let found = server.get(&path)?;
            if matches!(path.resource.as_str(), "poddisruptionbudgets" | "priorityclasses") {
                server.update(&path, &found)?;
            } else {
                server.patch(&path, &touched(&object))?;
            }
        }
        Ok(())
    }

    fn deploy(&self, server: &mut dyn Server) -> Result<(), Refused> {
        let deployments = list(self.csv, "/spec/install/spec/deployments");
        for deployment in deployments {
            if self.serves(deployment["name"].as_str().unwrap()) {
                self.certificate(server, deployment)?;
            }
        }
        for deployment in deployments {
            let name = deployment["name"].as_str().unwrap();
            let path = self.own("apps", "v1", "deployments", name);
            let mut spec = deployment["spec"].clone();
            spec["replicas"] = 0.into();
            let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": self.namespace}, "spec": spec});
            match server.get(&path) {
                Err(Refused::Missing) => server.create(&path, &object)?,
                Ok(_) => server.update(&path, &object)?,
                Err(other) => return Err(other),
            }
            self.registrations(server)?;
        }
        Ok(())
    }

    fn serves(&self, deployment: &str) -> bool {
        let mut behind = list(self.csv, "/spec/apiservicedefinitions/owned")
            .iter()
            .chain(list(self.csv, "/spec/webhookdefinitions"));
        behind.any(|entry| entry["deploymentName"] == deployment)
    }

    fn certificate(&self, server: &mut dyn Server, deployment: &Value) -> Result<(), Refused> {
        let service = format!("{}-service", deployment["name"].as_str().unwrap());
        let secret = format!("{service}-cert");
        let account =
            deployment.pointer("/spec/template/spec/serviceAccountName").and_then(Value::as_str).unwrap_or("default");
        let metadata = |name: &str| json!({"name": name, "namespace": self.namespace});
        let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": self.namespace}]);
        server.apply(&self.own("", "v1", "services", &service), &json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata(&service), "spec": {"ports": [{"name": "443", "port": 443}]}}))?;
        let objects = [
            (
                self.own("", "v1", "secrets", &secret),
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata(&secret)}),
            ),
            (
                self.own(RBAC, "v1", "roles", &secret),
                json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata(&secret),
                "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get"]}]}),
            ),
            (
                self.own(RBAC, "v1", "rolebindings", &secret),
                json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata(&secret),
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": secret}, "subjects": subjects}),
            ),
        ];
        for (path, object) in objects {
            if !created(server.create(&path, &object))? {
                server.get(&path)?;
                server.patch(&path, &touched(&object))?;
            }
        }
        let delegator = format!("{service}-system:auth-delegator");
        server.apply(&Path::new(RBAC, "v1", "clusterrolebindings", None, &delegator), &json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": delegator, "labels": {"olm.owner": self.name(), "olm.owner.namespace": self.namespace, "olm.owner.kind": "ClusterServiceVersion"}},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:auth-delegator"}, "subjects": subjects}))?;
        let reader = format!("{service}-auth-reader");
        server.apply(&Path::new(RBAC, "v1", "rolebindings", Some("kube-system"), &reader), &json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
            "metadata": {"name": reader, "namespace": "kube-system"},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "extension-apiserver-authentication-reader"}, "subjects": subjects}))
    }

    fn registrations(&self, server: &mut dyn Server) -> Result<(), Refused> {
        for service in list(self.csv, "/spec/apiservicedefinitions/owned") {
            self.api_service(server, service)?;
        }
        for (number, webhook) in list(self.csv, "/spec/webhookdefinitions").iter().enumerate() {
            let (kind, resource) = match webhook["type"].as_str().unwrap() {
                "ValidatingAdmissionWebhook" => ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
                "MutatingAdmissionWebhook" => ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
                _ => {
                    for crd in list(webhook, "/conversionCRDs") {
                        let path = Path::new(
                            "apiextensions.k8s.io",
                            "v1",
                            "customresourcedefinitions",
                            None,
                            crd.as_str().unwrap(),
                        );
                        let found = server.get(&path)?;
                        server.update(&path, &found)?;
                    }
                    continue;
                }
            };
            // OLM lets the server choose the name; here it is one that can be found again. No webhook is in it: it would be called.
            let name = format!("{}-{number}", self.namespace);
            let path = Path::new("admissionregistration.k8s.io", "v1", resource, None, &name);
            let there = server.list(&path)?;
            let mut object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "webhooks": []});
            match there.iter().find(|other| other["metadata"]["name"] == name.as_str()) {
                Some(other) => {
                    object["metadata"]["resourceVersion"] = other["metadata"]["resourceVersion"].clone();
                    server.update(&path, &object)?;
                }
                None => server.create(&path, &object)?,
            }
        }
        Ok(())
    }

    fn api_service(&self, server: &mut dyn Server, service: &Value) -> Result<(), Refused> {
        let text = |key: &str| service[key].as_str().unwrap();
        let name = format!("{}.{}", text("version"), text("group"));
        let path = Path::new("apiregistration.k8s.io", "v1", "apiservices", None, &name);
        let object = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}, "spec": {
            "group": text("group"), "version": text("version"), "groupPriorityMinimum": 2000, "versionPriority": 15,
            "service": {"namespace": self.namespace, "name": format!("{}-service", text("deploymentName"))}, "insecureSkipTLSVerify": true}});
        if !created(server.create(&path, &object))? {
            server.get(&path)?;
            server.patch(&path, &touched(&object))?;
        }
        for path in [
            self.own("", "v1", "services", &name.replace('.', "-")),
            self.own("", "v1", "secrets", &format!("{name}-cert")),
            self.own(RBAC, "v1", "roles", &format!("{name}-cert")),
            self.own(RBAC, "v1", "rolebindings", &format!("{name}-cert")),
            Path::new(RBAC, "v1", "clusterrolebindings", None, &format!("{name}-system:auth-delegator")),
            Path::new(RBAC, "v1", "rolebindings", Some("kube-system"), &format!("{name}-auth-reader")),
        ] {
            match server.get(&path) {
                Ok(_) | Err(Refused::Missing) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }
}

/// What OLM changes when it comes again: labels, and the same rules.
fn touched(object: &Value) -> Value {
    let mut patch = json!({"metadata": {"labels": {"olm.managed": "true"}}});
    for key in ["rules", "roleRef", "subjects"] {
        if !object[key].is_null() {
            patch[key] = object[key].clone();
        }
    }
    patch
}

fn unless_there(result: Result<(), Refused>) -> Result<(), Refused> {
    match result {
        Err(Refused::Exists) => Ok(()),
        other => other,
    }
}

/// Whether the object was created; if not, it exists already.
fn created(result: Result<(), Refused>) -> Result<bool, Refused> {
    match result {
        Err(Refused::Exists) => Ok(false),
        other => other.map(|()| true),
    }
}
