//! Role and ClusterRole that belong to an operator: their rules are bounded where they land. This closes the lifting and
//! copying past the account, and `escalate` in RBAC that a bundle brings along.

use serde_json::value::RawValue;

use super::review::Review;
use crate::admission::Operation;
use crate::decide::demand::{self, Demand};
use crate::decide::verdict::Admitted;
use crate::olm::meta::Meta;
use crate::rbac::RBAC;
use crate::rbac::rule::Rule;
use crate::rbac::scope::Scope;
use crate::read::object::object;

use super::attribution::{self, Piece};
use super::{Verdict, read_new, read_old};

object! {
    /// A Role or a ClusterRole.
    #[derive(Debug, Default)]
    pub(super) struct RoleObject<'a> {
        pub(super) metadata: Meta<'a> = "metadata",
        pub(super) rules: Vec<Rule<'a>> = "rules",
        pub(super) aggregation_rule: Option<&'a RawValue> = "aggregationRule",
    }
}

impl RoleObject<'_> {
    /// Whether both give the same rights, now and later.
    pub(super) fn gives_the_same(&self, other: &RoleObject<'_>) -> bool {
        self.rules == other.rules
            && self.aggregation_rule.map(RawValue::get) == other.aggregation_rule.map(RawValue::get)
    }
}

pub(super) fn judge(cx: &Review<'_>) -> Verdict {
    let role: RoleObject<'_> = read_new(cx)?;
    let old: Option<RoleObject<'_>> = read_old(cx)?;
    if old.as_ref().is_some_and(|old| old.gives_the_same(&role)) {
        return Ok(Admitted("unchanged"));
    }
    let everything = Rule::everything();
    attribution::bound(cx, &Piece::Role(&role, old.as_ref()), &|scope| Ok(demands(cx, &role, scope, &everything)))
}

/// What a role asks for.
pub(super) fn demands<'r>(
    cx: &Review<'_>,
    role: &'r RoleObject<'r>,
    scope: &Scope,
    everything: &'r [Rule<'r>],
) -> Vec<Demand<'r>> {
    demand::of_role(scope, &role.rules, role.aggregation_rule.is_some(), &escalate(cx), everything)
}

/// The right that makes the API server skip its own escalation check. There is no name yet when an object is created.
fn escalate(cx: &Review<'_>) -> Rule<'static> {
    let resource = if cx.request.kind.kind == "Role" { "roles" } else { "clusterroles" };
    let rule = Rule::on(&[RBAC], &[resource], &["escalate"]);
    match cx.request.operation {
        Operation::Update => Rule { resource_names: vec![cx.request.name.to_string().into()], ..rule },
        _ => rule,
    }
}
