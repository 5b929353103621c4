//! The rights that OLM v0 needs in an account to install something.

use crate::decide::demand::{Demand, DemandedRules};
use crate::olm::csv::ClusterServiceVersion;
use crate::olm::kinds::{self, plural};
use crate::olm::plan::Step;
use crate::rbac::RBAC;
use crate::rbac::rule::Rule;
use crate::rbac::scope::Scope;

const WRITE: &[&str] = &["get", "create", "update", "patch"];
const RUN: &[&str] = &["list", "watch", "get", "create", "update", "patch", "delete"];
const OPERATORS: &str = "operators.coreos.com";
/// What OLM does to an existing object of a kind that it has a Go type for.
const REPEAT: &[&str] = &["get", "patch"];
/// The same for a kind without a Go type, and for Deployments.
const REPLACE: &[&str] = &["get", "update"];

/// What any operator needs in the namespace of the OperatorGroup.
#[must_use]
pub(crate) fn in_namespace() -> [Rule<'static>; 5] {
    [
        Rule::on(&[OPERATORS], &["subscriptions", "clusterserviceversions"], WRITE),
        Rule::on(&[""], &["services", "serviceaccounts"], WRITE),
        Rule::on(&[RBAC], &["roles", "rolebindings"], WRITE),
        Rule::on(&["apps"], &["deployments"], RUN),
        Rule::on(&[""], &["pods"], RUN),
    ]
}

/// What OLM writes with the account of the group while it carries out the steps for one operator, and for its
/// ClusterServiceVersions afterwards. Nothing here exceeds what `derive` prints.
#[must_use]
pub fn of_install(
    steps: &[Step<'_>],
    operator: &str,
    csvs: &[ClusterServiceVersion<'_>],
    namespace: &str,
) -> Vec<Demand<'static>> {
    let mut writes = Writes { own: Scope::Namespace(namespace.to_owned()), rules: Vec::new() };
    for step in steps.iter().filter(|step| step.resolving == *operator) {
        writes.step(step);
    }
    for csv in csvs {
        writes.operator(csv);
    }
    writes.into_demands()
}

/// The collected writes of objects.
struct Writes {
    own: Scope,
    rules: Vec<(Scope, Rule<'static>)>,
}

impl Writes {
    fn step(&mut self, step: &Step<'_>) {
        let resource = &step.resource;
        let group = resource.group.as_str();
        let is_namespaced = kinds::resource(group, &resource.kind).is_none_or(|known| known.is_namespaced);
        let scope = if is_namespaced { self.own.clone() } else { Scope::Cluster };
        match resource.kind.as_str() {
            // Always written with OLM's own rights.
            "CustomResourceDefinition" => {}
            "ClusterServiceVersion" | "Subscription" => {
                self.write(&scope, OPERATORS, &plural(&resource.kind), &resource.name, &[]);
            }
            // OLM's kind for a Secret that comes with a bundle.
            "BundleSecret" => self.write(&scope, "", "secrets", &resource.name, REPEAT),
            "ConfigMap" | "Secret" | "Service" | "ServiceAccount" | "Role" | "RoleBinding" | "ClusterRole"
            | "ClusterRoleBinding" => self.write(&scope, group, &plural(&resource.kind), &resource.name, REPEAT),
            kind => self.write(&scope, group, &plural(kind), &resource.name, REPLACE),
        }
    }

    /// The Deployments, and the objects behind webhooks and API services.
    fn operator(&mut self, csv: &ClusterServiceVersion<'_>) {
        let own = self.own.clone();
        for deployment in &csv.strategy().deployments {
            self.write(&own, "apps", "deployments", &deployment.name, REPLACE);
        }
        for deployment in csv.serving_deployments() {
            let (service, secret) = (format!("{deployment}-service"), format!("{deployment}-service-cert"));
            // Server-side apply: a patch that creates.
            self.write(&own, "", "services", &service, &["patch"]);
            for (group, resource) in [("", "secrets"), (RBAC, "roles"), (RBAC, "rolebindings")] {
                self.write(&own, group, resource, &secret, REPEAT);
            }
            let delegator = format!("{service}-system:auth-delegator");
            self.write(&Scope::Cluster, RBAC, "clusterrolebindings", &delegator, &["patch"]);
            let kube_system = Scope::Namespace("kube-system".to_owned());
            self.write(&kube_system, RBAC, "rolebindings", &format!("{service}-auth-reader"), &["patch"]);
        }
    }

    /// Creating an object, and using these verbs on it by name afterwards.
    fn write(&mut self, scope: &Scope, group: &str, resource: &str, name: &str, afterwards: &[&str]) {
        self.rules.push((scope.clone(), Rule::on(&[group], &[resource], &["create"]).into_owned()));
        if !afterwards.is_empty() {
            self.rules.push((scope.clone(), Rule::on(&[group], &[resource], afterwards).named(&[name]).into_owned()));
        }
    }

    fn into_demands(self) -> Vec<Demand<'static>> {
        let mut demands: Vec<(Scope, Vec<Rule<'static>>)> = Vec::new();
        for (scope, rule) in self.rules {
            match demands.iter_mut().find(|(at, _)| *at == scope) {
                Some((_, rules)) => rules.push(rule),
                None => demands.push((scope, vec![rule])),
            }
        }
        let why = "creating and changing objects of the install is done by OLM with the account itself";
        let demand = |(scope, rules): (Scope, Vec<Rule<'static>>)| Demand {
            why: Some(why.to_owned()),
            ..Demand::plain(scope, DemandedRules::Shared(rules.into()))
        };
        demands.into_iter().map(demand).collect()
    }
}
