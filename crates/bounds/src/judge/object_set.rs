//! ClusterObjectSet, earlier ClusterExtensionRevision: OLM v1 applies whatever it lists, with its own rights.

use crate::context::Context;
use crate::group::Targets;
use crate::guard::{self, Choice, Place};
use crate::settings::{Bound, Severity};
use crate::verdict::Admitted;

use super::{Bare, Verdict, read_new, said, same_spec};

/// OLM's own bookkeeping passes; anybody else needs everything.
pub(super) fn judge(cx: &Context<'_>) -> Verdict {
    if cx.settings.cluster_extensions.bound == Bound::Off {
        return Ok(Admitted("not-judged"));
    }
    if cx.is_olm_v1() {
        return Ok(Admitted("bookkeeping"));
    }
    if same_spec(cx)? {
        return Ok(Admitted("unchanged"));
    }
    let object: Bare<'_> = read_new(cx)?;
    let everything = Choice::Everything {
        why: "OLM applies whatever it lists with cluster-admin rights",
        instead: "create a ClusterExtension, and let OLM write this",
    };
    let place = Place { namespace: "", targets: &Targets::All };
    let act = format!("write {}", said(cx, &object.metadata.said_name()));
    guard::check(cx, Severity::Deny, &act, &everything, &place)?;
    Ok(Admitted("judged"))
}
