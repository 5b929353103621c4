//! `derive` for OLM v1, with the policy as the judge: with what is derived for its synthetic user, everything that OLM writes for an
//! extension is admitted, the release as a whole and object by object; without any single permission of it, something is refused. Real operators, where they are at hand.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bounds::decide::Lookups;
use bounds::olm::Targets;
use bounds::rbac::{Grant, Index, Rule, Scope};
use flate2::Compression;
use flate2::write::GzEncoder;
use operator_bounds::derive::bundle::{Bundle, Object};
use operator_bounds::derive::v1::{Extension, Sender};
use operator_bounds::derive::{self, Installer, names, roles};
use operator_bounds::manifests::Manifests;
use operator_bounds::policy::Policy;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tempfile::TempDir;

const OPERATORS: [&str; 8] = [
    "anchore-engine",
    "customized-user-remediation",
    "kube-green",
    "log2rbac",
    "meshery-operator",
    "searchpe-operator",
    "varnish-operator",
    "zookeeper-operator",
];
const CONTROLLER: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The operators of the corpus; nothing where it is not there.
fn operators() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/csv.tar.gz");
    let Ok(file) = fs::File::open(&path) else {
        test_parts::not_run(&format!("{} is not there", path.display()));
        return Vec::new();
    };
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut found = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().file_stem().unwrap().to_string_lossy().into_owned();
        if OPERATORS.contains(&name.as_str()) {
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            found.push(serde_json::from_str(&text).unwrap());
        }
    }
    assert_eq!(found.len(), OPERATORS.len());
    found
}

fn list<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    value.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn object(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Value {
    let labels = json!({"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "ext"});
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": labels}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

/// What OLM v1 makes of a bundle for all namespaces, as its renderer does.
fn rendered(csv: &Value) -> Vec<Value> {
    let own = Some("ext-ns");
    let csv_name = csv["metadata"]["name"].as_str().unwrap();
    let mut objects = Vec::new();
    let mut accounts = Vec::new();
    let lifted = json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]});
    for (path, added) in
        [("/spec/install/spec/clusterPermissions", None), ("/spec/install/spec/permissions", Some(lifted))]
    {
        for permission in list(csv, path) {
            let added: Vec<Value> = added.iter().cloned().collect();
            let name = names::v1_role(csv_name, permission, &added);
            let account = permission["serviceAccountName"].as_str().unwrap();
            accounts.push(account);
            let mut role = object(&format!("{RBAC}/v1"), "ClusterRole", None, &name);
            role["rules"] = [list(permission, "/rules"), &added].concat().into();
            let mut binding = object(&format!("{RBAC}/v1"), "ClusterRoleBinding", None, &name);
            binding["roleRef"] = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": name});
            binding["subjects"] = json!([{"kind": "ServiceAccount", "name": account, "namespace": "ext-ns"}]);
            objects.extend([role, binding]);
        }
    }
    accounts.sort_unstable();
    accounts.dedup();
    objects.extend(
        accounts.iter().filter(|name| **name != "default").map(|name| object("v1", "ServiceAccount", own, name)),
    );
    for deployment in list(csv, "/spec/install/spec/deployments") {
        let name = deployment["name"].as_str().unwrap();
        let mut workload = object("apps/v1", "Deployment", own, name);
        workload["spec"] = deployment["spec"].clone();
        objects.push(workload);
        if list(csv, "/spec/webhookdefinitions").iter().any(|webhook| webhook["deploymentName"] == name) {
            let service = names::joined(&name.replace('.', "-"), "service");
            let certificate = names::joined(&service, "cert");
            objects.push(object("v1", "Service", own, &service));
            objects.push(object("cert-manager.io/v1", "Certificate", own, &certificate));
            let issuer = names::joined(&certificate, "selfsigned-issuer");
            objects.push(object("cert-manager.io/v1", "Issuer", own, &issuer));
        }
    }
    for webhook in list(csv, "/spec/webhookdefinitions") {
        let kind = match webhook["type"].as_str().unwrap() {
            "ValidatingAdmissionWebhook" => "ValidatingWebhookConfiguration",
            "MutatingAdmissionWebhook" => "MutatingWebhookConfiguration",
            _ => continue,
        };
        let name = webhook["generateName"].as_str().unwrap();
        objects.push(object("admissionregistration.k8s.io/v1", kind, None, name));
    }
    objects
}

/// The release that OLM writes before anything that is in it.
fn release(objects: &[Value]) -> Value {
    let manifest: String = objects.iter().map(|object| format!("{object}\n")).collect();
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer
        .write_all(json!({"name": "ext", "namespace": "ext-ns", "manifest": manifest}).to_string().as_bytes())
        .unwrap();
    let owner = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "ext"});
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "operatorframework.io/index.v1",
        "metadata": {"name": "sh.helm.release.v1.ext.v1", "namespace": "olmv1-system", "ownerReferences": [owner]},
        "data": {"chunk": STANDARD.encode(packer.finish().unwrap()), "extraChunks": "W10="},
    })
}

fn derived(policy: &Policy, csv: &Value) -> Vec<(Scope, Rule<'static>)> {
    let host = policy.host(&Arc::default());
    let bundle = Bundle { csvs: vec![Object::unwritten(csv.clone())], ..Bundle::default() };
    let extension = Extension {
        name: "ext".to_owned(),
        namespace: Some("ext-ns".to_owned()),
        targets: Targets::All,
        sender: Sender::Controller,
    };
    let needs = derive::needs(&bundle, &Installer::Extension(extension), &Lookups::new(&host)).unwrap();
    let nothing = Index::new(&[]);
    let mut atoms = Vec::new();
    for role in roles::of(&needs, &Grant::default()) {
        for granted in &role.rules {
            let own = nothing.uncovered(std::slice::from_ref(&granted.rule));
            atoms.extend(own.into_iter().map(|atom| (role.scope.clone(), atom.to_rule().into_owned())));
        }
    }
    atoms
}

/// The first refusal of what OLM does: creating, patching and deleting each object.
fn refusal(policy: &Policy, written: &[Value], held: &[&(Scope, Rule<'static>)]) -> Option<String> {
    let mut cluster = vec![
        json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "ext"}, "spec": {"namespace": "ext-ns"}}),
    ];
    for (scope, prefix, metadata) in [
        (Scope::Cluster, "Cluster", json!({"name": "derived"})),
        (Scope::Namespace("ext-ns".to_owned()), "", json!({"name": "derived", "namespace": "ext-ns"})),
    ] {
        let rules: Vec<&Rule<'static>> = held.iter().filter(|(at, _)| *at == scope).map(|(_, rule)| rule).collect();
        cluster.push(json!({"apiVersion": format!("{RBAC}/v1"), "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules}));
        cluster.push(
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": format!("{prefix}Role"), "name": "derived"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "olm:clusterextension:ext"}]}),
        );
    }
    cluster.extend(written.iter().filter(|object| object["kind"] == "ClusterRole").cloned());
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("cluster.json");
    fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": cluster}).to_string()).unwrap();
    let manifests = Arc::new(Manifests::load(&file).unwrap());
    let whole = || judge(policy, &manifests, &release(written), "CREATE");
    // Webhook configurations never reach a webhook.
    let mut reviewed =
        written.iter().filter(|object| !object["kind"].as_str().unwrap().ends_with("WebhookConfiguration"));
    let one_by_one = reviewed.find_map(|object| {
        ["CREATE", "UPDATE", "DELETE"].iter().find_map(|operation| judge(policy, &manifests, object, operation))
    });
    one_by_one.or_else(whole)
}

fn judge(policy: &Policy, manifests: &Arc<Manifests>, object: &Value, operation: &str) -> Option<String> {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap();
    let mut request = json!({
        "uid": "1", "operation": operation, "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": format!("{}s", kind.to_lowercase())},
        "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"].as_str().unwrap_or_default(),
        "userInfo": {"username": CONTROLLER, "groups": ["system:serviceaccounts", "system:authenticated"]},
    });
    if operation != "DELETE" {
        request["object"] = object.clone();
    }
    if operation != "CREATE" {
        request["oldObject"] = object.clone();
    }
    let raw = |value: &Value| RawValue::from_string(value.to_string()).unwrap();
    let settings = raw(&json!({"clusterExtensions": {"bound": "synthetic"}}));
    let host = Arc::new(policy.host(manifests));
    let response = policy.validate(&raw(&request), &settings, &host).unwrap();
    (!response.accepted).then(|| format!("{operation} {kind}: {}", response.message.unwrap_or_default()))
}

#[test]
fn what_is_derived_for_a_synthetic_user_is_enough_and_nothing_of_it_is_too_much() {
    let policy = Policy::native().unwrap();
    let mut taken = 0;
    for csv in operators() {
        let name = csv["metadata"]["name"].as_str().unwrap();
        let written = rendered(&csv);
        let atoms = derived(&policy, &csv);
        assert_eq!(refusal(&policy, &written, &atoms.iter().collect::<Vec<_>>()), None, "{name}");
        for number in 0..atoms.len() {
            let rest: Vec<_> =
                atoms.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, atom)| atom).collect();
            assert!(refusal(&policy, &written, &rest).is_some(), "{name}: nobody misses {:?}", atoms[number]);
            taken += 1;
        }
    }
    println!("{taken} single permissions of {} operators taken away, each refused", OPERATORS.len());
}
