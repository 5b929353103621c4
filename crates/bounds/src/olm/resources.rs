//! From the kind of an object in a bundle to the resource that RBAC speaks of, and where it lives.

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

/// Whether objects of this kind live in a namespace.
#[must_use]
pub fn is_namespaced(kind: &str) -> bool {
    !CLUSTER_SCOPED.contains(&kind)
}

/// The resource of a kind: its name in small letters with an `s`, but for a few.
#[must_use]
pub fn plural(kind: &str) -> String {
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
