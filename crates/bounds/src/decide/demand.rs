//! What an operator requests: what it declares, and what is implied by what OLM does for it.

use std::ops::Deref;
use std::rc::Rc;

use crate::cluster::LookupError;
use crate::decide::holders::Held;
use crate::decide::lookups::Lookups;
use crate::olm::csv::{ClusterServiceVersion, Permission};
use crate::olm::group::Targets;
use crate::rbac::RBAC;
use crate::rbac::role::{RoleKey, Rules};
use crate::rbac::rule::Rule;
use crate::rbac::scope::Scope;
use crate::read::order::ordered;

/// Rules that would be held if the object were admitted.
#[derive(Debug)]
pub struct Demand<'r> {
    /// Where the rules would be held: in each of these scopes. One demand serves them all, however many namespaces a
    /// group targets.
    pub scopes: Rc<[Scope]>,
    /// The rules that would be held.
    pub rules: DemandedRules<'r>,
    /// The rights with which the API server's own escalation check would let it pass.
    pub honored: Honored,
    /// The place in the object where it is declared.
    pub origin: Origin,
    /// Why it is requested, for a person who would not find it in the object.
    pub why: Option<String>,
}

/// Where a demand is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In this entry of `spec.install.spec.permissions`.
    Permissions(usize),
    /// In this entry of `spec.install.spec.clusterPermissions`.
    ClusterPermissions(usize),
    /// Somewhere else: in a role, or nowhere, because it is implied.
    Elsewhere,
}

/// The rights that make the API server skip its escalation check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Honored {
    /// No right has that effect.
    Nothing,
    /// `escalate` on roles where a role is written, and `bind` on roles of any name where it is then bound.
    EscalateAndBind,
    /// All of these rights together.
    Rules(Vec<Rule<'static>>),
}

impl Honored {
    /// The rights in one scope; empty where nothing is honoured.
    #[must_use]
    pub fn in_scope(&self, scope: &Scope) -> Vec<Rule<'static>> {
        match (self, scope) {
            (Honored::Nothing, _) => Vec::new(),
            (Honored::Rules(rules), _) => rules.clone(),
            (Honored::EscalateAndBind, Scope::Cluster) => {
                vec![Rule::on(&[RBAC], &["clusterroles"], &["escalate", "bind"])]
            }
            (Honored::EscalateAndBind, Scope::Namespace(_)) => {
                vec![Rule::on(&[RBAC], &["roles"], &["escalate", "bind"])]
            }
        }
    }
}

/// Rules from the object itself, or from a role in the cluster.
#[derive(Debug)]
pub enum DemandedRules<'r> {
    /// From the object in the request.
    Declared(&'r [Rule<'r>]),
    /// From a role in the cluster.
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

/// `bind` on this one role.
#[must_use]
pub(crate) fn bind(role: &RoleKey) -> Honored {
    let rule = Rule::on(&[RBAC], &[role.resource()], &["bind"]);
    Honored::Rules(vec![Rule { resource_names: vec![role.name.clone().into()], ..rule }])
}

impl<'r> Demand<'r> {
    /// Rules in one scope, for which nothing is honoured.
    #[must_use]
    pub(crate) fn plain(scope: Scope, rules: DemandedRules<'r>) -> Self {
        Demand { scopes: [scope].into(), rules, honored: Honored::Nothing, origin: Origin::Elsewhere, why: None }
    }

    fn declared(scopes: &Rc<[Scope]>, permission: &'r Permission<'r>, origin: Origin) -> Self {
        let rules = DemandedRules::Declared(&permission.rules);
        Demand { scopes: Rc::clone(scopes), rules, honored: Honored::EscalateAndBind, origin, why: None }
    }

    fn implied(scope: Scope, rules: Rules, honored: Honored, why: String) -> Self {
        Demand { honored, why: Some(why), ..Demand::plain(scope, DemandedRules::Shared(rules)) }
    }

    /// Whether another demand asks for the same rules with the same rights honoured.
    #[must_use]
    pub(crate) fn asks_like(&self, other: &Demand<'_>) -> bool {
        self.honored == other.honored && self.rules[..] == other.rules[..]
    }
}

/// What a role requests. A role with an aggregationRule requests everything.
#[must_use]
pub(crate) fn of_role<'r>(
    scope: &Scope,
    rules: &'r [Rule<'r>],
    is_aggregated: bool,
    escalate: &Rule<'static>,
    everything: &'r [Rule<'r>],
) -> Vec<Demand<'r>> {
    let demand = |rules, why| Demand {
        honored: Honored::Rules(vec![escalate.clone()]),
        why,
        ..Demand::plain(scope.clone(), DemandedRules::Declared(rules))
    };
    let mut demands = vec![demand(rules, None)];
    if is_aggregated {
        let why = "an aggregationRule picks up whatever is labelled for it later, so it requires full authority";
        demands.push(demand(everything, Some(why.to_owned())));
    }
    demands
}

/// What an account that pods would run as already holds. `whose` names the pods: `its Deployments`, `its pods`.
#[must_use]
pub(crate) fn of_held<'r>(held: &Held, rules: Rules, account: &str, whose: &str) -> Demand<'r> {
    let why = format!(
        "ServiceAccount {account}, which {whose} run as, already holds {} through {} {}: remove that binding, or run \
         them as another account",
        held.role,
        held.binding_kind(),
        held.binding.name
    );
    Demand::implied(held.scope.clone(), rules, bind(&held.role), why)
}

/// What a ClusterServiceVersion requests in a group with these targets, declared and implied.
pub fn of_csv<'r>(
    lookups: &Lookups<'_>,
    csv: &'r ClusterServiceVersion<'r>,
    namespace: &str,
    targets: &Targets,
) -> Result<Vec<Demand<'r>>, LookupError> {
    let mut demands = Vec::new();
    let strategy = csv.strategy();
    let scopes: Rc<[Scope]> = permission_scopes(namespace, targets).into();
    for (entry, permission) in strategy.permissions.iter().enumerate() {
        demands.push(Demand::declared(&scopes, permission, Origin::Permissions(entry)));
    }
    let cluster: Rc<[Scope]> = [Scope::Cluster].into();
    for (entry, permission) in strategy.cluster_permissions.iter().enumerate() {
        demands.push(Demand::declared(&cluster, permission, Origin::ClusterPermissions(entry)));
    }
    if *targets == Targets::All && !strategy.permissions.is_empty() {
        demands.push(Demand::implied(
            Scope::Cluster,
            [Rule::on(&[""], &["namespaces"], &["get", "list", "watch"])].into(),
            Honored::EscalateAndBind,
            "reading namespaces comes from OLM, which adds it when it lifts permissions to all namespaces".to_owned(),
        ));
    }
    demands.extend(of_serving(lookups, csv, namespace)?);
    demands.extend(of_webhooks(csv));
    Ok(demands)
}

/// Where `permissions` apply: in the operator's own namespace and in every target, or in the whole cluster.
pub(crate) fn permission_scopes(namespace: &str, targets: &Targets) -> Vec<Scope> {
    match targets {
        Targets::All => vec![Scope::Cluster],
        Targets::Namespaces(targets) => {
            let own = (!targets.contains(namespace)).then(|| namespace.to_owned());
            own.into_iter().chain(targets.iter().cloned()).map(Scope::Namespace).collect()
        }
    }
}

/// The rules that Kubernetes ships in `system:auth-delegator`.
fn default_auth_delegator() -> Rules {
    [
        Rule::on(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
        Rule::on(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
    ]
    .into()
}

/// The rules that Kubernetes ships in `kube-system/extension-apiserver-authentication-reader`.
fn default_authentication_reader() -> Rules {
    [Rule::on(&[""], &["configmaps"], &["get", "list", "watch"]).named(&["extension-apiserver-authentication"])].into()
}

/// The rules that Kubernetes ships in the roles that OLM binds operators to, for use where the roles cannot be looked
/// up.
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
        demands.push(Demand::implied(scope.clone(), [rule].into(), Honored::EscalateAndBind, why));
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
            Demand::implied(
                Scope::Cluster,
                rules,
                Honored::Nothing,
                format!("its webhookdefinitions make OLM create {kind}"),
            )
        })
        .collect()
}

/// What OLM grants to every operator: access to its own OperatorCondition.
#[must_use]
pub(crate) fn operator_condition(csv: &str) -> Rule<'static> {
    let rule = Rule::on(&["operators.coreos.com"], &["operatorconditions"], &["get", "update", "patch"]);
    Rule { resource_names: vec![csv.to_owned().into()], ..rule }
}
