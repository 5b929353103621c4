//! What an operator asks for, and what each of its boundaries holds: both sides of the scale.

use crate::borrowed::{self, Operator};
use crate::boundary::Boundary;
use crate::context::Context;
use crate::demand::{self, Demand};
use crate::excess::grants_of;
use crate::grant::{Grant, Held, Reach, held};
use crate::verdict::Refusal;

/// An operator, ready to be judged.
#[derive(Debug)]
pub struct Weighed<'r> {
    /// Everything it asks for.
    pub demands: Vec<Demand<'r>>,
    /// The roles that the boundaries hold where something is asked for, by the position of the boundary.
    pub held: Vec<Held>,
    /// What each boundary holds, in the order of the boundaries.
    pub grants: Vec<Grant>,
}

/// Everything the operator asks for, and what each boundary holds: the bindings are read once for both.
pub fn weigh<'r>(cx: &Context<'_>, operator: &Operator<'r>, boundaries: &[Boundary]) -> Result<Weighed<'r>, Refusal> {
    let mut demands = demand::of_csv(&cx.lookups, operator.csv, operator.namespace, operator.targets)?;
    let mut identities: Vec<_> = boundaries.iter().map(|boundary| boundary.identity.clone()).collect();
    identities.extend(operator.accounts());
    // The operator's own accounts count in every scope, so the one cluster-wide list of RoleBindings serves everything.
    let mut held = held(&cx.lookups, &identities, Reach::Everywhere)?;
    let borrowed = borrowed::demands(cx, operator, &held, boundaries.len())?;
    demands.extend(borrowed);
    // Of the boundaries only what counts in a judged scope is looked up any further.
    held.retain(|held| held.scope.namespace().is_none() || demands.iter().any(|demand| demand.scope == held.scope));
    let grants = grants_of(cx, &held, boundaries.len())?;
    Ok(Weighed { demands, held, grants })
}
