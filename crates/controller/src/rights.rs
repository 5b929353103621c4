//! The rights that the gate itself needs: one list, from which the manifest is generated. The tests compare it with
//! what the API server sees: no right is unused, and no other is needed. (`scope` needs none: it has no credentials.)

use clap::Args;

use crate::NAME;

/// Print the RBAC that `gate` needs, with its service account
#[derive(Debug, Args)]
pub struct Options {
    /// The namespace that the gate runs in
    #[arg(long, default_value = "operator-bounds", value_name = "NAME")]
    pub namespace: String,

    /// The namespaces of catalogs, where OLM unpacks bundles into ConfigMaps
    #[arg(long, value_delimiter = ',', default_value = "olm", value_name = "NAME")]
    pub bundle_namespaces: Vec<String>,
}

/// A set of rights that the gate needs for one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The resources in that group.
    pub resources: &'static [&'static str],
    /// The verbs on these resources.
    pub verbs: &'static [&'static str],
    /// What the gate needs them for.
    pub why: &'static str,
}

const WATCH: &[&str] = &["list", "watch"];
const OLM: &str = "operators.coreos.com";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Needed in the whole cluster.
pub const CLUSTER: &[Right] = &[
    Right {
        group: OLM,
        resources: &["installplans"],
        verbs: &["get", "list", "watch", "patch"],
        why: "what waits for approval, and to approve it",
    },
    Right {
        group: OLM,
        resources: &["subscriptions", "operatorgroups"],
        verbs: WATCH,
        why: "which plan is live, and what bounds it",
    },
    Right {
        group: OLM,
        resources: &["clusterserviceversions"],
        verbs: &["get", "list", "watch"],
        why: "what the installed version declares",
    },
    Right {
        group: "",
        resources: &["namespaces"],
        verbs: WATCH,
        why: "where plans are approved, and what groups select",
    },
    Right {
        group: "",
        resources: &["serviceaccounts"],
        verbs: &["get", "list", "watch"],
        why: "whether the account of a group exists",
    },
    Right { group: RBAC, resources: &["rolebindings", "clusterrolebindings"], verbs: WATCH, why: "what accounts hold" },
    Right {
        group: RBAC,
        resources: &["roles", "clusterroles"],
        verbs: &["get", "list", "watch"],
        why: "what accounts hold",
    },
    Right {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        verbs: &["get"],
        why: "whether an operator claims a definition that was there before it",
    },
    Right { group: "", resources: &["events"], verbs: &["create"], why: "news for people" },
];

/// Needed in each namespace with catalogs.
pub const BUNDLES: &[Right] =
    &[Right { group: "", resources: &["configmaps"], verbs: &["get"], why: "bundles that OLM has unpacked" }];

/// Needed in the namespace of the gate.
pub const OWN: &[Right] = &[Right {
    group: "coordination.k8s.io",
    resources: &["leases"],
    verbs: &["get", "create", "update"],
    why: "one replica acts at a time",
}];

/// The manifest: a service account, its roles and its bindings.
#[must_use]
pub fn manifest(options: &Options) -> String {
    let own = options.namespace.as_str();
    let mut text = format!("# Printed by `{NAME} rbac`; the list is in crates/controller/src/rights.rs.\n");
    text.push_str(&head("v1", "ServiceAccount", Some(own), NAME));
    text.push_str(&bound("ClusterRole", None, NAME, CLUSTER, own));
    text.push_str(&bound("Role", Some(own), NAME, OWN, own));
    for namespace in &options.bundle_namespaces {
        text.push_str(&bound("Role", Some(namespace), &format!("{NAME}-bundles"), BUNDLES, own));
    }
    text
}

/// A role, and its binding to the gate's account.
fn bound(kind: &str, namespace: Option<&str>, name: &str, rights: &[Right], own: &str) -> String {
    let api = "rbac.authorization.k8s.io/v1";
    let role = head(api, kind, namespace, name) + &rules(rights);
    let binding = head(api, &format!("{kind}Binding"), namespace, name);
    format!(
        "{role}{binding}roleRef:\n  apiGroup: {RBAC}\n  kind: {kind}\n  name: {name}\nsubjects:\n- kind: ServiceAccount\n  \
         name: {NAME}\n  namespace: {own}\n"
    )
}

fn head(api: &str, kind: &str, namespace: Option<&str>, name: &str) -> String {
    let place = namespace.map(|namespace| format!("  namespace: {namespace}\n")).unwrap_or_default();
    format!("---\napiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n{place}")
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
