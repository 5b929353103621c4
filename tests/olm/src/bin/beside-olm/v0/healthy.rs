//! A healthy OLM: operators in groups without an account are installed, upgraded and taken away, and nothing is refused. Some of
//! them were there before the policy.

use std::time::Duration;

use anyhow::ensure;
use futures::future::try_join_all;
use test_olm::Group;

use crate::report::Report;
use crate::world::World;

use super::operators::{CARRIER, SERVING};

/// Real operators, and what their groups target: none for all namespaces.
pub(crate) const OPERATORS: [(&str, &[&str]); 12] = [
    ("etcd", &["healthy-etcd"]),
    ("prometheus-exporter-operator", &["healthy-prometheus-exporter-operator"]),
    ("percona-xtradb-cluster-operator", &["healthy-one", "healthy-two"]),
    ("cass-operator-community", &["healthy-one", "healthy-two"]),
    ("strimzi-kafka-operator", &["healthy-one"]),
    ("camel-k", &["healthy-camel-k"]),
    ("rabbitmq-cluster-operator", &[]),
    ("kiali", &[]),
    ("knative-operator", &[]),
    ("trident-operator", &[]),
    ("cloudnative-pg", &[]),
    ("opentelemetry-operator", &[]),
];
/// As many of them are there before the policy.
const BEFORE: usize = 5;

const SENTENCE: &str = "a healthy OLM is never refused";

pub(crate) async fn run(world: &World, beginning: &str, report: &mut Report) -> anyhow::Result<()> {
    if !SENTENCE.starts_with(beginning) {
        return world.policy.enforce(&world.cluster).await;
    }
    match live(world).await {
        Ok(said) => report.held(SENTENCE, Some(said)),
        Err(error) => report.failed(SENTENCE, &format!("{error:#}")),
    }
    Ok(())
}

async fn live(world: &World) -> anyhow::Result<String> {
    for namespace in ["healthy-one", "healthy-two"] {
        world.cluster.namespace(namespace).await?;
    }
    let own: [(&str, &[&str]); 2] = [(CARRIER, &["healthy-carrier"]), (SERVING, &["healthy-serving"])];
    let all: Vec<(&str, &[&str])> = OPERATORS.into_iter().chain(own).collect();
    let (before, after) = all.split_at(BEFORE);
    install(world, before).await?;
    world.policy.enforce(&world.cluster).await?;
    let installed = install(world, after).await?;
    let upgraded = upgrade(world, &all).await?;
    let gone = uninstall(world, &all).await?;
    let refusals = world.unexpected(0)?;
    ensure!(refusals.is_empty(), "refused: {}", refusals.join("\n"));
    Ok(format!(
        "{} operators, {BEFORE} of them there before the policy; the slowest install took {installed:.0?}, upgrade {upgraded:.0?}, uninstall {gone:.0?}",
        all.len()
    ))
}

async fn of<'w>(world: &'w World, name: &str) -> anyhow::Result<Group<'w>> {
    world.group(&format!("healthy-{name}")).await
}

fn slowest(times: Vec<Duration>) -> Duration {
    times.into_iter().max().unwrap_or_default()
}

async fn install(world: &World, operators: &[(&str, &[&str])]) -> anyhow::Result<Duration> {
    let each = operators.iter().map(|(name, targets)| async move {
        let group = of(world, name).await?;
        world.apply(&[group.manifest(targets, None)]).await?;
        group.subscribe(&world.cluster.admin, name, "c1", "Automatic").await?;
        group.succeeds(world.package(name)?.versions()[0].name()).await
    });
    Ok(slowest(try_join_all(each).await?))
}

async fn upgrade(world: &World, operators: &[(&str, &[&str])]) -> anyhow::Result<Duration> {
    let each = operators.iter().map(|(name, _)| async move {
        let Some(next) = world.package(name)?.versions().get(1) else { return Ok(Duration::ZERO) };
        let group = of(world, name).await?;
        group.subscribe(&world.cluster.admin, name, "c2", "Automatic").await?;
        group.succeeds(next.name()).await
    });
    Ok(slowest(try_join_all(each).await?))
}

async fn uninstall(world: &World, operators: &[(&str, &[&str])]) -> anyhow::Result<Duration> {
    let each = operators.iter().map(|(name, _)| async move {
        let newest = world.package(name)?.versions();
        of(world, name).await?.uninstall(name, newest[newest.len() - 1].name()).await
    });
    Ok(slowest(try_join_all(each).await?))
}
