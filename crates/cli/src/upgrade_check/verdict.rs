//! What another release makes of a ClusterExtension.

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
pub fn of(extension: &Written<'_>, from: Option<Release>, to: Release) -> Option<Verdict> {
    let Written { name, account, .. } = extension;
    let field = extension.place.field;
    let is_set = extension.place.entry.is_some();
    let was_synthetic = from.is_some_and(|from| from.phase == Phase::Optional) && !is_set;
    let acted_as_it = from.is_none_or(|from| matches!(from.phase, Phase::Required | Phase::Optional));
    match (to.phase, is_set) {
        (Phase::Removed, true) => Some(blocks(
            format!(
                "{field} is set, and {to} no longer has the field: the API server drops it, and kubectl rejects it"
            ),
            format!(
                "remove {field}. Where the policy bounds extensions, grant what {} holds to User olm:clusterextension:{name}",
                account
                    .as_ref()
                    .map_or_else(|| "the account".to_owned(), |account| format!("{}/{account}", extension.namespace))
            ),
            Change::Remove,
        )),
        (Phase::Required, _) if account.is_none() => Some(blocks(
            match (is_set, was_synthetic) {
                (true, _) => format!("{field} names no account, and {to} requires one"),
                (false, true) => {
                    format!("it runs as its synthetic user, which {to} does not have: {field} is required there")
                }
                (false, false) => {
                    format!("{field} is not set, and {to} requires it: the API server refuses the object")
                }
            },
            format!(
                "name an account of namespace {} in {field}.name, and grant it what the extension needs: operator-bounds \
                 derive EXTENSION BUNDLE --for serviceaccount {}/NAME --release {to}",
                extension.namespace, extension.namespace
            ),
            Change::Insert,
        )),
        (Phase::Deprecated | Phase::Removed, _) if acted_as_it && from.is_some() => Some(Verdict {
            blocks: false,
            why: match (is_set, was_synthetic) {
                (true, _) => format!("{to} ignores {field}: from then on OLM installs it with cluster-admin rights"),
                (false, true) => {
                    format!("{to} has no synthetic users: from then on OLM installs it with cluster-admin rights")
                }
                (false, false) => return None,
            },
            change: "let the policy bound extensions before the upgrade, with the setting clusterExtensions.bound: serviceAccount"
                .to_owned(),
            edit: None,
        }),
        (Phase::Deprecated, true) => Some(Verdict {
            blocks: false,
            why: format!("{to} ignores {field} and warns about it; 4.23 no longer has the field"),
            change: format!("remove {field} once the extension is bounded by its synthetic user, or by nothing"),
            edit: None,
        }),
        _ => None,
    }
}

/// The account that the extension names is not there, and the release that comes acts as it.
#[must_use]
pub fn account_missing(extension: &Written<'_>, account: &str, to: Release) -> Verdict {
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
