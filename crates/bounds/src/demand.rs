//! What an operator asks for: declared, and implied by what OLM does for it (specification 2.4).

use std::collections::BTreeSet;
use std::ops::Deref;

use crate::cluster::LookupError;
use crate::csv::ClusterServiceVersion;
use crate::grant::Held;
use crate::group::Targets;
use crate::lookups::{Lookups, RoleKey, Rules};
use crate::order::ordered;
use crate::rule::Rule;
use crate::scope::Scope;

/// The API group of RBAC itself.
pub const RBAC: &str = "rbac.authorization.k8s.io";

/// Rules that would be held in a scope if the object was admitted.
#[derive(Debug)]
pub struct Demand<'r> {
    /// Where.
    pub scope: Scope,
    /// What.
    pub rules: DemandedRules<'r>,
    /// What lets the API server's own escalation check pass for it; empty where nothing does.
    pub honored: Vec<Rule<'static>>,
    /// For a person who does not find it in the object: why it is asked for.
    pub why: Option<String>,
}

/// Rules from the object itself, or from a role in the cluster.
#[derive(Debug)]
pub enum DemandedRules<'r> {
    /// From the object.
    Declared(&'r [Rule<'r>]),
    /// From a role.
    Shared(Rules),
}

impl<'r> Deref for DemandedRules<'r> {
    type Target = [Rule<'r>];

    fn deref(&self) -> &[Rule<'r>] {
        match self {
            DemandedRules::Declared(rules) => rules,
            DemandedRules::Shared(rules) => rules,
        }
    }
}

/// `escalate` on roles where a role is written, and `bind` on roles of any name where it is then bound.
fn escalate_and_bind(scope: &Scope) -> Vec<Rule<'static>> {
    let resource = match scope {
        Scope::Cluster => "clusterroles",
        Scope::Namespace(_) => "roles",
    };
    vec![Rule::on(&[RBAC], &[resource], &["escalate", "bind"])]
}

/// `bind` on this role.
#[must_use]
pub fn bind(role: &RoleKey) -> Vec<Rule<'static>> {
    let rule = Rule::on(&[RBAC], &[role.resource()], &["bind"]);
    vec![Rule { resource_names: vec![role.name.clone().into()], ..rule }]
}

impl<'r> Demand<'r> {
    fn declared(scope: Scope, rules: &'r [Rule<'r>]) -> Self {
        let honored = escalate_and_bind(&scope);
        Demand { scope, rules: DemandedRules::Declared(rules), honored, why: None }
    }

    fn implied(scope: Scope, rules: Rules, honored: Vec<Rule<'static>>, why: String) -> Self {
        Demand { scope, rules: DemandedRules::Shared(rules), honored, why: Some(why) }
    }
}

/// What a role asks for. One with an aggregationRule asks for everything.
#[must_use]
pub fn of_role<'r>(
    scope: &Scope,
    rules: &'r [Rule<'r>],
    is_aggregated: bool,
    escalate: &Rule<'static>,
    everything: &'r [Rule<'r>],
) -> Vec<Demand<'r>> {
    let demand = |rules, why| Demand {
        scope: scope.clone(),
        rules: DemandedRules::Declared(rules),
        honored: vec![escalate.clone()],
        why,
    };
    let mut demands = vec![demand(rules, None)];
    if is_aggregated {
        let why = "an aggregationRule takes in whatever is labelled for it later, so it needs everything";
        demands.push(demand(everything, Some(why.to_owned())));
    }
    demands
}

/// What an account that pods would run as holds already. `whose` says who would: `its Deployments`, `its pods`.
#[must_use]
pub fn of_held<'r>(held: &Held, rules: Rules, binding: &str, account: &str, whose: &str) -> Demand<'r> {
    let why = format!(
        "ServiceAccount {account}, which {whose} run as, already holds {} through {} {binding}: remove that binding, or have \
         them run as another account",
        held.role,
        held.binding_kind()
    );
    Demand::implied(held.scope.clone(), rules, bind(&held.role), why)
}

/// What a ClusterServiceVersion asks for in a group with these targets, points 1 to 5.
pub fn of_csv<'r>(
    lookups: &Lookups<'_>,
    csv: &'r ClusterServiceVersion<'r>,
    namespace: &str,
    targets: &Targets,
) -> Result<Vec<Demand<'r>>, LookupError> {
    let mut demands = Vec::new();
    let strategy = csv.strategy();
    let scopes = permission_scopes(namespace, targets);
    for permission in &strategy.permissions {
        demands.extend(scopes.iter().map(|scope| Demand::declared(scope.clone(), &permission.rules)));
    }
    for permission in &strategy.cluster_permissions {
        demands.push(Demand::declared(Scope::Cluster, &permission.rules));
    }
    if *targets == Targets::All && !strategy.permissions.is_empty() {
        demands.push(Demand::implied(
            Scope::Cluster,
            [Rule::on(&[""], &["namespaces"], &["get", "list", "watch"])].into(),
            escalate_and_bind(&Scope::Cluster),
            "reading namespaces comes from OLM, which adds it when it lifts permissions to all namespaces".to_owned(),
        ));
    }
    demands.extend(of_serving(lookups, csv, namespace)?);
    demands.extend(of_webhooks(csv));
    Ok(demands)
}

/// Where `permissions` land: in the operator's own namespace and in every target, or in the whole cluster.
fn permission_scopes(namespace: &str, targets: &Targets) -> BTreeSet<Scope> {
    match targets {
        Targets::All => ordered([Scope::Cluster]),
        Targets::Namespaces(targets) => {
            let own = std::iter::once(namespace.to_owned());
            ordered(own.chain(targets.iter().cloned()).map(Scope::Namespace))
        }
    }
}

/// Kubernetes' own default of `system:auth-delegator`.
fn default_auth_delegator() -> Rules {
    [
        Rule::on(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
        Rule::on(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
    ]
    .into()
}

/// Kubernetes' own default of `kube-system/extension-apiserver-authentication-reader`.
fn default_authentication_reader() -> Rules {
    [Rule::on(&[""], &["configmaps"], &["get", "list", "watch"]).named(&["extension-apiserver-authentication"])].into()
}

/// What Kubernetes itself puts into the roles that OLM binds operators to, for where they cannot be looked up.
#[must_use]
pub fn default_rules(role: &RoleKey) -> Option<Rules> {
    match (role.namespace.as_deref(), role.name.as_str()) {
        (None, "system:auth-delegator") => Some(default_auth_delegator()),
        (Some("kube-system"), "extension-apiserver-authentication-reader") => Some(default_authentication_reader()),
        _ => None,
    }
}

/// What OLM binds the operator's account to when it serves API services or webhooks.
fn of_serving<'r>(
    lookups: &Lookups<'_>,
    csv: &ClusterServiceVersion<'_>,
    namespace: &str,
) -> Result<Vec<Demand<'r>>, LookupError> {
    let deployments = csv.serving_deployments();
    if deployments.is_empty() {
        return Ok(Vec::new());
    }
    let delegator = RoleKey { namespace: None, name: "system:auth-delegator".to_owned() };
    let reader = RoleKey {
        namespace: Some("kube-system".to_owned()),
        name: "extension-apiserver-authentication-reader".to_owned(),
    };
    let why = |role: &RoleKey| format!("OLM binds an operator with API services or webhooks to {role}");
    let mut demands = vec![
        Demand::implied(
            Scope::Cluster,
            lookups.role(&delegator)?.unwrap_or_else(default_auth_delegator),
            bind(&delegator),
            why(&delegator),
        ),
        Demand::implied(
            Scope::of(reader.namespace.as_deref()),
            lookups.role(&reader)?.unwrap_or_else(default_authentication_reader),
            bind(&reader),
            why(&reader),
        ),
    ];
    let scope = Scope::Namespace(namespace.to_owned());
    for deployment in deployments {
        let secret = format!("{deployment}-service-cert");
        let why = format!("OLM lets an operator with API services or webhooks read its certificate, Secret {secret}");
        let rule = Rule { resource_names: vec![secret.into()], ..Rule::on(&[""], &["secrets"], &["get"]) };
        demands.push(Demand::implied(scope.clone(), [rule].into(), escalate_and_bind(&scope), why));
    }
    Ok(demands)
}

/// An operator that intercepts the API is as strong as what it intercepts.
fn of_webhooks<'r>(csv: &ClusterServiceVersion<'_>) -> Vec<Demand<'r>> {
    let kinds = ordered(csv.spec.webhookdefinitions.iter().filter_map(|webhook| match webhook.webhook_type.as_str() {
        "ValidatingAdmissionWebhook" => Some("validatingwebhookconfigurations"),
        "MutatingAdmissionWebhook" => Some("mutatingwebhookconfigurations"),
        _ => None,
    }));
    kinds
        .into_iter()
        .map(|kind| {
            let rules = [Rule::on(&["admissionregistration.k8s.io"], &[kind], &["create"])].into();
            Demand::implied(Scope::Cluster, rules, Vec::new(), format!("its webhookdefinitions make OLM create {kind}"))
        })
        .collect()
}

/// What OLM gives every operator by itself: access to its own OperatorCondition.
#[must_use]
pub fn operator_condition(csv: &str) -> Rule<'static> {
    let rule = Rule::on(&["operators.coreos.com"], &["operatorconditions"], &["get", "update", "patch"]);
    Rule { resource_names: vec![csv.to_owned().into()], ..rule }
}
