//! Boundaries that hold more than what they bound needs.

use std::collections::BTreeMap;

use bounds::decide::{Lookups, SYNTHETIC_USER_PREFIX};
use bounds::rbac::Identity;

use crate::derive::need::Needs;
use crate::derive::unused::{self, Unused};
use crate::derive::{DeriveError, Whom};

use super::Bound;
use super::admin::Admin;
use super::extension::Extension;
use super::judge::Judge;
use super::needs;
use super::operator::Operator;

/// A boundary, and what it holds for nothing.
#[derive(Debug)]
pub struct Surplus {
    /// `ServiceAccount team-a/installer`.
    pub label: String,
    /// The operators that it bounds.
    pub bounds: Vec<String>,
    /// Whether it is cluster-admin, and so bounds nothing.
    pub admin: Vec<Admin>,
    /// What none of them needs, by binding.
    pub unused: Vec<Unused>,
}

/// Every boundary that holds more than is needed. What could not be found out is noted.
pub(super) fn of(
    judge: &Judge<'_>,
    operators: &[Operator],
    extensions: &[Extension],
    notes: &mut Vec<String>,
) -> Vec<Surplus> {
    let mut found = Vec::new();
    for (bound, bounded) in by_account(operators) {
        let host = judge.host();
        let lookups = Lookups::new(&host);
        let names = bounded.iter().map(|operator| operator.audited.name.to_string()).collect();
        let needs = of_operators(&lookups, &bounded);
        found.extend(surplus(&lookups, bound, names, needs, notes));
    }
    for extension in extensions {
        let host = judge.host();
        let lookups = Lookups::new(&host);
        for bound in &extension.audited.bounds {
            // Without its content nobody knows what it needs; that is said already.
            if let Some(needs) = needs::of_extension(&lookups, extension).transpose() {
                let names = vec![extension.audited.name.to_string()];
                found.extend(surplus(&lookups, bound, names, needs, notes));
            }
        }
    }
    found
}

/// The operators that each account bounds.
fn by_account(operators: &[Operator]) -> Vec<(&Bound, Vec<&Operator>)> {
    let mut accounts: BTreeMap<&str, (&Bound, Vec<&Operator>)> = BTreeMap::new();
    for operator in operators {
        for bound in &operator.audited.bounds {
            accounts.entry(&bound.user).or_insert((bound, Vec::new())).1.push(operator);
        }
    }
    accounts.into_values().collect()
}

fn of_operators(lookups: &Lookups<'_>, bounded: &[&Operator]) -> Result<Needs, DeriveError> {
    let Some(Operator { audited, targets: Some(targets), .. }) = bounded.first() else { return Ok(Needs::default()) };
    needs::of_operators(lookups, bounded, &audited.name.namespace, targets)
}

/// What a boundary holds for nothing; none where that is nothing.
fn surplus(
    lookups: &Lookups<'_>,
    bound: &Bound,
    bounds: Vec<String>,
    needs: Result<Needs, DeriveError>,
    notes: &mut Vec<String>,
) -> Option<Surplus> {
    let unused = needs.and_then(|needs| unused::of(lookups, &whom(&bound.user), &needs)).unwrap_or_else(|error| {
        notes.push(format!("whether {} holds more than it needs could not be determined: {error}", bound.label));
        Vec::new()
    });
    let surplus = Surplus { label: bound.label.clone(), bounds, admin: bound.admin.clone(), unused };
    (!surplus.unused.is_empty() || !surplus.admin.is_empty()).then_some(surplus)
}

fn whom(user: &str) -> Whom {
    match Identity::user_in(user, Vec::new()).as_service_account() {
        Some((namespace, name)) => Whom::Account { namespace: namespace.to_owned(), name: name.to_owned() },
        None => Whom::Synthetic { extension: user.strip_prefix(SYNTHETIC_USER_PREFIX).unwrap_or(user).to_owned() },
    }
}
