//! The steps of an InstallPlan, and the manifests behind them: inline, or in the ConfigMap of an unpacked bundle.

use serde_json::value::RawValue;

use crate::olm::meta::Meta;
use crate::rbac::role::RoleRef;
use crate::rbac::rule::Rule;
use crate::read::object::object;
use crate::read::text::Text;

object! {
    /// The part of an InstallPlan that affects a verdict.
    #[derive(Debug, Default)]
    pub struct InstallPlan<'a> {
        /// The object metadata that affects a verdict.
        pub(crate) metadata: Meta<'a> = "metadata",
        /// Whether the plan is approved.
        pub spec: Spec<'a> = "spec",
        /// The steps, and how far OLM has got.
        pub status: Status<'a> = "status",
    }
}

object! {
    /// `spec` of an InstallPlan.
    #[derive(Default, Debug)]
    pub struct Spec<'a> {
        /// Whether OLM may carry it out.
        pub approved: bool = "approved",
        /// `Manual` if it has to be approved.
        pub approval: Text<'a> = "approval",
    }
}

object! {
    /// `status` of an InstallPlan.
    #[derive(Default, Debug)]
    pub struct Status<'a> {
        /// `RequiresApproval` while it waits for approval.
        pub phase: Text<'a> = "phase",
        /// The steps that OLM carries out.
        pub plan: Vec<Step<'a>> = "plan",
    }
}

object! {
    /// A step of an InstallPlan: one object to be created or updated.
    #[derive(Default, Debug)]
    pub struct Step<'a> {
        /// The name of the ClusterServiceVersion that the step belongs to.
        pub(crate) resolving: Text<'a> = "resolving",
        /// The object that the step writes.
        pub resource: StepResource<'a> = "resource",
    }
}

object! {
    /// The object of a step.
    #[derive(Default, Debug)]
    pub struct StepResource<'a> {
        /// The object's API group; empty for the core group.
        pub(crate) group: Text<'a> = "group",
        /// The object's kind, as which OLM reads the manifest.
        pub kind: Text<'a> = "kind",
        /// The object's name.
        pub name: Text<'a> = "name",
        /// The manifest itself, or a reference to it.
        pub(crate) manifest: Text<'a> = "manifest",
    }
}

object! {
    /// Any object that comes with a plan or bundle, with the fields of the RBAC kinds.
    #[derive(Debug, Default)]
    pub(crate) struct Manifest<'a> {
        pub(crate) api_version: Text<'a> = "apiVersion",
        pub(crate) kind: Text<'a> = "kind",
        pub(crate) metadata: Meta<'a> = "metadata",
        /// Only in bindings.
        pub(crate) role_ref: RoleRef<'a> = "roleRef",
        /// Only in roles.
        pub(crate) rules: Vec<Rule<'a>> = "rules",
        /// Only in ClusterRoles.
        pub(crate) aggregation_rule: Option<&'a RawValue> = "aggregationRule",
    }
}

object! {
    /// Where OLM stored the manifests of a bundle that it unpacked.
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
        pub(crate) kind: Text<'a> = "kind",
    }
}

/// A reference to the ConfigMap with an unpacked bundle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// What OLM sets as `spec.replaces` in the ClusterServiceVersion.
    pub(crate) replaces: String,
}

/// Where the manifest of a step is stored, unless it is the manifest itself.
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
