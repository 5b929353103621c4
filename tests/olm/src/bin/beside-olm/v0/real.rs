//! Real operators, each with exactly the RBAC that is derived for it; then again with a permission less.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use serde_json::Value;
use test_olm::Bundle;

use crate::Arguments;
use crate::derive::{Mode, without};
use crate::report::Report;
use crate::world::World;

/// What OLM itself writes or reads as the account.
const OLMS: [&str; 10] = [
    "clusterrolebindings",
    "clusterroles",
    "clusterserviceversions",
    "configmaps",
    "deployments",
    "rolebindings",
    "roles",
    "secrets",
    "serviceaccounts",
    "services",
];
/// As many at a time.
const AT_ONCE: usize = 4;
/// How many of them CI takes.
const SAMPLE: usize = 6;
/// The targets of those that want several.
const SEVERAL: [&str; 2] = ["real-one", "real-two"];

/// How each is installed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Install {
    Own,
    Several,
    All,
}

use Install::{All, Own, Several};

/// With and without cluster permissions, with webhooks, with several accounts.
const OPERATORS: [(&str, Install); 22] = [
    ("redis-operator", Own),
    ("project-quay", Own),
    ("parseable-operator", Several),
    ("apicast-community-operator", All),
    ("log2rbac", All),
    ("keycloak-operator", Own),
    ("anchore-engine", All),
    ("argocd-operator", All),
    ("kube-green", All),
    ("loki-operator", All),
    ("meshery-operator", All),
    ("metallb-operator", All),
    ("mitos", All),
    ("nexus-operator", Own),
    ("nfd-operator", All),
    ("postgres-operator", Own),
    ("registry-operator", All),
    ("searchpe-operator", Own),
    ("varnish-operator", Own),
    ("zookeeper-operator", Own),
    ("simple-authenticator", All),
    ("customized-user-remediation", All),
];

/// Those of a run.
pub(crate) fn operators(all: bool) -> Vec<(&'static str, &'static [&'static str])> {
    let taken = if all { OPERATORS.len() } else { SAMPLE };
    OPERATORS[..taken].iter().map(|(name, _)| (*name, [].as_slice())).collect()
}

pub(crate) async fn run(world: &World, arguments: &Arguments, report: &mut Report) -> anyhow::Result<()> {
    for target in SEVERAL {
        world.cluster.namespace(target).await?;
    }
    let taken = if arguments.all { OPERATORS.len() } else { SAMPLE };
    let each = OPERATORS[..taken].iter().map(|(name, install)| async move {
        let sentence = format!("{name} installs with what is derived ({install:?}), and not with less");
        if !sentence.starts_with(&arguments.beginning) {
            return None;
        }
        let outcome = prove(world, name, *install).await;
        Some((sentence, outcome))
    });
    let mut outcomes = stream::iter(each.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
    let (mut proven, mut tried) = (0, 0);
    while let Some(outcome) = outcomes.next().await {
        let Some((sentence, outcome)) = outcome else { continue };
        tried += 1;
        match outcome {
            Ok(said) => {
                proven += 1;
                report.held(&sentence, Some(said));
            }
            Err(error) => report.failed(&sentence, &format!("{error:#}")),
        }
    }
    report.say(format!(
        "OLM v0: {proven} of {tried} real operators refused with a permission less, and installed with what is derived"
    ));
    Ok(())
}

/// First with one permission less, which is refused; then it is granted, and the operator installs by itself; then it goes.
async fn prove(world: &World, name: &str, install: Install) -> anyhow::Result<String> {
    let group = world.refusing(&format!("real-{name}")).await?;
    let package = world.package(name)?;
    let bundle = &package.versions()[package.versions().len() - 1];
    let own = [group.namespace()];
    let (mode, targets): (Mode<'_>, &[&str]) = match install {
        Own => (Mode::Own, &own),
        Several => (Mode::Several(&SEVERAL), &SEVERAL),
        All => (Mode::All, &[]),
    };
    let all = world.derived(&group, bundle, mode)?;
    let less = one_less(&all, bundle);
    group.bounded(targets, less.as_ref().map_or(&all, |(less, _)| less)).await?;
    let channel = format!("c{}", package.versions().len());
    group.subscribe(&world.cluster.admin, name, &channel, "Automatic").await?;
    if less.is_some() {
        group.plan_says(name, bundle.name(), &["asks for more than ServiceAccount"]).await?;
        world.replace(&all).await?;
    }
    let took = group.succeeds(bundle.name()).await?;
    let gone = group.uninstall(name, bundle.name()).await?;
    let refused =
        less.map_or_else(|| "it asks for everything".to_owned(), |(_, taken)| format!("without {taken} refused"));
    Ok(format!("{refused}; with all of it installed after {took:.1?}; gone after {gone:.1?}"))
}

/// Takes away a resource that the operator itself asks for and that nothing else grants. None where it asks for everything: what OLM
/// needs to install anything is a part of that.
fn one_less(rbac: &[Value], bundle: &Bundle) -> Option<(Vec<Value>, String)> {
    let install = &bundle.csv["spec"]["install"]["spec"];
    let permissions =
        ["clusterPermissions", "permissions"].into_iter().filter_map(|field| install[field].as_array()).flatten();
    let rules = permissions.filter_map(|permission| permission["rules"].as_array()).flatten();
    let asked: BTreeSet<&str> =
        rules.filter_map(|rule| rule["resources"].as_array()).flatten().filter_map(Value::as_str).collect();
    let candidates = asked.into_iter().filter(|resource| !resource.contains('*') && !OLMS.contains(resource));
    let mut less = candidates.map(|resource| (without(rbac, resource), resource.to_owned()));
    less.find(|(less, _)| less != rbac)
}
