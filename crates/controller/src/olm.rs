//! The kinds of OLM v0, with the fields that are read here. What is not read is not kept: a store of these is small.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The API group of OLM v0.
pub const GROUP: &str = "operators.coreos.com";
/// On everything that is written for an operator.
pub const MANAGED_LABEL: &str = "olm.managed";
/// The name of the owner of an object that cannot have an owner reference.
pub const OWNER_LABEL: &str = "olm.owner";
/// The kind of the owner.
pub const OWNER_KIND_LABEL: &str = "olm.owner.kind";
/// The namespace of the owner.
pub const OWNER_NAMESPACE_LABEL: &str = "olm.owner.namespace";
/// On a Deployment: which state of its ClusterServiceVersion it was made from.
pub const GENERATION_ANNOTATION: &str = "operator-bounds/generation";
/// On a copy of a ClusterServiceVersion in another namespace.
pub const COPIED_LABEL: &str = "olm.copiedFrom";

/// What is kept of an object that cannot be read: its metadata, with this annotation that says why.
pub const UNREADABLE_ANNOTATION: &str = "operator-bounds/unreadable";

/// Why an object could not be read, if it could not.
pub fn unreadable<K: Resource>(object: &K) -> Option<&str> {
    object.annotations().get(UNREADABLE_ANNOTATION).map(String::as_str)
}

macro_rules! resource {
    ($type:ident, $scope:ty, $group:expr, $version:literal, $kind:literal, $plural:literal) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// An OperatorGroup.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct OperatorGroup {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(default)]
    pub spec: OperatorGroupSpec,
    /// `status`.
    #[serde(default)]
    pub status: OperatorGroupStatus,
}
resource!(OperatorGroup, NamespaceResourceScope, GROUP, "v1", "OperatorGroup", "operatorgroups");

/// `spec` of an OperatorGroup.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorGroupSpec {
    /// The account that bounds everything in the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Targets by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_namespaces: Option<Vec<String>>,
    /// Targets by label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// `status` of an OperatorGroup.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorGroupStatus {
    /// The targets; `""` means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// The account, once it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_ref: Option<AccountRef>,
    /// What is wrong. Others write here too: a time that cannot be read must not hide the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Value>>,
}

/// A reference to a service account, in a status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountRef {
    /// `v1`.
    #[serde(default)]
    pub api_version: String,
    /// `ServiceAccount`.
    #[serde(default)]
    pub kind: String,
    /// The namespace.
    #[serde(default)]
    pub namespace: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// Which account of that name.
    #[serde(default)]
    pub uid: String,
}

/// An InstallPlan without its steps: what is kept of every one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct InstallPlanSummary {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(default)]
    pub spec: InstallPlanSpec,
    /// `status`.
    #[serde(default)]
    pub status: InstallPlanSummaryStatus,
}
resource!(InstallPlanSummary, NamespaceResourceScope, GROUP, "v1alpha1", "InstallPlan", "installplans");

/// `status` of an InstallPlan, without its steps.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct InstallPlanSummaryStatus {
    /// The phase.
    #[serde(default)]
    pub phase: String,
}

/// An InstallPlan with its steps, read when it is carried out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct InstallPlan {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(default)]
    pub spec: InstallPlanSpec,
    /// `status`.
    #[serde(default)]
    pub status: InstallPlanStatus,
}
resource!(InstallPlan, NamespaceResourceScope, GROUP, "v1alpha1", "InstallPlan", "installplans");

/// `spec` of an InstallPlan.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct InstallPlanSpec {
    /// Whether it may be carried out.
    #[serde(default)]
    pub approved: bool,
}

/// `status` of an InstallPlan.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanStatus {
    /// The phase.
    #[serde(default)]
    pub phase: String,
    /// Why it is in that phase.
    #[serde(default)]
    pub message: String,
    /// The account that it is carried out with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attenuated_service_account_ref: Option<AccountRef>,
    /// What has come of it.
    #[serde(default)]
    pub conditions: Vec<InstallPlanCondition>,
    /// Where it comes from. Required by the schema, and the resolver's to fill in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_sources: Option<Value>,
    /// The steps.
    #[serde(default)]
    pub plan: Vec<Step>,
}

/// A condition of an InstallPlan.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstallPlanCondition {
    /// `Installed`, `Resolved`.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// `True`, `False`.
    #[serde(default)]
    pub status: String,
    /// A word for machines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the status changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// When it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
}

/// A step of an InstallPlan. Whatever else it has is kept, for it is written back.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Step {
    /// The ClusterServiceVersion it is for.
    #[serde(default)]
    pub resolving: String,
    /// What it brings.
    #[serde(default)]
    pub resource: StepResource,
    /// What has come of it.
    #[serde(default)]
    pub status: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// What a step brings.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StepResource {
    /// The API group.
    #[serde(default)]
    pub group: String,
    /// The version.
    #[serde(default)]
    pub version: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The object, or where it is.
    #[serde(default)]
    pub manifest: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// A ClusterServiceVersion, without what only people read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ClusterServiceVersion {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(default)]
    pub spec: CsvSpec,
    /// `status`.
    #[serde(default)]
    pub status: CsvStatus,
}
resource!(
    ClusterServiceVersion,
    NamespaceResourceScope,
    GROUP,
    "v1alpha1",
    "ClusterServiceVersion",
    "clusterserviceversions"
);

impl ClusterServiceVersion {
    /// Whether this only shows in a target namespace what is installed in another one.
    #[must_use]
    pub fn is_copied(&self) -> bool {
        self.labels().contains_key(COPIED_LABEL)
    }

    /// The owner reference that the parts of the operator carry.
    #[must_use]
    pub fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            block_owner_deletion: Some(false),
            controller: Some(false),
            ..csv_reference(&self.name_any(), &self.uid().unwrap_or_default())
        }
    }

    /// Whether it says that a CustomResourceDefinition is its own.
    #[must_use]
    pub fn owns_crd(&self, name: &str) -> bool {
        self.spec.customresourcedefinitions.owned.iter().any(|crd| crd.name == name)
    }
}

/// An owner reference to a ClusterServiceVersion.
#[must_use]
pub fn csv_reference(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: format!("{GROUP}/v1alpha1"),
        kind: "ClusterServiceVersion".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        block_owner_deletion: Some(false),
        controller: Some(false),
    }
}

/// `spec` of a ClusterServiceVersion.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CsvSpec {
    /// The version it comes after.
    #[serde(default)]
    pub replaces: Option<String>,
    /// How it is installed.
    #[serde(default)]
    pub install: Install,
    /// Its kinds.
    #[serde(default)]
    pub customresourcedefinitions: Definitions,
    /// Its API services.
    #[serde(default)]
    pub apiservicedefinitions: ApiServices,
    /// Its webhooks.
    #[serde(default)]
    pub webhookdefinitions: Option<Vec<Value>>,
}

/// `spec.install`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Install {
    /// `deployment`.
    #[serde(default)]
    pub strategy: String,
    /// What to do.
    #[serde(default)]
    pub spec: Strategy,
}

/// `spec.install.spec`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// Permissions in namespaces.
    #[serde(default)]
    pub permissions: Option<Vec<Permission>>,
    /// Permissions in the whole cluster.
    #[serde(default)]
    pub cluster_permissions: Option<Vec<Permission>>,
    /// What runs.
    #[serde(default)]
    pub deployments: Option<Vec<DeploymentSpec>>,
}

/// An entry of `permissions` or `clusterPermissions`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    /// Whose they are.
    #[serde(default)]
    pub service_account_name: Option<String>,
    /// The rules, as they are written.
    #[serde(default)]
    pub rules: Value,
}

/// An entry of `deployments`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DeploymentSpec {
    /// The name.
    #[serde(default)]
    pub name: String,
    /// Labels of the Deployment itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<BTreeMap<String, String>>,
    /// The Deployment's `spec`.
    #[serde(default)]
    pub spec: Value,
}

/// `spec.customresourcedefinitions`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Definitions {
    /// What it brings.
    #[serde(default)]
    pub owned: Vec<Definition>,
    /// What it needs.
    #[serde(default)]
    pub required: Vec<Definition>,
}

/// A kind that a ClusterServiceVersion brings or needs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Definition {
    /// The name of the CustomResourceDefinition.
    #[serde(default)]
    pub name: String,
    /// The version.
    #[serde(default)]
    pub version: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
}

/// `spec.apiservicedefinitions`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ApiServices {
    /// What it serves.
    #[serde(default)]
    pub owned: Vec<ApiService>,
    /// What it needs.
    #[serde(default)]
    pub required: Vec<ApiService>,
}

/// An API service that a ClusterServiceVersion brings or needs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiService {
    /// The API group.
    #[serde(default)]
    pub group: String,
    /// The version.
    #[serde(default)]
    pub version: String,
    /// The kind.
    #[serde(default)]
    pub kind: String,
    /// The Deployment behind it.
    #[serde(default)]
    pub deployment_name: String,
}

impl ApiService {
    /// The name of the APIService.
    #[must_use]
    pub fn object_name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }
}

/// `status` of a ClusterServiceVersion.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CsvStatus {
    /// The phase.
    #[serde(default)]
    pub phase: String,
    /// A word for machines.
    #[serde(default)]
    pub reason: String,
    /// A sentence for people.
    #[serde(default)]
    pub message: String,
    /// What was before.
    #[serde(default)]
    pub conditions: Vec<Value>,
    /// What it needs, and whether that is there.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub requirement_status: Value,
}

/// A Deployment, without its pods' template.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DeploymentSummary {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `status`.
    #[serde(default)]
    pub status: k8s_openapi::api::apps::v1::DeploymentStatus,
}
resource!(DeploymentSummary, NamespaceResourceScope, "apps", "v1", "Deployment", "deployments");

/// A CustomResourceDefinition, without its schemas.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CrdSummary {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    #[serde(default)]
    pub spec: CrdSpec,
    /// `status`.
    #[serde(default)]
    pub status: CrdStatus,
}
resource!(
    CrdSummary,
    ClusterResourceScope,
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions"
);

/// `spec` of a CustomResourceDefinition.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CrdSpec {
    /// The API group.
    #[serde(default)]
    pub group: String,
    /// `Namespaced` or `Cluster`.
    #[serde(default)]
    pub scope: String,
    /// The names.
    #[serde(default)]
    pub names: CrdNames,
    /// The versions.
    #[serde(default)]
    pub versions: Vec<CrdVersion>,
}

/// `spec.names` of a CustomResourceDefinition.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CrdNames {
    /// The kind.
    #[serde(default)]
    pub kind: String,
    /// The resource, as URLs name it.
    #[serde(default)]
    pub plural: String,
}

/// A version of a CustomResourceDefinition.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CrdVersion {
    /// The name.
    #[serde(default)]
    pub name: String,
    /// Whether it is served.
    #[serde(default)]
    pub served: bool,
}

/// `status` of a CustomResourceDefinition.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CrdStatus {
    /// Whether it is served, among others.
    #[serde(default)]
    pub conditions: Option<Vec<CrdCondition>>,
}

/// A condition of a CustomResourceDefinition.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CrdCondition {
    /// The type.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// `True`, `False`.
    #[serde(default)]
    pub status: String,
}

impl CrdSummary {
    /// Whether the API server serves it.
    #[must_use]
    pub fn is_established(&self) -> bool {
        let conditions = self.status.conditions.as_deref().unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
    }
}
