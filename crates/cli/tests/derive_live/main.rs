//! `derive` proven minimal. For real operators: with what it prints, OLM's install passes, on a real API server with the
//! account's own token and before the policy; without any single permission of it, something is refused.
//!
//! Every permission is taken away natively, by the rules of Kubernetes' RBAC; for some of them the same is done on the real
//! API server, and both must stop at the same request.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod olm;
mod policy;
mod real;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;

use bounds::decide::Lookups;
use bounds::olm::Targets;
use bounds::rbac::{Grant, Index, Rule, Scope, Target};
use olm::Install;
use operator_bounds::derive::bundle::{Bundle, Object};
use operator_bounds::derive::{self, Installer, roles, v0};
use operator_bounds::policy::Policy;
use real::Real;
use serde_json::{Value, json};
use server::{Held, Paper, Path, Refused};
use test_plane::Plane;

const RBAC: &str = "rbac.authorization.k8s.io";
/// Operators that ask for more single permissions than this have whole rules taken away instead.
const MOST: usize = 600;
/// As many rules of each operator are taken away on the real API server.
const SAMPLES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Mode {
    Own,
    Single,
    Multi,
    All,
}

/// Real operators, and how each is installed: with and without cluster permissions, with webhooks of each type, with several
/// accounts, with what other operators must bring.
const OPERATORS: [(&str, Mode); 23] = [
    ("anchore-engine", Mode::All),
    ("apicast-community-operator", Mode::All),
    ("argocd-operator", Mode::All),
    ("awss3-operator-registry", Mode::Multi),
    ("cloudnative-pg", Mode::Single),
    ("customized-user-remediation", Mode::All),
    ("integrity-shield-operator", Mode::Single),
    ("kube-green", Mode::All),
    ("log2rbac", Mode::All),
    ("loki-operator", Mode::All),
    ("meshery-operator", Mode::All),
    ("metallb-operator", Mode::All),
    ("metering-upstream", Mode::Single),
    ("mitos", Mode::All),
    ("nexus-operator", Mode::Own),
    ("nfd-operator", Mode::All),
    ("parseable-operator", Mode::Multi),
    ("postgres-operator", Mode::Own),
    ("registry-operator", Mode::All),
    ("searchpe-operator", Mode::Own),
    ("simple-authenticator", Mode::All),
    ("varnish-operator", Mode::Own),
    ("zookeeper-operator", Mode::Single),
];

/// A bundle, and how it is installed.
struct Operator {
    name: String,
    mode: Mode,
    csv: Value,
    others: Vec<Value>,
}

/// One install of it, in a namespace of its own.
struct Trial<'o> {
    csv: Value,
    operator: &'o Operator,
    namespace: String,
    targets: Targets,
}

#[derive(Default)]
struct Figures {
    rules: usize,
    taken: usize,
    by_server: usize,
    by_policy: usize,
    on_the_real_server: usize,
}

#[test]
#[ignore = "needs Go and the corpus: make derive-tests"]
fn what_is_derived_is_enough_and_nothing_of_it_is_too_much() {
    let Some(operators) = operators() else {
        test_parts::not_run("derive was not proven minimal: ../shared/corpus is not there");
        return;
    };
    let directory = tempfile::TempDir::new().unwrap();
    let plane = Plane::start(&["--olm-v1", "none"]).unwrap();
    let mut admin = Real::administrator(&plane, directory.path());
    let policy = Policy::native().unwrap();
    let mut total = Figures::default();
    let mut failed = Vec::new();
    for operator in &operators {
        // One that fails does not hide what becomes of the others.
        let proven = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| prove(operator, &policy, &mut admin)));
        let Ok(figures) = proven else {
            failed.push(operator.name.as_str());
            continue;
        };
        println!(
            "{} ({:?}): {} rules; {} taken away: {} refused by the API server's rules, {} by the policy; {} on the real server",
            operator.name,
            operator.mode,
            figures.rules,
            figures.taken,
            figures.by_server,
            figures.by_policy,
            figures.on_the_real_server
        );
        total.rules += figures.rules;
        total.taken += figures.taken;
        total.by_server += figures.by_server;
        total.by_policy += figures.by_policy;
        total.on_the_real_server += figures.on_the_real_server;
    }
    println!(
        "{} operators, {} rules; taken away one by one: {}, refused by the API server's rules: {}, by the policy: {}; \
         installs on the real API server: {}",
        operators.len(),
        total.rules,
        total.taken,
        total.by_server,
        total.by_policy,
        total.on_the_real_server
    );
    assert!(failed.is_empty(), "not proven: {failed:?}");
}

/// The operators of the corpus, and two bundles that bring what none of them has: RBAC and other objects of their own, and an
/// API service.
fn operators() -> Option<Vec<Operator>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/csv.tar.gz");
    let file = std::fs::File::open(path).ok()?;
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut found = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().file_stem().unwrap().to_string_lossy().into_owned();
        if OPERATORS.iter().any(|(wanted, _)| *wanted == name) {
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let mut csv: Value = serde_json::from_str(&text).unwrap();
            // Some say another one, or none; in a cluster there is only this.
            csv["apiVersion"] = json!("operators.coreos.com/v1alpha1");
            found.insert(name, csv);
        }
    }
    let mut operators: Vec<Operator> = OPERATORS
        .iter()
        .map(|(name, mode)| Operator {
            name: (*name).to_owned(),
            mode: *mode,
            csv: found[*name].clone(),
            others: Vec::new(),
        })
        .collect();
    operators.push(Operator {
        name: "a bundle with RBAC".to_owned(),
        mode: Mode::Own,
        csv: found["searchpe-operator"].clone(),
        others: brought(),
    });
    let mut serving = found["parseable-operator"].clone();
    let deployment = serving["spec"]["install"]["spec"]["deployments"][0]["name"].clone();
    serving["spec"]["apiservicedefinitions"] = json!({"owned": [{"group": "served.example.com", "version": "v1", "kind": "Thing", "name": "things", "deploymentName": deployment}]});
    operators.push(Operator {
        name: "a bundle with an API service".to_owned(),
        mode: Mode::Own,
        csv: serving,
        others: Vec::new(),
    });
    Some(operators)
}

/// What bundles bring beside a ClusterServiceVersion.
fn brought() -> Vec<Value> {
    let rbac = format!("{RBAC}/v1");
    let account = json!([{"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}]);
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "brought"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "brought"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "brought"}, "spec": {"ports": [{"port": 80}]}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "brought"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "brought-reader"}, "rules": [{"apiGroups": ["brought.example.com"], "resources": ["widgets"], "verbs": ["get", "list"]}, {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}),
        json!({"apiVersion": rbac, "kind": "Role", "metadata": {"name": "brought-scraper"}, "rules": [{"apiGroups": [""], "resources": ["endpoints", "pods/proxy"], "verbs": ["get"]}]}),
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "brought-scraper"}, "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "brought-scraper"}, "subjects": account}),
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "brought-reader"}, "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "brought-reader"}, "subjects": account}),
    ]
}

impl<'o> Trial<'o> {
    fn new(operator: &'o Operator, number: usize) -> Self {
        let base: String = operator.name.chars().filter(char::is_ascii_lowercase).take(20).collect();
        let namespace = format!("{base}-{number}");
        let target = |suffix: &str| format!("{namespace}-{suffix}");
        let targets = match operator.mode {
            Mode::Own => Targets::Namespaces(BTreeSet::from([namespace.clone()])),
            Mode::Single => Targets::Namespaces(BTreeSet::from([target("x")])),
            Mode::Multi => Targets::Namespaces(BTreeSet::from([target("x"), target("y")])),
            Mode::All => Targets::All,
        };
        let mut csv = operator.csv.clone();
        csv["metadata"] = json!({"name": csv["metadata"]["name"], "namespace": namespace});
        csv.as_object_mut().unwrap().remove("status");
        Trial { csv, operator, namespace, targets }
    }

    fn install(&self) -> Install<'_> {
        Install { csv: &self.csv, others: &self.operator.others, namespace: &self.namespace }
    }

    /// What `derive` grants, rule by rule.
    fn derived(&self, policy: &Policy) -> Vec<(Scope, Rule<'static>)> {
        let host = policy.host(&Arc::default());
        let lookups = Lookups::new(&host);
        let bundle = Bundle {
            csvs: vec![Object::unwritten(self.csv.clone())],
            others: self.operator.others.iter().cloned().map(Object::unwritten).collect(),
            ..Bundle::default()
        };
        let group = v0::Group { namespace: self.namespace.clone(), targets: self.targets.clone() };
        let needs = derive::needs(&bundle, &Installer::Group(group), &lookups).unwrap();
        let roles = roles::of(&needs, &Grant::default());
        roles
            .into_iter()
            .flat_map(|role| role.rules.into_iter().map(move |granted| (role.scope.clone(), granted.rule)))
            .collect()
    }

    /// What is there before OLM comes.
    fn before(&self) -> BTreeMap<Path, Value> {
        let role = |namespace: Option<&str>, name: &str, rules: Value| {
            let resource = if namespace.is_some() { "roles" } else { "clusterroles" };
            (Path::new(RBAC, "v1", resource, namespace, name), json!({"rules": rules}))
        };
        let crds = self
            .crds()
            .into_iter()
            .map(|name| (Path::new("apiextensions.k8s.io", "v1", "customresourcedefinitions", None, &name), json!({})));
        crds.chain([
            role(None, "system:auth-delegator", json!([
                {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
                {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}])),
            role(Some("kube-system"), "extension-apiserver-authentication-reader", json!([
                {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["extension-apiserver-authentication"], "verbs": ["get", "list", "watch"]}])),
        ])
        .collect()
    }

    /// The CRDs that a conversion webhook is put into.
    fn crds(&self) -> BTreeSet<String> {
        let webhooks = self.csv.pointer("/spec/webhookdefinitions").and_then(Value::as_array).into_iter().flatten();
        let names = webhooks.filter_map(|webhook| webhook["conversionCRDs"].as_array()).flatten();
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    }

    /// Installs on paper and before the policy; who refuses, if anybody does.
    fn on_paper(&self, policy: &Policy, rules: &[(Scope, Rule<'static>)]) -> Result<(), Who> {
        let mut held: Held = BTreeMap::new();
        for (scope, rule) in rules {
            held.entry(scope.clone()).or_default().push(rule.clone());
        }
        match self.install().run(&mut Paper::new(&held, self.before())) {
            Ok(()) => {}
            Err(Refused::Forbidden(request, _)) => return Err(Who::Server(request)),
            Err(other) => panic!("{}: {other:?}", self.operator.name),
        }
        policy::refusal(policy, &self.install(), &self.targets, &self.manifests(&held))
            .map_or(Ok(()), |message| Err(Who::Policy(message)))
    }

    /// The rules as roles and bindings for the account.
    fn manifests(&self, held: &Held) -> Vec<Value> {
        let mut objects = Vec::new();
        for (scope, rules) in held {
            let prefix = if *scope == Scope::Cluster { "Cluster" } else { "" };
            let mut metadata = json!({"name": format!("derived-{}", self.namespace)});
            if let Some(namespace) = scope.namespace() {
                metadata["namespace"] = namespace.into();
            }
            objects.push(json!({"apiVersion": format!("{RBAC}/v1"), "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules}));
            objects.push(
                json!({"apiVersion": format!("{RBAC}/v1"), "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": format!("{prefix}Role"), "name": metadata["name"]},
                "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": self.namespace}]}),
            );
        }
        objects
    }
}

/// Who refused an install, and what.
#[derive(Debug, PartialEq, Eq)]
enum Who {
    Server(String),
    Policy(String),
}

fn prove(operator: &Operator, policy: &Policy, admin: &mut Real) -> Figures {
    let trial = Trial::new(operator, 0);
    let derived = trial.derived(policy);
    assert_eq!(trial.on_paper(policy, &derived), Ok(()), "{}", operator.name);
    let mut figures = Figures { rules: derived.len(), ..Figures::default() };
    let pieces = pieces(&derived);
    for number in 0..pieces.len() {
        let rest: Vec<_> =
            pieces.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, piece)| piece.clone()).collect();
        figures.taken += 1;
        match trial.on_paper(policy, &rest) {
            Err(Who::Server(_)) => figures.by_server += 1,
            Err(Who::Policy(_)) => figures.by_policy += 1,
            Ok(()) => panic!("{}: nobody misses {:?}", operator.name, pieces[number]),
        }
    }
    assert_eq!(on_the_real_server(&trial, policy, admin, &derived), Ok(()), "{}", operator.name);
    figures.on_the_real_server += 1;
    let step = (derived.len() / SAMPLES).max(1);
    for (run, number) in (0..derived.len()).step_by(step).enumerate() {
        let trial = Trial::new(operator, run + 1);
        let mut rest = trial.derived(policy);
        let taken = rest.remove(number);
        let real = on_the_real_server(&trial, policy, admin, &rest);
        assert_eq!(real, trial.on_paper(policy, &rest), "{} without {taken:?}", operator.name);
        assert!(real.is_err());
        figures.on_the_real_server += 1;
    }
    figures
}

/// The rules broken down into single permissions; whole rules where these are too many.
fn pieces(rules: &[(Scope, Rule<'static>)]) -> Vec<(Scope, Rule<'static>)> {
    let nothing = Index::new(&[]);
    let mut atoms = Vec::new();
    for (scope, rule) in rules {
        let own = nothing.uncovered(std::slice::from_ref(rule));
        atoms.extend(own.into_iter().map(|atom| (scope.clone(), atom.to_rule().into_owned())));
    }
    if atoms.len() > MOST { rules.to_vec() } else { atoms }
}

/// The same install with the account's token, and the policy's word on it.
fn on_the_real_server(
    trial: &Trial<'_>,
    policy: &Policy,
    admin: &mut Real,
    rules: &[(Scope, Rule<'static>)],
) -> Result<(), Who> {
    let mut held: Held = BTreeMap::new();
    for (scope, rule) in rules {
        held.entry(scope.clone()).or_default().push(rule.clone());
    }
    prepare(trial, admin, &held);
    let namespace = &trial.namespace;
    let url = format!("/api/v1/namespaces/{namespace}/serviceaccounts/installer/token");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = admin.send("POST", &url, "application/json", &request).unwrap();
    let mut account = admin.with_token(token["status"]["token"].as_str().unwrap());
    let result = trial.install().run(&mut account);
    let elsewhere = |path: &&Path| path.namespace.as_deref() != Some(namespace);
    account.created.iter().filter(elsewhere).for_each(|path| admin.delete(path));
    match result {
        Ok(()) => {}
        Err(Refused::Forbidden(request, _)) => return Err(Who::Server(request)),
        Err(other) => panic!("{}: {other:?}", trial.operator.name),
    }
    policy::refusal(policy, &trial.install(), &trial.targets, &trial.manifests(&held))
        .map_or(Ok(()), |message| Err(Who::Policy(message)))
}

/// Namespaces, the account, its RBAC, and CRDs where a conversion webhook is put into them; until the server knows them all.
fn prepare(trial: &Trial<'_>, admin: &mut Real, held: &Held) {
    let mut namespaces = BTreeSet::from([trial.namespace.clone()]);
    if let Targets::Namespaces(targets) = &trial.targets {
        namespaces.extend(targets.iter().cloned());
    }
    for name in &namespaces {
        admin.ensure(
            &Path::new("", "v1", "namespaces", None, name),
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
    }
    let own = Some(trial.namespace.as_str());
    admin.ensure(
        &Path::new("", "v1", "serviceaccounts", own, "installer"),
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer"}}),
    );
    for object in trial.manifests(held) {
        let resource = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
        let namespace = object["metadata"]["namespace"].as_str();
        admin.ensure(&Path::new(RBAC, "v1", &resource, namespace, "derived"), &object);
    }
    for name in trial.crds() {
        let (plural, group) = name.split_once('.').unwrap();
        let path = Path::new("apiextensions.k8s.io", "v1", "customresourcedefinitions", None, &name);
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        admin.ensure(&path, &json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": format!("K{plural}")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}));
    }
    for (scope, rules) in held {
        for rule in rules {
            wait_until_known(trial, admin, scope, rule);
        }
    }
}

/// The API server watches RBAC; a binding counts a moment after it was written.
fn wait_until_known(trial: &Trial<'_>, admin: &Real, scope: &Scope, rule: &Rule<'static>) {
    let atoms = Index::new(&[]).uncovered(std::slice::from_ref(rule));
    let Some(Target::Resource { group, resource, name }) = atoms.first().map(|atom| atom.target) else { return };
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({"group": group, "resource": resource, "subresource": subresource, "name": name,
        "verb": atoms[0].verb, "namespace": scope.namespace().unwrap_or_default()});
    let user = format!("system:serviceaccount:{}:installer", trial.namespace);
    for _ in 0..200 {
        if admin.review(&user, &attributes) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{}: the API server never learns that {user} holds {rule} {scope}", trial.operator.name);
}
