//! The policy against the API server's own judgement: real operators' roles, written by an account that holds a part of them.
//!
//! The API server refuses a Role that gives more than its writer holds; the policy refuses one that gives more than the
//! account of the OperatorGroup holds. Where the writer is that account, both are the same question.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::stream::{self, StreamExt, TryStreamExt};
use http::Method;
use operator_bounds::engine::Limits;
use operator_bounds::manifests::Manifests;
use operator_bounds::policy::Policy;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use test_plane::Plane;
use tokio::time::{Instant, sleep};

use crate::draw::{Asked, Draw, Grant};
use crate::registration::PATIENCE;
use crate::report::Report;
use crate::support::rbac::Rule;
use crate::support::{cluster, items, judge, operators, raw, shared, text};
use test_plane::api::{Api, Key};

const RBAC: &str = "rbac.authorization.k8s.io";
const RBAC_V1: &str = "rbac.authorization.k8s.io/v1";
/// A group that nothing else has rules for: the API server shows them once it has seen the role that they are in.
const MARKER: &str = "marker.e2e.operator-bounds.example";
/// Accounts for each operator.
const ROUNDS: usize = 2;
/// Operators that are compared at the same time.
const AT_ONCE: usize = 4;
const FEWEST: usize = 300;

#[derive(Default)]
struct Tally {
    objects: usize,
    verdicts: usize,
    bounded: usize,
    refused: usize,
    escalating: usize,
    invalid: usize,
    wrong: Vec<String>,
}

/// Compares every operator of the corpus, with accounts that hold a part of what it asks for.
pub(crate) async fn run(seed: &str, report: &mut Report) -> anyhow::Result<()> {
    let Some(corpus) = shared("corpus", "OPERATOR_BOUNDS_CORPUS") else {
        test_parts::not_run("no operator was compared with the API server's judgement: there is no corpus");
        return Ok(());
    };
    let seed = if seed.is_empty() { fastrand::u64(..) } else { seed.parse().context("the seed is a number")? };
    println!("differential: seed {seed}");
    let csvs = operators::csvs(&corpus);
    let operators = csvs.len();
    let plane = Plane::start(&["--olm-v1=none", "--without-controllers"])?;
    let api = Api::connect(&plane.kubeconfig()).await?;
    let comparison = Arc::new(Comparison {
        baseline: baseline(&api).await?,
        policy: Policy::embedded(Limits { seconds: None, ..Limits::default() })?,
        kubeconfig: plane.kubeconfig(),
        api,
        seed,
    });
    let began = Instant::now();
    let rounds = (0..ROUNDS).flat_map(|round| csvs.iter().map(move |csv| (round, csv.clone())));
    let tallies: Vec<Tally> = stream::iter(rounds.enumerate())
        .map(|(number, (_, csv))| {
            let comparison = Arc::clone(&comparison);
            async move { tokio::spawn(async move { comparison.compare(number, &csv).await }).await? }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    report.took("differential", began.elapsed());
    summarise(&tallies, operators, seed, report);
    Ok(())
}

fn summarise(tallies: &[Tally], operators: usize, seed: u64, report: &mut Report) {
    let sum = |count: fn(&Tally) -> usize| tallies.iter().map(count).sum::<usize>();
    let (verdicts, wrong) = (sum(|tally| tally.verdicts), sum(|tally| tally.wrong.len()));
    report.say(format!(
        "differential (seed {seed}): {operators} ClusterServiceVersions, {} roles and bindings by accounts that hold a part of them\n  \
         {verdicts} verdicts compared with the API server's ({} bounded, {} refused): {} agree, {wrong} disagree\n  \
         of them {} objects by accounts that may escalate or bind; left out: {} objects that the API server's validation refuses",
        sum(|tally| tally.objects),
        sum(|tally| tally.bounded),
        sum(|tally| tally.refused),
        verdicts - wrong,
        sum(|tally| tally.escalating),
        sum(|tally| tally.invalid)
    ));
    if operators < FEWEST {
        report.failed("differential", &format!("only {operators} operators, at least {FEWEST} are wanted"));
    }
    for wrong in tallies.iter().flat_map(|tally| &tally.wrong) {
        report.failed("differential", &format!("seed {seed}: {wrong}"));
    }
}

/// The RBAC that every cluster comes with: it is part of what an account holds.
async fn baseline(api: &Api) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for kind in ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"] {
        let path = format!("/apis/{RBAC_V1}/{}s", kind.to_lowercase());
        let list = api.send(Method::GET, &path, None).await?.ok(&path)?.body;
        for mut object in items(&list, "/items").iter().cloned() {
            object["apiVersion"] = json!(RBAC_V1);
            object["kind"] = json!(kind);
            objects.push(object);
        }
    }
    Ok(objects)
}

struct Comparison {
    api: Api,
    kubeconfig: PathBuf,
    policy: Policy,
    baseline: Vec<Value>,
    seed: u64,
}

/// A namespace of its own for an operator, and an account that holds a part of what it asks for.
struct Setup {
    name: String,
    namespace: String,
    account: Api,
    /// How the account came to what it holds.
    grant: String,
    /// Everything that the policy can look up.
    state: Arc<Manifests>,
    /// What has to be deleted in the end; the rest is in the namespace, and in nobody's way.
    cluster_wide: Vec<Key>,
}

impl Comparison {
    async fn compare(&self, number: usize, csv: &Value) -> anyhow::Result<Tally> {
        let name = text(csv, "/metadata/name").to_owned();
        let mut draw = Draw::new(self.seed, number);
        let namespace = format!("op-{number}");
        let roles = roles(csv, &namespace, draw.coin());
        let grant = draw.grant(&rules(&roles));
        let setup = self.set_up(name.clone(), namespace, &grant, &roles).await.with_context(|| name.clone())?;
        let mut tally = Tally::default();
        for role in &roles {
            self.ask(&setup, role, &mut tally).await.with_context(|| name.clone())?;
            self.ask(&setup, &binding(role, &setup.namespace), &mut tally).await.with_context(|| name.clone())?;
        }
        for key in &setup.cluster_wide {
            self.api.delete(key).await?;
        }
        Ok(tally)
    }

    /// Puts the question to both, and compares.
    async fn ask(&self, setup: &Setup, object: &Value, tally: &mut Tally) -> anyhow::Result<()> {
        let key = Key::of(object);
        let mut written = object.clone();
        // The role itself is there already, for its binding: the one that the account writes has another name.
        if object["rules"].is_array() {
            written["metadata"]["name"] = json!(format!("{}-again", key.name));
        }
        let path = format!("{}?dryRun=All", self.api.collection(&key)?);
        let answer = setup.account.send(Method::POST, &path, Some(&written)).await?;
        let by_server = match answer.code {
            201 => true,
            403 if answer.message().contains("not currently held") => false,
            // A role that is not valid was not made, so its binding leads nowhere.
            400 | 404 | 422 => {
                tally.invalid += 1;
                return Ok(());
            }
            _ => bail!("{key}: {} {}", answer.code, answer.message()),
        };
        tally.objects += 1;
        // Where the account may escalate, the server and `ignore` differ on purpose.
        let escalates = setup.may_escalate(object).await?;
        tally.escalating += usize::from(escalates);
        let modes: &[&str] = if escalates { &["honor"] } else { &["ignore", "honor"] };
        for mode in modes {
            let settings = raw(&json!({"operatorGroups": {"escalation": mode}}));
            let judged = judge(&self.policy, &request(&written, &setup.namespace), &settings, &setup.state);
            let by_policy = judged.response.accepted;
            tally.verdicts += 1;
            *(if by_policy { &mut tally.bounded } else { &mut tally.refused }) += 1;
            if by_policy != by_server || (!by_policy && judged.fact("reason") != "exceeds") {
                let (said, code) = (answer.message(), answer.code);
                tally.wrong.push(format!(
                    "{}, {key}, escalation {mode}, {}\nserver: {code} {said}\npolicy: {by_policy} {}\nobject: {written}",
                    setup.name,
                    setup.grant,
                    judged.message()
                ));
            }
        }
        Ok(())
    }

    async fn set_up(&self, name: String, namespace: String, grant: &Grant, roles: &[Value]) -> anyhow::Result<Setup> {
        let api = &self.api;
        api.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await?;
        let mut objects = vec![
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer", "namespace": namespace}}),
            json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": "og", "namespace": namespace},
                "spec": {"serviceAccountName": "installer", "targetNamespaces": [namespace]}}),
        ];
        objects.extend(grant.objects(&namespace, MARKER));
        objects.extend(writer(&namespace));
        let mut live = Vec::new();
        for object in &objects {
            live.push(api.create(object).await?);
        }
        for role in roles {
            let path = api.collection(&Key::of(role))?;
            let answer = api.send(Method::POST, &path, Some(role)).await?;
            if answer.is_success() {
                live.push(answer.body);
            }
        }
        let token = api.token(&namespace, "installer").await?;
        let account = api.with_token(&self.kubeconfig, &token).await?;
        settled(&account, &namespace, grant.parts() + 1).await?;
        let state = cluster(self.baseline.iter().chain(&live));
        let cluster_wide = live.iter().map(Key::of).filter(|key| key.namespace.is_empty()).collect();
        Ok(Setup { name, namespace, account, grant: grant.to_string(), state, cluster_wide })
    }
}

impl Setup {
    /// Whether RBAC lets the account give what it does not hold, as the API server sees it.
    async fn may_escalate(&self, object: &Value) -> anyhow::Result<bool> {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let binds = object["roleRef"].is_object();
        let cluster_role = object["kind"] == "ClusterRole" || object["roleRef"]["kind"] == "ClusterRole";
        let attributes = json!({
            "group": RBAC, "version": "*", "verb": if binds { "bind" } else { "escalate" },
            "resource": if cluster_role { "clusterroles" } else { "roles" },
            "namespace": text(object, "/metadata/namespace"), "name": text(object, "/roleRef/name"),
        });
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes}});
        let answer = self.account.send(Method::POST, path, Some(&review)).await?.ok(&path)?;
        Ok(answer.body["status"]["allowed"] == true)
    }
}

/// Waits until the API server's authorizer has seen all roles that the account is bound to.
async fn settled(account: &Api, namespace: &str, roles: usize) -> anyhow::Result<()> {
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace}});
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = account.send(Method::POST, path, Some(&review)).await?;
        let rules = items(&answer.body, "/status/resourceRules").iter().map(Rule::read);
        let seen = rules.filter(|rule| rule.groups.iter().any(|group| group == MARKER)).count();
        if seen == roles {
            return Ok(());
        }
        if Instant::now() > end {
            bail!("the API server shows {seen} of {roles} roles: {} {}", answer.code, answer.message());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// The right to write roles and bindings, which gives none to hand on.
fn writer(namespace: &str) -> [Value; 2] {
    let name = format!("{namespace}-writer");
    let resources = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
    let rules = json!([{"apiGroups": [RBAC], "resources": resources, "verbs": ["create"]},
        {"apiGroups": [MARKER], "resources": ["writer"], "verbs": ["get"]}]);
    [
        json!({"apiVersion": RBAC_V1, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}),
        json!({"apiVersion": RBAC_V1, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": namespace}]}),
    ]
}

/// The Roles and ClusterRoles that OLM would make of the operator's permissions.
fn roles(csv: &Value, namespace: &str, labelled: bool) -> Vec<Value> {
    let mut roles = Vec::new();
    for (field, kind) in [("permissions", "Role"), ("clusterPermissions", "ClusterRole")] {
        let permissions = items(csv, &format!("/spec/install/spec/{field}"));
        for (number, permission) in permissions.iter().enumerate() {
            let mut metadata = json!({"name": format!("{namespace}-{}-{number}", kind.to_lowercase())});
            if kind == "Role" {
                metadata["namespace"] = json!(namespace);
            }
            if labelled {
                metadata["labels"] = json!({"olm.owner": csv["metadata"]["name"],
                    "olm.owner.kind": "ClusterServiceVersion", "olm.owner.namespace": namespace});
            }
            let rules: Vec<Value> = items(permission, "/rules").iter().map(|rule| Rule::read(rule).json()).collect();
            roles.push(json!({"apiVersion": RBAC_V1, "kind": kind, "metadata": metadata, "rules": rules}));
        }
    }
    roles
}

fn rules(roles: &[Value]) -> Vec<Asked> {
    let of_role = |role: &Value| {
        let wide = role["kind"] == "ClusterRole";
        items(role, "/rules").iter().map(move |rule| (wide, Rule::read(rule))).collect::<Vec<_>>()
    };
    roles.iter().flat_map(of_role).collect()
}

/// The binding that OLM would make to the role.
fn binding(role: &Value, namespace: &str) -> Value {
    let kind = format!("{}Binding", text(role, "/kind"));
    json!({"apiVersion": RBAC_V1, "kind": kind, "metadata": role["metadata"],
        "roleRef": {"apiGroup": RBAC, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": namespace}]})
}

/// The admission request that the API server would send for it.
fn request(object: &Value, namespace: &str) -> Box<RawValue> {
    let kind = text(object, "/kind");
    let mut request = json!({
        "uid": "0", "operation": "CREATE", "name": object["metadata"]["name"], "dryRun": true,
        "kind": {"group": RBAC, "version": "v1", "kind": kind},
        "resource": {"group": RBAC, "version": "v1", "resource": format!("{}s", kind.to_lowercase())},
        "userInfo": {"username": format!("system:serviceaccount:{namespace}:installer"), "groups": [
            "system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"]},
        "object": object,
    });
    if object["metadata"]["namespace"].is_string() {
        request["namespace"] = json!(namespace);
    }
    raw(&request)
}
