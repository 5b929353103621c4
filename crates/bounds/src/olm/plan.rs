//! The steps of an InstallPlan, and the manifests behind them: inline, or in the ConfigMap of an unpacked bundle.

use serde_json::value::RawValue;

use crate::olm::meta::Meta;
use crate::rbac::role::RoleRef;
use crate::rbac::rule::Rule;
use crate::read::object::object;
use crate::read::text::Text;

object! {
    /// An InstallPlan.
    #[derive(Debug, Default)]
    pub struct InstallPlan<'a> {
        /// `metadata`.
        pub metadata: Meta<'a> = "metadata",
        /// `spec`.
        pub spec: Spec<'a> = "spec",
        /// `status`.
        pub status: Status<'a> = "status",
    }
}

object! {
    /// `spec` of an InstallPlan.
    #[derive(Default, Debug)]
    pub struct Spec<'a> {
        /// Whether OLM may carry it out.
        pub approved: bool = "approved",
        /// `Manual` where somebody has to approve it.
        pub approval: Text<'a> = "approval",
    }
}

object! {
    /// `status` of an InstallPlan.
    #[derive(Default, Debug)]
    pub struct Status<'a> {
        /// `RequiresApproval` while it waits for that.
        pub phase: Text<'a> = "phase",
        /// The steps.
        pub plan: Vec<Step<'a>> = "plan",
    }
}

object! {
    /// A step.
    #[derive(Default, Debug)]
    pub struct Step<'a> {
        /// The name of the ClusterServiceVersion that the step belongs to.
        pub resolving: Text<'a> = "resolving",
        /// The object.
        pub resource: StepResource<'a> = "resource",
    }
}

object! {
    /// The object of a step.
    #[derive(Default, Debug)]
    pub struct StepResource<'a> {
        /// Its API group.
        pub group: Text<'a> = "group",
        /// Its kind.
        pub kind: Text<'a> = "kind",
        /// Its name.
        pub name: Text<'a> = "name",
        /// Its manifest, or where that is.
        pub manifest: Text<'a> = "manifest",
    }
}

object! {
    /// Any object that is brought, with the fields of the RBAC kinds.
    #[derive(Debug, Default)]
    pub(crate) struct Manifest<'a> {
        /// Group and version.
        pub api_version: Text<'a> = "apiVersion",
        /// The kind.
        pub kind: Text<'a> = "kind",
        /// `metadata`.
        pub metadata: Meta<'a> = "metadata",
        /// Of a binding.
        pub role_ref: RoleRef<'a> = "roleRef",
        /// Of a role.
        pub rules: Vec<Rule<'a>> = "rules",
        /// Of a ClusterRole.
        pub aggregation_rule: Option<&'a RawValue> = "aggregationRule",
    }
}

object! {
    /// Where OLM put the manifests of a bundle that it unpacked.
    #[derive(Debug, Default)]
    struct BundleReference<'a> {
        kind: Text<'a> = "kind",
        name: Text<'a> = "name",
        namespace: Text<'a> = "namespace",
        catalog_source: Text<'a> = "catalogSourceName",
        replaces: Text<'a> = "replaces",
    }
}

object! {
    /// Any object, of which only the kind is read.
    #[derive(Debug, Default)]
    pub(crate) struct Kind<'a> {
        /// The kind.
        pub kind: Text<'a> = "kind",
    }
}

/// A ConfigMap with an unpacked bundle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What OLM puts into `spec.replaces` of the ClusterServiceVersion.
    pub replaces: String,
}

/// Where the manifest of a step is, if it is not the manifest itself.
#[must_use]
pub(crate) fn reference(manifest: &str) -> Option<Unpacked> {
    let reference: BundleReference<'_> = serde_json::from_str(manifest).ok()?;
    let complete = reference.kind == "ConfigMap" && !reference.name.is_empty() && !reference.namespace.is_empty();
    (complete && !reference.catalog_source.is_empty()).then(|| Unpacked {
        namespace: reference.namespace.to_string(),
        name: reference.name.to_string(),
        replaces: reference.replaces.to_string(),
    })
}
