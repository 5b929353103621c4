//! What the service accounts of an operator's Deployments already hold: an operator must not borrow a stronger account
//! that happens to exist.

use std::cell::OnceCell;

use crate::cluster::{CLUSTER_SERVICE_VERSIONS, Get};
use crate::decide::authority::expandable;
use crate::decide::context::Context;
use crate::decide::demand::{self, Demand};
use crate::decide::holders::{Held, Holder};
use crate::decide::lookups::parse;
use crate::decide::verdict::Refusal;
use crate::olm::csv::ClusterServiceVersion;
use crate::olm::group::Targets;
use crate::rbac::covers::Index;
use crate::rbac::role::Rules;
use crate::rbac::rule::{Atom, Rule};
use crate::rbac::scope::Scope;
use crate::rbac::subject::Identity;

/// An operator whose accounts are examined.
#[derive(Debug)]
pub struct Operator<'r> {
    /// The ClusterServiceVersion that is judged.
    pub csv: &'r ClusterServiceVersion<'r>,
    /// Its previous state, in an UPDATE: what it brought then is still its own.
    pub before: Option<&'r ClusterServiceVersion<'r>>,
    /// The namespace it is installed in.
    pub namespace: &'r str,
    /// The namespaces that its OperatorGroup targets.
    pub targets: &'r Targets,
    /// Whether it may refer to the version it replaces. (An object that merely claims to be a copy may not.)
    pub may_replace: bool,
}

impl Operator<'_> {
    /// The accounts of its Deployments, without their groups: only bindings that name them directly count.
    #[must_use]
    pub(crate) fn accounts(&self) -> Vec<Identity> {
        accounts(self.csv, self.namespace)
    }
}

/// The accounts that the Deployments of a ClusterServiceVersion run as in this namespace, without their groups.
pub(crate) fn accounts(csv: &ClusterServiceVersion<'_>, namespace: &str) -> Vec<Identity> {
    csv.accounts().into_iter().map(|name| Identity::service_account(namespace, name).itself()).collect()
}

/// What one version of an operator declares: RBAC of its own that stays within this does not count as borrowed.
struct Declared<'r> {
    demands: Vec<Demand<'r>>,
    condition: [Rule<'static>; 1],
}

impl<'r> Declared<'r> {
    fn of(cx: &Context<'_>, operator: &Operator<'r>, csv: &'r ClusterServiceVersion<'r>) -> Result<Self, Refusal> {
        let demands = demand::of_csv(&cx.lookups, csv, operator.namespace, operator.targets)?;
        Ok(Declared { demands, condition: [demand::operator_condition(&csv.metadata.name)] })
    }

    /// The rules that this version does not declare for the scope. Anyone can label an existing binding, but the label
    /// hides nothing beyond what is judged as the version's own request anyway.
    fn leaves(&self, operator: &Operator<'_>, scope: &Scope, rules: &Rules) -> Option<Rules> {
        let here = |demand: &&Demand<'_>| demand.scopes.iter().any(|at| *at == Scope::Cluster || at == scope);
        let own = scope.namespace() == Some(operator.namespace);
        let condition = if own { &self.condition[..] } else { &[] };
        let declared = self.demands.iter().filter(here).flat_map(|demand| demand.rules.iter()).chain(condition);
        left(&Index::new(declared), rules)
    }
}

/// The part of the rules that is not covered; `None` if all of it is.
fn left(covered: &Index<'_>, rules: &Rules) -> Option<Rules> {
    let left: Vec<Rule<'static>> =
        covered.uncovered(rules).into_iter().map(Atom::to_rule).map(Rule::into_owned).collect();
    if left.is_empty() { None } else { Some(left.into()) }
}

/// The demands that result from what the accounts of the operator's Deployments hold.
pub(crate) fn demands<'r>(
    cx: &Context<'_>,
    operator: &Operator<'_>,
    accounts: &[Holder],
) -> Result<Vec<Demand<'r>>, Refusal> {
    let name = operator.csv.metadata.name.as_str();
    let replaces = operator.csv.spec.replaces.as_str();
    let own = std::iter::once(operator.csv).chain(operator.before);
    let own = own.map(|csv| Declared::of(cx, operator, csv)).collect::<Result<Vec<_>, _>>()?;
    let replaced = Replaced::default();
    let mut demands = Vec::new();
    for account in accounts {
        let Some((namespace, account_name)) = account.identity.as_service_account() else { continue };
        for held in &account.held {
            let Some(rules) = cx.lookups.role(&held.role)? else { continue };
            expandable(&rules)?;
            let binding = &held.binding;
            let counted = if is_operator_condition(held, &rules) {
                None
            } else if !name.is_empty() && binding.belongs_to(operator.namespace, name) {
                remaining(&own, operator, held, rules)
            } else if operator.may_replace && !replaces.is_empty() && binding.belongs_to(operator.namespace, replaces) {
                replaced.remaining(cx, operator, account_name, held, rules)?
            } else {
                Some(rules)
            };
            let Some(rules) = counted else { continue };
            let account = format!("{namespace}/{account_name}");
            demands.push(demand::of_held(held, rules, &account, "its Deployments"));
        }
    }
    Ok(demands)
}

/// Whether this is what OLM itself grants to every operator's account: access to one OperatorCondition, through a Role
/// of the same name. Operators that share an account hold each other's.
fn is_operator_condition(held: &Held, rules: &[Rule<'_>]) -> bool {
    let Some(namespace) = &held.role.namespace else { return false };
    held.scope.namespace() == Some(namespace) && *rules == [demand::operator_condition(&held.role.name)]
}

/// What none of these versions declares.
fn remaining(declared: &[Declared<'_>], operator: &Operator<'_>, held: &Held, rules: Rules) -> Option<Rules> {
    declared.iter().try_fold(rules, |rules, declared| declared.leaves(operator, &held.scope, &rules))
}

/// The version that is replaced, looked up only when something belongs to it. `replaces` is easily forged, so the
/// version must exist, must not be a copy, and must use the account in question.
#[derive(Default)]
struct Replaced {
    answer: OnceCell<Option<Vec<u8>>>,
}

impl Replaced {
    fn remaining(
        &self,
        cx: &Context<'_>,
        operator: &Operator<'_>,
        account: &str,
        held: &Held,
        rules: Rules,
    ) -> Result<Option<Rules>, Refusal> {
        let name = operator.csv.spec.replaces.as_str();
        let get = Get { resource: CLUSTER_SERVICE_VERSIONS, namespace: Some(operator.namespace), name };
        if self.answer.get().is_none() {
            let _ = self.answer.set(cx.lookups.get(get.resource, get.namespace, get.name)?);
        }
        let Some(Some(answer)) = self.answer.get() else { return Ok(Some(rules)) };
        let csv: ClusterServiceVersion<'_> = parse(answer, &get)?;
        if csv.copied_from(operator.namespace).is_some() || !csv.accounts().contains(account) {
            return Ok(Some(rules));
        }
        let old = Operator { csv: &csv, before: None, may_replace: false, ..*operator };
        Ok(remaining(&[Declared::of(cx, &old, &csv)?], operator, held, rules))
    }
}
