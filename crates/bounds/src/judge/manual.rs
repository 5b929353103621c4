//! `operatorGroups.manualApproval`: where the gate approves InstallPlans, Subscriptions stay Manual. Otherwise anyone
//! who may edit one could set it to Automatic, delete the waiting plan, and have the next one carried out without
//! approval.

use super::review::Review;
use crate::decide::groups;
use crate::decide::message::shell;
use crate::decide::verdict::{Reason, Refusal};
use crate::settings::ManualApproval;

/// The label of a Namespace in which the gate approves.
const LABEL: &str = "operator-bounds/approve";
/// The accounts that delete objects along with their namespace or owner.
const CLEANERS: &[&str] = &[
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
];

/// Refuses what would bypass the gate in a gated namespace. `act` describes what the requester does.
pub(super) fn check(cx: &Review<'_>, act: &str, namespace: &str) -> Result<(), Refusal> {
    // The background audit has no requester to refuse.
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

/// Whether deletions have to be judged.
pub(super) fn is_enforced(cx: &Review<'_>) -> bool {
    cx.settings.operator_groups.manual_approval == ManualApproval::Enforce
}
