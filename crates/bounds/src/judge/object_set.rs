//! ClusterObjectSet, earlier ClusterExtensionRevision: OLM v1 applies whatever it lists, with its own rights.

use crate::context::Context;
use crate::group::Targets;
use crate::guard::{self, Choice, Place};
use crate::meta::Bare;
use crate::settings::{Bound, Severity};
use crate::verdict::Admitted;

use super::{Verdict, read_new, read_old, said, same_spec};

/// OLM's own bookkeeping passes; anybody else needs everything.
pub(super) fn judge(cx: &Context<'_>) -> Verdict {
    if cx.settings.cluster_extensions.bound == Bound::Off {
        return Ok(Admitted("not-judged"));
    }
    if cx.is_olm_v1() {
        return Ok(Admitted("bookkeeping"));
    }
    let object: Bare<'_> = read_new(cx)?;
    // Labels and owners lead from an object to its extension: who changes them chooses what bounds it.
    let old: Option<Bare<'_>> = read_old(cx)?;
    let same_owner = old.is_some_and(|old| {
        old.metadata.labels == object.metadata.labels
            && old.metadata.owner_references == object.metadata.owner_references
    });
    if same_owner && same_spec(cx)? {
        return Ok(Admitted("unchanged"));
    }
    let everything = Choice::Everything {
        why: "OLM applies whatever it lists with cluster-admin rights",
        instead: "create a ClusterExtension, and let OLM write this",
    };
    let place = Place { namespace: "", targets: &Targets::All };
    let act = format!("write {}", said(cx, &object.metadata.said_name()));
    guard::check(cx, Severity::Deny, &act, &everything, &place)?;
    Ok(Admitted("judged"))
}
