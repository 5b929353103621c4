//! Boundaries that hold more than what they bound needs.

use std::collections::BTreeMap;

use bounds::decide::Lookups;
use bounds::rbac::Identity;

use crate::derive::need::Needs;
use crate::derive::unused::{self, Unused};
use crate::derive::{DeriveError, Whom};

use super::admin::Admin;
use super::extension::Extension;
use super::judge::Judge;
use super::needs;
use super::operator::Operator;
use super::{Bound, Verdict};

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

/// Every boundary that holds more than is needed.
pub(super) fn of(judge: &Judge<'_>, operators: &[Operator], extensions: &[Extension]) -> Vec<Surplus> {
    let host = judge.host();
    let lookups = Lookups::new(&host);
    let mut found: Vec<Surplus> = Vec::new();
    for (bound, bounded) in by_account(operators) {
        found.extend(surplus(&lookups, bound, &bounded, &|| of_operators(&lookups, &bounded)));
    }
    for extension in extensions.iter().filter(|extension| extension.audited.verdict != Verdict::Unknown) {
        let needs = || Ok(needs::of_extension(&lookups, extension)?.unwrap_or_default());
        let is_known = extension.installed.as_ref().is_some_and(|installed| installed.partial.is_none());
        for bound in extension.audited.bounds.iter().filter(|_| is_known) {
            let name = vec![extension.audited.name.to_string()];
            found.extend(unneeded(&lookups, bound, name, &needs));
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

fn surplus(
    lookups: &Lookups<'_>,
    bound: &Bound,
    bounded: &[&Operator],
    needs: &dyn Fn() -> Result<Needs, DeriveError>,
) -> Option<Surplus> {
    unneeded(lookups, bound, bounded.iter().map(|operator| operator.audited.name.to_string()).collect(), needs)
}

fn of_operators(lookups: &Lookups<'_>, bounded: &[&Operator]) -> Result<Needs, DeriveError> {
    let Some(Operator { audited, targets: Some(targets), .. }) = bounded.first() else { return Ok(Needs::default()) };
    needs::of_operators(lookups, bounded, &audited.name.namespace, targets)
}

/// What a boundary holds for nothing; none where it holds nothing for nothing, or it cannot be determined.
fn unneeded(
    lookups: &Lookups<'_>,
    bound: &Bound,
    bounds: Vec<String>,
    needs: &dyn Fn() -> Result<Needs, DeriveError>,
) -> Option<Surplus> {
    let identity = Identity::user_in(&bound.user, Vec::new());
    let whom = match (identity.as_service_account(), bound.user.rsplit_once(':')) {
        (Some((namespace, name)), _) => Whom::Account { namespace: namespace.to_owned(), name: name.to_owned() },
        (None, Some((_, extension))) => Whom::Synthetic { extension: extension.to_owned() },
        (None, None) => return None,
    };
    let unused = needs().and_then(|needs| unused::of(lookups, &whom, &needs)).unwrap_or_default();
    let surplus = Surplus { label: bound.label.clone(), bounds, admin: bound.admin.clone(), unused };
    (!surplus.unused.is_empty() || !surplus.admin.is_empty()).then_some(surplus)
}
