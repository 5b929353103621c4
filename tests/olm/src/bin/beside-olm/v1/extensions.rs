//! Extensions under their synthetic identities.

use anyhow::ensure;
use futures::FutureExt;
use serde_json::json;
use test_olm::OlmV1;

use crate::derive::without;
use crate::report::{Case, Said};

use super::World;
use super::operators::{EARLY, ESCALATING, HELLO, LEAVING, SERVUS, WIDENING};

/// Real operators that can watch all namespaces, without webhooks, whose certificates nobody would issue here.
pub(crate) const REAL: [&str; 4] = ["kiali", "log2rbac", "apicast-community-operator", "trident-operator"];

pub(crate) const CASES: [Case<World>; 6] = [
    ("with nothing granted an extension waits, and nothing is written; granted it installs by itself", |w| {
        waits(w).boxed_local()
    }),
    ("an escalation is refused before anything is written", |w| escalation(w).boxed_local()),
    ("a widening upgrade is refused while the installed version stays", |w| widening(w).boxed_local()),
    ("an uninstall never hangs, also with its RBAC removed first", |w| uninstall(w).boxed_local()),
    ("an extension that was there before the policy stays, and its upgrade waits for rights", |w| {
        early(w).boxed_local()
    }),
    ("real operators install with what is derived", |w| real(w).boxed_local()),
];

/// What is there before the policy.
pub(crate) async fn before(world: &World) -> anyhow::Result<()> {
    let extension = world.held_up(EARLY, EARLY, 0).await?;
    world.apply(&[extension]).await?;
    OlmV1::installed(&world.cluster, EARLY, "1.0.0").await.map(drop)
}

/// Two extensions at once: what is granted to one is nothing to the other.
async fn waits(world: &World) -> anyhow::Result<Said> {
    let (hello, servus) = (world.held_up(HELLO, HELLO, 0).await?, world.held_up(SERVUS, SERVUS, 0).await?);
    world.apply(&[hello, servus]).await?;
    for name in [HELLO, SERVUS] {
        let user = format!("olm:clusterextension:{name}");
        OlmV1::retries(&world.cluster, name, &["denied the request", &user, "configmaps"]).await?;
        world.nothing_is_written_for(name)?;
    }
    world.apply(&world.derived(HELLO, world.bundle(HELLO, 0)?)?).await?;
    let took = OlmV1::installed(&world.cluster, HELLO, "1.0.0").await?;
    world.nothing_is_written_for(SERVUS)?;
    world.apply(&world.derived(SERVUS, world.bundle(SERVUS, 0)?)?).await?;
    let other = OlmV1::installed(&world.cluster, SERVUS, "1.0.0").await?;
    Ok(Some(format!("after the grant {took:.1?} and {other:.1?}")))
}

async fn escalation(world: &World) -> anyhow::Result<Said> {
    let extension = world.held_up(ESCALATING, ESCALATING, 0).await?;
    let all = world.derived(ESCALATING, world.bundle(ESCALATING, 0)?)?;
    world.apply(&without(&all, "configmaps")).await?;
    world.apply(&[extension]).await?;
    let said = OlmV1::retries(&world.cluster, ESCALATING, &["denied the request", "resources: [configmaps]"]).await?;
    world.nothing_is_written_for(ESCALATING)?;
    ensure!(!said.contains("resources: [deployments]"), "it lists what is held too: {said}");
    Ok(None)
}

async fn widening(world: &World) -> anyhow::Result<Said> {
    let extension = world.held_up(WIDENING, WIDENING, 0).await?;
    world.apply(&world.derived(WIDENING, world.bundle(WIDENING, 0)?)?).await?;
    world.apply(&[extension]).await?;
    OlmV1::installed(&world.cluster, WIDENING, "1.0.0").await?;
    let newer = world.extension(WIDENING, WIDENING, 1).await?;
    world.apply(&[newer]).await?;
    OlmV1::retries(&world.cluster, WIDENING, &["denied the request", "resources: [nodes]"]).await?;
    OlmV1::installed(&world.cluster, WIDENING, "1.0.0").await?;
    world.apply(&world.derived(WIDENING, world.bundle(WIDENING, 1)?)?).await?;
    Ok(Some(format!(
        "after the grant the upgrade took {:.1?}",
        OlmV1::installed(&world.cluster, WIDENING, "1.1.0").await?
    )))
}

async fn uninstall(world: &World) -> anyhow::Result<Said> {
    let extension = world.extension(LEAVING, LEAVING, 0).await?;
    let rbac = world.derived(LEAVING, world.bundle(LEAVING, 0)?)?;
    world.apply(&rbac).await?;
    world.apply(&[extension]).await?;
    OlmV1::installed(&world.cluster, LEAVING, "1.0.0").await?;
    world.remove(&rbac).await?;
    world.cluster.admin.delete(&OlmV1::place(LEAVING)).await?;
    let took = world.cluster.wait_until_gone(&OlmV1::place(LEAVING)).await?;
    Ok(Some(format!("gone after {took:.1?}")))
}

async fn early(world: &World) -> anyhow::Result<Said> {
    let newer = world.extension(EARLY, EARLY, 1).await?;
    world.apply(&[newer]).await?;
    OlmV1::retries(&world.cluster, EARLY, &["denied the request", "olm:clusterextension:early"]).await?;
    OlmV1::installed(&world.cluster, EARLY, "1.0.0").await?;
    world.apply(&world.derived(EARLY, world.bundle(EARLY, 1)?)?).await?;
    Ok(Some(format!(
        "after the grant the upgrade took {:.1?}",
        OlmV1::installed(&world.cluster, EARLY, "1.1.0").await?
    )))
}

async fn real(world: &World) -> anyhow::Result<Said> {
    let mut said = Vec::new();
    for name in REAL {
        let bundle = world.bundle(name, 0)?;
        let mut extension = world.extension(name, name, 0).await?;
        extension["spec"]["source"]["catalog"] = json!({"packageName": name});
        world.apply(&world.derived(name, bundle)?).await?;
        world.apply(&[extension]).await?;
        let took = OlmV1::installed(&world.cluster, name, bundle.version()).await?;
        world.cluster.admin.delete(&OlmV1::place(name)).await?;
        let gone = world.cluster.wait_until_gone(&OlmV1::place(name)).await?;
        said.push(format!("{name} {took:.1?}, gone after {gone:.1?}"));
    }
    Ok(Some(said.join("; ")))
}
