//! Real operators: what they ask for by the rules of [README.md](../../../README.md#what-is-judged), worked out without the code under test, and clusters in
//! which an account holds some of it.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::rbac::{Rule, Scope, Scoped};
use super::{items, raw, text, unpack};

pub const NAMESPACE: &str = "operators-ns";
pub const SHAPES: [Shape; 3] = [Shape::Own, Shape::Several, Shape::All];
const SEVERAL: [&str; 3] = ["team-1", "team-2", "team-3"];

/// What an OperatorGroup targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Own,
    Several,
    All,
}

impl Shape {
    pub fn operator_group(self) -> Value {
        let (targets, namespaces) = match self {
            Shape::Own => (json!([NAMESPACE]), json!([NAMESPACE])),
            Shape::Several => (json!(SEVERAL), json!(SEVERAL)),
            Shape::All => (json!(null), json!([""])),
        };
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "og", "namespace": NAMESPACE},
            "spec": {"serviceAccountName": "installer", "targetNamespaces": targets},
            "status": {"namespaces": namespaces}})
    }

    /// Where `permissions` land.
    pub fn scopes(self) -> Vec<Scope> {
        match self {
            Shape::Own => vec![Some(NAMESPACE.to_owned())],
            Shape::Several => [NAMESPACE].iter().chain(&SEVERAL).map(|name| Some((*name).to_owned())).collect(),
            Shape::All => vec![None],
        }
    }
}

/// What the operator would hold, declared and implied. Its Deployments' accounts hold nothing.
pub fn asked(csv: &Value, shape: Shape) -> Scoped {
    let mut asked = Scoped::new();
    let mut ask = |scope: &Scope, rule: Rule| asked.entry(scope.clone()).or_default().push(rule);
    let permissions = items(csv, "/spec/install/spec/permissions");
    for scope in shape.scopes() {
        for rule in permissions.iter().flat_map(|permission| items(permission, "/rules")) {
            ask(&scope, Rule::read(rule));
        }
    }
    for permission in items(csv, "/spec/install/spec/clusterPermissions") {
        for rule in items(permission, "/rules") {
            ask(&None, Rule::read(rule));
        }
    }
    if shape == Shape::All && !permissions.is_empty() {
        ask(&None, Rule::on("", "namespaces", &["get", "list", "watch"]));
    }
    if is_serving(csv) {
        ask(&None, Rule::on("authentication.k8s.io", "tokenreviews", &["create"]));
        ask(&None, Rule::on("authorization.k8s.io", "subjectaccessreviews", &["create"]));
        let reader = Rule::on("", "configmaps", &["get", "list", "watch"]).named("extension-apiserver-authentication");
        ask(&Some("kube-system".to_owned()), reader);
    }
    for served in items(csv, "/spec/apiservicedefinitions/owned").iter().chain(items(csv, "/spec/webhookdefinitions")) {
        let secret = format!("{}-service-cert", text(served, "/deploymentName"));
        ask(&Some(NAMESPACE.to_owned()), Rule::on("", "secrets", &["get"]).named(&secret));
    }
    for webhook in items(csv, "/spec/webhookdefinitions") {
        let resource = match text(webhook, "/type") {
            "ValidatingAdmissionWebhook" => "validatingwebhookconfigurations",
            "MutatingAdmissionWebhook" => "mutatingwebhookconfigurations",
            _ => continue,
        };
        ask(&None, Rule::on("admissionregistration.k8s.io", resource, &["create"]));
    }
    asked
}

pub fn is_serving(csv: &Value) -> bool {
    !items(csv, "/spec/apiservicedefinitions/owned").is_empty() || !items(csv, "/spec/webhookdefinitions").is_empty()
}

/// A number that is always the same for a name: what is drawn for an operator does not change from run to run.
pub fn draw(name: &str, salt: usize) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64 ^ salt as u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    usize::try_from(hash >> 33).unwrap()
}

/// The cluster: a group with an account that holds exactly this, given to it in one of the ways RBAC knows.
pub fn objects(grant: &Scoped, shape: Shape, name: &str) -> Vec<Value> {
    let mut objects = vec![
        shape.operator_group(),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": NAMESPACE}}),
    ];
    let subjects = [
        json!({"kind": "ServiceAccount", "name": "installer", "namespace": NAMESPACE}),
        json!({"kind": "User", "apiGroup": RBAC, "name": "system:serviceaccount:operators-ns:installer"}),
        json!({"kind": "Group", "apiGroup": RBAC, "name": "system:serviceaccounts:operators-ns"}),
    ];
    for (number, (scope, rules)) in grant.iter().enumerate() {
        let subject = &subjects[draw(name, number) % subjects.len()];
        let role = format!("held-{number}");
        let in_role = scope.is_some() && draw(name, 100 + number).is_multiple_of(2);
        let role_kind = if in_role { "Role" } else { "ClusterRole" };
        let binding_kind = if scope.is_some() { "RoleBinding" } else { "ClusterRoleBinding" };
        let mut role_meta = json!({"name": role});
        let mut binding_meta = json!({"name": "installer"});
        if let Some(namespace) = scope {
            binding_meta["namespace"] = json!(namespace);
            if in_role {
                role_meta["namespace"] = json!(namespace);
            }
        }
        let rules: Vec<Value> = rules.iter().map(Rule::json).collect();
        objects.push(json!({"apiVersion": RBAC_V1, "kind": role_kind, "metadata": role_meta, "rules": rules}));
        objects.push(json!({"apiVersion": RBAC_V1, "kind": binding_kind, "metadata": binding_meta,
            "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role}, "subjects": [subject]}));
    }
    // In every other cluster the roles of 2.4, point 4, are not there: then Kubernetes' defaults count.
    if draw(name, 7).is_multiple_of(2) {
        let json = |rules: &[Rule]| rules.iter().map(Rule::json).collect::<Vec<_>>();
        objects.push(
            json!({"apiVersion": RBAC_V1, "kind": "ClusterRole", "metadata": {"name": "system:auth-delegator"},
            "rules": json(&[Rule::on("authentication.k8s.io", "tokenreviews", &["create"]),
                Rule::on("authorization.k8s.io", "subjectaccessreviews", &["create"])])}),
        );
        objects.push(json!({"apiVersion": RBAC_V1, "kind": "Role",
            "metadata": {"name": "extension-apiserver-authentication-reader", "namespace": "kube-system"},
            "rules": json(&[Rule::on("", "configmaps", &["get", "list", "watch"])
                .named("extension-apiserver-authentication")])}));
    }
    objects
}

const RBAC: &str = "rbac.authorization.k8s.io";
const RBAC_V1: &str = "rbac.authorization.k8s.io/v1";

pub fn create(csv: &Value) -> Box<RawValue> {
    let name = text(csv, "/metadata/name");
    let mut object = csv.clone();
    object["metadata"]["namespace"] = json!(NAMESPACE);
    raw(&json!({
        "uid": "0", "operation": "CREATE", "namespace": NAMESPACE, "name": name, "dryRun": false,
        "kind": {"group": "operators.coreos.com", "version": "v1alpha1", "kind": "ClusterServiceVersion"},
        "resource": {"group": "operators.coreos.com", "version": "v1alpha1", "resource": "clusterserviceversions"},
        "userInfo": {"username": "system:serviceaccount:operators-ns:installer", "groups": ["system:serviceaccounts",
            "system:serviceaccounts:operators-ns", "system:authenticated"]},
        "object": object,
    }))
}

/// Every ClusterServiceVersion of the corpus, by the name of its file.
pub fn csvs(corpus: &Path) -> Vec<Value> {
    let mut archive = tar::Archive::new(unpack(&corpus.join("csv.tar.gz")));
    let mut csvs = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        if path.extension().is_some_and(|extension| extension == "json") {
            let mut json = String::new();
            entry.read_to_string(&mut json).unwrap();
            csvs.insert(path, serde_json::from_str(&json).unwrap());
        }
    }
    csvs.into_values().collect()
}
