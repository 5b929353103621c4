//! OLM v0 beside the policy: what a healthy OLM writes, the design document's scenarios, and what must be refused.

mod bounded;
mod healthy;
mod operators;
mod real;
mod scenarios;

use anyhow::Context;
use test_olm::{Cluster, Corpus, OlmV0, Package, Policy};

use crate::Arguments;
use crate::report::Report;
use crate::world::World;
use crate::writes::{Writers, section};

/// Both controllers write with this account.
pub(crate) const OLM: &str = "system:serviceaccount:olm:olm-operator-serviceaccount";

/// Both controllers share one account; the accounts of groups end as [`test_olm::Group::account`] says.
const WRITERS: Writers = Writers {
    title: "OLM v0.46",
    called: |user| match user {
        OLM => Some("OLM's own account"),
        "system:serviceaccount:kube-system:generic-garbage-collector" => Some("the garbage collector"),
        account if account.ends_with("-installer") => Some("the account of the OperatorGroup"),
        _ => None,
    },
};

/// Runs everything: first what must not be refused, partly before the policy is there; then the rest.
pub(crate) async fn run(arguments: &Arguments, report: &mut Report) -> anyhow::Result<String> {
    let corpus = Corpus::read()?.context("there is no ../shared/corpus, and so no real operator")?;
    let cluster = Cluster::start("none").await?;
    let mut packages: Vec<Package> = operators::all();
    for name in healthy::OPERATORS.iter().map(|(name, _)| *name).chain(real::operators(arguments.all)) {
        packages.push(corpus.package(name)?);
    }
    let olm = OlmV0::start(&cluster, &packages).await?;
    let policy = Policy::load(&cluster, &["olm-v0.yaml"]).await?;
    let mut world = World::new(cluster, arguments.program.clone(), policy, olm, packages);
    world.admit_tenants().await?;
    healthy::run(&world, &arguments.beginning, report).await?;
    let known = world.cluster.refusals()?.len();
    report.run(&world, &scenarios::CASES, &arguments.beginning).await;
    report.run(&world, &bounded::CASES, &arguments.beginning).await;
    real::run(&world, arguments, report).await?;
    match world.unexpected(known)?.as_slice() {
        [] => report.held("nothing is refused but what was meant to be", None),
        refusals => report.failed("nothing is refused but what was meant to be", &refusals.join("\n")),
    }
    report.say(format!("OLM v0: {}", world.cluster.reviews()?));
    world.olm.check()?;
    Ok(section(&WRITERS, &world.cluster.audit.events()?))
}
