//! ClusterObjectSet, formerly ClusterExtensionRevision: OLM v1 applies whatever it lists, with its own rights.

use super::review::Review;
use crate::decide::guard::{self, Choice};
use crate::decide::verdict::Admitted;
use crate::olm::meta::MetaOnly;
use crate::settings::{Bound, Severity};

use super::{Verdict, describe, read_new, read_old, same_spec};

/// Anyone who writes one needs to hold everything. OLM's own are bookkeeping and are not judged here.
pub(super) fn judge(cx: &Review<'_>) -> Verdict {
    if cx.settings.cluster_extensions.bound == Bound::Off {
        return Ok(Admitted("not-judged"));
    }
    let object: MetaOnly<'_> = read_new(cx)?;
    // Labels and owners lead from an object to its extension: whoever changes them chooses what bounds it. With
    // different annotations OLM's own set would look like one that comes from a bundle.
    let old: Option<MetaOnly<'_>> = read_old(cx)?;
    let same_owner = old.is_some_and(|old| {
        old.metadata.labels == object.metadata.labels
            && old.metadata.annotations == object.metadata.annotations
            && old.metadata.owner_references == object.metadata.owner_references
    });
    if same_owner && same_spec(cx)? {
        return Ok(Admitted("unchanged"));
    }
    let everything = Choice::Everything {
        why: "OLM applies whatever it lists with cluster-admin rights",
        instead: "create a ClusterExtension, and let OLM write this",
    };
    let act = format!("write {}", describe(cx, &object.metadata.display_name()));
    guard::check(cx, cx.requester.as_ref(), Severity::Deny, &act, &everything)?;
    Ok(Admitted("judged"))
}
