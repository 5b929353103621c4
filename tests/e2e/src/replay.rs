//! Every scenario directory once more, on a real API server.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use bounds::olm::definition;
use http::Method;
use operator_bounds::documents;
use operator_bounds::host::{ListResources, Request};
use operator_bounds::policy::{MODULE, Policy};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use test_kubewarden::Versions;
use test_plane::Plane;
use test_plane::api::{Answer, Api, Key};
use test_plane::audit::{Annotations, AuditLog, Detail};
use tokio::time::{Instant, sleep};

use crate::authorizer::{Authorizer, SETTINGS};
use crate::case::{Case, find};
use crate::complete::Schemas;
use crate::host::{Host, Kind, Shown};
use crate::registration::{self, PATIENCE};
use crate::report::Report;
use crate::scenario::{self, Plan, Skip};
use crate::state::{State, written};
use crate::support::root;

/// Scenarios that must be replayed: nearly all that a server can be asked about.
const FEWEST: usize = 1250;

/// One scenario that was sent, and what came back.
struct Sent {
    name: String,
    case: Case,
    settings: String,
    plan: Plan,
    answer: Answer,
    /// What the API server makes of the object that the scenario expects to be stored.
    expected: Value,
}

/// Replays all scenarios whose name begins like this.
pub(crate) async fn run(kind: &Kind, filter: &str, report: &mut Report) -> anyhow::Result<()> {
    let directory = TempDir::new()?;
    let authorizer = Authorizer::start(directory.path()).await?;
    let audit = AuditLog::new(directory.path(), Detail::Metadata)?;
    let [audit_policy, audit_log] = audit.arguments();
    let plane = Plane::start(&[
        "--olm-v1=deprecated-experimental",
        "--without-controllers",
        &format!("--authorization-config={}", authorizer.configuration().display()),
        // Pods of scenarios name accounts that are not there.
        "--apiserver-arg=disable-admission-plugins=ServiceAccount",
        &audit_policy,
        &audit_log,
    ])?;
    let mut api = Api::connect(&plane.kubeconfig()).await?;
    let schemas = define(&mut api).await?;
    let scenarios = load(filter)?;
    let (ids, policies) = policies(&scenarios, kind.module())?;
    let host = kind.start(&plane.kubeconfig(), &policies, directory.path()).await?;
    let may_mutate = |id: &&str| policies[*id]["allowedToMutate"] == true;
    let (mutating, validating): (Vec<&str>, Vec<&str>) = ids.values().map(String::as_str).partition(may_mutate);
    registration::register(&api, host.endpoint(), &validating, &mutating).await?;

    let began = Instant::now();
    let mut replayer = Replayer { state: State::new(api.clone()), api, schemas, host, policy: Policy::native()? };
    let mut sent = Vec::new();
    for (name, case) in scenarios {
        let id = ids.get(&scenario::settings(&case).to_string()).cloned().unwrap_or_default();
        if replayer.reads_the_definition(&case) {
            report.skipped(&name, Skip::Definition, "");
            continue;
        }
        if scenario::is_audit(&case) && case.expected.host_errors.is_empty() {
            let response = replayer.audit(&case, &id).await.with_context(|| name.clone())?;
            report.replayed(&name, &problems(&case, &response), &response);
            continue;
        }
        match replayer.send(&case, &id).await.with_context(|| name.clone())? {
            Ok((plan, answer, expected)) => {
                sent.push(Sent { name, case, settings: id, plan, answer, expected });
                if sent.len().is_multiple_of(200) {
                    println!("  {} scenarios after {:.0?}", sent.len(), began.elapsed());
                }
            }
            Err((skip, why)) => report.skipped(&name, skip, &why),
        }
    }
    let facts = audit.annotations()?;
    for sent in &sent {
        let response = sent.response(&facts);
        report.replayed(&sent.name, &problems(&sent.case, &response), &response);
    }
    if filter.is_empty() {
        report.at_least(FEWEST);
    }
    report.took(&format!("scenarios by {}", kind.name()), began.elapsed());
    Ok(())
}

/// What is not as expected. Every answer of the policy carries its verdict: without one it was not asked.
fn problems(case: &Case, response: &Value) -> Vec<String> {
    let mut problems = case.expected.problems(response);
    if response["audit_annotations"]["verdict"].as_str().is_none_or(str::is_empty) {
        problems.push("there is no verdict: the policy was not asked".to_owned());
    }
    problems
}

/// The kinds that scenarios have and the server has not: earlier versions of OLM's, and somebody else's.
async fn define(api: &mut Api) -> anyhow::Result<Schemas> {
    let list = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let file = root().join("tests/e2e/definitions.yaml");
    for definition in documents::read(&file)? {
        api.apply(&definition).await?;
    }
    let extensions = format!("{list}/clusterextensions.olm.operatorframework.io");
    let mut definition = api.send(Method::GET, &extensions, None).await?.ok(&"clusterextensions")?.body;
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
        // What is written in the other version is stored in this one, and must not be pruned there.
        for version in versions.iter_mut() {
            let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            spec["x-kubernetes-preserve-unknown-fields"] = json!(true);
            spec["properties"]["install"]["x-kubernetes-preserve-unknown-fields"] = json!(true);
        }
        versions.push(json!({"name": "v1alpha1", "served": true, "storage": false,
            "subresources": {"status": {}}, "schema": {"openAPIV3Schema": anything}}));
    }
    api.send(Method::PUT, &extensions, Some(&definition)).await?.ok(&"clusterextensions")?;
    let all = api.send(Method::GET, list, None).await?.ok(&"CustomResourceDefinitions")?.body;
    let definitions = all["items"].as_array().cloned().unwrap_or_default();
    let end = Instant::now() + PATIENCE;
    let wanted = [("olm.operatorframework.io/v1alpha1", "ClusterExtension"), ("demo.example.com/v1", "Widget")];
    while wanted.iter().any(|(api_version, kind)| api.is_namespaced(api_version, kind).is_none()) {
        if Instant::now() > end {
            bail!("the definitions in {} are not served after {PATIENCE:?}", file.display());
        }
        sleep(Duration::from_millis(200)).await;
        api.discover().await?;
    }
    Ok(Schemas::new(&definitions))
}

fn load(filter: &str) -> anyhow::Result<Vec<(String, Case)>> {
    let scenarios = root().join("tests/scenarios");
    let mut directories: Vec<PathBuf> = Vec::new();
    find(&scenarios, &mut directories);
    let mut loaded = Vec::new();
    for directory in directories {
        let name = directory.strip_prefix(&scenarios).unwrap_or(&directory).display().to_string();
        if name.starts_with(filter) {
            let case = Case::load(&directory).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
            loaded.push((name, case));
        }
    }
    Ok(loaded)
}

/// A policy for each of the settings that scenarios have: their names by the settings, and the policy server's file.
fn policies(scenarios: &[(String, Case)], module: &str) -> anyhow::Result<(BTreeMap<String, String>, Value)> {
    let metadata = policy_module::read_metadata(MODULE)?.context("the policy is not annotated")?;
    let mut ids = BTreeMap::new();
    let mut policies = Map::new();
    // The first is always there, and refuses what is never right: with it one sees whether the webhooks are in force.
    let usable = scenarios.iter().map(|(_, case)| case).filter(|case| case.expected.invalid_settings.is_none());
    for settings in [json!({})].into_iter().chain(usable.map(scenario::settings)) {
        let id = format!("s{:03}", ids.len());
        if let std::collections::btree_map::Entry::Vacant(new) = ids.entry(settings.to_string()) {
            new.insert(id.clone());
            let strips = settings["clusterExtensions"]["strip"] == true;
            let policy = json!({"module": module, "settings": settings, "allowedToMutate": strips, "policyMode": "protect",
                "contextAwareResources": metadata.context_aware_resources, "hostCapabilities": metadata.host_capabilities});
            policies.insert(id, policy);
        }
    }
    Ok((ids, Value::Object(policies)))
}

struct Replayer {
    api: Api,
    schemas: Schemas,
    state: State,
    host: Host,
    /// Says which lists a scenario reads.
    policy: Policy,
}

impl Replayer {
    async fn send(
        &mut self,
        case: &Case,
        settings: &str,
    ) -> anyhow::Result<Result<(Plan, Answer, Value), (Skip, String)>> {
        let mut plan = match Plan::new(case, &self.api, &self.schemas) {
            Ok(plan) => plan,
            Err(skip) => return Ok(Err((skip, String::new()))),
        };
        plan.sender.extra.push((SETTINGS, settings.to_owned()));
        if let Err(refused) = self.state.hold(&plan.cluster, plan.namespace(), plan.absent.as_deref()).await? {
            if refused.code == 400 || refused.code == 422 {
                return Ok(Err((Skip::Validation, refused.to_string())));
            }
            bail!("{refused}");
        }
        self.settle(&self.lists(case)).await?;
        let (method, path, body) = plan.request(&self.api, self.state.live(&plan.key))?;
        let expected = self.stored(&plan, case).await?;
        let answer = self.api.send_as(Some(&plan.sender), method, &path, body.as_ref()).await?;
        if is_invalid(&answer) {
            return Ok(Err((Skip::Validation, answer.message().to_owned())));
        }
        if answer.is_success() {
            let key = if answer.body["kind"] == json!("Status") { plan.key.clone() } else { Key::of(&answer.body) };
            self.state.touched(if key.kind == plan.key.kind { key } else { plan.key.clone() });
        }
        Ok(Ok((plan, answer, expected)))
    }

    /// Sends what the audit scanner would send, to where it would send it.
    async fn audit(&mut self, case: &Case, settings: &str) -> anyhow::Result<Value> {
        let cluster = scenario::cluster(case, &self.schemas);
        if let Err(refused) = self.state.hold(&cluster, None, None).await? {
            bail!("{refused}");
        }
        self.settle(&self.lists(case)).await?;
        let request = case.request.as_ref().context("no request")?;
        let answer = self.host.audit(settings, request).await?;
        let status = &answer["status"];
        Ok(json!({
            "accepted": answer["allowed"], "code": status["code"], "message": status["message"],
            "warnings": answer["warnings"], "audit_annotations": answer["auditAnnotations"],
        }))
    }

    /// What the API server would store of the object that a mutation should give: with its defaults, and pruned. An
    /// administrator sends it, past the webhooks and without effect.
    async fn stored(&self, plan: &Plan, case: &Case) -> anyhow::Result<Value> {
        if case.expected.mutated.is_null() {
            return Ok(Value::Null);
        }
        let wanted = Plan { object: self.schemas.complete(&case.expected.mutated), ..plan.clone() };
        let (method, path, body) = wanted.request(&self.api, self.state.live(&plan.key))?;
        let answer = self.api.send(method, &format!("{path}&dryRun=All"), body.as_ref()).await?;
        Ok(written(&answer.ok(&plan.key)?.body))
    }

    /// The lists that the policy reads for a scenario.
    fn lists(&self, case: &Case) -> Vec<ListResources> {
        let lists = self.asked(case).into_iter().filter_map(|request| match request {
            Request::List(list) => Some(list),
            _ => None,
        });
        lists.collect()
    }

    /// Whether it matters what the server's own definition of ClusterExtensions says.
    fn reads_the_definition(&self, case: &Case) -> bool {
        let is_it = |request: &Request| matches!(request, Request::Get(get) if get.name == definition::EXTENSIONS);
        self.asked(case).iter().any(is_it)
    }

    /// What is looked up for a scenario.
    fn asked(&self, case: &Case) -> Vec<Request> {
        let host = self.policy.host(&case.manifests);
        // What it answers is not of interest here, only what it asks.
        let _ = bounds::validate(&case.payload, &host);
        host.exchanges().into_iter().map(|exchange| exchange.request).collect()
    }

    /// Waits until the webhook's watches show what is in the cluster.
    async fn settle(&self, lists: &[ListResources]) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        let lists: Vec<&ListResources> = lists.iter().collect();
        let mut truth: HashMap<String, Versions> = HashMap::new();
        loop {
            let mut late = None;
            for Shown { place, objects } in self.host.shown(&lists).await? {
                let path = self.api.collection(&place)?;
                if !truth.contains_key(&path) {
                    truth.insert(path.clone(), versions(&self.api, &path).await?);
                }
                if truth.get(&path) != Some(&objects) {
                    late = Some(path);
                }
            }
            match late {
                None => return Ok(()),
                Some(path) if Instant::now() > end => bail!("the webhook's watch of {path} lags by {PATIENCE:?}"),
                Some(_) => sleep(Duration::from_millis(5)).await,
            }
        }
    }
}

/// Whether the API server's own validation has refused it. RBAC's storage has no better code for a role of no kind.
fn is_invalid(answer: &Answer) -> bool {
    let message = answer.message();
    match answer.code {
        400 | 422 => !message.contains("admission webhook"),
        500 => message.starts_with("unsupported role reference kind"),
        _ => false,
    }
}

/// Names and versions of the objects that are there.
async fn versions(api: &Api, path: &str) -> anyhow::Result<Versions> {
    let list = api.send(Method::GET, path, None).await?.ok(&path)?.body;
    let items = list["items"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(items
        .map(|item| &item["metadata"])
        .map(|metadata| {
            let name = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
            (name, text(&metadata["resourceVersion"]))
        })
        .collect())
}

impl Sent {
    /// The answer in the shape of the policy's own, so that it is held to the same expectations.
    fn response(&self, facts: &Annotations) -> Value {
        let Sent { answer, plan, .. } = self;
        let webhook = registration::name(&self.settings);
        // An object that is there already is refused by the storage, after all webhooks have admitted it.
        let repeated = plan.operation == "CREATE" && answer.body["reason"] == "AlreadyExists";
        let accepted = answer.is_success() || repeated;
        let denied = format!("admission webhook \"{webhook}\" denied the request: ");
        let message = answer.message();
        let message = message.strip_prefix(&denied).unwrap_or(message);
        let facts = facts.get(&answer.audit_id).and_then(|webhooks| webhooks.get(&webhook));
        json!({
            "accepted": accepted,
            "code": if accepted { Value::Null } else { answer.code.into() },
            "message": if accepted { Value::Null } else { message.into() },
            "warnings": answer.warnings,
            "audit_annotations": facts,
            "mutated_object": self.mutated(),
        })
    }

    /// The object that was stored, where the policy was to change it.
    fn mutated(&self) -> Value {
        let stored = written(&self.answer.body);
        match &self.case.expected.mutated {
            Value::Null => Value::Null,
            expected if stored == self.expected => expected.clone(),
            _ => stored,
        }
    }
}
