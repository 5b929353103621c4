//! What OLM v1's controller writes for its own use, by kind and verb, and what it writes that belongs neither to itself
//! nor to an extension.
//!
//! OLM labels everything that it installs, overriding the bundle, with one exception: objects that Helm treats as
//! hooks, by their annotation, are taken out before OLM sees them. They are written without a label, or with the label
//! of another extension that the bundle put there, and an existing object of that name is deleted first.

use serde_json::value::RawValue;

use super::review::Review;
use crate::admission::Operation;
use crate::decide::message::shell;
use crate::decide::verdict::{Admitted, Reason, Refusal};
use crate::olm::meta::Meta;
use crate::olm::release::{self, Release};
use crate::read::json::{at, list_at};
use crate::read::object::object;
use crate::read::text::Text;
use crate::settings::{Crds, LargeReleases};

use super::owned::{self, Written};
use super::whole::{self, Whole};
use super::{OLM_V1, describe, read, same_spec};

/// The type of the Secrets in which OLM v1 stores the objects of a ClusterObjectSet.
const OBJECT_DATA: &str = "olm.operatorframework.io/object-data";
/// The type of the Secret in which OLM v1 stores a release before it writes any of its objects.
const RELEASE: &str = "operatorframework.io/index.v1";
/// The type of the further Secrets of a release that does not fit into one.
const CHUNK: &str = "operatorframework.io/chunk.v1";

object! {
    #[derive(Debug, Default)]
    struct Secret<'a> {
        secret_type: Text<'a> = "type",
        data: Option<&'a RawValue> = "data",
    }
}

/// Admits OLM's own bookkeeping, and refuses hooks, whatever their labels say.
pub(super) fn judge(cx: &Review<'_>, written: &Written<'_>) -> Result<Option<Admitted>, Refusal> {
    let is_own = own_by_kind(cx, written)?;
    let is_hook = |metadata: &&Meta<'_>| metadata.annotations.hook.is_some();
    // A ClusterExtension may have been installed by a Helm hook of its owner; OLM keeps the annotation.
    let was_hook = written.old.as_ref().is_some_and(|old| is_hook(&old));
    if let Some(metadata) = written.new.as_ref().filter(is_hook)
        && !(is_own == Own::Unchanged && was_hook)
    {
        return Err(hook(cx, metadata, was_hook));
    }
    match is_own {
        Own::Release => release(cx, written).map(Some),
        Own::Objects => objects(cx, written).map(Some),
        Own::Yes | Own::Unchanged => Ok(Some(Admitted("bookkeeping"))),
        Own::No if is_new_crd(cx, written) => Ok(Some(Admitted("crd"))),
        Own::No => Ok(None),
    }
}

/// Whether an object is OLM's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    No,
    Yes,
    /// It belongs to someone else, and nothing relevant changes.
    Unchanged,
    /// It is a new release.
    Release,
    /// It is new, and contains objects that OLM is going to write.
    Objects,
}

fn own_by_kind(cx: &Review<'_>, written: &Written<'_>) -> Result<Own, Refusal> {
    let request = cx.request;
    let is_labelled = written.is_labelled();
    let in_own_namespace = cx
        .requester
        .as_ref()
        .is_some_and(|olm| olm.as_service_account().is_some_and(|(namespace, _)| request.namespace == *namespace));
    let yes_if = |own: bool| if own { Own::Yes } else { Own::No };
    Ok(match (request.kind.group.as_str(), request.kind.kind.as_str(), request.operation) {
        (OLM_V1, "ClusterExtension" | "ClusterCatalog", Operation::Update) if same_spec(cx)? => Own::Unchanged,
        (OLM_V1, "ClusterObjectSet" | "ClusterExtensionRevision", _) => {
            match (written.both().any(comes_from_a_bundle), request.operation) {
                (true, _) => Own::No,
                (false, Operation::Create) => Own::Objects,
                (false, _) => Own::Yes,
            }
        }
        ("coordination.k8s.io", "Lease", Operation::Create | Operation::Update) => {
            yes_if(in_own_namespace && !is_labelled)
        }
        // Events; also reviews, and the tokens with which OLM up to 1.10 acted as an extension's account.
        ("" | "events.k8s.io", "Event", Operation::Create | Operation::Update)
        | ("authentication.k8s.io" | "authorization.k8s.io", _, Operation::Create) => yes_if(!is_labelled),
        ("", "Secret", _) if in_own_namespace => {
            let secret: Secret<'_> = read(cx, request.object.or(request.old_object), "object")?;
            match (secret.secret_type.as_str(), request.operation) {
                (RELEASE, Operation::Create) if !is_labelled => Own::Release,
                (RELEASE | CHUNK, _) => yes_if(!is_labelled),
                (OBJECT_DATA, _) if !written.both().all(is_owned_by_name_only) => Own::No,
                (OBJECT_DATA, Operation::Create) => Own::Objects,
                (OBJECT_DATA, _) => Own::Yes,
                _ => Own::No,
            }
        }
        _ => Own::No,
    })
}

/// Whether the object carries the labels of an object-data Secret: on objects from a bundle OLM sets both labels.
fn is_owned_by_name_only(metadata: &Meta<'_>) -> bool {
    !metadata.labels.owner_name_v1.is_empty() && metadata.labels.owner_kind_v1.is_empty()
}

/// Whether a set of objects is itself part of a bundle: Helm marks it so, or it belongs to another set.
fn comes_from_a_bundle(metadata: &Meta<'_>) -> bool {
    metadata.annotations.helm_release.is_some()
        || metadata.owner_references.iter().any(|owner| owner.kind != "ClusterExtension")
}

/// Helm installs the contents of a chart's `crds` directory as they are, without labels.
fn is_new_crd(cx: &Review<'_>, written: &Written<'_>) -> bool {
    owned::is_crd(cx)
        && cx.request.operation == Operation::Create
        && cx.settings.cluster_extensions.crds == Crds::Exempt
        && !written.is_labelled()
}

/// A new release: none of it has been written yet, and none of it will be if it is refused.
fn release(cx: &Review<'_>, written: &Written<'_>) -> Result<Admitted, Refusal> {
    let secret: Secret<'_> = read(cx, cx.request.object, "object")?;
    let what = describe(cx, &cx.request.name);
    let refuse = |reason: Reason, why: String| Err(Refusal::forbidden(reason, format!("{what} {why}")));
    let release = release::read(secret.data.map_or("{}", RawValue::get))
        .map_err(|reason| unreadable(&what, "release", &reason))?;
    let content = match release {
        Release::Whole(content) => content,
        Release::InChunks if cx.settings.cluster_extensions.large_releases == LargeReleases::ObjectByObject => {
            cx.warn(&format!(
                "{what} is a release in several parts: it was not checked for Helm hooks, and its objects are judged \
                 one by one (clusterExtensions.largeReleases: objectByObject)"
            ));
            return Ok(Admitted("release"));
        }
        Release::InChunks => {
            return refuse(
                Reason::LargeRelease,
                "is a release in several parts, so Helm hooks in it cannot be seen before they run. Ask the bundle's \
                 author for a smaller one, or accept the risk with clusterExtensions.largeReleases: objectByObject in \
                 the policy's settings."
                    .to_owned(),
            );
        }
    };
    if content.has_hooks() {
        return refuse(Reason::HelmHooks, content.refusal());
    }
    let Some(extension) = written.new.as_ref().and_then(owned::owner) else {
        let why = "is a release of no ClusterExtension, so it cannot be determined what bounds it";
        return refuse(Reason::UnknownOwner, why.to_owned());
    };
    let objects: Result<Vec<&RawValue>, _> =
        serde_json::Deserializer::from_str(&content.manifest).into_iter().collect();
    let objects = objects.map_err(|error| unreadable(&what, "release", &error.to_string()))?;
    whole::judge(
        cx,
        &Whole {
            what: format!("Bundle {} of ClusterExtension {extension}", content.bundle),
            extension,
            namespace: &content.namespace,
            objects: objects.into_iter().map(RawValue::get).collect(),
            is_first: cx.request.name.ends_with(".v1"),
            is_complete: true,
        },
    )?;
    Ok(Admitted("release"))
}

/// Objects that OLM stores before it writes any of them: part of a set, or a set that contains them.
fn objects(cx: &Review<'_>, written: &Written<'_>) -> Result<Admitted, Refusal> {
    let Some(metadata) = &written.new else { return Ok(Admitted("bookkeeping")) };
    let what = describe(cx, &cx.request.name);
    let kept: Vec<String>;
    let (objects, set): (Vec<&str>, &str) = if cx.request.kind.kind == "Secret" {
        let secret: Secret<'_> = read(cx, cx.request.object, "object")?;
        let data = secret.data.map_or("{}", RawValue::get);
        kept = release::read_objects(data).map_err(|reason| unreadable(&what, "set of objects", &reason))?;
        // `<extension>-<revision>-<hash>`
        (kept.iter().map(String::as_str).collect(), metadata.name.rsplit_once('-').map_or("", |(set, _)| set))
    } else {
        let set = cx.request.object.map_or("{}", RawValue::get);
        let phases = list_at(set, &["spec", "phases"]).into_iter();
        let entries = phases.flat_map(|phase| list_at(phase.get(), &["objects"]));
        (entries.filter_map(|entry| at(entry.get(), &["object"])).collect(), metadata.name.as_str())
    };
    let by_label = Some(metadata.labels.owner_name_v1.as_str()).filter(|name| !name.is_empty());
    let Some(extension) = by_label.or_else(|| owned::owner(metadata)) else { return Ok(Admitted("bookkeeping")) };
    if objects.is_empty() {
        return Ok(Admitted("bookkeeping"));
    }
    whole::judge(
        cx,
        &Whole {
            what: format!("{what} of ClusterExtension {extension}"),
            extension,
            namespace: "",
            objects,
            is_first: set.strip_prefix(extension) == Some("-1"),
            is_complete: false,
        },
    )?;
    Ok(Admitted("bookkeeping"))
}

fn unreadable(what: &str, kind: &str, reason: &str) -> Refusal {
    let why =
        format!("{what} is a {kind} that cannot be read ({reason}), so it cannot be determined what it would install");
    Refusal::forbidden(Reason::UnreadableRelease, why)
}

fn hook(cx: &Review<'_>, metadata: &Meta<'_>, was_hook: bool) -> Refusal {
    let events = metadata.annotations.hook.as_deref().unwrap_or_default();
    let name = metadata.display_name();
    let added = if was_hook {
        let (kind, namespace) = (&cx.request.kind.kind, cx.request.in_namespace());
        let namespace = namespace.map(|name| format!(" --namespace {}", shell(name))).unwrap_or_default();
        format!(
            " If somebody else added it to the object, remove it: kubectl annotate {}{namespace} {} helm.sh/hook-",
            kind.to_ascii_lowercase(),
            shell(&name)
        )
    } else {
        String::new()
    };
    Refusal::forbidden(
        Reason::HelmHook,
        format!(
            "{} is a Helm hook (annotation helm.sh/hook: {events:?}): OLM writes hooks with its own rights and \
             without its labels, so nothing would bound it. Ask the bundle's author to remove the annotation.{added}",
            describe(cx, &name)
        ),
    )
}

/// A refusal of what belongs neither to OLM itself nor to an extension.
pub(super) fn belongs_to_nobody(cx: &Review<'_>, name: &str) -> Refusal {
    let (does, instead) = match cx.request.operation {
        Operation::Delete => ("delete", "Before a Helm hook of a bundle runs, whatever has its name is deleted."),
        _ => ("write", "OLM labels everything it installs except Helm hooks."),
    };
    Refusal::forbidden(
        Reason::BelongsToNobody,
        format!(
            "OLM may not {does} {}: it carries no owner labels of an extension, so what bounds it cannot be \
             determined, and it is not one of OLM's own records. {instead} Look for the annotation helm.sh/hook in the \
             bundles of the extensions that are being installed.",
            describe(cx, name)
        ),
    )
}
