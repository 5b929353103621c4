//! `operatorGroups.manualApproval`: where the gate approves InstallPlans, Subscriptions stay Manual. Whoever may edit one could
//! otherwise set it to Automatic, delete the plan that waits, and have the next one carried out without anybody's approval.

use super::review::Review;
use crate::decide::groups;
use crate::decide::message::shell;
use crate::decide::verdict::{Reason, Refusal};
use crate::settings::ManualApproval;

/// The label of a Namespace in which the gate approves.
const LABEL: &str = "operator-bounds/approve";
/// Who deletes what a namespace or an owner takes along.
const CLEANERS: &[&str] = &[
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
];

/// Refuses in a gated namespace what would get around the gate. `act` is what the requester does, in words.
pub(super) fn check(cx: &Review<'_>, act: &str, namespace: &str) -> Result<(), Refusal> {
    // There is nobody to refuse in the background audit.
    let Some(requester) = &cx.requester else { return Ok(()) };
    let (user, exempt) = (requester.user(), &cx.settings.exempt);
    let passes = cx.is_by_olm_v0()
        || CLEANERS.contains(&user)
        || exempt.users.iter().any(|known| known == user)
        || requester.groups().iter().any(|group| exempt.groups.contains(group));
    if cx.settings.operator_groups.manual_approval == ManualApproval::Off || passes {
        return Ok(());
    }
    if groups::label_of(&cx.lookups, namespace, LABEL)?.is_none() {
        return Ok(());
    }
    Err(Refusal::forbidden(
        Reason::ManualApproval,
        format!(
            "User {user} may not {act}: namespace {namespace} has the label {LABEL}, so its plans are approved by the gate or by \
             hand (operatorGroups.manualApproval). Keep installPlanApproval: Manual. An administrator ends this with: kubectl \
             label namespace {} {LABEL}-",
            shell(namespace)
        ),
    ))
}

/// Whether anybody wants deletions judged.
pub(super) fn is_enforced(cx: &Review<'_>) -> bool {
    cx.settings.operator_groups.manual_approval == ManualApproval::Enforce
}
