//! Subscription: says early what will happen to what it installs.

use crate::boundary::Boundary;
use crate::context::Context;
use crate::group::{self, Group};
use crate::guard::{self, Choice, Place};
use crate::message::shell;
use crate::meta::Meta;
use crate::object::object;
use crate::settings::Severity;
use crate::text::Text;
use crate::verdict::{Admitted, Refusal};

use super::{Verdict, namespace_of, read_new, read_old, said};

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

pub(super) fn judge(cx: &Context<'_>) -> Verdict {
    let subscription: Subscription<'_> = read_new(cx)?;
    let namespace = namespace_of(cx, &subscription.metadata);
    if cx.settings.exempts_namespace(namespace) {
        return Ok(Admitted("exempt"));
    }
    if read_old::<Subscription<'_>>(cx)?.is_some_and(|old| old.spec == subscription.spec) {
        return Ok(Admitted("unchanged"));
    }
    let what = said(cx, &subscription.metadata.said_name());
    let group = match group::active(&cx.lookups, namespace) {
        Ok(Some(group)) => group,
        Ok(None) => {
            cx.warn(&format!(
                "{what} will install nothing: namespace {namespace} has no OperatorGroup. Create one, and name the \
                 service account that bounds it in spec.serviceAccountName."
            ));
            return Ok(Admitted("no-operator-group"));
        }
        Err(Refusal::Forbidden { reason: "ambiguous-operator-group", message }) => {
            cx.warn(&format!("{what} will install nothing: {message}"));
            return Ok(Admitted("ambiguous-operator-group"));
        }
        Err(other) => return Err(other),
    };
    cx.fact("operatorGroup", format!("{}/{}", group.namespace, group.name));
    require_account(cx, &what, &group)?;
    warn_of_missing_account(cx, &what, &group)?;
    check_guard(cx, &format!("create {what}"), &group)?;
    Ok(Admitted("judged"))
}

fn require_account(cx: &Context<'_>, what: &str, group: &Group) -> Result<(), Refusal> {
    if group.account.is_some() || !cx.settings.operator_groups.require_service_account {
        return Ok(());
    }
    Err(Refusal::forbidden(
        "account-required",
        format!(
            "{what} would install operators without a boundary: {group} names no service account, and the policy \
             requires one. Name one with: kubectl patch operatorgroup {} --namespace {} --type merge --patch \
             '{{\"spec\":{{\"serviceAccountName\":\"<name>\"}}}}'",
            group.name, group.namespace
        ),
    ))
}

fn warn_of_missing_account(cx: &Context<'_>, what: &str, group: &Group) -> Result<(), Refusal> {
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
/// group, that is everything.
pub(super) fn check_guard(cx: &Context<'_>, act: &str, group: &Group) -> Result<(), Refusal> {
    if cx.settings.guard_subscriptions == Severity::Off {
        return Ok(());
    }
    let boundary = group.account.as_ref().map(|name| Boundary::account(&group.namespace, name, group.to_string()));
    let choice = boundary.as_ref().map_or(Choice::UNBOUNDED_GROUP, Choice::Boundary);
    let targets = group.targets(&cx.lookups)?;
    let place = Place { namespace: &group.namespace, targets: &targets };
    guard::check(cx, cx.settings.guard_subscriptions, act, &choice, &place)
}
