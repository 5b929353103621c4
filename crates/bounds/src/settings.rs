//! The settings of a registration.

use crate::read::glob;
use crate::read::json;
use crate::read::name::is_object_name;
use crate::read::object::{Failed, FromJson, Value, object};

/// A setting with a few known values. `false` is read as `off`, because YAML 1.1 turns a bare `off` into `false`.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// The known values, as they are written.
            pub(crate) const VALUES: &'static [&'static str] = &[$($text),+];
        }

        impl<'de> FromJson<'de> for $name {
            fn from_json(value: &mut dyn Value<'de>) -> Result<Self, Failed> {
                // `choice` returns an index into VALUES.
                value.choice($name::VALUES).map(|index| [$($name::$variant),+][index])
            }
        }
    };
}

choice! {
    /// What happens to a request that exceeds its boundary.
    Mode {
        /// It is refused.
        Enforce = "enforce",
        /// It is admitted with warnings.
        Warn = "warn",
    }
}
choice! {
    /// What decides whether an identity holds a permission.
    AuthorizerSetting {
        /// The RBAC objects, read and evaluated by the policy.
        Rbac = "rbac",
        /// The API server, through access reviews.
        AccessReview = "access-review",
    }
}
choice! {
    /// What a check does when it fails.
    Severity {
        /// Refuse the request.
        Deny = "deny",
        /// Admit the request with a warning.
        Warn = "warn",
        /// Skip the check.
        Off = "off",
    }
}
choice! {
    /// What a check that cannot be switched off does when it fails.
    Strictness {
        /// Admit the request with a warning.
        Warn = "warn",
        /// Refuse the request.
        Deny = "deny",
    }
}
choice! {
    /// Whether `escalate` and `bind` in a boundary's grant count.
    Escalation {
        /// They do not: the operator never holds more than the boundary.
        Ignore = "ignore",
        /// They do: what the API server would have let the boundary create is admitted.
        Honor = "honor",
    }
}
choice! {
    /// Whether Subscriptions in gated namespaces must stay Manual.
    ManualApproval {
        /// They may be set to Automatic.
        Off = "off",
        /// They must.
        Enforce = "enforce",
    }
}
choice! {
    /// The phases in the life cycle of `ClusterExtension.spec.serviceAccount`.
    Phase {
        /// The field must be set.
        Required = "required",
        /// The field may be omitted; OLM then uses the synthetic identity.
        Optional = "optional",
        /// OLM ignores the field.
        Deprecated = "deprecated",
        /// The field no longer exists.
        Removed = "removed",
    }
}
choice! {
    /// What bounds the objects that OLM v1 writes.
    Bound {
        /// Nothing bounds them.
        Off = "off",
        /// The account in the field if set, otherwise the synthetic identity.
        ServiceAccount = "serviceAccount",
        /// The synthetic identity, whatever the field says.
        Synthetic = "synthetic",
    }
}
choice! {
    /// Whether CustomResourceDefinitions of an extension are judged.
    Crds {
        /// They are not: they are left to OLM.
        Exempt = "exempt",
        /// They are judged like all other objects.
        Bounded = "bounded",
    }
}

choice! {
    /// What happens to releases that are too big for one Secret.
    LargeReleases {
        /// They are refused, because whether they contain hooks cannot be determined.
        Refuse = "refuse",
        /// Their objects are judged one by one.
        ObjectByObject = "objectByObject",
    }
}

object! {
    strict;
    /// All settings. Each of them is optional.
    #[derive(Debug, Clone)]
    pub struct Settings {
        /// Whether to refuse or to warn.
        pub(crate) mode: Mode = "mode",
        /// Whether RBAC objects or access reviews decide.
        pub authorizer: AuthorizerSetting = "authorizer",
        /// The boundary guard: who may choose a boundary.
        pub(crate) guard: Severity = "guard",
        /// The guard where there is no boundary.
        pub(crate) guard_unbounded: Severity = "guardUnbounded",
        /// The guard for Subscriptions and approvals.
        pub(crate) guard_subscriptions: Severity = "guardSubscriptions",
        /// Users, groups and namespaces that are exempt.
        pub(crate) exempt: Exempt = "exempt",
        /// The accounts that OLM and the gate run as.
        pub olm: Olm = "olm",
        /// Settings for OLM v0.
        pub operator_groups: OperatorGroups = "operatorGroups",
        /// Operators that are held to less than their group allows.
        pub(crate) untrusted: Vec<Untrusted> = "untrusted",
        /// Settings for OLM v1.
        pub(crate) cluster_extensions: ClusterExtensions = "clusterExtensions",
    }
}

object! {
    strict;
    /// Users, groups and namespaces that are exempt.
    #[derive(Debug, Clone)]
    pub(crate) struct Exempt {
        /// Users to whom the guard does not apply.
        pub(crate) users: Vec<String> = "users",
        /// Groups to whose members the guard does not apply.
        pub(crate) groups: Vec<String> = "groups",
        /// Namespaces (globs) whose operators are not judged at all.
        pub(crate) namespaces: Vec<String> = "namespaces",
    }
}

object! {
    strict;
    /// The accounts that OLM and the gate run as.
    #[derive(Debug, Clone)]
    pub struct Olm {
        /// The accounts of OLM v0's controllers.
        pub v0_users: Vec<String> = "v0Users",
        /// The accounts of the gate, which `guardSubscriptions` lets approve InstallPlans.
        pub(crate) gate_users: Vec<String> = "gateUsers",
        /// The accounts of OLM v1's controller.
        pub v1_users: Vec<String> = "v1Users",
    }
}

object! {
    strict;
    /// Settings for OLM v0.
    #[derive(Debug, Clone)]
    pub struct OperatorGroups {
        /// Whether groups without an account are refused.
        pub(crate) require_service_account: bool = "requireServiceAccount",
        /// What to do about a group whose account does not exist.
        pub(crate) missing_service_account: Strictness = "missingServiceAccount",
        /// What to do about an account that can write CRDs or APIServices.
        pub(crate) cluster_writes: Severity = "clusterWrites",
        /// Whether `escalate` and `bind` count.
        pub escalation: Escalation = "escalation",
        /// Whether Subscriptions must stay Manual where the gate approves.
        pub(crate) manual_approval: ManualApproval = "manualApproval",
    }
}

object! {
    strict;
    /// An operator that is held to less than its group allows.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Untrusted {
        /// A glob on the name of the ClusterServiceVersion.
        pub(crate) operator: String = "operator",
        /// A glob on its namespace; absent means any namespace.
        pub(crate) namespace: Option<String> = "namespace",
        /// The second account, in the operator's namespace.
        pub(crate) service_account_name: String = "serviceAccountName",
    }
}

object! {
    strict;
    /// Settings for OLM v1.
    #[derive(Debug, Clone)]
    pub(crate) struct ClusterExtensions {
        /// The phase by name; `None` is `auto`: what the cluster's own definition of ClusterExtensions says.
        pub(crate) phase: Option<Phase> = "phase",
        /// The phase by the release of OLM v1 or of `OpenShift`.
        pub(crate) release: Option<String> = "release",
        /// Whether to remove the field from objects.
        pub(crate) strip: bool = "strip",
        /// What bounds the objects that OLM v1 writes.
        pub(crate) bound: Bound = "bound",
        /// Whether CRDs are judged.
        pub(crate) crds: Crds = "crds",
        /// What happens to releases that are too big for one Secret.
        pub(crate) large_releases: LargeReleases = "largeReleases",
        /// Whether `escalate` and `bind` count.
        pub(crate) escalation: Escalation = "escalation",
        /// What to do about overly broad grants to synthetic identities.
        pub(crate) broad_grants: Severity = "broadGrants",
    }
}

impl<'de> FromJson<'de> for Option<Phase> {
    fn from_json(value: &mut dyn Value<'de>) -> Result<Self, Failed> {
        let index = value.choice(&["auto", "required", "optional", "deprecated", "removed"])?;
        // `auto` is not a phase: the phase has yet to be determined.
        Ok([None, Some(Phase::Required), Some(Phase::Optional), Some(Phase::Deprecated), Some(Phase::Removed)][index])
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mode: Mode::Enforce,
            authorizer: AuthorizerSetting::Rbac,
            guard: Severity::Deny,
            guard_unbounded: Severity::Warn,
            guard_subscriptions: Severity::Off,
            exempt: Exempt::default(),
            olm: Olm::default(),
            operator_groups: OperatorGroups::default(),
            untrusted: Vec::new(),
            cluster_extensions: ClusterExtensions::default(),
        }
    }
}

impl Default for Exempt {
    fn default() -> Self {
        Exempt { users: Vec::new(), groups: vec!["system:masters".to_owned()], namespaces: Vec::new() }
    }
}

impl Default for Olm {
    fn default() -> Self {
        let account = |namespace: &str, name: &str| format!("system:serviceaccount:{namespace}:{name}");
        Olm {
            v0_users: ["olm", "operator-lifecycle-manager", "openshift-operator-lifecycle-manager"]
                .map(|namespace| account(namespace, "olm-operator-serviceaccount"))
                .to_vec(),
            gate_users: Vec::new(),
            v1_users: ["olmv1-system", "openshift-operator-controller"]
                .map(|namespace| account(namespace, "operator-controller-controller-manager"))
                .to_vec(),
        }
    }
}

impl Default for OperatorGroups {
    fn default() -> Self {
        OperatorGroups {
            require_service_account: false,
            missing_service_account: Strictness::Warn,
            cluster_writes: Severity::Deny,
            escalation: Escalation::Ignore,
            manual_approval: ManualApproval::Off,
        }
    }
}

impl Default for ClusterExtensions {
    fn default() -> Self {
        ClusterExtensions {
            phase: None,
            release: None,
            strip: false,
            bound: Bound::Off,
            crds: Crds::Exempt,
            large_releases: LargeReleases::Refuse,
            escalation: Escalation::Honor,
            broad_grants: Severity::Warn,
        }
    }
}

impl From<Strictness> for Severity {
    fn from(strictness: Strictness) -> Self {
        match strictness {
            Strictness::Warn => Severity::Warn,
            Strictness::Deny => Severity::Deny,
        }
    }
}

/// How releases treat `ClusterExtension.spec.serviceAccount`, as shipped: the major version, the first and the last
/// minor version, and the phase.
const RELEASES: [(u8, u8, u8, Phase); 4] = [
    // Upstream, from the CustomResourceDefinition in operator-framework/operator-controller: `required` lists the field
    // in the tags v1.2.0 and v1.10.0, and the design has required it since the first v1.
    (1, 0, 10, Phase::Required),
    // Same source, tag v1.11.0: optional, "a deprecated field and is completely ignored".
    (1, 11, 11, Phase::Deprecated),
    // OpenShift, from the branches release-4.18 to release-4.23 of openshift/operator-framework-operator-controller, July 2026.
    // (The plan was that 4.21 ignores the field and 4.23 removes it.)
    (4, 18, 23, Phase::Required),
    // Same source, release-5.0 and release-5.1.
    (5, 0, 1, Phase::Required),
];

/// How a release of OLM v1 (`1.11`) or of `OpenShift` (`4.20`) treats `ClusterExtension.spec.serviceAccount`, as
/// shipped.
#[must_use]
pub fn shipped(release: &str) -> Option<Phase> {
    let is_meant = |(major, first, last, _): &&(u8, u8, u8, Phase)| {
        (*first..=*last).any(|minor| format!("{major}.{minor}") == release)
    };
    RELEASES.iter().find(is_meant).map(|(.., phase)| *phase)
}

/// The releases that [`shipped`] knows, as shown to a person.
#[must_use]
pub fn known_releases() -> String {
    let said = |(major, first, last, _): &(u8, u8, u8, Phase)| match last - first {
        0 => format!("{major}.{first}"),
        _ => format!("{major}.{first} to {major}.{last}"),
    };
    RELEASES.iter().map(said).collect::<Vec<_>>().join(", ")
}

impl Untrusted {
    /// Whether it applies to operators of this namespace.
    #[must_use]
    pub(crate) fn applies_to(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|pattern| glob::matches(pattern, namespace))
    }
}

impl Settings {
    /// Reads settings; missing ones take their default. The error names the key, and the closest known one.
    pub fn read(text: &str) -> Result<Self, String> {
        let settings: Settings =
            json::read(text, "settings").map_err(|error| format!("{error}{}", nearest_known(&error.reason)))?;
        settings.check()?;
        Ok(settings)
    }

    /// Checks what the types cannot express.
    fn check(&self) -> Result<(), String> {
        for (index, untrusted) in self.untrusted.iter().enumerate() {
            let path = format!("settings.untrusted[{index}]");
            if untrusted.operator.is_empty() {
                return Err(format!("{path}.operator: must not be empty; use \"*\" for every operator"));
            }
            if untrusted.namespace.as_deref() == Some("") {
                return Err(format!(
                    "{path}.namespace: must not be empty, because no namespace has that name; leave it out to mean \
                     all of them"
                ));
            }
            if !is_object_name(&untrusted.service_account_name) {
                return Err(format!(
                    "{path}.serviceAccountName: {:?} is not the name of a service account",
                    untrusted.service_account_name
                ));
            }
        }
        let extensions = &self.cluster_extensions;
        if extensions.phase.is_some() && extensions.release.is_some() {
            return Err("settings.clusterExtensions: set either phase or release, not both".to_owned());
        }
        if let Some(release) = &extensions.release
            && shipped(release).is_none()
        {
            return Err(format!(
                "settings.clusterExtensions.release: unknown release {release:?}; known are {}. Leave it out, and with \
                 phase: auto the policy reads from the cluster what its OLM does",
                known_releases()
            ));
        }
        if extensions.strip && extensions.bound == Bound::ServiceAccount {
            return Err("settings.clusterExtensions: strip takes out the very field that `bound: serviceAccount` \
                 bounds by; use `bound: synthetic`, or leave strip off"
                .to_owned());
        }
        Ok(())
    }

    /// Whether operators of this namespace are exempt.
    #[must_use]
    pub(crate) fn exempts_namespace(&self, namespace: &str) -> bool {
        self.exempt.namespaces.iter().any(|pattern| glob::matches(pattern, namespace))
    }

    /// The phase of `ClusterExtension.spec.serviceAccount`, by name or by release; `None` if the cluster has to be
    /// asked.
    #[must_use]
    pub(crate) fn phase(&self) -> Option<Phase> {
        let extensions = &self.cluster_extensions;
        extensions.phase.or_else(|| extensions.release.as_deref().and_then(shipped))
    }

    /// Whether this is one of OLM v0's own accounts.
    #[must_use]
    pub(crate) fn is_olm_v0(&self, user: &str) -> bool {
        self.olm.v0_users.iter().any(|known| known == user)
    }

    /// Whether this is one of the gate's accounts.
    #[must_use]
    pub(crate) fn is_gate(&self, user: &str) -> bool {
        self.olm.gate_users.iter().any(|known| known == user)
    }

    /// Whether this is one of OLM v1's own accounts.
    #[must_use]
    pub(crate) fn is_olm_v1(&self, user: &str) -> bool {
        self.olm.v1_users.iter().any(|known| known == user)
    }
}

/// serde names the unknown word first and the known ones after it, each in backticks.
fn nearest_known(reason: &str) -> String {
    if !reason.starts_with("unknown ") {
        return String::new();
    }
    let mut words = reason.split('`').skip(1).step_by(2);
    let unknown = words.next().unwrap_or_default();
    did_you_mean(unknown, &words.collect::<Vec<_>>())
}

fn did_you_mean(unknown: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|known| (distance(unknown, known), known)).min();
    match nearest {
        Some((distance, known)) if distance <= unknown.len().max(3) / 2 + 1 => format!("; did you mean `{known}`?"),
        _ => String::new(),
    }
}

/// Levenshtein distance, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_ascii_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    // A key of a thousand letters is not a misspelling.
    for (i, ca) in a.to_ascii_lowercase().chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let next = (diagonal + usize::from(ca != *cb)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_at_all_gives_the_defaults() {
        for text in ["{}", "null", r#"{"exempt":null,"untrusted":null,"operatorGroups":{}}"#] {
            let settings = Settings::read(text).unwrap();
            assert_eq!(settings.mode, Mode::Enforce);
            assert_eq!(settings.guard, Severity::Deny);
            assert_eq!(settings.guard_unbounded, Severity::Warn);
            assert_eq!(settings.guard_subscriptions, Severity::Off);
            assert_eq!(settings.exempt.groups, ["system:masters"]);
            assert_eq!(settings.operator_groups.cluster_writes, Severity::Deny);
            assert_eq!(settings.cluster_extensions.bound, Bound::Off);
        }
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        for (text, expected) in [
            (r#"{"modee":"warn"}"#, "settings.modee: unknown field `modee`"),
            (r#"{"modee":"warn"}"#, "did you mean `mode`?"),
            (r#"{"operatorgroups":{}}"#, "did you mean `operatorGroups`?"),
            (r#"{"operatorGroups":{"clusterWrite":"deny"}}"#, "settings.operatorGroups.clusterWrite"),
            (r#"{"operatorGroups":{"clusterWrite":"deny"}}"#, "did you mean `clusterWrites`?"),
            (r#"{"untrusted":[{"operator":"a","serviceAccount":"b"}]}"#, "did you mean `serviceAccountName`?"),
        ] {
            let error = Settings::read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_unknown_value_is_refused_with_the_nearest_known_one() {
        for (text, expected) in [
            (r#"{"mode":"enforced"}"#, "did you mean `enforce`?"),
            (r#"{"guard":"denied"}"#, "settings.guard: unknown variant `denied`"),
            (r#"{"mode":7}"#, "settings.mode: invalid type: integer `7`"),
            (r#"{"guard":true}"#, "unknown variant `on`"),
            (r#"{"mode":false}"#, "unknown variant `off`"),
            (
                r#"{"clusterExtensions":{"release":"4.24"}}"#,
                "1.0 to 1.10, 1.11, 4.18 to 4.23, 5.0 to 5.1. Leave it out",
            ),
            (r#"{"clusterExtensions":{"release":"1.110"}}"#, "unknown release"),
            (r#"{"clusterExtensions":{"phase":"automatic"}}"#, "settings.clusterExtensions.phase: unknown variant"),
        ] {
            let error = Settings::read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_bare_off_of_yaml_is_understood() {
        let settings = Settings::read(r#"{"guard":false,"clusterExtensions":{"bound":false}}"#).unwrap();
        assert_eq!(settings.guard, Severity::Off);
    }

    #[test]
    fn a_release_is_what_shipped_and_nothing_said_is_auto() {
        let phase = |text: &str| Settings::read(text).unwrap().phase();
        assert_eq!(phase("{}"), None);
        assert_eq!(phase(r#"{"clusterExtensions":{"phase":"auto"}}"#), None);
        assert_eq!(phase(r#"{"clusterExtensions":{"phase":"optional"}}"#), Some(Phase::Optional));
        for (release, shipped) in [
            ("1.2", Phase::Required),
            ("1.10", Phase::Required),
            ("1.11", Phase::Deprecated),
            ("4.18", Phase::Required),
            ("4.21", Phase::Required),
            ("4.23", Phase::Required),
            ("5.1", Phase::Required),
        ] {
            let text = format!(r#"{{"clusterExtensions":{{"phase":"auto","release":"{release}"}}}}"#);
            assert_eq!(phase(&text), Some(shipped), "{release}");
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        for (text, expected) in [
            (r#"{"clusterExtensions":{"phase":"optional","release":"4.20"}}"#, "either phase or release"),
            (r#"{"clusterExtensions":{"strip":true,"bound":"serviceAccount"}}"#, "strip takes out the very field"),
            (r#"{"untrusted":[{"operator":"","serviceAccountName":"a"}]}"#, "untrusted[0].operator"),
            (r#"{"untrusted":[{"operator":"a","serviceAccountName":"A b"}]}"#, "is not the name of a service account"),
            (
                r#"{"untrusted":[{"operator":"a","namespace":"","serviceAccountName":"b"}]}"#,
                "untrusted[0].namespace: must not be empty",
            ),
        ] {
            let error = Settings::read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
