//! What only a live server shows. Each case is a sentence; the registrations are the ones that are shipped.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures::future::{FutureExt, LocalBoxFuture, try_join_all};
use http::Method;
use operator_bounds::documents;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::host::Kind;
use crate::registration::PATIENCE;
use crate::report::Report;
use crate::world::{
    PODS, RBAC_V1, WRITERS, World, account, binding, cluster_role, csv, group, operator_group, role, rules, tenant,
    user, verdict,
};
use test_parts::root;
use test_plane::api::{Answer, Key, Sender};
use test_plane::eventually;

/// What a case says besides that it holds: a figure.
type Said = Option<String>;
type Case = (&'static str, for<'w> fn(&'w World<'w>) -> LocalBoxFuture<'w, anyhow::Result<Said>>);

const OLM_V1: &str = "system:serviceaccount:olmv1-system:operator-controller-controller-manager";
/// How often a race is run.
const RACES: usize = 20;

const CASES: [Case; 24] = [
    ("a refusal reaches the person at kubectl in full", |w| refusal_in_kubectl(w).boxed_local()),
    ("a warning is printed by kubectl", |w| warning_in_kubectl(w).boxed_local()),
    ("a refusal has code 403", |w| code(w).boxed_local()),
    ("a dry run is judged, and writes nothing", |w| dry_run(w).boxed_local()),
    ("server-side apply is judged when it creates and when it asks for more", |w| server_side_apply(w).boxed_local()),
    ("applying the same again is admitted though the account has lost its rights", |w| no_op(w).boxed_local()),
    ("kubectl --as and --as-group are the identity that the guard looks at", |w| impersonation(w).boxed_local()),
    ("an account's token is the identity of what it writes", |w| token(w).boxed_local()),
    ("an object with a generated name is judged", |w| generate_name(w).boxed_local()),
    ("a right that is granted is seen soon", |w| granted_a_moment_ago(w).boxed_local()),
    ("a right that is taken out of a role counts no more, at once", |w| taken_from_a_role(w).boxed_local()),
    ("a binding that is deleted counts no more, soon", |w| unbound_a_moment_ago(w).boxed_local()),
    ("an aggregated ClusterRole counts once it is filled", |w| aggregated(w).boxed_local()),
    ("200 at once: nothing is wrongly admitted, nothing wrongly refused", |w| many_at_once(w).boxed_local()),
    ("an approval with kubectl patch is judged, and a status never is", |w| approval(w).boxed_local()),
    ("what OLM v1 writes for an extension is bounded, what others write is not looked at", |w| {
        extension(w).boxed_local()
    }),
    ("a Helm hook of OLM v1, and what it would delete for nobody, are refused", |w| hooks(w).boxed_local()),
    ("the strip registration takes the field out, and says so", |w| strip(w).boxed_local()),
    ("a namespace with operators goes away when it is deleted", |w| deletion(w).boxed_local()),
    (
        "without one of its rights the policy server refuses, and says which look-up failed; given back it goes on",
        |w| without_a_right(w).boxed_local(),
    ),
    ("the audit scanner, with the RBAC that is shipped for it, reports what has come to exceed its account", |w| {
        scanned(w).boxed_local()
    }),
    ("while look-ups fail an administrator restores the RBAC of the policy server", |w| way_back(w).boxed_local()),
    ("after a restart of the API server everything is judged as before", |w| restarted(w).boxed_local()),
    ("with the webhook down what it judges is refused, the rest goes on, and it recovers", |w| down(w).boxed_local()),
];

/// Runs the cases whose sentence begins like this.
pub(crate) async fn run(kind: &Kind, filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let world = World::start(kind).await?;
    let began = Instant::now();
    let (mut ran, mut held) = (0, 0);
    for (sentence, case) in CASES.iter().filter(|(sentence, _)| sentence.starts_with(filter)) {
        ran += 1;
        match case(&world).await {
            Ok(said) => {
                held += 1;
                println!("ok    {sentence}{}", said.map(|said| format!(": {said}")).unwrap_or_default());
            }
            Err(error) => report.failed(sentence, &format!("{error:#}")),
        }
    }
    report.took("live cases", began.elapsed());
    report.say(format!("live cases: {held} of {ran} hold"));
    Ok(())
}

fn holds(said: &str, words: &[&str]) -> anyhow::Result<()> {
    for word in words {
        ensure!(said.contains(word), "not said: {word}\n{said}");
    }
    Ok(())
}

fn refused(verdict: Result<(), String>, words: &[&str]) -> anyhow::Result<()> {
    match verdict {
        Ok(()) => anyhow::bail!("admitted, though it should be refused with {words:?}"),
        Err(message) => holds(&message, words),
    }
}

fn admitted(verdict: Result<(), String>) -> anyhow::Result<()> {
    verdict.map_err(|message| anyhow::anyhow!("refused: {message}"))
}

/// Arguments of kubectl, to be a tenant.
fn as_tenant<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &["--as", "tenant", "--as-group", WRITERS]].concat()
}

async fn refusal_in_kubectl(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let object = csv(&team, "greedy.v1.0.0", &["pods", "secrets"]);
    let printed = world.kubectl(&as_tenant(&["create", "-f", "-"]), Some(&object)).await?;
    ensure!(!printed.status.success(), "kubectl says that it worked");
    let printed = String::from_utf8_lossy(&printed.stderr).into_owned();
    let rule = "apiGroups: [\"\"]  resources: [secrets]  verbs: [get, list]";
    holds(&printed, &["asks for more than ServiceAccount", &format!("in namespace {team}"), rule, "Grant it with:"])?;
    ensure!(!printed.contains("resources: [pods"), "it lists what is held too: {printed}");
    Ok(None)
}

async fn warning_in_kubectl(world: &World<'_>) -> anyhow::Result<Said> {
    let namespace = world.namespace().await?;
    let object = operator_group(&namespace, None);
    let printed = world.kubectl(&as_tenant(&["create", "-f", "-"]), Some(&object)).await?;
    let (out, err) = (String::from_utf8_lossy(&printed.stdout), String::from_utf8_lossy(&printed.stderr));
    ensure!(printed.status.success(), "{err}");
    holds(&out, &["operatorgroup.operators.coreos.com/og created"])?;
    let line = err.lines().find(|line| line.starts_with("Warning: ")).with_context(|| format!("no warning: {err}"))?;
    Ok(Some(line.to_owned()))
}

async fn code(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let answer = world.create(&csv(&team, "greedy.v1.0.0", &["secrets"]), "").await?;
    ensure!(answer.code == 403, "{} {}", answer.code, answer.message());
    refused(verdict(&answer)?, &["asks for more"])?;
    Ok(None)
}

async fn dry_run(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let flags = as_tenant(&["create", "--dry-run=server", "-f", "-"]);
    let within = csv(&team, "modest.v1.0.0", &PODS);
    let printed = world.kubectl(&flags, Some(&within)).await?;
    ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    ensure!(world.api.get(&Key::of(&within)).await?.is_none(), "a dry run has written");
    let printed = world.kubectl(&flags, Some(&csv(&team, "greedy.v1.0.0", &["secrets"]))).await?;
    ensure!(!printed.status.success(), "a dry run admits what exceeds");
    holds(&String::from_utf8_lossy(&printed.stderr), &["asks for more"])?;
    Ok(None)
}

async fn apply(world: &World<'_>, object: &Value, manager: &str) -> anyhow::Result<Answer> {
    let path = format!("{}?fieldManager={manager}", world.api.path(&Key::of(object))?);
    world.api.send_as(Some(&tenant()), Method::PATCH, &path, Some(object)).await
}

async fn server_side_apply(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let greedy = |name: &str| csv(&team, name, &["pods", "secrets"]);
    refused(verdict(&apply(world, &greedy("a.v1"), "gitops").await?)?, &["resources: [secrets]"])?;
    admitted(verdict(&apply(world, &csv(&team, "b.v1", &PODS), "gitops").await?)?)?;
    refused(verdict(&apply(world, &greedy("b.v1"), "gitops").await?)?, &["resources: [secrets]"])?;
    Ok(None)
}

async fn no_op(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let object = csv(&team, "b.v1", &PODS);
    admitted(verdict(&apply(world, &object, "gitops").await?)?)?;
    take_everything(world, &team).await?;
    refused(world.judged(&csv(&team, "c.v1", &PODS), "?dryRun=All").await?, &["resources: [pods]"])?;
    admitted(verdict(&apply(world, &object, "gitops").await?)?)?;
    // Another manager that adds a label owns that field alone, and asks for nothing.
    let mut labelled =
        json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": object["metadata"]});
    labelled["metadata"]["labels"] = json!({"team": "a"});
    let path = format!("{}?fieldManager=labels", world.api.path(&Key::of(&object))?);
    let answer = world.api.send_as(Some(&tenant()), Method::PATCH, &path, Some(&labelled)).await?;
    admitted(verdict(&answer)?)?;
    Ok(None)
}

/// The role of the group's account gives nothing any more.
async fn take_everything(world: &World<'_>, team: &str) -> anyhow::Result<()> {
    let role = role(team, "installer", &[]);
    let path = world.api.path(&Key::of(&role))?;
    world.api.send(Method::PUT, &path, Some(&role)).await?.ok(&"role")?;
    Ok(())
}

async fn impersonation(world: &World<'_>) -> anyhow::Result<Said> {
    let platform = "e2e:platform";
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    world.api.create(&cluster_role(platform, &everything)).await?;
    world.api.create(&binding(None, platform, ("ClusterRole", platform), &group(platform))).await?;
    let namespace = world.namespace().await?;
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": namespace}}),
        role(&namespace, "installer", &["secrets"]),
        binding(Some(&namespace), "installer", ("Role", "installer"), &account(&namespace, "installer")),
    ] {
        world.api.create(&object).await?;
    }
    let object = operator_group(&namespace, Some("installer"));
    let create = ["create", "--dry-run=server", "-f", "-"];
    world
        .eventually("a tenant may not choose a boundary that holds more", async || {
            let printed = world.kubectl(&as_tenant(&create), Some(&object)).await?;
            let said = String::from_utf8_lossy(&printed.stderr).into_owned();
            Ok(if said.contains("denied the request") { Ok(()) } else { Err(said) })
        })
        .await?;
    world
        .eventually("a member of the platform's group may", async || {
            let mut flags = as_tenant(&create);
            flags.extend(["--as-group", platform]);
            let printed = world.kubectl(&flags, Some(&object)).await?;
            Ok(if printed.status.success() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&printed.stderr).into_owned())
            })
        })
        .await?;
    Ok(None)
}

async fn token(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    // The API server would refuse it itself, but for this: `escalate` is what the policy does not honour.
    let may =
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "escalate"]}]);
    let name = format!("{team}-writer");
    world.api.create(&cluster_role(&name, &may)).await?;
    world.api.create(&binding(Some(&team), &name, ("ClusterRole", &name), &account(&team, "installer"))).await?;
    let installer = world.with_token_of(&team, "installer").await?;
    let send = async |object: Value| {
        let path = format!("{}?dryRun=All", installer.collection(&Key::of(&object))?);
        installer.send(Method::POST, &path, Some(&object)).await
    };
    world
        .eventually("the account may write what it holds", async || {
            let answer = send(role(&team, "within", &PODS)).await?;
            Ok(if answer.is_success() { Ok(()) } else { Err(answer.message().to_owned()) })
        })
        .await?;
    refused(verdict(&send(role(&team, "beyond", &["secrets"])).await?)?, &["resources: [secrets]"])?;
    Ok(None)
}

async fn generate_name(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let unnamed = |resources: &[&str]| {
        let mut object = csv(&team, "", resources);
        object["metadata"] = json!({"generateName": "some-", "namespace": team});
        object
    };
    refused(world.judged(&unnamed(&["secrets"]), "").await?, &["resources: [secrets]"])?;
    let answer = world.create(&unnamed(&PODS), "").await?;
    admitted(verdict(&answer)?)?;
    let name = answer.body["metadata"]["name"].as_str().unwrap_or_default();
    ensure!(name.starts_with("some-") && name.len() > 5, "named {name}");
    Ok(None)
}

/// The longest, and the one in the middle.
fn lag(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |index: usize| times.get(index).copied().unwrap_or_default().as_millis();
    format!("{} ms in the middle, {} ms at most", at(times.len() / 2), at(times.len().saturating_sub(1)))
}

async fn granted_a_moment_ago(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let mut times = Vec::new();
    for number in 0..RACES {
        let wanted = format!("things{number}");
        let name = format!("more-{number}");
        let object = csv(&team, &name, &[&wanted]);
        refused(world.judged(&object, "?dryRun=All").await?, &[&wanted])?;
        world.api.create(&role(&team, &name, &[&wanted])).await?;
        world.api.create(&binding(Some(&team), &name, ("Role", &name), &account(&team, "installer"))).await?;
        let seen = world.eventually("the grant is seen", async || world.judged(&object, "?dryRun=All").await).await?;
        times.push(seen.1);
    }
    Ok(Some(format!("{RACES} times, after {}", lag(times))))
}

async fn taken_from_a_role(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let path = world.api.path(&Key::of(&role(&team, "installer", &PODS)))?;
    for number in 0..RACES {
        let object = csv(&team, &format!("late-{number}"), &PODS);
        admitted(world.judged(&object, "?dryRun=All").await?)?;
        world.api.send(Method::PUT, &path, Some(&role(&team, "installer", &[]))).await?.ok(&"role")?;
        refused(world.judged(&object, "").await?, &["resources: [pods]"])?;
        world.api.send(Method::PUT, &path, Some(&role(&team, "installer", &PODS))).await?.ok(&"role")?;
    }
    Ok(Some(format!("{RACES} times, never admitted")))
}

async fn unbound_a_moment_ago(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let bound = binding(Some(&team), "installer", ("Role", "installer"), &account(&team, "installer"));
    let mut times = Vec::new();
    for number in 0..RACES {
        let object = csv(&team, &format!("late-{number}"), &PODS);
        world.api.delete(&Key::of(&bound)).await?;
        let ((), time) = world
            .eventually("the deletion is seen", async || {
                Ok(match world.judged(&object, "?dryRun=All").await? {
                    Ok(()) => Err("still admitted".to_owned()),
                    Err(message) => holds(&message, &["resources: [pods]"]).map_err(|error| error.to_string()),
                })
            })
            .await?;
        times.push(time);
        world.api.create(&bound).await?;
        world.eventually("it is bound again", async || world.judged(&object, "?dryRun=All").await).await?;
    }
    Ok(Some(format!("{RACES} times, after {}", lag(times))))
}

async fn aggregated(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let whole = json!({"apiVersion": RBAC_V1, "kind": "ClusterRole", "metadata": {"name": "e2e-whole"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"e2e": "part"}}]}});
    world.api.create(&whole).await?;
    world
        .api
        .create(&binding(Some(&team), "whole", ("ClusterRole", "e2e-whole"), &account(&team, "installer")))
        .await?;
    let object = csv(&team, "aggregated", &["configmaps"]);
    refused(world.judged(&object, "?dryRun=All").await?, &["resources: [configmaps]"])?;
    let mut part = cluster_role("e2e-part", &rules(&["configmaps"]));
    part["metadata"]["labels"] = json!({"e2e": "part"});
    world.api.create(&part).await?;
    let ((), time) =
        world.eventually("the role is filled", async || world.judged(&object, "?dryRun=All").await).await?;
    Ok(Some(format!("after {} ms", time.as_millis())))
}

async fn many_at_once(world: &World<'_>) -> anyhow::Result<Said> {
    const COUNT: usize = 200;
    let teams = [world.team(&PODS).await?, world.team(&["secrets"]).await?];
    let exceeds = |number: usize| number.is_multiple_of(3);
    let began = Instant::now();
    // What one team's account holds is too much for the other's.
    let object = |number: usize| {
        let team = number % 2;
        let resource = if (team == 0) == exceeds(number) { "secrets" } else { "pods" };
        csv(&teams[team], &format!("op-{number}"), &[resource])
    };
    let objects: Vec<Value> = (0..COUNT).map(object).collect();
    let verdicts = try_join_all(objects.iter().map(|object| world.judged(object, ""))).await?;
    let wrong: Vec<usize> = (0..COUNT).filter(|number| verdicts[*number].is_ok() == exceeds(*number)).collect();
    ensure!(wrong.is_empty(), "wrong verdicts for {wrong:?}: {:?}", wrong.first().map(|number| &verdicts[*number]));
    let refusals = verdicts.iter().filter(|verdict| verdict.is_err()).count();
    Ok(Some(format!("{} admitted, {refusals} refused in {:.1?}", COUNT - refusals, began.elapsed())))
}

async fn approval(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let manifest = csv(&team, "greedy.v1.0.0", &["secrets"]).to_string();
    let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": "install-1", "namespace": team},
        "spec": {"approval": "Manual", "approved": false, "clusterServiceVersionNames": ["greedy.v1.0.0"]}});
    let mut live = world.api.create(&plan).await?;
    live["status"] = json!({"phase": "RequiresApproval", "catalogSources": [], "plan": [{"resolving": "greedy.v1.0.0", "status": "Unknown",
        "resource": {"group": "operators.coreos.com", "version": "v1alpha1", "kind": "ClusterServiceVersion",
            "name": "greedy.v1.0.0", "manifest": manifest, "sourceName": "some", "sourceNamespace": "olm"}}]});
    let status = format!("{}/status", world.api.path(&Key::of(&plan))?);
    let olm = Sender {
        user: "system:serviceaccount:olm:olm-operator-serviceaccount".to_owned(),
        groups: vec![WRITERS.to_owned()],
        extra: Vec::new(),
    };
    let written = world.api.send_as(Some(&olm), Method::PUT, &status, Some(&live)).await?;
    admitted(verdict(&written)?)?;
    let approve =
        ["patch", "installplan", "install-1", "-n", &team, "--type=merge", "-p", "{\"spec\":{\"approved\":true}}"];
    let printed = world.kubectl(&as_tenant(&approve), None).await?;
    ensure!(!printed.status.success(), "the approval is admitted");
    holds(&String::from_utf8_lossy(&printed.stderr), &["denied the request", "greedy.v1.0.0", "resources: [secrets]"])?;
    Ok(None)
}

async fn extension(world: &World<'_>) -> anyhow::Result<Said> {
    let namespace = world.namespace().await?;
    let name = format!("ext-{namespace}");
    let extension = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": name},
        "spec": {"namespace": namespace, "source": {"sourceType": "Catalog", "catalog": {"packageName": "some"}}}});
    world.api.create(&extension).await?;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "some", "namespace": namespace,
        "labels": {"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": name}}});
    let olm = Sender { user: OLM_V1.to_owned(), groups: vec![WRITERS.to_owned()], extra: Vec::new() };
    let path = format!("{}?dryRun=All", world.api.collection(&Key::of(&object))?);
    let write = async || verdict(&world.api.send_as(Some(&olm), Method::POST, &path, Some(&object)).await?);
    refused(write().await?, &["configmaps", &format!("olm:clusterextension:{name}")])?;
    admitted(verdict(&world.create(&object, "?dryRun=All").await?)?)?;
    let may = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]);
    world.api.create(&cluster_role(&name, &may)).await?;
    let subject = user(&format!("olm:clusterextension:{name}"));
    world.api.create(&binding(Some(&namespace), &name, ("ClusterRole", &name), &subject)).await?;
    let ((), time) = world.eventually("what was granted may be written", write).await?;
    Ok(Some(format!("admitted {} ms after it was granted", time.as_millis())))
}

/// OLM v1's own account, with the rights that it has.
async fn olm_v1(world: &World<'_>) -> anyhow::Result<Sender> {
    let rights = binding(None, "olm-v1", ("ClusterRole", "cluster-admin"), &user(OLM_V1));
    world.api.apply(&rights).await?;
    Ok(Sender { user: OLM_V1.to_owned(), groups: vec![WRITERS.to_owned()], extra: Vec::new() })
}

async fn hooks(world: &World<'_>) -> anyhow::Result<Said> {
    let olm = olm_v1(world).await?;
    let namespace = world.namespace().await?;
    let send = async |method: Method, object: &Value| {
        let key = Key::of(object);
        let place = if method == Method::DELETE { world.api.path(&key)? } else { world.api.collection(&key)? };
        let body = (method != Method::DELETE).then_some(object);
        verdict(&world.api.send_as(Some(&olm), method, &format!("{place}?dryRun=All"), body).await?)
    };
    let mut hook = binding(None, "takeover", ("ClusterRole", "cluster-admin"), &account(&namespace, "default"));
    hook["metadata"]["annotations"] = json!({"helm.sh/hook": "post-install"});
    refused(send(Method::POST, &hook).await?, &["ClusterRoleBinding takeover is a Helm hook"])?;
    let theirs = cluster_role(&namespace, &rules(&PODS));
    world.api.create(&theirs).await?;
    refused(send(Method::DELETE, &theirs).await?, &["OLM may not delete ClusterRole", "no owner labels"])?;
    let mut owned = cluster_role(&format!("{namespace}-owned"), &rules(&PODS));
    owned["metadata"]["labels"] = json!({"olm.operatorframework.io/owner-kind": "ClusterExtension",
        "olm.operatorframework.io/owner-name": "gone"});
    world.api.create(&owned).await?;
    admitted(send(Method::DELETE, &owned).await?)?;
    Ok(None)
}

/// What gives the policy server its rights.
fn policy_server_bindings() -> anyhow::Result<Vec<Value>> {
    let shipped = documents::read(&root().join("policy-metadata/policy-server-rbac.yaml"))?;
    let is_binding = |object: &Value| object["kind"].as_str().is_some_and(|kind| kind.ends_with("RoleBinding"));
    let bindings: Vec<Value> = shipped.into_iter().filter(is_binding).collect();
    ensure!(!bindings.is_empty(), "policy-server-rbac.yaml has no binding");
    Ok(bindings)
}

async fn way_back(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let object = csv(&team, "some.v1.0.0", &PODS);
    let bindings = policy_server_bindings()?;
    for binding in &bindings {
        world.api.delete(&Key::of(binding)).await?;
    }
    let failing = world
        .eventually("look-ups fail", async || {
            Ok(match world.judged(&object, "?dryRun=All").await? {
                Err(message) if message.contains("a look-up failed") => Ok(()),
                other => Err(format!("{other:?}")),
            })
        })
        .await;
    // The cases that follow need it, whatever became of this one.
    for binding in &bindings {
        world.api.create(binding).await?;
    }
    failing?;
    world.eventually("it is judged again", async || world.judged(&object, "?dryRun=All").await).await?;
    Ok(None)
}

async fn strip(world: &World<'_>) -> anyhow::Result<Said> {
    let namespace = world.namespace().await?;
    let object = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "metadata": {"name": "stripped"},
        "spec": {"namespace": namespace, "serviceAccount": {"name": "some"},
            "source": {"sourceType": "Catalog", "catalog": {"packageName": "some"}}}});
    let answer = world.api.send(Method::POST, &world.api.collection(&Key::of(&object))?, Some(&object)).await?;
    ensure!(answer.is_success(), "{} {}", answer.code, answer.message());
    ensure!(answer.body["spec"]["serviceAccount"].is_null(), "it is still there: {}", answer.body["spec"]);
    holds(&answer.warnings.join("\n"), &["spec.serviceAccount"])?;
    Ok(None)
}

async fn deletion(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    admitted(world.judged(&csv(&team, "some.v1.0.0", &PODS), "").await?)?;
    take_everything(world, &team).await?;
    let key = Key { api_version: "v1".to_owned(), kind: "Namespace".to_owned(), namespace: String::new(), name: team };
    world.api.delete(&key).await?;
    let ((), time) = world
        .eventually("the namespace is gone", async || {
            Ok(world.api.get(&key).await?.map_or(Ok(()), |namespace| Err(namespace["status"].to_string())))
        })
        .await?;
    Ok(Some(format!("after {:.1} s", time.as_secs_f64())))
}

async fn without_a_right(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let key = Key::of(&cluster_role("operator-bounds-policy-server", &json!([])));
    let shipped = world.api.get(&key).await?.context("the policy server has no ClusterRole")?;
    let rules = shipped["rules"].as_array().into_iter().flatten();
    let fewer: Vec<&Value> = rules.filter(|rule| rule["resources"] != json!(["clusterroles", "roles"])).collect();
    world.api.patch(&key, &json!({"rules": fewer})).await?;
    let object = csv(&team, "some.v1.0.0", &PODS);
    let noticed = world.eventually("the right is missed", async || {
        Ok(match world.judged(&object, "?dryRun=All").await? {
            Ok(()) => Err("it is admitted".to_owned()),
            Err(message) => Ok(message),
        })
    });
    let message = noticed.await;
    world.api.patch(&key, &json!({"rules": shipped["rules"]})).await?;
    let (message, _) = message?;
    holds(&message, &["look-up", "Role"])?;
    world.eventually("it goes on", async || world.judged(&object, "?dryRun=All").await).await?;
    Ok(message.lines().next().map(str::to_owned))
}

async fn scanned(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    admitted(world.judged(&csv(&team, "drifted.v1.0.0", &PODS), "").await?)?;
    let healthy = world.audit(&team).await?;
    ensure!(
        healthy.iter().any(|(what, _)| what == "ClusterServiceVersion drifted.v1.0.0"),
        "the operator was not audited: {healthy:?}"
    );
    ensure!(healthy.iter().all(|(_, failed)| failed.is_none()), "a failure where there is none: {healthy:?}");
    take_everything(world, &team).await?;
    let drifted = world.audit(&team).await?;
    let failed: Vec<&(String, Option<String>)> = drifted.iter().filter(|(_, failed)| failed.is_some()).collect();
    let [(what, Some(message))] = failed[..] else {
        anyhow::bail!("not the one failure that is expected: {drifted:?}")
    };
    ensure!(what == "ClusterServiceVersion drifted.v1.0.0", "{what}: {message}");
    holds(message, &["asks for more than ServiceAccount", "resources: [pods]"])?;
    Ok(Some(format!("{} objects of a namespace", drifted.len())))
}

async fn restarted(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    world.restart()?;
    let (within, beyond) = (csv(&team, "within.v1.0.0", &PODS), csv(&team, "beyond.v1.0.0", &["secrets"]));
    // Connections break, and webhooks may not be known yet: neither is a verdict.
    let (_, took) = eventually("it is asked again", PATIENCE, async || {
        Ok(match world.judged(&beyond, "?dryRun=All").await {
            Ok(Err(message)) => Ok(message),
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    admitted(world.judged(&within, "").await?)?;
    refused(world.judged(&beyond, "").await?, &["resources: [secrets]"])?;
    // The watches have come back as well: what is new is seen.
    let other = world.team(&["secrets"]).await?;
    admitted(world.judged(&csv(&other, "new.v1.0.0", &["secrets"]), "").await?)?;
    Ok(Some(format!("judged again {took:.1?} after it was ready")))
}

async fn down(world: &World<'_>) -> anyhow::Result<Said> {
    let team = world.team(&PODS).await?;
    let there = csv(&team, "there.v1.0.0", &PODS);
    admitted(world.judged(&there, "").await?)?;
    let olm = olm_v1(world).await?;
    world.stop_host().await;
    let outcome = while_down(world, &team, &there, &olm).await;
    world.start_host().await?;
    outcome?;
    let object = csv(&team, "some.v1.0.0", &PODS);
    world.eventually("it recovers", async || world.judged(&object, "").await).await?;
    refused(world.judged(&csv(&team, "greedy.v1.0.0", &["secrets"]), "").await?, &["resources: [secrets]"])?;
    Ok(None)
}

async fn while_down(world: &World<'_>, team: &str, there: &Value, olm: &Sender) -> anyhow::Result<()> {
    let answer = world.create(&csv(team, "some.v1.0.0", &PODS), "").await?;
    ensure!(answer.code == 500, "{} {}", answer.code, answer.message());
    holds(answer.message(), &["failed calling webhook"])?;
    // RBAC of an operator is judged; anybody else's is not even sent.
    let mut owned = role(team, "owned", &PODS);
    owned["metadata"]["labels"] = json!({"olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": team});
    let answer = world.api.send(Method::POST, &world.api.collection(&Key::of(&owned))?, Some(&owned)).await?;
    holds(answer.message(), &["failed calling webhook"])?;
    world.api.create(&role(team, "plain", &PODS)).await?;
    world.api.create(&binding(Some(team), "plain", ("Role", "plain"), &user("somebody"))).await?;
    let some = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "some", "namespace": team}});
    ensure!(world.create(&some, "").await?.is_success(), "a ConfigMap cannot be written");
    // An administrator in system:masters restores the policy server's RBAC; who only holds everything has to wait.
    for object in policy_server_bindings()? {
        let plain = ["--context", "operator-bounds-plain", "replace", "-f", "-"];
        let plain = world.kubectl(&plain, Some(&object)).await?;
        holds(&String::from_utf8_lossy(&plain.stderr), &["failed calling webhook"])?;
        world.api.apply(&object).await?;
    }
    // OLM v1 keeps its leadership; what may be an extension's waits.
    let write = async |object: &Value| {
        world.api.send_as(Some(olm), Method::POST, &world.api.collection(&Key::of(object))?, Some(object)).await
    };
    world.api.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "olmv1-system"}})).await?;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "leader", "namespace": "olmv1-system"}, "spec": {}});
    ensure!(write(&lease).await?.is_success(), "OLM v1 cannot write its Lease");
    let chunk = json!({"apiVersion": "v1", "kind": "Secret", "type": "operatorframework.io/chunk.v1",
        "metadata": {"name": "chunk", "namespace": "olmv1-system"}});
    ensure!(write(&chunk).await?.is_success(), "OLM v1 cannot write a part of a release");
    let unlabelled =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "some", "namespace": "olmv1-system"}});
    holds(write(&unlabelled).await?.message(), &["failed calling webhook"])?;
    // Nor is anybody kept from cleaning up.
    world.api.delete(&Key::of(there)).await?;
    Ok(())
}
