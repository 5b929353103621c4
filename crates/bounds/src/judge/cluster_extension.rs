//! ClusterExtension: the life cycle of `spec.serviceAccount`, and who may choose the identity that an extension acts
//! as.

use super::review::Review;
use crate::decide::boundary::{self, Boundary, SYNTHETIC_GROUP, SYNTHETIC_USER_PREFIX};
use crate::decide::guard::{self, Choice};
use crate::decide::holders::{Reach, holder};
use crate::decide::life::Life;
use crate::decide::message::shell;
use crate::decide::verdict::{Admitted, Reason, Refusal};
use crate::olm::extension::{ClusterExtension, SYNTHETIC_ACCOUNT, without};
use crate::rbac::subject::Identity;
use crate::read::json::Unreadable;
use crate::settings::{Bound, Phase, Severity};

use super::{Verdict, describe, read_new, read_old, same_spec, unreadable};

pub(super) fn judge(cx: &Review<'_>) -> Verdict {
    let extension: ClusterExtension<'_> = read_new(cx)?;
    // Finalizers, labels and annotations stay editable in every phase, whatever the stored object contains.
    if same_spec(cx)? {
        return Ok(Admitted("unchanged"));
    }
    let old: Option<ClusterExtension<'_>> = read_old(cx)?;
    let unreadable = |error: Unreadable| unreadable(cx, error);
    extension.account().map_err(unreadable)?;
    let life = Life::of(cx, &cx.request.kind.version)?;
    let boundary = boundary::of_extension(&extension, cx.settings, life.phase).map_err(unreadable)?;
    cx.fact("phase", Phase::VALUES[life.phase as usize]);
    if let Some(boundary) = &boundary {
        cx.fact("boundary", boundary.identity.user());
    }
    live(cx, life, &extension, boundary.as_ref())?;
    let user = |boundary: &Option<Boundary>| boundary.as_ref().map(|boundary| boundary.identity.user().to_owned());
    let bounding = |extension: &ClusterExtension<'_>| {
        boundary::of_extension(extension, cx.settings, life.phase).map(|boundary| user(&boundary)).map_err(unreadable)
    };
    let named = |extension: &ClusterExtension<'_>| {
        boundary::named_by(extension).map(|boundary| user(&boundary)).map_err(unreadable)
    };
    let (is_other_content, is_other_boundary, is_other_name) = match &old {
        None => (true, true, true),
        Some(old) => {
            (old.content() != extension.content(), bounding(old)? != user(&boundary), named(old)? != named(&extension)?)
        }
    };
    if is_other_content || is_other_boundary {
        check_guard(cx, &extension, boundary.as_ref())?;
    }
    if is_other_content || is_other_name {
        check_named(cx, life, &extension, boundary.as_ref())?;
    }
    Ok(Admitted(if boundary.is_some() { "judged" } else { "unbounded" }))
}

/// Applies what the phase says about the field.
fn live(
    cx: &Review<'_>,
    life: Life,
    extension: &ClusterExtension<'_>,
    boundary: Option<&Boundary>,
) -> Result<(), Refusal> {
    let name = extension.metadata.display_name();
    let fields = extension.fields();
    let written = || fields.iter().map(|path| path.join(".")).collect::<Vec<_>>().join(" and ");
    let account = extension.account().map_err(|error| unreadable(cx, error))?;
    match (life.phase, !fields.is_empty()) {
        // A field without a name does not specify an account either.
        (Phase::Required, true) if account.is_none() => Err(account_required(&name)),
        (Phase::Required, false) => Err(account_required(&name)),
        (Phase::Required | Phase::Optional, true)
            if account.as_deref().is_some_and(|name| name != SYNTHETIC_ACCOUNT) =>
        {
            account_exists(cx, extension.namespace(), account.as_deref().unwrap_or_default(), &name)
        }
        (Phase::Deprecated | Phase::Removed, true) if is_stripped(cx, life) => strip(cx, &name, &fields, &written()),
        (Phase::Deprecated, true) => {
            if let Some(text) = deprecation(cx, life, &name) {
                cx.warn(&text);
            }
            Ok(())
        }
        (Phase::Removed, true) => Err(Refusal::forbidden(
            Reason::FieldRemoved,
            format!(
                "ClusterExtension {name} sets {}, which this release of OLM no longer has. Remove the field from the \
                 manifest; grant what the extension needs to User olm:clusterextension:{name} instead where the policy \
                 bounds extensions.",
                written()
            ),
        )),
        (Phase::Required | Phase::Optional, _) | (Phase::Deprecated | Phase::Removed, false) => match boundary {
            Some(boundary) => warn_of_nothing_granted(cx, &name, boundary),
            None => Ok(()),
        },
    }
}

fn is_stripped(cx: &Review<'_>, life: Life) -> bool {
    cx.settings.cluster_extensions.strip && life.may_be_stripped()
}

fn account_required(name: &str) -> Refusal {
    Refusal::forbidden(
        Reason::AccountRequired,
        format!(
            "ClusterExtension {name} names no service account, and this release of OLM requires one: name the account that \
             installs it in spec.serviceAccount.name"
        ),
    )
}

/// A warning that the field is deprecated, where OLM does not give one itself, or that the field still bounds.
fn deprecation(cx: &Review<'_>, life: Life, name: &str) -> Option<String> {
    let still_bounds = cx.settings.cluster_extensions.bound == Bound::ServiceAccount;
    match (life.is_said_by_olm(), still_bounds) {
        (true, false) => None,
        (true, true) => Some(format!(
            "'spec.serviceAccount' of ClusterExtension '{name}' still bounds the extension here, although OLM ignores it."
        )),
        (false, true) => Some(format!(
            "[DEPRECATION] 'spec.serviceAccount' is specified in ClusterExtension '{name}': it still bounds the extension \
             here, but will be removed in a future release."
        )),
        (false, false) => Some(format!(
            "[DEPRECATION] 'spec.serviceAccount' is specified in ClusterExtension '{name}', but is ignored and will be \
             removed in a future release."
        )),
    }
}

/// Removes exactly the field, wherever it occurs.
fn strip(cx: &Review<'_>, name: &str, fields: &[&[&str]], written: &str) -> Result<(), Refusal> {
    let object = cx.request.object.map_or("{}", |object| object.get());
    let stripped = fields.iter().try_fold(object.to_owned(), |object, path| without(&object, path));
    let broken =
        |error: serde_json::Error| unreadable(cx, Unreadable { path: "object".to_owned(), reason: error.to_string() });
    cx.mutate(stripped.map_err(broken)?);
    cx.fact("stripped", written);
    cx.warn(&format!(
        "{written} was removed from ClusterExtension {name}: OLM ignores it. Remove it from the manifest too."
    ));
    Ok(())
}

fn account_exists(cx: &Review<'_>, namespace: &str, account: &str, name: &str) -> Result<(), Refusal> {
    if cx.lookups.account_exists(namespace, account)? {
        return Ok(());
    }
    let text = format!(
        "ServiceAccount {namespace}/{account}, which ClusterExtension {name} names, does not exist: nothing is installed \
         until it does. Create it with: kubectl create serviceaccount --namespace {} {}",
        shell(namespace),
        shell(account)
    );
    cx.object(cx.settings.operator_groups.missing_service_account.into(), Reason::AccountMissing, text)
}

/// A synthetic identity holds nothing until someone grants it something.
fn warn_of_nothing_granted(cx: &Review<'_>, name: &str, boundary: &Boundary) -> Result<(), Refusal> {
    let user = boundary.identity.user();
    // An object without a name yet (generateName) has no user name yet.
    if user == SYNTHETIC_USER_PREFIX || boundary.identity.as_service_account().is_some() {
        return Ok(());
    }
    // Everyone holds something through `system:authenticated`; that was not granted to extensions in particular.
    let named = Identity::user_in(user, vec![SYNTHETIC_GROUP.to_owned()]);
    if holder(&cx.lookups, named, Reach::Everywhere)?.held.is_empty() {
        cx.warn(&format!(
            "ClusterExtension {name} runs as User {user} (Group {SYNTHETIC_GROUP}), which holds no permissions yet: \
             nothing is installed until it does. See what it needs: operator-bounds derive BUNDLE --for {}",
            boundary.for_argument()
        ));
    }
    Ok(())
}

fn check_guard(cx: &Review<'_>, extension: &ClusterExtension<'_>, boundary: Option<&Boundary>) -> Result<(), Refusal> {
    let what = describe(cx, &extension.metadata.display_name());
    if let Some(boundary) = boundary {
        let act = format!("run {what} as {}", boundary.description);
        return guard::check(cx, cx.requester.as_ref(), cx.settings.guard, &act, &Choice::Boundary(boundary));
    }
    let everything = Choice::Everything {
        why: "OLM installs it with cluster-admin rights and nothing bounds it",
        instead: "have the policy bound extensions (clusterExtensions.bound)",
    };
    guard::check(cx, cx.requester.as_ref(), cx.settings.guard_unbounded, &format!("install {what}"), &everything)
}

/// Naming an account is also a choice where OLM may act as that account, whatever else bounds the extension. (An
/// account with the reserved name of the synthetic identity is an ordinary account where that feature gate is off.)
fn check_named(
    cx: &Review<'_>,
    life: Life,
    extension: &ClusterExtension<'_>,
    boundary: Option<&Boundary>,
) -> Result<(), Refusal> {
    let Some(account) = extension.account().map_err(|error| unreadable(cx, error))? else { return Ok(()) };
    let named = boundary::account_of(extension, &account);
    let is_guarded = cx.settings.guard != Severity::Off && guard::is_guarded(cx, cx.requester.as_ref());
    if !is_guarded || is_stripped(cx, life) || boundary.is_some_and(|boundary| boundary.identity == named.identity) {
        return Ok(());
    }
    if !life.may_be_used(cx, &cx.request.kind.version)? {
        return Ok(());
    }
    let act = format!("have {} name {}", describe(cx, &extension.metadata.display_name()), named.description);
    guard::check(cx, cx.requester.as_ref(), cx.settings.guard, &act, &Choice::Boundary(&named))
}
