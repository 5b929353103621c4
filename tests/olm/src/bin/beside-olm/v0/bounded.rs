//! What OLM would do past the account, and what people are told.

use anyhow::ensure;
use futures::FutureExt;
use serde_json::{Value, json};
use test_olm::cluster_role_binding;
use test_plane::api::Key;

use crate::derive::{Mode, without};
use crate::report::{Case, Said};
use crate::world::World;

use super::operators::{BORROWER, CARRIER, GREEDY, MODEST};

pub(crate) const CASES: [Case<World>; 6] = [
    ("one rule less is refused in full, and granted it installs by itself", |w| one_rule_less(w).boxed_local()),
    ("lifting to the whole cluster is held to the account", |w| lifted(w).boxed_local()),
    ("copying into target namespaces is held to the account", |w| copied(w).boxed_local()),
    ("a borrowed account is refused", |w| borrowed(w).boxed_local()),
    ("RBAC that a bundle brings is held to the account", |w| brought(w).boxed_local()),
    ("whoever approves a plan by hand is told", |w| approval(w).boxed_local()),
];

async fn one_rule_less(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("one-rule-less").await?;
    let bundle = &world.package(GREEDY)?.versions()[0];
    let all = world.derived(&group, bundle, Mode::Own)?;
    group.bounded(&[group.namespace()], &without(&without(&all, "secrets"), "nodes")).await?;
    group.subscribe(&world.cluster.admin, GREEDY, "c1", "Automatic").await?;
    let whole = [
        "cluster-wide",
        "resources: [nodes]  verbs: [list]",
        "in namespace one-rule-less",
        "resources: [secrets]  verbs: [get]",
    ];
    group.plan_says(GREEDY, bundle.name(), &whole).await?;
    ensure!(world.cluster.root.get(&group.csv(bundle.name())).await?.is_none(), "the operator was written");
    world.replace(&all).await?;
    Ok(Some(format!("after the grant it took {:.1?}", group.succeeds(bundle.name()).await?)))
}

async fn lifted(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("lifted").await?;
    let bundle = &world.package(MODEST)?.versions()[0];
    // Enough for its own namespace, and OLM would make it the whole cluster.
    group.bounded(&[], &world.derived(&group, bundle, Mode::Own)?).await?;
    group.subscribe(&world.cluster.admin, MODEST, "c1", "Automatic").await?;
    group.plan_says(MODEST, bundle.name(), &["cluster-wide", "resources: [configmaps, namespaces]"]).await?;
    world.apply(&world.derived(&group, bundle, Mode::All)?).await?;
    let took = group.succeeds(bundle.name()).await?;
    let roles = world.cluster.root.list("rbac.authorization.k8s.io/v1", "ClusterRole", None).await?;
    let lifted = roles.iter().any(|role| role["metadata"]["labels"]["olm.owner.namespace"] == group.namespace());
    ensure!(lifted, "OLM has lifted nothing: this case shows nothing");
    Ok(Some(format!("after the grant it took {took:.1?}")))
}

async fn copied(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("copied").await?;
    let targets = ["copied-one", "copied-two"];
    for target in targets {
        world.cluster.namespace(target).await?;
    }
    let bundle = &world.package(MODEST)?.versions()[0];
    group.bounded(&targets, &world.derived(&group, bundle, Mode::Own)?).await?;
    group.subscribe(&world.cluster.admin, MODEST, "c1", "Automatic").await?;
    group
        .plan_says(
            MODEST,
            bundle.name(),
            &["in namespace copied-one", "in namespace copied-two", "resources: [configmaps]"],
        )
        .await?;
    world.apply(&world.derived(&group, bundle, Mode::Several(&targets))?).await?;
    Ok(Some(format!("after the grant it took {:.1?}", group.succeeds(bundle.name()).await?)))
}

async fn borrowed(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("borrowed").await?;
    let bundle = &world.package(BORROWER)?.versions()[0];
    world.cluster.account(group.namespace(), "strong").await?;
    world
        .cluster
        .root
        .apply(&cluster_role_binding("borrowed-strong", "cluster-admin", group.namespace(), "strong"))
        .await?;
    group.bounded(&[group.namespace()], &world.derived(&group, bundle, Mode::Own)?).await?;
    group.subscribe(&world.cluster.admin, BORROWER, "c1", "Automatic").await?;
    group.plan_says(BORROWER, bundle.name(), &["asks for more than ServiceAccount", "cluster-wide", "strong"]).await?;
    ensure!(world.cluster.root.get(&group.csv(bundle.name())).await?.is_none(), "the operator was written");
    Ok(None)
}

async fn brought(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("brought").await?;
    let bundle = &world.package(CARRIER)?.versions()[0];
    let all = world.derived(&group, bundle, Mode::Own)?;
    group.bounded(&[group.namespace()], &without(&all, "pods")).await?;
    group.subscribe(&world.cluster.admin, CARRIER, "c1", "Automatic").await?;
    // The account itself creates the Role, and the API server's own check comes before any webhook.
    group.plan_says(CARRIER, bundle.name(), &["error creating role carried-1-0-0", "pods"]).await?;
    world.replace(&all).await?;
    Ok(Some(format!("after the grant it took {:.1?}", group.succeeds(bundle.name()).await?)))
}

async fn approval(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("approval").await?;
    let bundle = &world.package(GREEDY)?.versions()[0];
    let all = world.derived(&group, bundle, Mode::Own)?;
    group.bounded(&[group.namespace()], &without(&all, "secrets")).await?;
    group.subscribe(&world.cluster.admin, GREEDY, "c1", "Manual").await?;
    let plan = group.plan(GREEDY, bundle.name()).await?;
    let waits = |plan: &Value| plan["status"]["phase"] == "RequiresApproval";
    let (plan, _) = world.cluster.wait_for("the plan waits", &Key::of(&plan), waits).await?;
    let approved = json!({"spec": {"approved": true}});
    let path = world.cluster.admin.path(&Key::of(&plan))?;
    let answer = world.cluster.admin.send(http::Method::PATCH, &path, Some(&approved)).await?;
    ensure!(
        answer.code == 403 && answer.message().contains("resources: [secrets]"),
        "{} {}",
        answer.code,
        answer.message()
    );
    world.replace(&all).await?;
    world.cluster.admin.patch(&Key::of(&plan), &approved).await?;
    Ok(Some(format!("after the grant and the approval it took {:.1?}", group.succeeds(bundle.name()).await?)))
}
