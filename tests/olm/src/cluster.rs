//! A cluster that OLM and the policy come into.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_parts::Watchdog;
use test_plane::api::{Api, Key};
use test_plane::audit::{AuditLog, Detail, Event};
use test_plane::{Plane, eventually};

use crate::bundle::cluster_role_binding;

/// How long anything may take: OLM sleeps between its attempts, and machines have other things to do.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

/// A control plane with an audit log. It ends when this is dropped.
pub struct Cluster {
    /// The administrator in `system:masters`, whom the policy lets pass.
    pub root: Api,
    /// An administrator by a binding to `cluster-admin`, whom it judges.
    pub admin: Api,
    /// Everything that was written, and what came of it.
    pub audit: AuditLog,
    // Dropped last but for the directory: it writes there.
    plane: Plane,
    directory: TempDir,
}

impl Cluster {
    /// With OLM v0's definitions, and those of OLM v1 as in `plane up --olm-v1`.
    pub async fn start(olm_v1: &str) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("operator-bounds-olm-").tempdir()?;
        Watchdog::get()?.remove(directory.path())?;
        let audit = AuditLog::new(directory.path(), Detail::Objects)?;
        let [policy, log] = audit.arguments();
        let plane = Plane::start(&[&format!("--olm-v1={olm_v1}"), &policy, &log])?;
        let root = Api::connect(&plane.kubeconfig()).await?;
        let admin = Api::connect_in(&plane.kubeconfig(), "operator-bounds-plain").await?;
        Ok(Cluster { root, admin, audit, plane, directory })
    }

    /// For files of whatever runs beside it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The control plane.
    #[must_use]
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// A new namespace.
    pub async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        self.root.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await.map(drop)
    }

    /// A service account.
    pub async fn account(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}});
        self.root.apply(&account).await.map(drop)
    }

    /// A service account of a component, bound to this ClusterRole, and its kubeconfig.
    pub(crate) async fn component(&self, namespace: &str, name: &str, role: &str) -> anyhow::Result<PathBuf> {
        self.namespace(namespace).await?;
        self.account(namespace, name).await?;
        self.root.apply(&cluster_role_binding(&format!("{namespace}-{name}"), role, namespace, name)).await?;
        let kubeconfig = self.directory().join(format!("{name}.kubeconfig"));
        self.plane.kubeconfig_of(&self.root, namespace, name, &kubeconfig).await?;
        Ok(kubeconfig)
    }

    /// An object, if it is there.
    pub async fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Option<Value>> {
        self.root.get(&key(api_version, kind, namespace, name)).await
    }

    /// Waits until an object is as it should be, and gives it. What is there is told when it never is.
    pub async fn wait_for(
        &self,
        what: &str,
        key: &Key,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<(Value, Duration)> {
        eventually(what, PATIENCE, async || {
            let object = self.root.get(key).await?.unwrap_or_default();
            Ok(if holds(&object) { Ok(object) } else { Err(format!("{key} has the status {:#}", shown(&object))) })
        })
        .await
    }

    /// Waits until an object is gone, and says how long that took.
    pub async fn wait_until_gone(&self, key: &Key) -> anyhow::Result<Duration> {
        let waited = eventually("it goes", PATIENCE, async || {
            let object = self.root.get(key).await?;
            Ok(object.map_or(Ok(()), |object| Err(format!("{key} is still there: {:#}", object["metadata"]))))
        });
        Ok(waited.await?.1)
    }

    /// How many reviews there were so far, and how many refusals, in words.
    pub fn reviews(&self) -> anyhow::Result<String> {
        let events = self.audit.events()?;
        let reviews =
            events.iter().flat_map(|event| event.annotations.keys()).filter(|key| key.ends_with("/verdict")).count();
        Ok(format!("{reviews} reviews by the real policy-server, {} refused", self.refusals()?.len()))
    }

    /// What the policy has refused so far.
    pub fn refusals(&self) -> anyhow::Result<Vec<Event>> {
        let events = self.audit.events()?.into_iter();
        Ok(events.filter(|event| event.message().contains("denied the request")).collect())
    }
}

/// The status as somebody can read it: the steps of an InstallPlan are manifests within manifests.
fn shown(object: &Value) -> Value {
    let mut status = object["status"].clone();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("plan");
    }
    status
}

/// An object's place.
pub(crate) fn key(api_version: &str, kind: &str, namespace: &str, name: &str) -> Key {
    Key {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
