//! What another release makes of a ClusterExtension.

use bounds::olm::SYNTHETIC_ACCOUNT;
use bounds::settings::Phase;
use serde::Serialize;

use super::extension::Written;
use super::release::Release;

/// The finding for one extension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Whether it blocks the move.
    pub blocks: bool,
    /// Why, or what changes for it.
    pub why: String,
    /// What to do.
    pub change: String,
    /// The change to the manifest, where there is one.
    #[serde(skip)]
    pub edit: Option<Change>,
}

/// A change to a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Take the field out.
    Remove,
    /// Put the field in.
    Insert,
}

/// Judges an extension for the target release; the current release refines the verdict if it is known.
#[must_use]
pub fn of(extension: &Written<'_>, from: Option<&Release>, to: &Release) -> Option<Verdict> {
    let is_set = extension.place.entry.is_some();
    let acted = from.is_some_and(|from| matches!(from.phase, Phase::Required | Phase::Optional));
    match to.phase {
        Phase::Removed if is_set => Some(removed(extension, to)),
        Phase::Required if extension.account.is_none() => Some(required(extension, from, to)),
        Phase::Required if extension.is_synthetic() => Some(gated(extension, to)),
        Phase::Deprecated | Phase::Removed if acted => no_longer_acted_as(extension, from, to),
        Phase::Deprecated if is_set => {
            let field = extension.place.field;
            Some(Verdict {
                blocks: false,
                why: format!("{to} ignores {field} and warns of it; a later release will not have it any more"),
                change: format!("take {field} out when the extension is bounded by its synthetic user, or by nothing"),
                edit: None,
            })
        }
        _ => None,
    }
}

/// The field is set, and there is none any more.
fn removed(extension: &Written<'_>, to: &Release) -> Verdict {
    let Written { name, namespace, account, .. } = extension;
    let field = extension.place.field;
    let grant = match account {
        _ if extension.is_synthetic() => format!("User olm:clusterextension:{name} keeps what it holds"),
        Some(account) => format!("grant what {namespace}/{account} holds to User olm:clusterextension:{name}"),
        None => format!("grant what it needs to User olm:clusterextension:{name}"),
    };
    blocks(
        format!(
            "{field} is set, and {to} does not have the field any more: the API server drops it, and kubectl refuses it"
        ),
        format!("take {field} out. Where the policy bounds extensions, {grant}"),
        Change::Remove,
    )
}

/// The field names nobody, and there must be an account.
fn required(extension: &Written<'_>, from: Option<&Release>, to: &Release) -> Verdict {
    let Written { namespace, place, .. } = extension;
    let field = place.field;
    let why = match (place.entry.is_some(), was_synthetic(extension, from)) {
        (true, _) => format!("{field} names nobody, and {to} requires an account"),
        (false, true) => format!("it runs as its synthetic user, which {to} does not have: {field} is required there"),
        (false, false) => format!("{field} is not set, and {to} requires it: the API server refuses the object"),
    };
    let change = format!(
        "name an account of namespace {namespace} in {field}.name, and grant it what the extension needs: operator-bounds \
         derive EXTENSION BUNDLE --for serviceaccount {namespace}/NAME --release {}",
        to.argument()
    );
    blocks(why, change, Change::Insert)
}

/// The special name only means the synthetic user where a feature gate says so.
fn gated(extension: &Written<'_>, to: &Release) -> Verdict {
    let Written { name, namespace, .. } = extension;
    let field = extension.place.field;
    Verdict {
        blocks: false,
        why: format!(
            "{field} names {SYNTHETIC_ACCOUNT}: {to} acts as User olm:clusterextension:{name} with the feature gate \
             SyntheticPermissions, and without it as ServiceAccount {namespace}/{SYNTHETIC_ACCOUNT}"
        ),
        change: "see that the feature gate is on, or name an account".to_owned(),
        edit: None,
    }
}

/// OLM has acted as somebody, and will not any more.
fn no_longer_acted_as(extension: &Written<'_>, from: Option<&Release>, to: &Release) -> Option<Verdict> {
    let why = match (extension.place.entry.is_some(), was_synthetic(extension, from)) {
        (_, true) => format!("{to} has no synthetic users: OLM installs it with cluster-admin rights from then on"),
        (true, false) => {
            format!("{to} ignores {}: OLM installs it with cluster-admin rights from then on", extension.place.field)
        }
        (false, false) => return None,
    };
    let change = "have the policy bound extensions before the upgrade: clusterExtensions.bound: serviceAccount";
    Some(Verdict { blocks: false, why, change: change.to_owned(), edit: None })
}

fn was_synthetic(extension: &Written<'_>, from: Option<&Release>) -> bool {
    let unset = extension.place.entry.is_none() && from.is_some_and(|from| from.phase == Phase::Optional);
    unset || extension.is_synthetic()
}

/// The account that the extension names is not there, and the release that comes acts as it.
#[must_use]
pub fn account_missing(extension: &Written<'_>, account: &str, to: &Release) -> Verdict {
    let namespace = &extension.namespace;
    Verdict {
        blocks: true,
        why: format!(
            "ServiceAccount {namespace}/{account}, which it names, does not exist, and {to} installs with its token"
        ),
        change: format!(
            "kubectl create serviceaccount --namespace {namespace} {account}, and grant it what the extension needs"
        ),
        edit: None,
    }
}

fn blocks(why: String, change: String, edit: Change) -> Verdict {
    Verdict { blocks: true, why, change, edit: Some(edit) }
}
