//! RoleBinding and ClusterRoleBinding: what an operator is bound to stays within its boundary, and the account of an
//! OperatorGroup must not be given the right to write CRDs or APIServices.

use super::review::Review;
use crate::decide::demand::{self, Demand, DemandedRules};
use crate::decide::groups;
use crate::decide::message;
use crate::decide::verdict::{Admitted, Refusal, Refused};
use crate::decide::writes;
use crate::olm::meta::Meta;
use crate::rbac::role::RoleRef;
use crate::rbac::scope::Scope;
use crate::rbac::subject::{Identity, Subject};
use crate::read::object::object;

use super::attribution::{self, Piece};
use super::{Verdict, describe, read_new, read_old, synthetic};

object! {
    #[derive(Debug, Default)]
    pub(super) struct Binding<'a> {
        pub(super) metadata: Meta<'a> = "metadata",
        pub(super) role_ref: RoleRef<'a> = "roleRef",
        pub(super) subjects: Vec<Subject<'a>> = "subjects",
    }
}

pub(super) fn judge(cx: &Review<'_>) -> Verdict {
    let binding: Binding<'_> = read_new(cx)?;
    let old: Option<Binding<'_>> = read_old(cx)?;
    if old.as_ref().is_some_and(|old| old.gives_the_same(&binding)) {
        return Ok(Admitted("unchanged"));
    }
    synthetic::judge(cx, &binding, true)?;
    cluster_writes(cx, &binding)?;
    attribution::bound(cx, &Piece::Binding(&binding, old.as_ref()), &|scope| Ok(vec![demand(cx, &binding, scope)?]))
}

impl Binding<'_> {
    /// Whether both bind the same role to the same subjects.
    pub(super) fn gives_the_same(&self, other: &Binding<'_>) -> bool {
        self.role_ref == other.role_ref && self.subjects == other.subjects
    }
}

/// What a binding requests: the rules of the role that it refers to.
pub(super) fn demand<'r>(cx: &Review<'_>, binding: &Binding<'_>, scope: &Scope) -> Result<Demand<'r>, Refusal> {
    let Some(key) = binding.role_ref.key(scope.namespace()) else { return Err(missing_role(cx, binding)) };
    let Some(rules) = cx.lookups.role(&key)? else { return Err(missing_role(cx, binding)) };
    Ok(Demand {
        honored: demand::bind(&key),
        why: Some(format!("this is what {key} holds")),
        ..Demand::plain(scope.clone(), DemandedRules::Shared(rules))
    })
}

/// A binding to a missing role is refused, because the role could be filled in after the binding was admitted.
fn missing_role(cx: &Review<'_>, binding: &Binding<'_>) -> Refusal {
    let message = message::clean(&format!(
        "{} refers to {} {}, which does not exist, so what it would grant cannot be determined. Create the role first.",
        describe(cx, &binding.metadata.display_name()),
        binding.role_ref.kind,
        binding.role_ref.name
    ));
    Refused::Exceeds { lines: vec![message.clone()], message }.into()
}

/// Only a ClusterRoleBinding grants anything at cluster scope. Later edits of the role are reported by the audit.
pub(super) fn cluster_writes(cx: &Review<'_>, binding: &Binding<'_>) -> Result<(), Refusal> {
    if cx.request.kind.kind != "ClusterRoleBinding" || !writes::is_judged(cx) {
        return Ok(());
    }
    if !binding.subjects.iter().any(may_name_an_account) {
        return Ok(());
    }
    let groups = groups::groups(&cx.lookups, &|group| {
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
        describe(cx, &binding.metadata.display_name()),
        group.namespace
    );
    writes::check(cx, &what, rules.iter())
}

/// Whether a subject could be a service account at all: most bindings are for people.
fn may_name_an_account(subject: &Subject<'_>) -> bool {
    match subject.kind.as_str() {
        "ServiceAccount" => true,
        "User" => subject.name.starts_with(crate::rbac::subject::SERVICE_ACCOUNT_PREFIX),
        "Group" => subject.name.starts_with("system:serviceaccounts") || subject.name == "system:authenticated",
        _ => false,
    }
}
