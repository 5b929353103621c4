//! Subscription: warns early about what will happen to what it installs.

use super::review::Review;
use crate::decide::boundary::Boundary;
use crate::decide::groups;
use crate::decide::guard::{self, Choice};
use crate::decide::message::shell;
use crate::decide::verdict::{Admitted, Reason, Refusal};
use crate::olm::group::Group;
use crate::olm::meta::Meta;
use crate::read::object::object;
use crate::read::text::Text;
use crate::settings::Severity;

use super::{Verdict, describe, manual, namespace_of, read_new, read_old, same_spec};

object! {
    #[derive(Debug, Default)]
    struct Subscription<'a> {
        metadata: Meta<'a> = "metadata",
        spec: Spec<'a> = "spec",
    }
}

object! {
    #[derive(Default, PartialEq, Eq, Debug)]
    struct Spec<'a> {
        name: Text<'a> = "name",
        source: Text<'a> = "source",
        source_namespace: Text<'a> = "sourceNamespace",
    }
}

object! {
    #[derive(Debug, Default)]
    struct Approval<'a> {
        spec: ApprovalSpec<'a> = "spec",
    }
}

object! {
    #[derive(Debug, Default)]
    struct ApprovalSpec<'a> {
        install_plan_approval: Text<'a> = "installPlanApproval",
    }
}

impl Approval<'_> {
    /// OLM treats every other value as Automatic.
    fn is_manual(&self) -> bool {
        self.spec.install_plan_approval == "Manual"
    }
}

pub(super) fn judge(cx: &Review<'_>) -> Verdict {
    let subscription: Subscription<'_> = read_new(cx)?;
    let namespace = namespace_of(cx, &subscription.metadata);
    if cx.settings.exempts_namespace(namespace) {
        return Ok(Admitted("exempt"));
    }
    if same_spec(cx)? {
        return Ok(Admitted("unchanged"));
    }
    let what = describe(cx, &subscription.metadata.display_name());
    let act = format!("create {what}");
    if !read_new::<Approval<'_>>(cx)?.is_manual() {
        manual::check(cx, &format!("make {what} Automatic"), namespace)?;
    }
    // A different channel or version, or a change to automatic approval, also leads to an install; but the consequences
    // are only reported when the package changes.
    if read_old::<Subscription<'_>>(cx)?.is_some_and(|old| old.spec == subscription.spec) {
        if cx.settings.guard_subscriptions == Severity::Off {
            return Ok(Admitted("unchanged"));
        }
        check_guard(cx, &format!("change {what}"), namespace)?;
        return Ok(Admitted("judged"));
    }
    let group = match groups::active(&cx.lookups, namespace) {
        Ok(Some(group)) => group,
        Ok(None) => {
            check_guard(cx, &act, namespace)?;
            cx.warn(&format!(
                "{what} will install nothing: namespace {namespace} has no OperatorGroup. Create one, and name the \
                 service account that bounds it in spec.serviceAccountName."
            ));
            return Ok(Admitted("no-operator-group"));
        }
        Err(refusal) if refusal.is_for(Reason::AmbiguousOperatorGroup) => {
            check_guard(cx, &act, namespace)?;
            cx.warn(&format!("{what} will install nothing: {refusal}"));
            return Ok(Admitted("ambiguous-operator-group"));
        }
        Err(other) => return Err(other),
    };
    cx.fact("operatorGroup", format!("{}/{}", group.namespace, group.name));
    require_account(cx, &what, &group)?;
    warn_of_missing_account(cx, &what, &group)?;
    check_guard(cx, &act, namespace)?;
    Ok(Admitted("judged"))
}

fn require_account(cx: &Review<'_>, what: &str, group: &Group) -> Result<(), Refusal> {
    if group.account.is_some() || !cx.settings.operator_groups.require_service_account {
        return Ok(());
    }
    Err(Refusal::forbidden(
        Reason::AccountRequired,
        format!(
            "{what} would install operators without a boundary: {group} names no service account, and the policy \
             requires one. Name one with: kubectl patch operatorgroup {} --namespace {} --type merge --patch \
             '{{\"spec\":{{\"serviceAccountName\":\"<name>\"}}}}'",
            group.name, group.namespace
        ),
    ))
}

fn warn_of_missing_account(cx: &Review<'_>, what: &str, group: &Group) -> Result<(), Refusal> {
    let Some(account) = &group.account else { return Ok(()) };
    if !cx.lookups.account_exists(&group.namespace, account)? {
        cx.warn(&format!(
            "{what} will install nothing: ServiceAccount {}/{account} of {group} does not exist. Create it with: \
             kubectl create serviceaccount --namespace {} {}",
            group.namespace,
            group.namespace,
            shell(account)
        ));
    }
    Ok(())
}

/// `guardSubscriptions`: no user installs an operator with greater permissions than their own. Where nothing bounds the
/// group, that means everything; likewise where it cannot be determined yet what will bound it.
pub(super) fn check_guard(cx: &Review<'_>, act: &str, namespace: &str) -> Result<(), Refusal> {
    let severity = cx.settings.guard_subscriptions;
    if severity == Severity::Off {
        return Ok(());
    }
    let unknown = Choice::Everything {
        why: "without exactly one OperatorGroup in its namespace it cannot be determined what will bound the operator",
        instead: "create the OperatorGroup first, and keep it the only one",
    };
    let boundary = match groups::active(&cx.lookups, namespace) {
        Ok(Some(group)) => {
            Some(group.account.as_ref().map(|name| Boundary::account(&group.namespace, name, group.to_string())))
        }
        Ok(None) => None,
        Err(refusal) if refusal.is_for(Reason::AmbiguousOperatorGroup) => None,
        Err(refusal) => return Err(refusal),
    };
    let choice = match &boundary {
        None => unknown,
        Some(None) => Choice::UNBOUNDED_GROUP,
        Some(Some(boundary)) => Choice::Boundary(boundary),
    };
    guard::check(cx, cx.requester.as_ref(), severity, act, &choice)
}
