//! `derive` against recordings of a real OLM: it grants by name what OLM wrote, and nothing besides.

#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;

/// An object that was written, or may be: its resource, namespace and name.
type Written = (String, String, String);

const V0: &str = "system:serviceaccount:tenant:scoped";
const V0_ITSELF: &str = "system:serviceaccount:olm:olm-operator-serviceaccount";
const V1: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";

/// The requests of a flow; nothing where the recordings are not there.
fn recorded(flow: &str) -> Option<Vec<Value>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../../shared/recordings/{flow}.jsonl.gz"));
    if !path.exists() {
        test_parts::not_run(&format!("{} is not there", path.display()));
        return None;
    }
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let requests = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    Some(requests.map(|review| review.get("request").cloned().unwrap_or(review)).collect())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The requests of a user that write objects, and not their status.
fn writes<'r>(requests: &'r [Value], user: &'r str) -> impl Iterator<Item = &'r Value> {
    requests.iter().filter(move |request| {
        let name = text(&request["userInfo"]["username"]);
        name == user && text(&request["subResource"]).is_empty() && request["object"].is_object()
    })
}

/// What a user wrote.
fn written(requests: &[Value], user: &str) -> BTreeSet<Written> {
    let named = |request: &Value| {
        let name = [&request["name"], &request["object"]["metadata"]["name"]].map(text);
        let name = name.into_iter().find(|name| !name.is_empty()).unwrap();
        (text(&request["resource"]["resource"]), text(&request["namespace"]), name)
    };
    writes(requests, user).map(named).collect()
}

/// Puts the objects of these names, as a user created them, into the directory of a bundle.
fn unpack(bundle: &Path, requests: &[Value], user: &str, names: &[String]) {
    for request in writes(requests, user).filter(|request| request["operation"] == "CREATE") {
        let object = &request["object"];
        if names.contains(&text(&object["metadata"]["name"])) {
            let file = format!("{}-{}.json", text(&object["kind"]), text(&object["metadata"]["name"]));
            fs::write(bundle.join(file), object.to_string()).unwrap();
        }
    }
}

/// The objects that the derived RBAC lets somebody change, by name.
fn changeable(bundle: &Path, arguments: &[&str], own: &str) -> BTreeSet<Written> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_operator-bounds"));
    let output = command.arg("derive").arg(bundle).args(arguments).args(["--output", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut found = BTreeSet::new();
    for role in list["items"].as_array().unwrap() {
        for rule in role["rules"].as_array().into_iter().flatten() {
            let strings = |key: &str| rule[key].as_array().cloned().unwrap_or_default();
            if !strings("verbs").iter().any(|verb| verb == "patch" || verb == "update") {
                continue;
            }
            for (resource, name) in strings("resources")
                .iter()
                .flat_map(|r| strings("resourceNames").into_iter().map(move |name| (text(r), text(&name))))
            {
                let namespace = match role["metadata"]["namespace"].as_str() {
                    _ if resource.starts_with("cluster") => "",
                    Some(namespace) => namespace,
                    None => own,
                };
                found.insert((resource, namespace.to_owned(), name));
            }
        }
    }
    found
}

fn brought(operator: &str) -> Vec<String> {
    let names = [String::new(), "-metrics".to_owned(), "-metrics-reader".to_owned(), "-prom".to_owned()];
    names.iter().map(|suffix| format!("{operator}{suffix}")).chain(["demo-extra".to_owned()]).collect()
}

#[test]
fn under_olm_v0_it_is_what_the_account_wrote() {
    for (flow, mode, operator, version) in [
        ("v0-own-account", "OwnNamespace", "demo2", "v0.1.0"),
        ("v0-all-account", "AllNamespaces", "demo2", "v0.1.0"),
        ("v0-webhook-account", "OwnNamespace", "demo3", "v0.1.0"),
        ("v0-upgrade-account", "OwnNamespace", "demo2", "v0.2.0"),
    ] {
        let Some(requests) = recorded(flow) else { return };
        let bundle = TempDir::new().unwrap();
        let names = [brought(operator), vec![format!("{operator}.{version}")]].concat();
        unpack(bundle.path(), &requests, V0, &names);
        let arguments = ["--for", "serviceaccount", "tenant/scoped", "--install-mode", mode];
        let mut wrote = written(&requests, V0);
        // It is created and never changed, and nobody can grant creating by name.
        wrote.retain(|(resource, _, _)| resource != "clusterserviceversions");
        if version == "v0.2.0" {
            // This one asks for all ConfigMaps anyway.
            wrote.retain(|(resource, _, _)| resource != "configmaps");
        }
        assert!(wrote.len() >= 14, "{flow}: {wrote:?}");
        assert_eq!(changeable(bundle.path(), &arguments, "tenant"), wrote, "{flow}");
    }
}

#[test]
fn under_olm_v1_it_is_what_the_controller_wrote() {
    let (Some(v0), Some(v1)) = (recorded("v0-own-noaccount"), recorded("v1-install")) else { return };
    let bundle = TempDir::new().unwrap();
    // OLM v1 writes no ClusterServiceVersion. The other OLM has installed the same operator under another name.
    let other = TempDir::new().unwrap();
    unpack(other.path(), &v0, V0_ITSELF, &["demo2.v0.1.0".to_owned()]);
    let csv = fs::read_to_string(other.path().join("ClusterServiceVersion-demo2.v0.1.0.json")).unwrap();
    fs::write(bundle.path().join("csv.json"), csv.replace("demo2", "demo")).unwrap();
    unpack(bundle.path(), &v1, V1, &brought("demo"));
    let mut wrote = written(&v1, V1);
    // CRDs and its own books are OLM's.
    wrote.retain(|(resource, namespace, _)| {
        !["customresourcedefinitions", "clusterextensions"].contains(&resource.as_str()) && namespace != "olmv1-system"
    });
    assert_eq!(wrote.len(), 15, "{wrote:?}");
    // The operator asks to update every ConfigMap of its namespaces, and the policy takes that for a patch of one.
    wrote.retain(|(resource, ..)| resource != "configmaps");
    let arguments = ["--for", "synthetic", "demo-ext", "--namespace", "demo"];
    assert_eq!(changeable(bundle.path(), &arguments, "demo"), wrote);
}
