//! What a policy says about itself: `metadata.yml`, and the JSON that Kubewarden reads from the module.

use std::collections::{BTreeMap, BTreeSet};

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::annotate::AnnotateError;

/// The metadata of a policy. The order of the fields is the order in the JSON that kwctl writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// The protocol between host and policy.
    #[serde(default)]
    pub protocol_version: ProtocolVersion,
    /// The requests that the policy judges.
    pub rules: Vec<Rule>,
    /// What catalogues and reports show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Whether the policy may change the object.
    pub mutating: bool,
    /// Whether existing objects are judged too.
    #[serde(default = "yes")]
    pub background_audit: bool,
    /// How the module is run.
    #[serde(default)]
    pub execution_mode: ExecutionMode,
    /// What it judges.
    #[serde(default)]
    pub policy_type: PolicyType,
    /// The kinds it may look up.
    #[serde(default)]
    pub context_aware_resources: BTreeSet<ContextAwareResource>,
    /// The functions of the host that it may call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_capabilities: Option<BTreeSet<String>>,
    /// The first release of Kubewarden that can run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_kubewarden_version: Option<Version>,
}

/// The protocol between host and policy: there is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProtocolVersion {
    /// The first.
    #[default]
    #[serde(rename = "v1")]
    V1,
}

/// How the module is run. This tool annotates waPC policies only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecutionMode {
    /// waPC.
    #[default]
    #[serde(rename = "kubewarden-wapc")]
    KubewardenWapc,
}

/// What the policy judges. This tool annotates policies for Kubernetes only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PolicyType {
    /// Admission requests.
    #[default]
    #[serde(rename = "kubernetes")]
    Kubernetes,
}

/// Which requests are judged, as in a webhook configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// API groups, or `*`.
    pub api_groups: Vec<String>,
    /// API versions, or `*`.
    pub api_versions: Vec<String>,
    /// Resources and subresources.
    pub resources: Vec<String>,
    /// Operations.
    pub operations: Vec<Operation>,
}

/// What is done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// A connection to it is opened.
    Connect,
    /// All of these.
    #[serde(rename = "*")]
    All,
}

/// A kind that the policy may look up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextAwareResource {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The singular, as in a manifest.
    pub kind: String,
}

const fn yes() -> bool {
    true
}

/// The functions a waPC policy can ask of its host.
const HOST_CAPABILITIES: [&str; 11] = [
    "crypto/v1/is_certificate_trusted",
    "kubernetes/can_i",
    "kubernetes/get_resource",
    "kubernetes/list_resources_all",
    "kubernetes/list_resources_by_namespace",
    "net/v1/dns_lookup_host",
    "oci/v1/manifest_digest",
    "oci/v1/oci_manifest",
    "oci/v1/oci_manifest_config",
    "oci/v1/verify",
    "oci/v2/verify",
];

impl Metadata {
    /// Reads and checks `metadata.yml`.
    pub fn from_yaml(yaml: &str) -> Result<Self, AnnotateError> {
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        let metadata: Self = serde_saphyr::from_str_with_options(yaml, options)
            .map_err(|error| AnnotateError::Yaml(error.to_string()))?;
        metadata.check()?;
        Ok(metadata)
    }

    /// Adds a long description of how to use the policy.
    #[must_use]
    pub fn with_usage(mut self, usage: String) -> Self {
        self.annotations.get_or_insert_default().insert("io.kubewarden.policy.usage".to_owned(), usage);
        self
    }

    /// Whether the policy may call this function of the host: `kubernetes/can_i`. A declared `kubernetes/*` or `*` allows all below it.
    #[must_use]
    pub fn may_call(&self, capability: &str) -> bool {
        self.host_capabilities.iter().flatten().any(|declared| allows(declared, capability))
    }

    /// Whether the policy may look up this kind.
    #[must_use]
    pub fn may_look_up(&self, api_version: &str, kind: &str) -> bool {
        self.context_aware_resources.iter().any(|resource| resource.api_version == api_version && resource.kind == kind)
    }

    fn check(&self) -> Result<(), AnnotateError> {
        if self.rules.is_empty() {
            return Err(invalid("rules", "the policy judges nothing: add at least one rule"));
        }
        for (index, rule) in self.rules.iter().enumerate() {
            rule.check(&format!("rules[{index}]"))?;
        }
        for (index, resource) in self.context_aware_resources.iter().enumerate() {
            if resource.api_version.is_empty() || resource.kind.is_empty() {
                let field = format!("contextAwareResources[{index}]");
                return Err(invalid(field, "apiVersion and kind must not be empty"));
            }
        }
        for declared in self.host_capabilities.iter().flatten() {
            if !HOST_CAPABILITIES.iter().any(|known| allows(declared, known)) {
                let reason = format!("`{declared}` is not one of {}", HOST_CAPABILITIES.join(", "));
                return Err(invalid("hostCapabilities", reason));
            }
        }
        Ok(())
    }
}

/// Whether a declared capability, exact or ending in `/*`, allows a function of the host.
fn allows(declared: &str, capability: &str) -> bool {
    match declared.strip_suffix('*') {
        Some(prefix) if prefix.is_empty() || prefix.ends_with('/') => capability.starts_with(prefix),
        _ => declared == capability,
    }
}

impl Rule {
    fn check(&self, path: &str) -> Result<(), AnnotateError> {
        alone(&self.api_groups, |group| group == "*", path, "apiGroups")?;
        alone(&self.api_versions, |version| version == "*", path, "apiVersions")?;
        alone(&self.operations, |operation| *operation == Operation::All, path, "operations")?;
        self.check_resources(&format!("{path}.resources"))
    }

    /// The API server's own check of a webhook's resources: nothing may be covered twice, once with a wildcard.
    fn check_resources(&self, path: &str) -> Result<(), AnnotateError> {
        let fail = |reason: &str| Err(invalid(path, reason));
        let any = |test: &dyn Fn(&str, Option<&str>) -> bool| self.split_resources().any(|(name, sub)| test(name, sub));
        if self.resources.is_empty() || any(&|name, _| name.is_empty()) {
            return fail("must not be empty or contain empty names");
        }
        if self.resources.len() > 1 && any(&|name, sub| name == "*" && sub == Some("*")) {
            return fail("`*/*` already covers every resource: remove the others");
        }
        if any(&|name, sub| name == "*" && sub.is_none()) && any(&|name, sub| name != "*" && sub.is_none()) {
            return fail("`*` already covers every resource: remove those without a subresource");
        }
        for (name, sub) in self.split_resources().filter_map(|(name, sub)| Some((name, sub?))) {
            if sub != "*" && any(&|other, all| other == name && all == Some("*")) {
                return fail(&format!("`{name}/*` already covers `{name}/{sub}`"));
            }
            if name != "*" && any(&|all, other| all == "*" && other == Some(sub)) {
                return fail(&format!("`*/{sub}` already covers `{name}/{sub}`"));
            }
        }
        Ok(())
    }

    fn split_resources(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.resources.iter().map(|resource| match resource.split_once('/') {
            Some((name, sub)) => (name, Some(sub)),
            None => (resource.as_str(), None),
        })
    }
}

/// A list must say something, and a wildcard in it stands alone.
fn alone<T>(list: &[T], wildcard: impl Fn(&T) -> bool, path: &str, field: &str) -> Result<(), AnnotateError> {
    let fail = |reason: &str| Err(invalid(format!("{path}.{field}"), reason));
    match list {
        [] => fail("must not be empty"),
        [_] => Ok(()),
        _ if list.iter().any(wildcard) => fail("`*` already covers all of them: remove the others"),
        _ => Ok(()),
    }
}

fn invalid(field: impl Into<String>, reason: impl Into<String>) -> AnnotateError {
    AnnotateError::Invalid { field: field.into(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str =
        "rules:\n- {apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}\n";

    fn refused(yaml: &str) -> String {
        Metadata::from_yaml(yaml).unwrap_err().to_string()
    }

    fn refused_resources(resources: &str) -> String {
        refused(&format!(
            "mutating: false\nrules:\n- {{apiGroups: [''], apiVersions: [v1], resources: {resources}, operations: [CREATE]}}"
        ))
    }

    #[test]
    fn the_json_has_the_fields_and_the_order_of_kwctl() {
        let yaml = format!(
            "{RULES}mutating: false\ncontextAwareResources:\n- {{apiVersion: v1, kind: Pod}}\n- {{apiVersion: apps/v1, kind: Deployment}}\n\
             hostCapabilities: [kubernetes/get_resource, kubernetes/can_i]\nminimumKubewardenVersion: 1.35.0\nannotations: {{b: '1', a: '2'}}"
        );
        let json = serde_json::to_string(&Metadata::from_yaml(&yaml).unwrap()).unwrap();
        assert_eq!(
            json,
            r#"{"protocolVersion":"v1","rules":[{"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments"],"operations":["CREATE"]}],"annotations":{"a":"2","b":"1"},"mutating":false,"backgroundAudit":true,"executionMode":"kubewarden-wapc","policyType":"kubernetes","contextAwareResources":[{"apiVersion":"apps/v1","kind":"Deployment"},{"apiVersion":"v1","kind":"Pod"}],"hostCapabilities":["kubernetes/can_i","kubernetes/get_resource"],"minimumKubewardenVersion":"1.35.0"}"#
        );
    }

    #[test]
    fn what_is_not_set_is_left_out() {
        let json = serde_json::to_value(Metadata::from_yaml(&format!("{RULES}mutating: true")).unwrap()).unwrap();
        for absent in ["annotations", "hostCapabilities", "minimumKubewardenVersion"] {
            assert!(json.get(absent).is_none(), "{absent}");
        }
        assert_eq!(json["contextAwareResources"], serde_json::json!([]));
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_place() {
        let message = refused(&format!("{RULES}mutating: false\ncontextAware: true"));
        assert!(message.contains("contextAware") && message.contains("line 4"), "{message}");
    }

    #[test]
    fn a_missing_field_is_named() {
        assert!(refused(RULES).contains("mutating"));
        assert!(refused("mutating: false").contains("rules"));
        assert!(refused("mutating: false\nrules: []").starts_with("rules: "));
    }

    #[test]
    fn a_wildcard_stands_alone() {
        for (resources, words) in [
            ("[]", "must not be empty"),
            ("['*', pods]", "remove those without a subresource"),
            ("['*/*', pods]", "every resource"),
            ("['pods/*', pods/log]", "already covers `pods/log`"),
            ("['*/log', pods/log]", "already covers `pods/log`"),
        ] {
            let message = refused_resources(resources);
            assert!(message.starts_with("rules[0].resources: ") && message.contains(words), "{resources}: {message}");
        }
        let groups = refused(&RULES.replace("[apps]", "[apps, '*']").replace("rules", "mutating: false\nrules"));
        assert!(groups.starts_with("rules[0].apiGroups: "), "{groups}");
    }

    #[test]
    fn a_capability_the_host_does_not_have_is_refused() {
        let message = refused(&format!("{RULES}mutating: false\nhostCapabilities: [kubernetes/delete]"));
        assert!(message.contains("kubernetes/delete") && message.contains("kubernetes/can_i"), "{message}");
    }

    #[test]
    fn a_declared_prefix_allows_what_is_below_it() {
        let declared =
            |list: &str| Metadata::from_yaml(&format!("{RULES}mutating: false\nhostCapabilities: {list}")).unwrap();
        assert!(declared("['kubernetes/*']").may_call("kubernetes/can_i"));
        assert!(declared("['*']").may_call("kubernetes/can_i"));
        assert!(!declared("[kubernetes/get_resource]").may_call("kubernetes/can_i"));
        assert!(!declared("['oci/*']").may_call("kubernetes/can_i"));
    }
}
