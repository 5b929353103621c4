//! Real operators, each with exactly the RBAC that is derived for it; then again with a permission less.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use test_kubewarden::Shipped;
use test_olm::{Bundle, Policy};

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
const OPERATORS: [(&str, Install); 15] = [
    ("redis-operator", Own),
    ("project-quay", Own),
    ("parseable-operator", Several),
    ("apicast-community-operator", All),
    ("kube-green", All),
    ("keycloak-operator", Own),
    ("anchore-engine", All),
    ("mitos", All),
    ("nexus-operator", Own),
    ("registry-operator", All),
    ("nfd-operator", All),
    ("searchpe-operator", Own),
    ("varnish-operator", Own),
    ("zookeeper-operator", Own),
    ("customized-user-remediation", All),
];

/// Those that write CustomResourceDefinitions, or everything: they need `clusterWrites: warn`.
const WRITING_DEFINITIONS: [(&str, Install); 7] = [
    ("log2rbac", All),
    ("argocd-operator", All),
    ("loki-operator", All),
    ("meshery-operator", All),
    ("metallb-operator", All),
    ("postgres-operator", Own),
    ("simple-authenticator", All),
];

/// Those of a run.
fn taken(all: bool) -> (&'static [(&'static str, Install)], &'static [(&'static str, Install)]) {
    if all { (&OPERATORS, &WRITING_DEFINITIONS) } else { (&OPERATORS[..SAMPLE], &[]) }
}

/// The names of those of a run.
pub(crate) fn operators(all: bool) -> impl Iterator<Item = &'static str> {
    let (operators, writing) = taken(all);
    operators.iter().chain(writing).map(|(name, _)| *name)
}

pub(crate) async fn run(world: &World, arguments: &Arguments, report: &mut Report) -> anyhow::Result<()> {
    for target in SEVERAL {
        world.cluster.namespace(target).await?;
    }
    let (operators, writing) = taken(arguments.all);
    let mut proven = each(world, operators, &arguments.beginning, report).await;
    if !writing.is_empty() {
        let settings = json!({"operatorGroups": {"clusterWrites": "warn"}});
        let lenient = Shipped::read(&["olm-v0.yaml"], &[])?.with_settings(&settings);
        let lenient = Policy::with(&world.cluster, lenient).await?;
        lenient.enforce(&world.cluster).await?;
        proven += each(world, writing, &arguments.beginning, report).await;
        world.policy.enforce(&world.cluster).await?;
    }
    report.say(format!(
        "OLM v0: {proven} real operators refused with a permission less, and installed with what is derived"
    ));
    Ok(())
}

/// Proves those whose sentence begins like this, some at a time; how many are proven.
async fn each(world: &World, operators: &[(&str, Install)], beginning: &str, report: &mut Report) -> usize {
    let sentences = operators.iter().map(|(name, install)| {
        let sentence = format!("{name} installs with what is derived ({install:?}), and not with less");
        (sentence, *name, *install)
    });
    let wanted: Vec<_> = sentences.filter(|(sentence, ..)| sentence.starts_with(beginning)).collect();
    let outcomes =
        wanted.iter().map(|(sentence, name, install)| async move { (sentence, prove(world, name, *install).await) });
    let mut outcomes = stream::iter(outcomes.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
    let mut proven = 0;
    while let Some((sentence, outcome)) = outcomes.next().await {
        match outcome {
            Ok(said) => {
                proven += 1;
                report.held(sentence, Some(said));
            }
            Err(error) => report.failed(sentence, &format!("{error:#}")),
        }
    }
    proven
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
