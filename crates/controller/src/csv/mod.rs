//! ClusterServiceVersion: what it needs is checked, its Deployments are written with the account of the group, and an
//! earlier version goes when the new one works. What runs is left alone.

mod deployments;
pub(crate) mod lifted;
mod phase;
mod requirements;
mod status;
pub mod sweep;
mod upgrade;

use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::controller::Action;

use crate::context::Context;
use crate::error::Error;
use crate::olm::{ClusterServiceVersion, unreadable};

/// Brings an operator one phase further, or says why not. The status that is written leads here again.
pub async fn reconcile(csv: Arc<ClusterServiceVersion>, cx: Arc<Context>) -> Result<Action, Error> {
    let namespace = csv.namespace().unwrap_or_default();
    let is_ours = cx.acts_in(&namespace) && !csv.is_copied() && unreadable(&*csv).is_none();
    if !is_ours || csv.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    if let Some(newer) = upgrade::newer(&cx.stores, &csv) {
        upgrade::hand_over(&cx, &csv, &newer).await?;
        return Ok(Action::await_change());
    }
    let next = phase::next(&cx, &csv).await?;
    status::write(&cx, &csv, &next).await?;
    if next.retry { Err(Error::Step(next.message)) } else { Ok(Action::await_change()) }
}
