//! Role and ClusterRole that belong to an operator: their rules are bounded in the scope they apply to. This covers
//! roles that OLM lifts or copies without using the account, and `escalate` in RBAC that a bundle brings along.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::review::Review;
use crate::admission::Operation;
use crate::decide::demand::{self, Demand};
use crate::decide::verdict::{Admitted, Refusal};
use crate::olm::meta::Meta;
use crate::rbac::RBAC;
use crate::rbac::rule::Rule;
use crate::rbac::scope::Scope;
use crate::read::object::object;
use crate::read::text::Text;

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
    /// Whether both grant the same rights, now and later.
    pub(super) fn gives_the_same(&self, other: &RoleObject<'_>) -> bool {
        self.rules == other.rules
            && self.aggregation_rule.map(RawValue::get) == other.aggregation_rule.map(RawValue::get)
    }
}

pub(super) fn judge(cx: &Review<'_>) -> Verdict {
    let role: RoleObject<'_> = read_new(cx)?;
    let old: Option<RoleObject<'_>> = read_old(cx)?;
    if old.as_ref().is_some_and(|old| old.gives_the_same(&role)) && gives_to_the_same(cx)? {
        return Ok(Admitted("unchanged"));
    }
    let everything = Rule::everything();
    attribution::bound(cx, &Piece::Role(&role, old.as_ref()), &|scope| Ok(demands(cx, &role, scope, &everything)))
}

/// The prefix of the labels by which roles are aggregated into Kubernetes' own roles.
pub(super) const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";

object! {
    /// All labels of an object.
    #[derive(Debug, Default)]
    pub(super) struct Labelled<'a> {
        metadata: LabelledMeta<'a> = "metadata",
    }
}

object! {
    #[derive(Debug, Default)]
    struct LabelledMeta<'a> {
        labels: BTreeMap<Text<'a>, Text<'a>> = "labels",
    }
}

impl<'a> Labelled<'a> {
    /// The labels, including implied ones: what is aggregated into `view` also reaches `edit`, and through that
    /// `admin`.
    pub(super) fn with_what_follows(&self) -> BTreeMap<Text<'a>, Text<'a>> {
        let mut labels = BTreeMap::new();
        for (key, value) in &self.metadata.labels {
            labels.insert(key.clone(), value.clone());
        }
        let label = |role: &str| Text::from(format!("{AGGREGATE_TO}{role}"));
        for (smaller, larger) in [("view", "edit"), ("edit", "admin")] {
            if let Some(value) = labels.get(&label(smaller)).cloned() {
                labels.insert(label(larger), value);
            }
        }
        labels
    }

    /// Whether it may be aggregated into other roles at all.
    pub(super) fn is_taken_in(&self) -> bool {
        self.aggregating().next().is_some()
    }

    /// Whether it carries no label that aggregates it into a role of Kubernetes other than this one.
    pub(super) fn are_taken_in_by(&self, role: &str) -> bool {
        let mut named = self.metadata.labels.keys().filter_map(|key| key.strip_prefix(AGGREGATE_TO));
        named.all(|named| named == role)
    }

    /// The labels that may aggregate it into other roles: not those that OLM puts on everything that belongs to an
    /// operator.
    fn aggregating(&self) -> impl Iterator<Item = (&Text<'a>, &Text<'a>)> {
        self.metadata.labels.iter().filter(|(key, _)| {
            !matches!(
                key.as_str(),
                "olm.owner"
                    | "olm.owner.kind"
                    | "olm.owner.namespace"
                    | "olm.copiedFrom"
                    | "olm.managed"
                    | "olm.permissions.hash"
            ) && !key.starts_with("operators.coreos.com/")
        })
    }
}

/// Whether an UPDATE of a ClusterRole leaves the labels unchanged that may aggregate it into others: with such a label,
/// everyone bound to those roles gets its rules.
fn gives_to_the_same(cx: &Review<'_>) -> Result<bool, Refusal> {
    if cx.request.kind.kind != "ClusterRole" {
        return Ok(true);
    }
    let (new, old): (Labelled<'_>, Option<Labelled<'_>>) = (read_new(cx)?, read_old(cx)?);
    Ok(old.is_none_or(|old| new.aggregating().eq(old.aggregating())))
}

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
