//! InstallPlan: the person who approves it is told what it exceeds, instead of finding out from a log.
//!
//! Only an UPDATE that approves is judged. On CREATE the steps do not exist yet, and a refused `/status` would leave a
//! plan that OLM skips forever.

use super::review::Review;
use crate::decide::boundary::{self, Bounds};
use crate::decide::verdict::Admitted;
use crate::decide::{pieces, plan};
use crate::olm::plan::InstallPlan;

use super::{Verdict, describe, manual, namespace_of, read, read_new, read_old, subscription};

/// A DELETE of a plan that waits for approval: the next plan might get through without one.
pub(super) fn judge_deletion(cx: &Review<'_>) -> Verdict {
    let plan: InstallPlan<'_> = read(cx, cx.request.old_object, "oldObject")?;
    if !plan.spec.approved && plan.spec.approval == "Manual" {
        let what = describe(cx, &plan.metadata.display_name());
        manual::check(cx, &format!("delete {what}, which waits for approval"), namespace_of(cx, &plan.metadata))?;
    }
    Ok(Admitted("deletion"))
}

pub(super) fn judge(cx: &Review<'_>) -> Verdict {
    let plan: InstallPlan<'_> = read_new(cx)?;
    let Some(old) = read_old::<InstallPlan<'_>>(cx)? else { return Ok(Admitted("not-judged")) };
    if old.spec.approved || !plan.spec.approved {
        return Ok(Admitted("unchanged"));
    }
    let namespace = namespace_of(cx, &plan.metadata);
    if cx.settings.exempts_namespace(namespace) {
        return Ok(Admitted("exempt"));
    }
    let what = describe(cx, &plan.metadata.display_name());
    if !cx.requester.as_ref().is_some_and(|requester| cx.settings.is_gate(requester.user())) {
        subscription::check_guard(cx, &format!("approve {what}"), namespace)?;
    }
    // A missing account is reported whatever the steps are.
    let admitted = match boundary::of_operator(cx, namespace, &[])? {
        Bounds::NoGroup => return Ok(Admitted("no-operator-group")),
        Bounds::Unbounded(_) => Admitted("unbounded"),
        Bounds::Bounded(..) => Admitted("nothing-to-judge"),
    };
    let brought = pieces::brought(cx, &what, &plan.status.plan);
    for text in &brought.unread {
        cx.warn(&format!("{text}. It was not judged yet; the ClusterServiceVersion is judged when OLM creates it."));
    }
    plan::within_bounds(cx, &what, namespace, &brought, admitted, &|_, _| Vec::new())
}
