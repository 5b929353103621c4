//! A release of OLM v1, judged whole, against a policy that reads the same Secret and accepts it.

use std::io::Write;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use operator_bounds::engine::{Engine, Limits};
use operator_bounds::policy::{MODULE, Policy};
use serde_json::{Value, json};
use test_support::cluster;

use super::{Subject, median, ratio};

const RBAC: &str = "rbac.authorization.k8s.io";
const OBJECTS: usize = 200;

/// As large bundles are: mostly RBAC and configuration, some Deployments, and definitions with long schemas.
fn object(number: usize) -> Value {
    let labels = json!({"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "demo"});
    let name = format!("demo-{number}");
    let metadata = json!({"name": name, "namespace": "demo", "labels": labels});
    match number % 10 {
        0 => json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"template": {"spec": {"serviceAccountName": "demo", "containers": [{"name": "c", "image": "example.com/demo"}]}}}}),
        1 => {
            let properties: serde_json::Map<String, Value> = (0..150)
                .map(|field| {
                    (format!("field{field}"), json!({"type": "string", "description": "What this field is good for."}))
                })
                .collect();
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("things{number}.example.com"), "labels": labels},
                "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": format!("Thing{number}"), "plural": format!("things{number}")},
                    "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": properties}}}}}]}})
        }
        2..=4 => json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata, "rules": [
            {"apiGroups": [""], "resources": ["pods", "services", "configmaps"], "verbs": ["get", "list", "watch", "create"]},
            {"apiGroups": ["example.com"], "resources": ["*"], "verbs": ["*"]}]}),
        5..=7 => json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": format!("demo-{}", number - 3)},
            "subjects": [{"kind": "ServiceAccount", "name": "demo", "namespace": "demo"}]}),
        _ => {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": "key: value\n".repeat(40)}})
        }
    }
}

/// The Secret, with the chart beside the manifest, as Helm has it.
fn secret() -> Result<Value> {
    let objects: Vec<Value> = (0..OBJECTS).map(object).collect();
    let manifest: String = objects.iter().map(|object| format!("{object}\n")).collect();
    let templates: Vec<Value> = objects
        .iter()
        .map(|object| json!({"name": "object.json", "data": STANDARD.encode(object.to_string())}))
        .collect();
    let release = json!({"name": "demo", "chart": {"templates": templates}, "manifest": manifest, "version": 1, "namespace": "demo"});
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(release.to_string().as_bytes())?;
    let owner = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "demo"});
    Ok(json!({"apiVersion": "v1", "kind": "Secret", "type": "operatorframework.io/index.v1",
        "metadata": {"name": "sh.helm.release.v1.demo.v1", "namespace": "olmv1-system", "ownerReferences": [owner]},
        "data": {"chunk": STANDARD.encode(packer.finish()?), "extraChunks": "W10="}}))
}

pub(crate) fn reach(baseline: &[u8]) -> Result<()> {
    let request = json!({"uid": "1", "operation": "CREATE", "object": secret()?,
        "kind": {"group": "", "version": "v1", "kind": "Secret"},
        "resource": {"group": "", "version": "v1", "resource": "secrets"},
        "name": "sh.helm.release.v1.demo.v1", "namespace": "olmv1-system",
        "userInfo": {"username": "system:serviceaccount:olmv1-system:operator-controller-controller-manager"}});
    let with = |settings: Value| json!({"request": &request, "settings": settings}).to_string();
    let payloads =
        [with(json!({"clusterExtensions": {"bound": "synthetic"}})), with(json!({})), with(json!({"unpack": true}))];
    let granted = json!({"name": "granted"});
    let cluster = cluster(&[
        json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "demo"}, "spec": {"namespace": "demo"}}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": granted, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": granted,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "granted"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "olm:clusterextension:demo"}]}),
    ]);
    let policy = Policy::native()?;
    let (ours, theirs) = (Engine::new(MODULE, Limits::default())?, Engine::new(baseline, Limits::default())?);
    let subjects = [(&ours, &payloads[0]), (&theirs, &payloads[1]), (&theirs, &payloads[2])]
        .map(|(engine, payload)| Subject { engine, payload: payload.as_bytes(), cluster: &cluster, policy: &policy });
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..51 {
        for (subject, times) in subjects.iter().zip(&mut times) {
            times.push(subject.run()?);
        }
    }
    let [ours, theirs, unpacking] = times.map(median);
    let lookups = subjects[0].lookups()?;
    println!(
        "release: {OBJECTS} objects in a Secret of {} bytes: {ours:.2?} in wasm, of which {:.2?} in {} look-ups; a policy that only \
         unpacks and reads it {unpacking:.2?}: ratio {:.2} (at most 2 wanted); one that does not even unpack it {theirs:.2?}",
        payloads[0].len(),
        lookups.time,
        lookups.count,
        ratio(ours, unpacking)
    );
    Ok(())
}
