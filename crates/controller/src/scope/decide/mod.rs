//! Decides whose rights a write needs: the core of the proxy. Nothing here does I/O; if more has to be known, the
//! decision says what to look up.

use crate::scope::body::{CHUNK, Change, INDEX, Release, Said, Stored};
use crate::scope::owner::{Claim, OLM, Owner, Set};
use crate::scope::path::{Target, Verb};
use crate::scope::refusal::Refusal;

/// The type of the Secrets in which Boxcutter stores the objects of a set.
const OBJECT_DATA: &str = "olm.operatorframework.io/object-data";
const SETS: &[&str] = &["clusterobjectsets", "clusterextensionrevisions"];
/// The kinds of OLM's own API on which it sets finalizers and status.
const KEPT: &[&str] = &["clusterextensions", "clustercatalogs", "clusterobjectsets", "clusterextensionrevisions"];

/// What the administrator configures.
#[derive(Debug, Clone)]
pub(in crate::scope) struct Rules {
    pub system_namespace: String,
    /// Whether CustomResourceDefinitions are written with OLM's own rights.
    pub exempt_definitions: bool,
    /// Whether releases that cannot be examined beforehand are written object by object.
    pub large_releases: bool,
}

#[derive(Debug)]
pub(in crate::scope) struct Write<'a> {
    pub verb: Verb,
    pub target: &'a Target,
    pub said: Said,
    /// The label selector, if the target is a collection.
    pub selector: Option<String>,
}

/// What has been looked up so far.
#[derive(Debug, Default)]
pub(in crate::scope) struct Known {
    pub live: Live,
    /// The extensions that sets lead to.
    pub leads: Vec<(Set, Result<String, Refusal>)>,
}

/// The object as it is stored.
#[derive(Debug, Default)]
pub(in crate::scope) enum Live {
    #[default]
    NotAsked,
    Absent,
    Found(Stored),
}

/// What happens to a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::scope) enum Decision {
    /// It is forwarded unchanged: OLM's own business.
    Own,
    /// It is forwarded as the identity of this extension.
    As(String),
    /// It is not forwarded: the object it is about does not exist.
    Gone,
    Refused(Refusal),
    /// The stored object has to be looked up first.
    LookAtLive,
    /// The owner of this set has to be looked up first.
    LookAtSet(Set),
}

use Decision::{As, Gone, LookAtLive, LookAtSet, Own, Refused};

/// Decides, or says what has to be looked up first.
pub(in crate::scope) fn decide(write: &Write<'_>, known: &Known, rules: &Rules) -> Decision {
    if write.said.is_hook {
        return Refused(Refusal::Hook);
    }
    if let Some(decision) = bookkeeping(write, known, rules) {
        return decision;
    }
    let decided = match write.verb {
        Verb::DeleteCollection => Ok(Refused(Refusal::Collection)),
        Verb::Delete => deleted(known),
        Verb::Create if write.target.subresource.is_none() => created(write, known, rules),
        _ => changed(write, known, rules),
    };
    // If something is missing for a decision, the request to look it up takes its place.
    decided.unwrap_or_else(|missing| missing)
}

/// What OLM does for itself, by verb. `None` for everything else.
fn bookkeeping(write: &Write<'_>, known: &Known, rules: &Rules) -> Option<Decision> {
    let Write { verb, target, said, selector } = write;
    let deletes = matches!(verb, Verb::Delete | Verb::DeleteCollection);
    let in_system = target.namespace.as_ref() == Some(&rules.system_namespace);
    match (&*target.group, &*target.resource) {
        ("coordination.k8s.io", "leases") if in_system && !deletes => Some(Own),
        ("" | "events.k8s.io", "events") if !deletes => Some(Own),
        ("authentication.k8s.io" | "authorization.k8s.io", kind) if kind.ends_with("reviews") && !deletes => Some(Own),
        (OLM, kind) if KEPT.contains(&kind) && !deletes && *verb != Verb::Create => {
            let is_status = target.subresource.as_deref() == Some("status");
            (is_status || (leaves_owner(said) && !said.touches_spec)).then_some(Own)
        }
        ("", "secrets") if in_system && target.subresource.is_none() => match verb {
            Verb::Create => record(said, rules),
            // The type of a Secret never changes: if the body says that it is a record, it is one.
            Verb::Update => is_record(said).then_some(Own),
            Verb::Patch => object_data_patched(said, known),
            Verb::DeleteCollection => selector.as_deref().is_some_and(selects_a_record).then_some(Own),
            Verb::Apply | Verb::Delete => None,
        },
        _ => None,
    }
}

/// The Secrets in which OLM records what it has installed, when they are created.
fn record(said: &Said, rules: &Rules) -> Option<Decision> {
    if !is_record(said) {
        // Boxcutter's have the name of the owner, but not its kind.
        let has_name_alone = said.owner_name.is_set() && !said.owner_kind.is_set();
        return (said.secret_type.as_deref() == Some(OBJECT_DATA) && has_name_alone).then_some(Own);
    }
    Some(match said.release.clone() {
        None | Some(Release::Plain) => Own,
        Some(Release::Large) if rules.large_releases => Own,
        Some(Release::Large) => Refused(Refusal::LargeRelease),
        Some(Release::Hooks(extension, hooks)) => Refused(Refusal::Hooks(extension, hooks)),
        Some(Release::Unreadable(reason)) => Refused(Refusal::UnreadableRelease(reason)),
    })
}

/// Helm's have no owner labels. With those, it is a Secret that comes from a bundle.
fn is_record(said: &Said) -> bool {
    let has_labels = said.owner_kind.is_set() || said.owner_name.is_set();
    matches!(said.secret_type.as_deref(), Some(INDEX | CHUNK)) && !has_labels
}

/// Boxcutter adds the owner reference to its Secrets once the set exists.
fn object_data_patched(said: &Said, known: &Known) -> Option<Decision> {
    match &known.live {
        Live::NotAsked => Some(LookAtLive),
        Live::Absent => None,
        Live::Found(live) => {
            let has_name_alone = live.owner_name.is_some() && live.owner_kind.is_none();
            (has_name_alone && leaves_owner(said)).then_some(Own)
        }
    }
}

fn leaves_owner(said: &Said) -> bool {
    said.owner_kind == Change::Untouched && said.owner_name == Change::Untouched
}

/// Whether a selector matches the Secrets of one release, and no others.
fn selects_a_record(selector: &str) -> bool {
    let wanted = |key: &str| {
        let mut parts = selector.split(',').filter_map(|part| part.split_once('='));
        parts.find(|(found, _)| *found == key).map(|(_, value)| value)
    };
    wanted("owner") == Some("operator-controller") && wanted("key").is_some_and(|value| !value.is_empty())
}

/// Deleting never widens a right, and an uninstall must never hang: anything with an owner may be deleted, whoever that
/// is.
fn deleted(known: &Known) -> Result<Decision, Decision> {
    Ok(match live(known)?.map(Stored::owner) {
        None => Gone,
        Some(Claim::Of(_)) => Own,
        Some(Claim::Nobody) => Refused(Refusal::Nobody),
        Some(Claim::Odd(reason)) => Refused(Refusal::Odd(reason)),
    })
}

fn created(write: &Write<'_>, known: &Known, rules: &Rules) -> Result<Decision, Decision> {
    let extension = extension(write.said.owner_after(None, None), known)?;
    Ok(match extension {
        // Helm writes the definitions of a chart without the labels.
        _ if is_exempt(write, rules) => Own,
        Some(extension) => As(extension),
        None => Refused(Refusal::Nobody),
    })
}

/// A change of an existing object. The owner before and the owner after both count: an object must not change hands.
fn changed(write: &Write<'_>, known: &Known, rules: &Rules) -> Result<Decision, Decision> {
    let Some(live) = live(known)? else {
        return applied(write, known);
    };
    if live.is_hook {
        return Ok(Refused(Refusal::Hook));
    }
    let before = extension(live.owner(), known)?;
    let after = if write.target.subresource.is_some() {
        // The labels in the body of a subresource change nothing.
        before.clone()
    } else {
        extension(write.said.owner_after(live.owner_kind.as_deref(), live.owner_name.as_deref()), known)?
    };
    Ok(match (before, after) {
        (Some(before), Some(after)) if before != after => Refused(Refusal::Taken { before, after }),
        (Some(before), None) => Refused(Refusal::Stripped(before)),
        (Some(_), Some(_)) if is_exempt(write, rules) => Own,
        // An object without an owner is taken over with the rights of the extension that takes it, definitions
        // included.
        (_, Some(after)) => As(after),
        (None, None) => Refused(Refusal::Nobody),
    })
}

/// A change of an object that does not exist: server-side apply creates it, and so does PUT for some kinds.
fn applied(write: &Write<'_>, known: &Known) -> Result<Decision, Decision> {
    if write.verb == Verb::Patch || write.target.subresource.is_some() {
        return Ok(Gone);
    }
    Ok(match extension(write.said.owner_after(None, None), known)? {
        Some(_) if write.target.is(OLM, SETS) => Own,
        Some(extension) => As(extension),
        None => Refused(Refusal::Nobody),
    })
}

/// What OLM writes with its own rights although it belongs to an extension: definitions, and sets of objects. A set
/// that comes from a bundle is created by POST, as its extension; OLM creates its own by server-side apply.
fn is_exempt(write: &Write<'_>, rules: &Rules) -> bool {
    let is_definition = write.target.is("apiextensions.k8s.io", &["customresourcedefinitions"]);
    (is_definition && rules.exempt_definitions) || (write.target.is(OLM, SETS) && write.verb != Verb::Create)
}

fn live(known: &Known) -> Result<Option<&Stored>, Decision> {
    match &known.live {
        Live::NotAsked => Err(LookAtLive),
        Live::Absent => Ok(None),
        Live::Found(live) => Ok(Some(live)),
    }
}

/// The extension that a claim leads to.
fn extension(claim: Claim, known: &Known) -> Result<Option<String>, Decision> {
    let set = match claim {
        Claim::Nobody => return Ok(None),
        Claim::Odd(reason) => return Err(Refused(Refusal::Odd(reason))),
        Claim::Of(Owner::Extension(name)) => return Ok(Some(name)),
        Claim::Of(Owner::Set(set)) => set,
    };
    match known.leads.iter().find(|(found, _)| *found == set) {
        Some((_, Ok(extension))) => Ok(Some(extension.clone())),
        Some((_, Err(refusal))) => Err(Refused(refusal.clone())),
        None => Err(LookAtSet(set)),
    }
}

#[cfg(test)]
mod tests;
