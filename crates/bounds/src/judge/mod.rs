//! One file for each kind of object that is judged. This one dispatches to them.

mod attribution;
mod binding;
mod bookkeeping;
mod cluster_extension;
mod csv;
mod install_plan;
mod manual;
mod object_set;
mod olms_own;
mod operator_group;
mod owned;
mod review;
mod role;
mod subscription;
mod synthetic;
mod whole;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::admission::{AdmissionRequest, Operation};
use crate::decide::context::Context;
use crate::decide::verdict::{Admitted, Reason, Refusal};
use crate::olm::meta::{Meta, MetaOnly, OwnerReference};
use crate::read::json;
use crate::read::object::object;
use crate::read::text::Text;
use owned::Judged;
use review::Review;

/// The API group of OLM v1.
const OLM_V1: &str = "olm.operatorframework.io";

type Verdict = Result<Admitted, Refusal>;

pub(crate) fn judge<'p>(request: &'p AdmissionRequest<'p>, cx: &'p Context<'p>) -> Verdict {
    let cx = Review::new(request, cx);
    if !owned::is_judged(&cx) {
        return judge_kind(&cx);
    }
    match owned::judge(&cx)? {
        Judged::Admitted(admitted) => Ok(admitted),
        Judged::AlsoAs(boundaries) => {
            let mut admitted = Admitted("bounded");
            for boundary in boundaries {
                admitted = judge_kind(&cx.sent_by(boundary))?;
            }
            Ok(admitted)
        }
    }
}

fn judge_kind(cx: &Review<'_>) -> Verdict {
    let request = cx.request;
    if request.operation == Operation::Delete
        && manual::is_enforced(cx)
        && request.kind.group == "operators.coreos.com"
        && request.kind.kind == "InstallPlan"
        && request.sub_resource.is_empty()
    {
        return install_plan::judge_deletion(cx);
    }
    // No other deletion is ever blocked, and a refused status would leave objects that OLM skips forever.
    if matches!(request.operation, Operation::Delete | Operation::Connect) {
        return Ok(Admitted("deletion"));
    }
    let kind = &request.kind;
    let (versions, judge): (&[&str], fn(&Review<'_>) -> Verdict) = match (kind.group.as_str(), kind.kind.as_str()) {
        ("operators.coreos.com", "OperatorGroup") => (&["v1", "v1alpha2"], operator_group::judge),
        ("operators.coreos.com", "ClusterServiceVersion") => (&["v1alpha1"], csv::judge),
        ("operators.coreos.com", "InstallPlan") => (&["v1alpha1"], install_plan::judge),
        ("operators.coreos.com", "Subscription") => (&["v1alpha1"], subscription::judge),
        (OLM_V1, "ClusterExtension") => (&["v1", "v1alpha1"], cluster_extension::judge),
        (OLM_V1, "ClusterObjectSet" | "ClusterExtensionRevision") => (&["v1"], object_set::judge),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => (&["v1"], role::judge),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => (&["v1"], binding::judge),
        _ => return Ok(Admitted("not-judged")),
    };
    if !request.sub_resource.is_empty() {
        return Ok(Admitted("subresource"));
    }
    if !versions.contains(&kind.version.as_str()) {
        return Err(Refusal::forbidden(
            Reason::UnknownVersion,
            format!(
                "{} of version {}/{} is not known to this policy, which knows {}. Register it with \
                 matchPolicy: Equivalent, or update the policy.",
                kind.kind,
                kind.group,
                kind.version,
                versions.join(", ")
            ),
        ));
    }
    if is_clean_up(cx)? {
        return Ok(Admitted("terminating"));
    }
    judge(cx)
}

/// Parses the new object.
fn read_new<'p, T: Deserialize<'p>>(cx: &Review<'p>) -> Result<T, Refusal> {
    read(cx, cx.request.object, "object")
}

/// Parses the old object, in an UPDATE.
fn read_old<'p, T: Deserialize<'p>>(cx: &Review<'p>) -> Result<Option<T>, Refusal> {
    match cx.request.operation {
        Operation::Update => read(cx, cx.request.old_object, "oldObject").map(Some),
        _ => Ok(None),
    }
}

fn read<'p, T: Deserialize<'p>>(cx: &Review<'p>, raw: Option<&'p RawValue>, root: &str) -> Result<T, Refusal> {
    let read = match raw {
        Some(raw) => json::read(raw.get(), root),
        None => Err(missing(root)),
    };
    read.map_err(|error| unreadable(cx, error))
}

#[cold]
#[inline(never)]
fn missing(root: &str) -> json::Unreadable {
    json::Unreadable { path: root.to_owned(), reason: "is missing".to_owned() }
}

#[cold]
#[inline(never)]
fn unreadable(cx: &Review<'_>, error: json::Unreadable) -> Refusal {
    Refusal::unreadable(describe(cx, &cx.request.name), error)
}

/// The object as shown to a person: `Role team-a/reader`.
fn describe(cx: &Review<'_>, name: &str) -> String {
    let request = cx.request;
    let name = if name.is_empty() { "(without a name)" } else { name };
    if request.namespace.is_empty() {
        format!("{} {name}", request.kind.kind)
    } else {
        format!("{} {}/{name}", request.kind.kind, request.namespace)
    }
}

/// The namespace of the object: from the request, or else from its metadata.
fn namespace_of<'x>(cx: &'x Review<'_>, metadata: &'x Meta<'_>) -> &'x str {
    if cx.request.namespace.is_empty() { &metadata.namespace } else { &cx.request.namespace }
}

object! {
    /// `spec`, unparsed: any difference counts as a change.
    #[derive(Default, Debug)]
    struct RawSpec<'a> {
        spec: Option<&'a RawValue> = "spec",
    }
}

/// Whether an UPDATE leaves the spec textually unchanged.
fn same_spec(cx: &Review<'_>) -> Result<bool, Refusal> {
    if cx.request.operation != Operation::Update {
        return Ok(false);
    }
    let new: RawSpec<'_> = read_new(cx)?;
    let old: RawSpec<'_> = read(cx, cx.request.old_object, "oldObject")?;
    Ok(new.spec.map(RawValue::get) == old.spec.map(RawValue::get))
}

/// Whether only the metadata of a terminating object changes, and none of the labels and annotations that affect a
/// verdict: clean-up must succeed, even if the rest of the object could not be parsed.
fn is_clean_up(cx: &Review<'_>) -> Result<bool, Refusal> {
    let (Operation::Update, Some(new), Some(old)) = (cx.request.operation, cx.request.object, cx.request.old_object)
    else {
        return Ok(false);
    };
    if !new.get().contains("\"deletionTimestamp\"") {
        return Ok(false);
    }
    let (now, before): (MetaOnly<'_>, MetaOnly<'_>) = (read_new(cx)?, read(cx, Some(old), "oldObject")?);
    Ok(now.metadata.deletion_timestamp.is_some()
        && now.metadata.labels == before.metadata.labels
        && now.metadata.annotations == before.metadata.annotations
        && only_fewer(&now.metadata.owner_references, &before.metadata.owner_references)
        && same_beside_metadata(cx, new, old)?)
}

/// Whether owners were only removed: the remaining ones are in their original order.
fn only_fewer(now: &[OwnerReference<'_>], before: &[OwnerReference<'_>]) -> bool {
    let mut before = before.iter();
    now.iter().all(|owner| before.any(|known| known == owner))
}

/// Whether two objects are textually identical except for their metadata.
fn same_beside_metadata<'p>(cx: &Review<'p>, new: &'p RawValue, old: &'p RawValue) -> Result<bool, Refusal> {
    let beside = |object: &'p RawValue, root: &str| -> Result<Vec<(Text<'p>, &'p str)>, Refusal> {
        let members: json::Members<'p> = read(cx, Some(object), root)?;
        let others = members.0.into_iter().filter(|(key, _)| *key != "metadata");
        Ok(others.map(|(key, value)| (key, value.get())).collect())
    };
    Ok(beside(new, "object")? == beside(old, "oldObject")?)
}
