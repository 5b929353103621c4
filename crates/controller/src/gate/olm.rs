//! What the gate reads from OLM's objects beyond what verdicts read.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub name: &'static str,
    pub plural: &'static str,
}

const GROUP: &str = "operators.coreos.com";
pub(super) const OPERATOR_GROUPS: Kind =
    Kind { group: GROUP, version: "v1", name: "OperatorGroup", plural: "operatorgroups" };
pub(super) const INSTALL_PLANS: Kind =
    Kind { group: GROUP, version: "v1alpha1", name: "InstallPlan", plural: "installplans" };
pub(super) const SUBSCRIPTIONS: Kind =
    Kind { group: GROUP, version: "v1alpha1", name: "Subscription", plural: "subscriptions" };
pub(super) const CLUSTER_SERVICE_VERSIONS: Kind =
    Kind { group: GROUP, version: "v1alpha1", name: "ClusterServiceVersion", plural: "clusterserviceversions" };

impl Kind {
    /// The path of one object, or of all objects in a namespace.
    pub(super) fn path(self, namespace: &str, name: &str) -> String {
        let slash = if name.is_empty() { "" } else { "/" };
        format!("/apis/{}/{}/namespaces/{namespace}/{}{slash}{name}", self.group, self.version, self.plural)
    }
}

/// A list of anything.
#[derive(Debug, Deserialize)]
pub(super) struct List<T> {
    pub items: Vec<T>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub creation_timestamp: String,
    pub annotations: BTreeMap<String, String>,
}

/// Any object, of which only the metadata is read.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Bare {
    pub metadata: Meta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Subscription {
    pub metadata: Meta,
    pub spec: SubscriptionSpec,
    pub status: SubscriptionStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SubscriptionSpec {
    pub install_plan_approval: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SubscriptionStatus {
    #[serde(rename = "currentCSV")]
    pub current: String,
    #[serde(rename = "installedCSV")]
    pub installed: String,
    pub install_plan_ref: Option<Reference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reference {
    pub name: String,
    pub uid: String,
}

impl Subscription {
    /// Whether this is the plan that OLM would carry out for the Subscription. (Superseded plans stay as they were.)
    pub(super) fn is_for(&self, plan: &Meta) -> bool {
        let by = self.status.install_plan_ref.as_ref();
        by.is_some_and(|by| by.name == plan.name && (by.uid.is_empty() || by.uid == plan.uid))
    }
}
