//! From one version to the next: the old one keeps running until the new one works, and then goes with what it owned.

use std::sync::Arc;

use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::apply::apply;
use crate::context::Context;
use crate::error::Error;
use crate::judge;
use crate::olm::{ClusterServiceVersion, MANAGED_LABEL};
use crate::stores::Stores;

use super::phase::{self, Next};
use super::status;

/// The version that replaces this one, if there is one.
#[must_use]
pub(super) fn newer(stores: &Stores, csv: &ClusterServiceVersion) -> Option<Arc<ClusterServiceVersion>> {
    let (namespace, name) = (csv.namespace(), csv.name_any());
    stores.csvs.store.find(|other| {
        other.namespace() == namespace
            && other.name_any() != name
            && other.spec.replaces.as_deref() == Some(&name)
            && !other.is_copied()
            && other.metadata.deletion_timestamp.is_none()
    })
}

/// Waits for the new version to work, and then removes the old one. What it owned goes with it: what has its owner
/// reference by the garbage collector, the rest by the sweep.
pub(super) async fn hand_over(
    cx: &Context,
    old: &ClusterServiceVersion,
    new: &ClusterServiceVersion,
) -> Result<(), Error> {
    let (namespace, name) = (old.namespace().unwrap_or_default(), old.name_any());
    let message = format!("being replaced by ClusterServiceVersion {}", new.name_any());
    status::write(cx, old, &Next::new("Replacing", "BeingReplaced", message)).await?;
    if new.status.phase != "Succeeded" {
        return Ok(());
    }
    keep_accounts(cx, &namespace, old, new).await?;
    let csvs: Api<ClusterServiceVersion> = Api::namespaced(cx.own.0.clone(), &namespace);
    // This one, and not another that has got its name meanwhile.
    let params = DeleteParams {
        preconditions: Some(Preconditions { uid: old.uid(), resource_version: None }),
        ..DeleteParams::background()
    };
    match csvs.delete(&name, &params).await {
        Ok(_) => {
            tracing::info!(csv = %format!("{namespace}/{name}"), "removed a version that was replaced");
            Ok(())
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(source) => {
            let object = format!("ClusterServiceVersion {namespace}/{name}");
            Err(Error::api("remove the replaced", object)(source))
        }
    }
}

/// Accounts that both versions run as must not go with the old one.
async fn keep_accounts(
    cx: &Context,
    namespace: &str,
    old: &ClusterServiceVersion,
    new: &ClusterServiceVersion,
) -> Result<(), Error> {
    let text = serde_json::to_string(new).unwrap_or_default();
    let read: bounds::csv::ClusterServiceVersion<'_> = serde_json::from_str(&text).unwrap_or_default();
    for name in read.accounts() {
        let Some(account) = cx.stores.account(namespace, name) else { continue };
        if !account.owner_references().iter().any(|owner| Some(&owner.uid) == old.uid().as_ref()) {
            continue;
        }
        let Ok(installer) = judge::installer(&cx.stores, namespace) else { continue };
        let client = phase::client(cx, &installer).await?;
        let Some(kind) = cx.kinds.find(&cx.stores, &client, "", "v1", "ServiceAccount", &[]).await? else { continue };
        let object = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {
                "name": name, "namespace": namespace, "labels": {MANAGED_LABEL: "true"},
                "ownerReferences": [new.owner_reference()],
            },
        });
        apply(&client, &kind, &object)
            .await
            .map_err(Error::api("hand over", format!("ServiceAccount {namespace}/{name}")))?;
    }
    Ok(())
}
