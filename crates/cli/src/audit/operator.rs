//! Operators of OLM v0: every ClusterServiceVersion that is not a copy.

use std::collections::BTreeSet;

use bounds::cluster::CLUSTER_SERVICE_VERSIONS;
use bounds::decide::{self, Bounds, Context, Demand, Lookups, Refusal, boundary, demand, groups, weigh};
use bounds::olm::{ClusterServiceVersion, Targets};
use bounds::rbac::{Rule, Scope};
use serde_json::Value;

use crate::check::objects::Name;

use super::admin::Admin;
use super::judge::{Answer, Written};
use super::parallel::in_parallel;
use super::settings::Chosen;
use super::{Audited, Bound, Holding, Missing, Origin, Verdict, View, copies, text};

const KIND: &str = "ClusterServiceVersion";
/// OLM's own operator, which serves its API of packages.
const PACKAGE_SERVER: &str = "packageserver";

/// An operator, and what a proposal needs to know about it.
pub(super) struct Operator {
    pub(super) audited: Audited,
    pub(super) csv: Value,
    /// Its OperatorGroup, by name.
    pub(super) group: Option<String>,
    /// What that targets.
    pub(super) targets: Option<Targets>,
}

/// Every operator that was read.
pub(super) fn all(view: &View<'_>, settings: &Chosen) -> Vec<Operator> {
    let manifests = view.judge.manifests();
    let csvs = manifests.list(CLUSTER_SERVICE_VERSIONS.api_version, CLUSTER_SERVICE_VERSIONS.kind, None);
    let originals: Vec<&Value> = csvs.filter(|csv| !copies::has_original(manifests, csv)).collect();
    in_parallel(&originals, |csv| Look { view, settings, csv }.operator())
}

struct Look<'l> {
    view: &'l View<'l>,
    settings: &'l Chosen,
    csv: &'l Value,
}

/// What the policy's own functions find out about an operator.
#[derive(Default)]
struct Found {
    group: Option<String>,
    targets: Option<Targets>,
    bounds: Vec<Bound>,
    holds: Vec<Holding>,
    missing: Vec<Missing>,
}

impl Look<'_> {
    fn operator(&self) -> Operator {
        let namespace = text(self.csv, "/metadata/namespace");
        let name = Name {
            kind: KIND.to_owned(),
            namespace: namespace.to_owned(),
            name: text(self.csv, "/metadata/name").to_owned(),
        };
        let mut audited = Audited::new(name);
        let written = Written { object: self.csv, old: None, resource: "clusterserviceversions", user: None };
        let answer = self.view.judge.judge(&written, self.settings);
        let json = self.csv.to_string();
        let parsed = bounds::read::json::read(&json, "object");
        let (mut group, mut targets) = (None, None);
        match parsed {
            Err(error) => audited.notes.push(format!("it cannot be read: {error}")),
            Ok(csv) => {
                let found = self.look(&csv);
                (group, targets) = (found.group, found.targets);
                (audited.bounds, audited.holds, audited.missing) = (found.bounds, found.holds, found.missing);
                audited.admin = self.admin(&csv, &audited.holds);
                audited.is_admin_known = self.view.grants.is_complete();
            }
        }
        (audited.verdict, audited.why) = self.verdict(&answer, group.as_deref());
        if let Some(from) = copies::original(self.csv) {
            audited.notes.push(format!(
                "it says that it is a copy of one in namespace {from}, and there is none like it: it is taken for what it is"
            ));
        }
        audited.notes.extend(targets.as_ref().and_then(|targets| unsupported(self.csv, namespace, targets)));
        Operator { audited, csv: self.csv.clone(), group, targets }
    }

    fn verdict(&self, answer: &Answer, group: Option<&str>) -> (Verdict, String) {
        let namespace = text(self.csv, "/metadata/namespace");
        let group = group.map(|group| format!("OperatorGroup {namespace}/{group}"));
        if self.is_olms_own() {
            return (Verdict::Exempt, "it is a part of OLM, and runs as OLM itself".to_owned());
        }
        match (answer.accepted, answer.reason.as_str()) {
            (true, "bounded") => (Verdict::Bounded, String::new()),
            (true, "no-operator-group") => (
                Verdict::Unbounded,
                format!(
                    "there is no OperatorGroup in namespace {namespace}: nothing bounds it, and OLM does nothing for it"
                ),
            ),
            (true, "exempt") => {
                (Verdict::Exempt, format!("the policy's settings exempt the operators of namespace {namespace}"))
            }
            (true, _) => (
                Verdict::Unbounded,
                group.map_or_else(
                    || "nothing bounds it".to_owned(),
                    |group| format!("{group} names no service account: nothing bounds it"),
                ),
            ),
            (false, "exceeds") => (Verdict::Exceeds, String::new()),
            (false, _) if answer.is_unknown() => (Verdict::Unknown, answer.sentence().to_owned()),
            (false, _) => (Verdict::Refused, answer.message.clone()),
        }
    }

    /// Whether it is OLM's own package server: in the namespace of OLM, as OLM's account.
    fn is_olms_own(&self) -> bool {
        let namespace = text(self.csv, "/metadata/namespace");
        let runs_as = |account: &Value| {
            let user = format!("system:serviceaccount:{namespace}:{}", account.as_str().unwrap_or_default());
            self.settings.read.olm.v0_users.contains(&user)
        };
        let deployments = self.csv.pointer("/spec/install/spec/deployments").and_then(Value::as_array);
        let mut accounts = deployments
            .into_iter()
            .flatten()
            .map(|deployment| deployment.pointer("/spec/template/spec/serviceAccountName").is_some_and(runs_as));
        text(self.csv, "/metadata/name") == PACKAGE_SERVER && deployments.is_some() && accounts.all(|is_olms| is_olms)
    }

    fn look(&self, csv: &ClusterServiceVersion<'_>) -> Found {
        let host = self.view.judge.host();
        let cx = Context::new(&self.settings.read, Lookups::new(&host));
        let mut found = Found::default();
        // What cannot be looked up is said by the verdict; what is known all the same is shown.
        if self.weigh(&cx, csv, &mut found).is_err() && found.holds.is_empty() {
            let nowhere = self.view.judge.nowhere();
            let targets = found.targets.clone().unwrap_or_else(|| annotated(self.csv));
            let namespace = text(self.csv, "/metadata/namespace");
            if let Ok(demands) = demand::of_csv(&Lookups::new(&nowhere), csv, namespace, &targets) {
                found.holds = demands.iter().map(|demand| holding(csv, namespace, demand, Origin::Implied)).collect();
            }
        }
        found.holds.retain(|holding| !holding.rules.is_empty());
        found
    }

    /// The group, its boundaries, what is held and what is missing, as far as it goes.
    fn weigh(&self, cx: &Context<'_>, csv: &ClusterServiceVersion<'_>, found: &mut Found) -> Result<(), Refusal> {
        let namespace = text(self.csv, "/metadata/namespace");
        let names = [csv.metadata.name.as_str(), &csv.spec.replaces];
        let (group, boundaries) = match boundary::of_operator(cx, namespace, &names)? {
            Bounds::NoGroup => (None, Vec::new()),
            Bounds::Unbounded(group) => (Some(group), Vec::new()),
            Bounds::Bounded(group, boundaries) => (Some(group), boundaries),
        };
        let targets = match &group {
            Some(group) => groups::targets(group, &cx.lookups)?,
            None => Targets::Namespaces(BTreeSet::from([namespace.to_owned()])),
        };
        found.group = group.as_ref().map(|group| group.name.clone());
        found.targets = Some(targets.clone());
        let bound = |boundary: &boundary::Boundary| {
            self.view.bound(boundary.description.clone(), boundary.by.clone(), &boundary.identity)
        };
        found.bounds = boundaries.iter().map(bound).collect();
        let operator = decide::Operator { csv, before: None, namespace, targets: &targets, may_replace: true };
        let weighed = weigh(cx, &operator, &boundaries)?;
        // What OLM makes of the operator alone comes first; what its accounts hold besides follows.
        let own = demand::of_csv(&cx.lookups, csv, namespace, &targets)?.len();
        let origin = |number: usize| if number < own { Origin::Implied } else { Origin::Borrowed };
        let demands = weighed.demands.iter().enumerate();
        found.holds = demands.map(|(number, demand)| holding(csv, namespace, demand, origin(number))).collect();
        for limit in &weighed.limits {
            let escalation = cx.settings.operator_groups.escalation;
            for (scope, rules) in limit.authority().shortfall(cx, &weighed.demands, escalation)?.excess {
                let rules = rules.iter().cloned().map(Rule::into_owned).collect();
                found.missing.push(Missing { label: limit.boundary.description.clone(), scope, rules });
            }
        }
        Ok(())
    }

    fn admin(&self, csv: &ClusterServiceVersion<'_>, holds: &[Holding]) -> Vec<Admin> {
        let namespace = text(self.csv, "/metadata/namespace");
        let run_as = csv.accounts().into_iter().map(str::to_owned);
        let declared = holds.iter().filter_map(|holding| holding.account.as_deref()?.split_once('/'));
        let accounts = run_as.chain(declared.map(|(_, name)| name.to_owned()));
        let accounts = accounts.map(|name| (namespace.to_owned(), name)).collect();
        self.view.admins_among(&accounts, holds)
    }
}

/// A demand as something that the operator holds.
fn holding(csv: &ClusterServiceVersion<'_>, namespace: &str, demand: &Demand<'_>, otherwise: Origin) -> Holding {
    let strategy = csv.strategy();
    let (list, entry) = match demand.origin {
        decide::Origin::Permissions(entry) => ("permissions", strategy.permissions.get(entry)),
        decide::Origin::ClusterPermissions(entry) => ("clusterPermissions", strategy.cluster_permissions.get(entry)),
        decide::Origin::Elsewhere => ("", None),
    };
    let (origin, account, why) = match entry {
        Some(entry) => {
            let account =
                Some(entry.service_account_name.as_str()).filter(|name| !name.is_empty()).unwrap_or("default");
            let qualified = format!("{namespace}/{account}");
            (Origin::Declared, Some(qualified), format!("{list} of service account {account}"))
        }
        None => (otherwise, None, demand.why.clone().unwrap_or_default()),
    };
    Holding {
        origin,
        account,
        scopes: demand.scopes.to_vec(),
        rules: demand.rules.iter().cloned().map(Rule::into_owned).collect(),
        why,
    }
}

/// What OLM says that the operator watches, for want of its OperatorGroup.
fn annotated(csv: &Value) -> Targets {
    let namespace = text(csv, "/metadata/namespace");
    match csv["metadata"]["annotations"]["olm.targetNamespaces"].as_str() {
        Some("") => Targets::All,
        Some(targets) => Targets::Namespaces(targets.split(',').map(str::to_owned).collect()),
        None => Targets::Namespaces(BTreeSet::from([namespace.to_owned()])),
    }
}

/// That OLM does not run it like this, where it says so itself.
fn unsupported(csv: &Value, own: &str, targets: &Targets) -> Option<String> {
    let mode = match targets {
        Targets::All => "AllNamespaces",
        Targets::Namespaces(targets) if targets.len() > 1 => "MultiNamespace",
        Targets::Namespaces(targets) if targets.contains(own) => "OwnNamespace",
        Targets::Namespaces(_) => "SingleNamespace",
    };
    let modes = csv.pointer("/spec/installModes").and_then(Value::as_array);
    let of = |wanted: bool| modes.into_iter().flatten().filter(move |entry| entry["supported"] == wanted);
    if !of(false).any(|entry| entry["type"] == mode) {
        return None;
    }
    let supported: Vec<&str> = of(true).filter_map(|entry| entry["type"].as_str()).collect();
    let supported = if supported.is_empty() { "none".to_owned() } else { supported.join(", ") };
    Some(format!("it does not support {mode}, so OLM does not run it in this OperatorGroup; it supports {supported}"))
}

impl Operator {
    /// What it holds that its accounts only borrow, for a grant that is given knowingly.
    pub(super) fn borrowed(&self) -> impl Iterator<Item = (&Scope, &Rule<'static>, &str)> {
        let borrowed = self.audited.holds.iter().filter(|holding| holding.origin == Origin::Borrowed);
        borrowed.flat_map(|holding| {
            let rules = holding.scopes.iter().flat_map(|scope| holding.rules.iter().map(move |rule| (scope, rule)));
            rules.map(|(scope, rule)| (scope, rule, holding.why.as_str()))
        })
    }
}
