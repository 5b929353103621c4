//! What the service accounts of an operator's Deployments already hold (specification 2.4, point 6): an operator must
//! not borrow a stronger account that happens to exist.

use std::cell::OnceCell;

use crate::cluster::{CLUSTER_SERVICE_VERSIONS, Get};
use crate::context::Context;
use crate::covers::Index;
use crate::csv::ClusterServiceVersion;
use crate::demand::{self, Demand};
use crate::grant::Held;
use crate::group::Targets;
use crate::lookups::{Rules, parse};
use crate::rule::{Atom, Rule};
use crate::scope::Scope;
use crate::subject::Identity;
use crate::verdict::Refusal;

/// An operator whose accounts are looked at.
#[derive(Debug)]
pub struct Operator<'r> {
    /// Its ClusterServiceVersion.
    pub csv: &'r ClusterServiceVersion<'r>,
    /// The same as it was, in an UPDATE: what it brought then is still its own.
    pub before: Option<&'r ClusterServiceVersion<'r>>,
    /// Its namespace.
    pub namespace: &'r str,
    /// What its group reaches.
    pub targets: &'r Targets,
    /// Whether it may point to the version it replaces. (Something that only claims to be a copy may not.)
    pub may_replace: bool,
}

impl Operator<'_> {
    /// The accounts of its Deployments, as subjects name them: not through groups.
    #[must_use]
    pub fn accounts(&self) -> Vec<Identity> {
        let accounts = self.csv.accounts();
        accounts.into_iter().map(|name| Identity::service_account(self.namespace, name).itself()).collect()
    }
}

/// What one version of an operator declares: as far as that goes, its own RBAC does not count as borrowed.
struct Declared<'r> {
    demands: Vec<Demand<'r>>,
    condition: [Rule<'static>; 1],
}

impl<'r> Declared<'r> {
    fn of(cx: &Context<'_>, operator: &Operator<'r>, csv: &'r ClusterServiceVersion<'r>) -> Result<Self, Refusal> {
        let demands = demand::of_csv(&cx.lookups, csv, operator.namespace, operator.targets)?;
        Ok(Declared { demands, condition: [demand::operator_condition(&csv.metadata.name)] })
    }

    /// The rules that this version does not declare for the scope. A label is easily put on a binding that was there
    /// before; it hides no more than what is judged as the version's own request anyway.
    fn leaves(&self, operator: &Operator<'_>, scope: &Scope, rules: &Rules) -> Option<Rules> {
        let here = |demand: &&Demand<'_>| demand.scope == Scope::Cluster || demand.scope == *scope;
        let own = scope.namespace() == Some(operator.namespace);
        let condition = if own { &self.condition[..] } else { &[] };
        let declared = self.demands.iter().filter(here).flat_map(|demand| demand.rules.iter()).chain(condition);
        let left: Vec<Rule<'static>> = {
            let index = Index::new(declared);
            index.uncovered(rules).into_iter().map(Atom::to_rule).map(Rule::into_owned).collect()
        };
        if left.is_empty() { None } else { Some(left.into()) }
    }
}

/// The demands that arise from what the accounts hold. `held` is the answer for [`Operator::accounts`], whose first
/// account has the number `first`.
pub fn demands<'r>(
    cx: &Context<'_>,
    operator: &Operator<'_>,
    held: &[Held],
    first: usize,
) -> Result<Vec<Demand<'r>>, Refusal> {
    let name = operator.csv.metadata.name.as_str();
    let replaces = operator.csv.spec.replaces.as_str();
    let accounts: Vec<&str> = operator.csv.accounts().into_iter().collect();
    let own = std::iter::once(operator.csv).chain(operator.before);
    let own = own.map(|csv| Declared::of(cx, operator, csv)).collect::<Result<Vec<_>, _>>()?;
    let replaced = Replaced::default();
    let mut demands = Vec::new();
    for held in held.iter().filter(|held| held.identity >= first) {
        let Some(rules) = cx.lookups.role(&held.role)? else { continue };
        let Some(account) = accounts.get(held.identity - first) else { continue };
        let binding = held.binding()?;
        let mut counted = Some(rules);
        if !name.is_empty() && binding.belongs_to(operator.namespace, name) {
            counted = remaining(&own, operator, held, counted);
        } else if operator.may_replace && !replaces.is_empty() && binding.belongs_to(operator.namespace, replaces) {
            counted = replaced.remaining(cx, operator, account, held, counted)?;
        }
        let Some(rules) = counted else { continue };
        let account = format!("{}/{account}", operator.namespace);
        demands.push(demand::of_held(held, rules, &binding.name, &account, "its Deployments"));
    }
    Ok(demands)
}

/// What none of these versions declares.
fn remaining(declared: &[Declared<'_>], operator: &Operator<'_>, held: &Held, rules: Option<Rules>) -> Option<Rules> {
    declared.iter().fold(rules, |rules, declared| declared.leaves(operator, &held.scope, &rules?))
}

/// The version that is replaced, looked up when something belongs to it. `replaces` is easily forged: the version must
/// exist, be no copy, and use the account in question.
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
        rules: Option<Rules>,
    ) -> Result<Option<Rules>, Refusal> {
        let name = operator.csv.spec.replaces.as_str();
        let get = Get { resource: CLUSTER_SERVICE_VERSIONS, namespace: Some(operator.namespace), name };
        if self.answer.get().is_none() {
            let _ = self.answer.set(cx.lookups.get(get.resource, get.namespace, get.name)?);
        }
        let Some(Some(answer)) = self.answer.get() else { return Ok(rules) };
        let csv: ClusterServiceVersion<'_> = parse(answer, &get)?;
        if csv.copied_from(operator.namespace).is_some() || !csv.accounts().contains(account) {
            return Ok(rules);
        }
        let old = Operator { csv: &csv, before: None, may_replace: false, ..*operator };
        Ok(remaining(&[Declared::of(cx, &old, &csv)?], operator, held, rules))
    }
}
