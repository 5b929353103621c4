//! `scope`, with a client in operator-controller's place.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http::Method;
use serde_json::{Value, json};
use test_olm::Cluster;
use test_plane::api::{Answer, Api, Key, Sender};

use crate::program;

const OLM: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";
const RBAC: &str = "rbac.authorization.k8s.io";

/// An object that belongs to an extension, by OLM's labels.
fn owned(mut object: Value, extension: &str) -> Value {
    object["metadata"]["labels"]["olm.operatorframework.io/owner-kind"] = json!("ClusterExtension");
    object["metadata"]["labels"]["olm.operatorframework.io/owner-name"] = json!(extension);
    object
}

fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}})
}

async fn create(api: &Api, object: &Value) -> anyhow::Result<Answer> {
    api.send(Method::POST, &api.collection(&Key::of(object))?, Some(object)).await
}

fn refused(answer: &Answer, code: u16, words: &[&str]) -> anyhow::Result<()> {
    let message = answer.message();
    let said = words.iter().all(|word| message.contains(word));
    ensure!(answer.code == code && said, "not {code} with {words:?}: {} {message}", answer.code);
    Ok(())
}

/// Grants rules to the synthetic identity of an extension, in the whole cluster.
async fn grant(cluster: &Cluster, extension: &str, rules: Value) -> anyhow::Result<()> {
    let name = format!("of-{extension}");
    let api = format!("{RBAC}/v1");
    let role = json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    let binding = json!({"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": format!("olm:clusterextension:{extension}")}]});
    cluster.root.apply(&role).await?;
    cluster.root.apply(&binding).await.map(drop)
}

pub(crate) async fn the_api_server_decides(cluster: &Cluster) -> anyhow::Result<()> {
    let scope = program::scope(cluster, "scope-decides", &[]).await?;
    let olm = Api::connect(&scope.kubeconfig).await?;
    cluster.namespace("scoped").await?;
    let object = owned(config_map("scoped", "settings"), "decided");
    let user = "User \"olm:clusterextension:decided\" cannot create resource \"configmaps\"";
    refused(&create(&olm, &object).await?, 403, &[user])?;
    grant(
        cluster,
        "decided",
        json!([
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]},
            {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["create"]},
        ]),
    )
    .await?;
    let key = Key::of(&object);
    test_plane::eventually("the grant counts", Duration::from_mins(1), async || {
        let answer = create(&olm, &object).await?;
        Ok(if answer.is_success() { Ok(()) } else { Err(answer.message().to_owned()) })
    })
    .await?;
    olm.patch(&key, &json!({"data": {"a": "b"}}))
        .await
        .context("a patch without labels goes by those that are there")?;
    let role = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": "escalates"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    let escalating = create(&olm, &owned(role, "decided")).await?;
    refused(&escalating, 403, &["attempting to grant RBAC permissions not currently held"])?;
    olm.delete(&key).await.context("taking away needs no right of the extension")?;
    let writers: Vec<(String, String)> = cluster
        .audit
        .events()?
        .into_iter()
        .filter(|event| {
            event.namespace() == "scoped"
                && event.code() < 300
                && event.resource() == "configmaps"
                && event.name() == "settings"
        })
        .map(|event| (event.verb.clone(), event.user().to_owned()))
        .collect();
    let extension = "olm:clusterextension:decided";
    let expected = [("create", extension), ("patch", extension), ("delete", OLM)];
    ensure!(writers == expected.map(|(verb, user)| (verb.to_owned(), user.to_owned())), "{writers:?}");
    Ok(())
}

pub(crate) async fn bad_input(cluster: &Cluster) -> anyhow::Result<()> {
    let scope = program::scope(cluster, "scope-bad-input", &[]).await?;
    let olm = Api::connect(&scope.kubeconfig).await?;
    cluster.namespace("bad-input").await?;
    // Whatever comes of these, they are not made with OLM's own rights: it is cluster-admin, and could.
    refused(&create(&olm, &config_map("bad-input", "nobodys")).await?, 403, &["belongs to no ClusterExtension"])?;
    let mut hook = owned(config_map("bad-input", "hook"), "hooks");
    hook["metadata"]["annotations"]["helm.sh/hook"] = json!("pre-install");
    refused(&create(&olm, &hook).await?, 403, &["helm.sh/hook"])?;
    let long = owned(config_map("bad-input", "long"), &"a".repeat(1024 * 1024));
    refused(&create(&olm, &long).await?, 403, &["olm.operatorframework.io/owner-name"])?;
    let mut endless = owned(config_map("bad-input", "endless"), "large");
    endless["data"]["a"] = json!("a".repeat(4 * 1024 * 1024));
    refused(&create(&olm, &endless).await?, 413, &["more than"])?;
    let path = "/api/v1/namespaces/bad-input/configmaps";
    let sender =
        Sender { user: "system:admin".to_owned(), groups: vec!["system:masters".to_owned()], ..Sender::default() };
    let answer = olm.send_as(Some(&sender), Method::POST, path, Some(&config_map("bad-input", "x"))).await?;
    refused(&answer, 403, &["impersonate-"])?;
    for path in [
        "/api/v1/namespaces/../../configmaps",
        "/api/v1/namespaces/bad-input%2fconfigmaps",
        "/api/v1/%2e%2e/configmaps",
        "/api/v1//configmaps",
    ] {
        refused(&olm.send(Method::POST, path, Some(&config_map("bad-input", "x"))).await?, 400, &["no path"])?;
    }
    refused(&olm.send(Method::DELETE, path, None).await?, 403, &["one object at a time"])?;
    refused(&olm.send(Method::POST, "/api/v1/namespaces/bad-input/pods/a/exec", None).await?, 403, &["connections"])?;
    let left = cluster.root.list("v1", "ConfigMap", Some("bad-input")).await?;
    let ours = left.iter().filter(|map| map["metadata"]["name"] != "kube-root-ca.crt").count();
    ensure!(ours == 0, "something was written: {left:?}");
    // Clients that connect and say nothing keep nobody else waiting.
    let hanging: Vec<_> = (0..100).map(|_| std::net::TcpStream::connect(&scope.address)).collect::<Result<_, _>>()?;
    ensure!(olm.list("v1", "ConfigMap", Some("bad-input")).await.is_ok());
    drop(hanging);
    releases(cluster, &olm).await
}

/// Releases as OLM wrote them, in protobuf then and in JSON here: one with hooks is refused before anything is written.
async fn releases(cluster: &Cluster, olm: &Api) -> anyhow::Result<()> {
    let Some(recordings) = test_parts::shared("recordings") else {
        test_parts::not_run("recorded releases were not sent through the sidecar: they are not there");
        return Ok(());
    };
    let file = std::fs::File::open(recordings.join("v1-releases.jsonl.gz"))?;
    let text = std::io::read_to_string(flate2::read::MultiGzDecoder::new(file))?;
    let mut codes = Vec::new();
    for line in text.lines() {
        let review: Value = serde_json::from_str(line)?;
        let mut secret = review["request"]["object"].clone();
        let metadata = json!({"name": secret["metadata"]["name"], "namespace": "olmv1-system", "labels": secret["metadata"]["labels"]});
        (secret["apiVersion"], secret["kind"], secret["metadata"]) = (json!("v1"), json!("Secret"), metadata);
        let answer = create(olm, &secret).await?;
        codes.push(answer.code);
        if answer.code == 403 {
            refused(&answer, 403, &["brings Helm hooks"])?;
        } else {
            cluster.root.delete(&Key::of(&secret)).await?;
        }
    }
    ensure!(codes.contains(&403) && codes.contains(&201), "{codes:?}");
    Ok(())
}

pub(crate) async fn streams(cluster: &Cluster) -> anyhow::Result<()> {
    use futures::{AsyncBufReadExt, StreamExt};
    let scope = program::scope(cluster, "scope-streams", &[]).await?;
    let olm = Api::connect(&scope.kubeconfig).await?;
    cluster.namespace("streams").await?;
    grant(cluster, "streams", json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}])).await?;
    let read = kube::config::Kubeconfig::read_from(&scope.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(read, &kube::config::KubeConfigOptions::default()).await?;
    let client = kube::Client::try_from(config)?;
    let watch = http::Request::get("/api/v1/namespaces/streams/configmaps?watch=true").body(Vec::new())?;
    let lines = client.request_stream(watch).await?;
    let mut lines = std::pin::pin!(lines.lines());
    for name in ["one", "two", "three"] {
        cluster.root.create(&config_map("streams", name)).await?;
        loop {
            // It comes while the watch is open, and not when it ends.
            let line = lines.next().await.context("the watch has ended")??;
            if line.contains(&format!("\"name\":\"{name}\"")) {
                break;
            }
        }
    }
    cluster.root.create(&owned(config_map("streams", "patched"), "streams")).await?;
    let direct = Api::connect(&test_olm::OlmV1::kubeconfig(cluster).await?).await?;
    for (what, method) in [("GET", Method::GET), ("PATCH", Method::PATCH)] {
        let (mut times, mut through) = (Vec::new(), Vec::new());
        for number in 0..200 {
            for (api, times) in [(&direct, &mut times), (&olm, &mut through)] {
                let body = json!({"data": {"n": number.to_string()}});
                let body = (method == Method::PATCH).then_some(&body);
                let began = Instant::now();
                let path = "/api/v1/namespaces/streams/configmaps/patched";
                api.send(method.clone(), path, body).await?.ok(&what)?;
                times.push(began.elapsed());
            }
        }
        let median = |times: &mut Vec<Duration>| {
            times.sort_unstable();
            times[times.len() / 2].as_secs_f64() * 1000.0
        };
        println!(
            "   {what}: {:.2} ms direct, {:.2} ms through scope (medians of 200)",
            median(&mut times),
            median(&mut through)
        );
    }
    Ok(())
}
