//! The gate beside the real OLM v0.

use anyhow::ensure;
use serde_json::json;
use test_olm::{Bundle, Cluster, Group, OlmV0, Package, Rule, Tiny};
use test_plane::api::Key;

use crate::gate;
use crate::program;

/// OLM, with a catalog that has an operator that asks for the same in every version but the last.
pub(crate) struct World<'c> {
    cluster: &'c Cluster,
    versions: Vec<Bundle>,
    long: Bundle,
    _olm: OlmV0,
}

fn version(version: &str) -> Tiny {
    Tiny::new("tiny", version).permission(Rule::on("", "configmaps", &["get", "list"]))
}

impl<'c> World<'c> {
    pub(crate) async fn start(cluster: &'c Cluster) -> anyhow::Result<Self> {
        let wider = version("3.0.0").permission(Rule::on("", "secrets", &["list"]));
        let versions = vec![version("1.0.0").bundle(), version("2.0.0").bundle(), wider.bundle()];
        let map = |number: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("long-{number}")}});
        let long = (0..195).fold(Tiny::new("long", "1.0.0"), |long, number| long.bringing(map(number))).bundle();
        let packages = [Package::new("tiny", versions.clone()), Package::new("long", vec![long.clone()])];
        let olm = OlmV0::start(cluster, &packages).await?;
        Ok(World { cluster, versions, long, _olm: olm })
    }

    /// A labelled namespace, with an OperatorGroup of its own namespace and its account.
    async fn group(&self, namespace: &str, mode: &str) -> anyhow::Result<Group<'_>> {
        let group = Group::new(self.cluster, namespace).await?;
        gate::label(self.cluster, namespace, mode).await?;
        group.bounded(&[namespace], &[]).await?;
        Ok(group)
    }

    /// Grants the account of a group what `derive` prints for a bundle.
    async fn grant(&self, group: &Group<'_>, bundle: &Bundle) -> anyhow::Result<()> {
        let account = format!("{}/{}", group.namespace(), group.account());
        for object in program::derive(bundle, &["--for", "serviceaccount", &account, "--install-mode", "OwnNamespace"])?
        {
            self.cluster.root.apply(&object).await?;
        }
        Ok(())
    }

    /// Subscribes to the channel of a version, and gives the place of the plan for it.
    async fn subscribe(&self, group: &Group<'_>, package: &str, bundle: &Bundle) -> anyhow::Result<Key> {
        group.subscribe(&self.cluster.root, package, &channel(bundle), "Manual").await?;
        Ok(Key::of(&group.plan(package, bundle.name()).await?))
    }
}

/// The channel that ends with a version: they are numbered like it.
fn channel(bundle: &Bundle) -> String {
    format!("c{}", bundle.version().split('.').next().unwrap_or_default())
}

pub(crate) async fn within_bounds(world: &World<'_>) -> anyhow::Result<()> {
    let mut running = program::gate(world.cluster, "gate-bounds").await?;
    running.acts()?;
    let [first, second, wider] = world.versions.as_slice() else { anyhow::bail!("three versions") };
    let group = world.group("bounded", "within-bounds").await?;
    let plan = world.subscribe(&group, "tiny", first).await?;
    let message =
        gate::waits(world.cluster, &plan, "asks for more than ServiceAccount bounded/bounded-installer allows").await?;
    ensure!(
        message.contains("resources: [configmaps]  verbs: [get, list]") && message.contains("operator-bounds derive"),
        "{message}"
    );
    println!("   a person sees:\n{}", indented(&message));
    let kinds = |events: &[(String, String, String)]| {
        let mut kinds: Vec<String> = events.iter().map(|(reason, kind, _)| format!("{reason} {kind}")).collect();
        kinds.sort();
        kinds
    };
    let told = ["InstallPlanWaits InstallPlan", "InstallPlanWaits OperatorGroup", "InstallPlanWaits Subscription"];
    let (events, _) = test_plane::eventually("all are told, once", std::time::Duration::from_mins(1), async || {
        let events = gate::events(world.cluster, "bounded").await?;
        Ok(if events.len() >= 3 { Ok(events) } else { Err(format!("{events:?}")) })
    })
    .await?;
    ensure!(kinds(&events) == told, "{events:?}");
    world.grant(&group, first).await?;
    let took = gate::approved(world.cluster, &plan).await?;
    let until = group.succeeds(first.name()).await?;
    println!("   granted: approved after {:.2} s, Succeeded {:.2} s later", took.as_secs_f32(), until.as_secs_f32());
    // In bounds but for the names that OLM gives the new version's roles, which derive grants by name.
    world.grant(&group, second).await?;
    let plan = world.subscribe(&group, "tiny", second).await?;
    gate::approved(world.cluster, &plan).await?;
    group.succeeds(second.name()).await?;
    let plan = world.subscribe(&group, "tiny", wider).await?;
    let message = gate::waits(world.cluster, &plan, "resources: [secrets]  verbs: [list]").await?;
    ensure!(!message.contains("verbs: [get, list]"), "only what is missing: {message}");
    world.grant(&group, wider).await?;
    gate::approved(world.cluster, &plan).await?;
    group.succeeds(wider.name()).await?;
    Ok(())
}

pub(crate) async fn no_wider(world: &World<'_>) -> anyhow::Result<()> {
    let mut running = program::gate(world.cluster, "gate-no-wider").await?;
    running.acts()?;
    let [first, second, wider] = world.versions.as_slice() else { anyhow::bail!("three versions") };
    let group = Group::new(world.cluster, "no-wider").await?;
    gate::label(world.cluster, "no-wider", "no-wider").await?;
    world.cluster.root.apply(&group.manifest(&["no-wider"], None)).await?;
    let plan = world.subscribe(&group, "tiny", first).await?;
    let message =
        gate::waits(world.cluster, &plan, "which is no upgrade of anything that is installed in no-wider").await?;
    ensure!(message.contains("kubectl patch installplan"), "{message}");
    world.cluster.root.patch(&plan, &json!({"spec": {"approved": true}})).await?;
    group.succeeds(first.name()).await?;
    let plan = world.subscribe(&group, "tiny", second).await?;
    gate::approved(world.cluster, &plan).await?;
    group.succeeds(second.name()).await?;
    let plan = world.subscribe(&group, "tiny", wider).await?;
    let message =
        gate::waits(world.cluster, &plan, "which asks for more than the installed version tiny.v2.0.0 holds").await?;
    println!("   a person sees:\n{}", indented(&message));
    let rules: Vec<&str> = message.lines().filter(|line| line.contains("apiGroups:")).collect();
    ensure!(
        rules.len() == 1 && rules[0].contains("resources: [secrets]  verbs: [list]"),
        "exactly what is new: {message}"
    );
    Ok(())
}

pub(crate) async fn accounts(world: &World<'_>) -> anyhow::Result<()> {
    let mut running = program::gate(world.cluster, "gate-accounts").await?;
    running.acts()?;
    let first = &world.versions[0];
    let group = Group::new(world.cluster, "unbounded").await?;
    gate::label(world.cluster, "unbounded", "within-bounds").await?;
    world.cluster.root.apply(&group.manifest(&["unbounded"], None)).await?;
    let plan = world.subscribe(&group, "tiny", first).await?;
    gate::waits(world.cluster, &plan, "names no service account").await?;
    // With an account that is there, and then with one that is not.
    world.cluster.account("unbounded", &group.account()).await?;
    world.cluster.root.apply(&group.manifest(&["unbounded"], Some(&group.account()))).await?;
    gate::waits(world.cluster, &plan, "asks for more than ServiceAccount unbounded/unbounded-installer").await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": group.account(), "namespace": "unbounded"}});
    world.cluster.root.delete(&Key::of(&account)).await?;
    gate::waits(world.cluster, &plan, "does not exist").await?;
    world.cluster.root.apply(&account).await?;
    world.grant(&group, first).await?;
    gate::approved(world.cluster, &plan).await?;
    Ok(())
}

pub(crate) async fn many_steps(world: &World<'_>) -> anyhow::Result<()> {
    let mut running = program::gate(world.cluster, "gate-steps").await?;
    running.acts()?;
    let group = world.group("steps", "within-bounds").await?;
    let plan = world.subscribe(&group, "long", &world.long).await?;
    gate::waits(world.cluster, &plan, "resources: [configmaps]").await?;
    world.grant(&group, &world.long).await?;
    let took = gate::approved(world.cluster, &plan).await?;
    println!("   approved {:.2} s after the grant", took.as_secs_f32());
    group.succeeds(world.long.name()).await?;
    Ok(())
}

pub(crate) async fn replicas(world: &World<'_>) -> anyhow::Result<()> {
    let mut first = program::gate(world.cluster, "gate-one").await?;
    first.acts()?;
    let mut second = program::gate(world.cluster, "gate-two").await?;
    let group = world.group("replicas", "within-bounds").await?;
    let plan = world.subscribe(&group, "tiny", &world.versions[0]).await?;
    gate::waits(world.cluster, &plan, "asks for more").await?;
    drop(first);
    world.grant(&group, &world.versions[0]).await?;
    gate::approved(world.cluster, &plan).await?;
    second.acts()?;
    group.succeeds(world.versions[0].name()).await?;
    let approvals = world.cluster.audit.events()?.into_iter().filter(|event| {
        let approves = event.request_object.as_ref().is_some_and(|object| object["spec"]["approved"] == true);
        event.name() == plan.name
            && event.namespace() == "replicas"
            && approves
            && event.code() < 300
            && event.verb == "patch"
    });
    ensure!(approvals.count() == 1, "approved once");
    let memory = second.process.memory()?;
    println!("   {} MiB now, {} MiB at most", memory.0, memory.1);
    Ok(())
}

fn indented(message: &str) -> String {
    message.lines().map(|line| format!("     {line}\n")).collect()
}
