//! What the controller needs for itself: one list, from which the manifest is made. The tests hold both to what the API
//! server sees: nothing of it is unused, and nothing else is needed.

/// A right of the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// The API group.
    pub group: &'static str,
    /// The resources.
    pub resources: &'static [&'static str],
    /// The verbs.
    pub verbs: &'static [&'static str],
    /// What for.
    pub why: &'static str,
}

const WATCH: &[&str] = &["list", "watch"];

/// In the whole cluster.
pub const CLUSTER: &[Right] = &[
    Right { group: "operators.coreos.com", resources: &["operatorgroups"], verbs: WATCH, why: "who bounds what" },
    Right {
        group: "operators.coreos.com",
        resources: &["installplans"],
        verbs: &["get", "list", "watch"],
        why: "what is to be installed",
    },
    Right {
        group: "operators.coreos.com",
        resources: &["clusterserviceversions"],
        verbs: &["get", "list", "watch", "delete"],
        why: "operators; the replaced version goes when the new one works",
    },
    Right {
        group: "operators.coreos.com",
        resources: &["operatorgroups/status", "installplans/status", "clusterserviceversions/status"],
        verbs: &["patch"],
        why: "to tell what has come of it",
    },
    Right { group: "", resources: &["namespaces", "serviceaccounts"], verbs: WATCH, why: "targets and accounts" },
    Right {
        group: "",
        resources: &["serviceaccounts/token"],
        verbs: &["create"],
        why: "to act as the account of a group, and as nobody else",
    },
    Right { group: "", resources: &["configmaps"], verbs: &["get"], why: "bundles that OLM has unpacked" },
    Right {
        group: "rbac.authorization.k8s.io",
        resources: &["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
        verbs: &["list", "watch", "delete"],
        why: "what accounts hold; what an operator that is gone has left behind",
    },
    Right { group: "apps", resources: &["deployments"], verbs: WATCH, why: "whether operators run" },
    Right {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        verbs: &["get", "list", "watch", "create", "patch"],
        why: "always OLM's to write, never an account's",
    },
    Right {
        group: "apiregistration.k8s.io",
        resources: &["apiservices"],
        verbs: &["list", "create", "patch", "delete"],
        why: "always OLM's to write, never an account's",
    },
    Right { group: "events.k8s.io", resources: &["events"], verbs: &["create", "patch"], why: "news for people" },
];

/// In the controller's own namespace.
pub const OWN: &[Right] = &[Right {
    group: "coordination.k8s.io",
    resources: &["leases"],
    verbs: &["get", "create", "update"],
    why: "one replica acts at a time",
}];

/// The manifest: an account, its roles and its bindings.
#[must_use]
pub fn manifest(namespace: &str) -> String {
    let name = crate::NAME;
    let subjects = format!("subjects:\n- kind: ServiceAccount\n  name: {name}\n  namespace: {namespace}\n");
    let reference =
        |kind: &str| format!("roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {name}\n");
    let head = |api: &str, kind: &str, own: bool| {
        let place = if own { format!("  namespace: {namespace}\n") } else { String::new() };
        format!("---\napiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n{place}")
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    [
        format!("# Made by `{name} rbac` from crates/controller/src/rbac.rs: change it there.\n"),
        head("v1", "ServiceAccount", true),
        head(rbac, "ClusterRole", false) + &rules(CLUSTER),
        head(rbac, "ClusterRoleBinding", false) + &reference("ClusterRole") + &subjects,
        head(rbac, "Role", true) + &rules(OWN),
        head(rbac, "RoleBinding", true) + &reference("Role") + &subjects,
    ]
    .concat()
}

fn rules(rights: &[Right]) -> String {
    let list = |items: &[&str]| items.iter().map(|item| format!("{item:?}")).collect::<Vec<_>>().join(", ");
    let rule = |right: &Right| {
        format!(
            "# {}\n- apiGroups: [{:?}]\n  resources: [{}]\n  verbs: [{}]\n",
            right.why,
            right.group,
            list(right.resources),
            list(right.verbs)
        )
    };
    format!("rules:\n{}", rights.iter().map(rule).collect::<String>())
}
