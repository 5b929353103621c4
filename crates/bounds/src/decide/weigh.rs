//! What an operator requests, and what each of its boundaries allows.

use crate::decide::borrowed::{self, Operator};
use crate::decide::boundary::Boundary;
use crate::decide::claims;
use crate::decide::context::Context;
use crate::decide::demand::{self, Demand};
use crate::decide::excess::{Limit, namespaces};
use crate::decide::holders::{Holder, Reach, find};
use crate::decide::verdict::Refusal;

/// An operator, ready to be judged.
#[derive(Debug)]
pub struct Weighed<'r, 'b> {
    /// Everything it requests.
    pub demands: Vec<Demand<'r>>,
    /// What each boundary allows, in the order of the boundaries.
    pub limits: Vec<Limit<'b>>,
}

/// Everything the operator requests, and what each boundary allows: the bindings are read once for both.
pub fn weigh<'r, 'b>(
    cx: &Context<'_>,
    operator: &Operator<'r>,
    boundaries: &'b [Boundary],
) -> Result<Weighed<'r, 'b>, Refusal> {
    let mut demands = demand::of_csv(&cx.lookups, operator.csv, operator.namespace, operator.targets)?;
    let identities = boundaries.iter().map(|boundary| boundary.identity.clone()).chain(operator.accounts());
    // The operator's own accounts count in every scope, so the single cluster-wide list of RoleBindings serves all
    // purposes.
    let mut holders: Vec<Holder> = identities.map(Holder::new).collect();
    find(&cx.lookups, &mut holders, Reach::Everywhere)?;
    let accounts: Vec<Holder> = holders.split_off(boundaries.len());
    demands.extend(borrowed::demands(cx, operator, &accounts)?);
    let all: Vec<&Holder> = holders.iter().chain(&accounts).collect();
    demands.extend(claims::demands(cx, operator, &all)?);
    let judged = namespaces(&demands);
    let limits = boundaries
        .iter()
        .zip(holders)
        .map(|(boundary, holder)| Limit::new(cx, boundary, holder, &|namespace| judged.contains(namespace)))
        .collect::<Result<_, _>>()?;
    Ok(Weighed { demands, limits })
}
