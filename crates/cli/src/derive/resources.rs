//! From the kind of an object in a bundle to its resource in RBAC and its scope.

use serde_json::Value;

/// The kinds of a bundle that do not live in a namespace, of those that OLM knows.
const CLUSTER_SCOPED: &[&str] = &[
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PriorityClass",
    "SecurityContextConstraints",
    "StorageClass",
    "ValidatingWebhookConfiguration",
];

/// The API group of an object.
pub(super) fn group(object: &Value) -> &str {
    object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group)
}

/// Whether an object lives in a namespace.
pub(super) fn is_namespaced(object: &Value) -> bool {
    !CLUSTER_SCOPED.contains(&object["kind"].as_str().unwrap_or_default())
}

/// The resource of a kind: its name in small letters with an `s`, but for a few.
pub(super) fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
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
        for (kind, resource) in [
            ("NetworkPolicy", "networkpolicies"),
            ("PriorityClass", "priorityclasses"),
            ("ConfigMap", "configmaps"),
            ("PodDisruptionBudget", "poddisruptionbudgets"),
            ("Gateway", "gateways"),
            ("Ingress", "ingresses"),
            ("Endpoints", "endpoints"),
            ("VerticalPodAutoscaler", "verticalpodautoscalers"),
        ] {
            assert_eq!(plural(kind), resource);
        }
    }
}
