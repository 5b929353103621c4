//! RoleBinding and ClusterRoleBinding: what an operator is bound to stays within its boundary, and nobody gives the
//! account of an OperatorGroup the right to write CRDs or APIServices.

use crate::context::Context;
use crate::covers::Index;
use crate::demand::{self, Demand, DemandedRules};
use crate::grant::RoleRef;
use crate::group;
use crate::lookups::Rules;
use crate::meta::Meta;
use crate::object::object;
use crate::rule::Rule;
use crate::scope::Scope;
use crate::subject::{Identity, Subject};
use crate::verdict::{Admitted, Refusal};
use crate::writes;

use super::{Verdict, read_new, read_old, role, said, synthetic};

object! {
    #[derive(Debug, Default)]
    pub(super) struct Binding<'a> {
        pub(super) metadata: Meta<'a> = "metadata",
        pub(super) role_ref: RoleRef<'a> = "roleRef",
        pub(super) subjects: Vec<Subject<'a>> = "subjects",
    }
}

pub(super) fn judge(cx: &Context<'_>) -> Verdict {
    let binding: Binding<'_> = read_new(cx)?;
    let old: Option<Binding<'_>> = read_old(cx)?;
    if old.as_ref().is_some_and(|old| old.gives_the_same(&binding)) {
        return Ok(Admitted("unchanged"));
    }
    synthetic::judge(cx, &binding, true)?;
    cluster_writes(cx, &binding)?;
    if let Some(owner) = role::owner(cx, &binding.metadata, old.as_ref().map(|old| &old.metadata))? {
        let demands = |scope: &Scope| Ok(vec![demand(cx, &binding, scope)?]);
        return role::bound_by(cx, &owner, &binding.metadata, &binding.subjects, &demands);
    }
    let Some(owner) = role::owner_by_subjects(cx, &binding.subjects)? else { return Ok(Admitted("not-judged")) };
    role::bound_by(cx, &owner, &binding.metadata, &binding.subjects, &|scope| {
        let mut demand = demand(cx, &binding, scope)?;
        demand.rules = DemandedRules::Shared(beside_its_condition(&demand.rules, scope));
        Ok(vec![demand])
    })
}

/// The rules without what OLM gives to every operator in its namespace: access to its OperatorCondition.
fn beside_its_condition(rules: &[Rule<'_>], scope: &Scope) -> Rules {
    let condition = [Rule::on(&["operators.coreos.com"], &["operatorconditions"], &["get", "update", "patch"])];
    let given = if scope.namespace().is_some() { &condition[..] } else { &[] };
    Index::new(given).uncovered(rules).into_iter().map(|atom| atom.to_rule().into_owned()).collect()
}

impl Binding<'_> {
    /// Whether both give the same to the same.
    pub(super) fn gives_the_same(&self, other: &Binding<'_>) -> bool {
        self.role_ref == other.role_ref && self.subjects == other.subjects
    }
}

/// What a binding asks for: what the role holds that it refers to.
pub(super) fn demand<'r>(cx: &Context<'_>, binding: &Binding<'_>, scope: &Scope) -> Result<Demand<'r>, Refusal> {
    let Some(key) = binding.role_ref.key(scope.namespace()) else { return Err(missing_role(cx, binding)) };
    let Some(rules) = cx.lookups.role(&key)? else { return Err(missing_role(cx, binding)) };
    Ok(Demand {
        scope: scope.clone(),
        rules: DemandedRules::Shared(rules),
        honored: demand::bind(&key),
        why: Some(format!("this is what {key} holds")),
    })
}

/// A binding to nothing could be filled later: bind first, fill later.
fn missing_role(cx: &Context<'_>, binding: &Binding<'_>) -> Refusal {
    let message = format!(
        "{} refers to {} {}, which does not exist, so nobody can tell what it would give. Create the role first.",
        said(cx, &binding.metadata.said_name()),
        binding.role_ref.kind,
        binding.role_ref.name
    );
    Refusal::Exceeds { lines: vec![message.clone()], message }
}

/// Only a ClusterRoleBinding gives anything at cluster scope. Later edits of the role are the audit's to show.
fn cluster_writes(cx: &Context<'_>, binding: &Binding<'_>) -> Result<(), Refusal> {
    if cx.request.kind.kind != "ClusterRoleBinding" || !writes::is_judged(cx) || cx.is_olm_v1() {
        return Ok(());
    }
    if !binding.subjects.iter().any(may_name_an_account) {
        return Ok(());
    }
    let groups = group::groups(&cx.lookups, &|group| {
        let account = &group.spec.service_account_name;
        if account.is_empty() {
            return false;
        }
        let identity = Identity::service_account(&group.metadata.namespace, account);
        binding.subjects.iter().any(|subject| identity.named_by(subject, None))
    })?;
    let judged: Vec<_> = groups.iter().filter(|group| !cx.settings.exempts_namespace(&group.namespace)).collect();
    let (Some(group), Some(key)) = (judged.first(), binding.role_ref.key(None)) else { return Ok(()) };
    let Some(rules) = cx.lookups.role(&key)? else { return Ok(()) };
    let account = group.account.as_deref().unwrap_or_default();
    let what = format!(
        "{} would let ServiceAccount {}/{account} of {group}",
        said(cx, &binding.metadata.said_name()),
        group.namespace
    );
    writes::check(cx, &what, rules.iter())
}

/// Whether a subject could be a service account at all: most bindings are for people.
fn may_name_an_account(subject: &Subject<'_>) -> bool {
    match subject.kind.as_str() {
        "ServiceAccount" => true,
        "User" => subject.name.starts_with(crate::subject::SERVICE_ACCOUNT_PREFIX),
        "Group" => subject.name.starts_with("system:serviceaccounts") || subject.name == "system:authenticated",
        _ => false,
    }
}
