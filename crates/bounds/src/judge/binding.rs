//! RoleBinding and ClusterRoleBinding: what an operator is bound to stays within its boundary, and nobody gives the
//! account of an OperatorGroup the right to write CRDs or APIServices.

use std::rc::Rc;

use crate::context::Context;
use crate::demand::{self, Demand, DemandedRules};
use crate::grant::RoleRef;
use crate::group;
use crate::meta::Meta;
use crate::object::object;
use crate::subject::{Identity, Subject};
use crate::verdict::{Admitted, Refusal};
use crate::writes;

use super::{Verdict, read_new, read_old, role, said};

object! {
    #[derive(Debug, Default)]
    struct Binding<'a> {
        metadata: Meta<'a> = "metadata",
        role_ref: RoleRef<'a> = "roleRef",
        subjects: Vec<Subject<'a>> = "subjects",
    }
}

pub(super) fn judge(cx: &Context<'_>) -> Verdict {
    let binding: Binding<'_> = read_new(cx)?;
    let old: Option<Binding<'_>> = read_old(cx)?;
    if let Some(old) = &old
        && old.role_ref == binding.role_ref
        && old.subjects == binding.subjects
    {
        return Ok(Admitted("unchanged"));
    }
    cluster_writes(cx, &binding)?;
    let Some(owner) = role::owner(cx, &binding.metadata, old.as_ref().map(|old| &old.metadata))? else {
        return Ok(Admitted("not-judged"));
    };
    role::bound_by(cx, &owner, &binding.metadata, |scope| {
        let Some(key) = binding.role_ref.key(scope.namespace()) else { return Err(missing_role(cx, &binding)) };
        let Some(rules) = cx.lookups.role(&key)? else { return Err(missing_role(cx, &binding)) };
        Ok(vec![Demand {
            scope: scope.clone(),
            rules: DemandedRules::Shared(Rc::clone(&rules)),
            honored: demand::bind(&key),
            why: Some(format!("this is what {key} holds")),
        }])
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
    if cx.request.kind.kind != "ClusterRoleBinding" || !writes::is_judged(cx) || binding.subjects.is_empty() {
        return Ok(());
    }
    if !binding.subjects.iter().any(may_name_an_account) {
        return Ok(());
    }
    let groups = group::groups(&cx.lookups, |group| {
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
