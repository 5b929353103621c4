//! OLM v1.10, which acts as the account that an extension names: the API server bounds it, and the guard decides who may choose.

use anyhow::ensure;
use futures::FutureExt;
use serde_json::{Value, json};
use test_kubewarden::Shipped;
use test_olm::{Cluster, OlmV1, Policy, Started, cluster_role_binding};
use test_plane::api::{Key, Sender};

use crate::Arguments;
use crate::report::{Case, Report, Said};

use super::World;
use super::operators::{self, ACCOUNTED};

pub(crate) const VERSION: &str = "1.10.0";
/// Who may write extensions, and nothing else.
const TENANTS: &str = "tests:tenants";

const CASES: [Case<World>; 2] = [
    ("OLM 1.10 acts as the account: what it may not do is not done, and granted it installs", |w| {
        acts_as_the_account(w).boxed_local()
    }),
    ("OLM 1.10: who holds less than an account may not choose it", |w| chosen(w).boxed_local()),
];

/// Runs them in a cluster of that release.
pub(crate) async fn run(arguments: &Arguments, report: &mut Report) -> anyhow::Result<()> {
    let cluster = Cluster::start("required").await?;
    let packages = operators::all();
    let olm = OlmV1::start(&cluster, &packages, Started { version: Some(VERSION), ..Started::default() }).await?;
    let world = World::new(cluster, arguments.program.clone(), packages);
    let settings = json!({"clusterExtensions": {"phase": "required", "bound": "off"}});
    let policy = Policy::with(&world.cluster, Shipped::read(&["olm-v1.yaml"], &[])?.with_settings(&settings)).await?;
    policy.enforce(&world.cluster).await?;
    report.run(&world, &CASES, &arguments.beginning).await;
    report.say(format!("OLM v1.10: {}", world.cluster.reviews()?));
    drop((olm, policy));
    Ok(())
}

async fn acts_as_the_account(world: &World) -> anyhow::Result<Said> {
    let mut extension = world.extension(ACCOUNTED, ACCOUNTED, 0).await?;
    extension["spec"]["serviceAccount"] = json!({"name": "installer"});
    world.cluster.account(&format!("ns-{ACCOUNTED}"), "installer").await?;
    world.apply(&[extension]).await?;
    OlmV1::retries(&world.cluster, ACCOUNTED, &["system:serviceaccount:ns-accounted:installer"]).await?;
    let bundle = world.bundle(ACCOUNTED, 0)?;
    world.apply(&world.derived_for(ACCOUNTED, bundle, &["--release", "4.20"])?).await?;
    Ok(Some(format!("after the grant {:.1?}", OlmV1::installed(&world.cluster, ACCOUNTED, "1.0.0").await?)))
}

async fn chosen(world: &World) -> anyhow::Result<Said> {
    world.cluster.namespace("ns-chosen").await?;
    world.cluster.account("ns-chosen", "strong").await?;
    world.cluster.root.apply(&cluster_role_binding("chosen-strong", "cluster-admin", "ns-chosen", "strong")).await?;
    let rbac = "rbac.authorization.k8s.io";
    let rules = json!([{"apiGroups": ["olm.operatorframework.io"], "resources": ["*"], "verbs": ["*"]}]);
    let role = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": TENANTS}, "rules": rules});
    let binding = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": TENANTS},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": TENANTS}, "subjects": [{"apiGroup": rbac, "kind": "Group", "name": TENANTS}]});
    world.apply(&[role, binding]).await?;
    let mut extension: Value = OlmV1::extension("chosen", "ns-chosen", ACCOUNTED, "1.0.0");
    extension["spec"]["serviceAccount"] = json!({"name": "strong"});
    let sender = Sender { user: "tenant".to_owned(), groups: vec![TENANTS.to_owned()], extra: Vec::new() };
    let path = world.cluster.root.collection(&Key::of(&extension))?;
    let answer = world.cluster.root.send_as(Some(&sender), http::Method::POST, &path, Some(&extension)).await?;
    ensure!(
        answer.code == 403 && answer.message().contains("denied the request"),
        "{} {}",
        answer.code,
        answer.message()
    );
    Ok(answer.message().lines().next().map(str::to_owned))
}
