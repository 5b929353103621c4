//! The scenarios of OLM's own design document for accounts of OperatorGroups, one case each.

use anyhow::ensure;
use futures::FutureExt;
use serde_json::{Value, json};
use test_olm::Group;
use test_plane::api::Key;

use crate::derive::{Mode, without};
use crate::report::{Case, Said};
use crate::world::World;

use super::OLM;
use super::operators::{GREEDY, GROWING, MODEST};

pub(crate) const CASES: [Case<World>; 8] = [
    ("a new group with an account: OLM installs with the account's token", |w| with_account(w).boxed_local()),
    ("a new group without an account works as ever", |w| without_account(w).boxed_local()),
    ("a group that gets an account: what runs goes on, and the upgrade is held to the account", |w| {
        gets_account(w).boxed_local()
    }),
    ("rights come and go: what runs goes on, and the next version waits for the right", |w| {
        rights_come_and_go(w).boxed_local()
    }),
    ("an account that is swapped: the next version is held to the new one", |w| swapped(w).boxed_local()),
    ("an account that is removed: nobody may who could not do everything", |w| removed(w).boxed_local()),
    ("an untrusted operator is held to less than its group", |w| untrusted(w).boxed_local()),
    ("an account that does not exist: nothing is installed until it does", |w| missing_account(w).boxed_local()),
];

async fn install(world: &World, group: &Group<'_>, package: &str, channel: &str) -> anyhow::Result<()> {
    group.subscribe(&world.cluster.admin, package, channel, "Automatic").await
}

async fn with_account(world: &World) -> anyhow::Result<Said> {
    let group = world.group("new-with-account").await?;
    let bundle = &world.package(GREEDY)?.versions()[0];
    group.bounded(&[group.namespace()], &world.derived(&group, bundle, Mode::Own)?).await?;
    install(world, &group, GREEDY, "c1").await?;
    let took = group.succeeds(bundle.name()).await?;
    let account = format!("system:serviceaccount:{}:{}", group.namespace(), group.account());
    let events = world.cluster.audit.events()?;
    let created = |resource: &str| {
        let mut found =
            events.iter().filter(|event| event.verb == "create" && event.code() == 201 && event.resource() == resource);
        found.any(|event| event.user() == account)
    };
    for resource in [
        "roles.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "deployments.apps",
        "clusterserviceversions.operators.coreos.com",
    ] {
        ensure!(created(resource), "{account} has created none of {resource}");
    }
    Ok(Some(format!("{took:.1?}")))
}

async fn without_account(world: &World) -> anyhow::Result<Said> {
    let group = world.group("new-without-account").await?;
    world.apply(&[group.manifest(&[group.namespace()], None)]).await?;
    install(world, &group, GREEDY, "c1").await?;
    let bundle = &world.package(GREEDY)?.versions()[0];
    let took = group.succeeds(bundle.name()).await?;
    let written = world.cluster.audit.events()?;
    let theirs =
        written.iter().filter(|event| event.namespace() == group.namespace() && event.resource() == "deployments.apps");
    ensure!(
        theirs.into_iter().all(|event| event.user() == OLM || event.user().starts_with("system:")),
        "somebody else wrote the Deployment"
    );
    Ok(Some(format!("{took:.1?}")))
}

/// Installs the second version of the growing operator, and gives the names of the second and the third.
async fn running<'w>(world: &'w World, group: &Group<'w>) -> anyhow::Result<(&'w str, &'w str)> {
    let versions = world.package(GROWING)?.versions();
    install(world, group, GROWING, "c2").await?;
    group.succeeds(versions[1].name()).await?;
    Ok((versions[1].name(), versions[2].name()))
}

/// The upgrade to the third version is refused in these words while the second one runs on.
async fn upgrade_is_refused(world: &World, group: &Group<'_>, words: &[&str]) -> anyhow::Result<String> {
    let (now, next) = (world.package(GROWING)?.versions()[1].name(), world.package(GROWING)?.versions()[2].name());
    install(world, group, GROWING, "c3").await?;
    let said = group.plan_says(GROWING, next, words).await?;
    let runs = world.cluster.root.get(&group.csv(now)).await?.unwrap_or_default();
    ensure!(runs["status"]["phase"] == "Succeeded", "the installed version is {}", runs["status"]["phase"]);
    ensure!(world.cluster.root.get(&group.csv(next)).await?.is_none(), "{next} was written");
    Ok(said)
}

async fn gets_account(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("gets-account").await?;
    world.apply(&[group.manifest(&[group.namespace()], None)]).await?;
    let (now, next) = running(world, &group).await?;
    let versions = world.package(GROWING)?.versions();
    group.bounded(&[group.namespace()], &world.derived(&group, &versions[1], Mode::Own)?).await?;
    ensure!(phase(world, &group, now).await? == "Succeeded", "it does not run on");
    upgrade_is_refused(
        world,
        &group,
        &["asks for more than ServiceAccount", "resources: [secrets]", "resources: [nodes]"],
    )
    .await?;
    world.apply(&world.derived(&group, &versions[2], Mode::Own)?).await?;
    Ok(Some(format!("after the grant the upgrade took {:.1?}", group.succeeds(next).await?)))
}

async fn phase(world: &World, group: &Group<'_>, csv: &str) -> anyhow::Result<Value> {
    Ok(world.cluster.root.get(&group.csv(csv)).await?.unwrap_or_default()["status"]["phase"].take())
}

async fn rights_come_and_go(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("rights-come-and-go").await?;
    let versions = world.package(GROWING)?.versions();
    let all =
        [world.derived(&group, &versions[1], Mode::Own)?, world.derived(&group, &versions[2], Mode::Own)?].concat();
    group.bounded(&[group.namespace()], &all).await?;
    let (now, next) = running(world, &group).await?;
    world.replace(&without(&all, "secrets")).await?;
    ensure!(phase(world, &group, now).await? == "Succeeded", "it does not run on");
    let said = upgrade_is_refused(world, &group, &["resources: [secrets]"]).await?;
    ensure!(!said.contains("resources: [nodes]"), "it lists what is held too: {said}");
    world.replace(&all).await?;
    Ok(Some(format!("given back, the upgrade took {:.1?}", group.succeeds(next).await?)))
}

async fn swapped(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("swapped").await?;
    let versions = world.package(GROWING)?.versions();
    let all =
        [world.derived(&group, &versions[1], Mode::Own)?, world.derived(&group, &versions[2], Mode::Own)?].concat();
    group.bounded(&[group.namespace()], &all).await?;
    running(world, &group).await?;
    world.cluster.account(group.namespace(), "other").await?;
    let other = crate::derive::for_account(&world.program, &versions[2], "swapped/other", Mode::Own)?;
    world.apply(&without(&other, "configmaps")).await?;
    let manifest = group.manifest(&[group.namespace()], Some("other"));
    let path = format!("{}?fieldManager=e2e&force=true", world.cluster.admin.path(&Key::of(&manifest))?);
    let answer = world.cluster.admin.send(http::Method::PATCH, &path, Some(&manifest)).await?.ok(&"the swap")?;
    let warned = answer.warnings.join("\n");
    ensure!(warned.contains("growing.v2.0.0"), "the operator that exceeds the new account is not named: {warned}");
    upgrade_is_refused(world, &group, &["ServiceAccount swapped/other", "resources: [configmaps]"]).await?;
    world.replace(&other).await?;
    Ok(Some(format!("after the grant the upgrade took {:.1?}", group.succeeds(versions[2].name()).await?)))
}

async fn removed(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("removed").await?;
    let bundle = &world.package(MODEST)?.versions()[0];
    group.bounded(&[group.namespace()], &world.derived(&group, bundle, Mode::Own)?).await?;
    install(world, &group, MODEST, "c1").await?;
    group.succeeds(bundle.name()).await?;
    let manifest = group.manifest(&[group.namespace()], None);
    let mut of_tenant = manifest.clone();
    of_tenant["spec"]["serviceAccountName"] = json!("");
    let refused = world.as_tenant(&of_tenant).await?;
    ensure!(
        refused.code == 403 && refused.message().contains("denied the request"),
        "{} {}",
        refused.code,
        refused.message()
    );
    world.cluster.admin.apply(&manifest).await?;
    install(world, &group, GREEDY, "c1").await?;
    let greedy = &world.package(GREEDY)?.versions()[0];
    Ok(Some(format!("without the account the greedy one took {:.1?}", group.succeeds(greedy.name()).await?)))
}

async fn untrusted(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("untrusted").await?;
    let (greedy, modest) = (&world.package(GREEDY)?.versions()[0], &world.package(MODEST)?.versions()[0]);
    let all = [world.derived(&group, greedy, Mode::Own)?, world.derived(&group, modest, Mode::Own)?].concat();
    world.cluster.account(group.namespace(), "narrow").await?;
    group.bounded(&[group.namespace()], &all).await?;
    let mut manifest = group.manifest(&[group.namespace()], Some(&group.account()));
    manifest["metadata"]["annotations"] =
        json!({"operator-bounds/restrict": json!({"greedy.*": "narrow"}).to_string()});
    world.cluster.admin.apply(&manifest).await?;
    install(world, &group, GREEDY, "c1").await?;
    group.plan_says(GREEDY, greedy.name(), &["ServiceAccount untrusted/narrow", "resources: [secrets]"]).await?;
    ensure!(world.cluster.root.get(&group.csv(greedy.name())).await?.is_none(), "it was written");
    let narrow = crate::derive::for_account(&world.program, greedy, "untrusted/narrow", Mode::Own)?;
    world.apply(&narrow).await?;
    let took = group.succeeds(greedy.name()).await?;
    install(world, &group, MODEST, "c1").await?;
    group.succeeds(modest.name()).await?;
    Ok(Some(format!("granted to both, it took {took:.1?}")))
}

async fn missing_account(world: &World) -> anyhow::Result<Said> {
    let group = world.refusing("missing-account").await?;
    let bundle = &world.package(MODEST)?.versions()[0];
    world.apply(&[group.manifest(&[group.namespace()], Some(&group.account()))]).await?;
    install(world, &group, MODEST, "c1").await?;
    let plan = group.plan(MODEST, bundle.name()).await?;
    ensure!(
        world.cluster.root.get(&group.csv(bundle.name())).await?.is_none(),
        "{} was written",
        plan["metadata"]["name"]
    );
    group.bounded(&[group.namespace()], &world.derived(&group, bundle, Mode::Own)?).await?;
    Ok(Some(format!("with the account it took {:.1?}", group.succeeds(bundle.name()).await?)))
}
