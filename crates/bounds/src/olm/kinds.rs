//! Maps the kind of an object to its RBAC resource, and says whether it is namespaced.

use std::borrow::Cow;

/// The kinds that operators bring and that Kubernetes, `OpenShift`, cert-manager or the Prometheus operator define: the
/// API group, its namespaced kinds, and its cluster-scoped kinds.
const KINDS: [(&str, &str, &str); 25] = [
    (
        "",
        "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota \
         Secret Service ServiceAccount",
        "Namespace Node PersistentVolume",
    ),
    (
        "admissionregistration.k8s.io",
        "",
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy \
         ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
    ),
    ("apiextensions.k8s.io", "", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "", "APIService"),
    ("apps", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet", ""),
    ("autoscaling", "HorizontalPodAutoscaler", ""),
    ("autoscaling.k8s.io", "VerticalPodAutoscaler", ""),
    ("batch", "CronJob Job", ""),
    ("cert-manager.io", "Certificate Issuer", "ClusterIssuer"),
    (
        "console.openshift.io",
        "",
        "ConsoleCLIDownload ConsoleLink ConsoleNotification ConsolePlugin ConsoleQuickStart ConsoleYAMLSample",
    ),
    ("coordination.k8s.io", "Lease", ""),
    ("discovery.k8s.io", "EndpointSlice", ""),
    ("events.k8s.io", "Event", ""),
    ("flowcontrol.apiserver.k8s.io", "", "FlowSchema PriorityLevelConfiguration"),
    ("monitoring.coreos.com", "PodMonitor Probe PrometheusRule ServiceMonitor", ""),
    ("networking.k8s.io", "Ingress NetworkPolicy", "IngressClass"),
    ("node.k8s.io", "", "RuntimeClass"),
    ("olm.operatorframework.io", "", "ClusterCatalog ClusterExtension ClusterObjectSet"),
    ("operators.coreos.com", "CatalogSource ClusterServiceVersion OperatorCondition OperatorGroup Subscription", ""),
    ("policy", "PodDisruptionBudget", ""),
    ("rbac.authorization.k8s.io", "Role RoleBinding", "ClusterRole ClusterRoleBinding"),
    ("route.openshift.io", "Route", ""),
    ("scheduling.k8s.io", "", "PriorityClass"),
    ("security.openshift.io", "", "SecurityContextConstraints"),
    ("storage.k8s.io", "CSIStorageCapacity", "CSIDriver StorageClass VolumeAttributesClass"),
];

/// The RBAC resource of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource<'a> {
    /// The name in URLs: the plural, in lower case.
    pub(crate) plural: Cow<'a, str>,
    /// Whether its objects are namespaced.
    pub is_namespaced: bool,
}

/// The resource of a known kind.
#[must_use]
pub fn resource(group: &str, kind: &str) -> Option<Resource<'static>> {
    let (_, namespaced, cluster) = KINDS.iter().find(|(known, ..)| *known == group)?;
    let is_in = |kinds: &str| kinds.split(' ').any(|known| known == kind && !kind.is_empty());
    let is_namespaced = is_in(namespaced);
    (is_namespaced || is_in(cluster)).then(|| Resource { plural: Cow::Owned(plural(kind)), is_namespaced })
}

/// The most likely name of a kind in URLs: in lower case with an `s` appended, with a few exceptions.
#[must_use]
pub fn plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.as_bytes() {
        b"securitycontextconstraints" | b"endpoints" => kind,
        [.., b's' | b'x'] | [.., b'c' | b's', b'h'] => format!("{kind}es"),
        [.., before, b'y'] if !b"aeiou".contains(before) => format!("{}ies", &kind[..kind.len() - 1]),
        _ => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plurals_of_what_bundles_bring_are_kubernetes_own() {
        for (group, kind, plural, is_namespaced) in [
            ("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
            ("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
            ("", "ConfigMap", "configmaps", true),
            ("policy", "PodDisruptionBudget", "poddisruptionbudgets", true),
            ("networking.k8s.io", "Ingress", "ingresses", true),
            ("networking.k8s.io", "IngressClass", "ingressclasses", false),
            ("", "Endpoints", "endpoints", true),
            ("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities", true),
            ("security.openshift.io", "SecurityContextConstraints", "securitycontextconstraints", false),
            ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
            ("autoscaling.k8s.io", "VerticalPodAutoscaler", "verticalpodautoscalers", true),
            ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false),
        ] {
            let found = resource(group, kind).unwrap();
            assert_eq!((&*found.plural, found.is_namespaced), (plural, is_namespaced), "{kind}");
        }
        assert_eq!(plural("Gateway"), "gateways");
    }

    #[test]
    fn a_kind_of_another_group_is_not_known() {
        for (group, kind) in [("example.com", "Role"), ("", "Deployment"), ("", ""), ("apps", ""), ("batch", "Cron")] {
            assert_eq!(resource(group, kind), None, "{group} {kind}");
        }
    }
}
