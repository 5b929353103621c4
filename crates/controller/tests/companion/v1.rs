//! `scope` between the real OLM v1 and the API server.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde_json::json;
use test_olm::{Bundle, Cluster, OlmV1, Package, Rule, Started, Tiny};
use test_plane::api::Key;

use crate::program;

const OLM: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";

fn bundle(name: &str, version: &str) -> Bundle {
    Tiny::new(name, version).cluster_permission(Rule::on("", "configmaps", &["get"])).bundle()
}

/// Grants an extension what `derive` prints for its bundle.
async fn grant(cluster: &Cluster, extension: &str, namespace: &str, bundle: &Bundle) -> anyhow::Result<Vec<Key>> {
    let mut granted = Vec::new();
    for object in program::derive(bundle, &["--for", "synthetic", extension, "--namespace", namespace])? {
        cluster.root.apply(&object).await?;
        granted.push(Key::of(&object));
    }
    Ok(granted)
}

pub(crate) async fn lives(cluster: &Cluster) -> anyhow::Result<()> {
    let scope = program::scope(cluster, "scope-olm", &[]).await?;
    let versions = [bundle("scoped", "1.0.0"), bundle("scoped", "2.0.0")];
    let packages = [Package::new("scoped", versions.to_vec()), Package::new("second", vec![bundle("second", "1.0.0")])];
    let started = Started { kubeconfig: Some(&scope.kubeconfig), ..Started::default() };
    let olm = OlmV1::start(cluster, &packages, started).await?;
    for namespace in ["scoped-one", "scoped-two"] {
        cluster.namespace(namespace).await?;
    }
    let mut extension = OlmV1::extension("one", "scoped-one", "scoped", "1.0.0");
    cluster.root.apply(&extension).await?;
    let said =
        OlmV1::retries(cluster, "one", &["is forbidden: User \"olm:clusterextension:one\" cannot create"]).await?;
    println!("   Progressing: {}", said.chars().take(300).collect::<String>());
    grant(cluster, "one", "scoped-one", &versions[0]).await?;
    let took = OlmV1::installed(cluster, "one", "1.0.0").await?;
    println!("   granted: installed by itself after {:.1} s", took.as_secs_f32());
    cluster.root.apply(&OlmV1::extension("two", "scoped-two", "second", "1.0.0")).await?;
    OlmV1::retries(cluster, "two", &["User \"olm:clusterextension:two\""]).await?;
    let granted = grant(cluster, "one", "scoped-one", &versions[1]).await?;
    extension["spec"]["source"]["catalog"]["version"] = json!("2.0.0");
    cluster.root.apply(&extension).await?;
    OlmV1::installed(cluster, "one", "2.0.0").await?;
    // Its rights go first, and it goes all the same.
    for key in &granted {
        cluster.root.delete(key).await?;
    }
    cluster.root.delete(&OlmV1::place("one")).await?;
    cluster.wait_until_gone(&OlmV1::place("one")).await?;
    writers(cluster)?;
    drop(olm);
    Ok(())
}

/// Who wrote what: everything in the extension's namespaces as the extension, all bookkeeping as OLM.
fn writers(cluster: &Cluster) -> anyhow::Result<()> {
    let mut wrote: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in cluster.audit.events()? {
        let user = event.user();
        if event.code() >= 300 || !(user == OLM || user.starts_with("olm:clusterextension:")) {
            continue;
        }
        let line = format!("{} {}", event.verb, event.resource());
        let lines = wrote.entry(user.to_owned()).or_default();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    for (user, lines) in &wrote {
        println!("   {user}: {}", lines.join(", "));
    }
    let own = wrote.get(OLM).map(Vec::as_slice).unwrap_or_default();
    let bundles = [
        "create deployments.apps",
        "create clusterroles.rbac.authorization.k8s.io",
        "create serviceaccounts",
        "patch deployments.apps",
    ];
    ensure!(!own.iter().any(|line| bundles.contains(&line.as_str())), "OLM itself wrote {own:?}");
    let one = wrote.get("olm:clusterextension:one").map(Vec::as_slice).unwrap_or_default();
    ensure!(bundles[..3].iter().all(|line| one.iter().any(|other| other == line)), "{one:?}");
    ensure!(!one.iter().any(|line| line.contains("secrets") || line.contains("olm.operatorframework.io")), "{one:?}");
    Ok(())
}
