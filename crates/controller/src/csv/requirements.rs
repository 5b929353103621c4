//! What an operator needs before it can run: the kinds it works on, its accounts, and what those may do.

use std::collections::BTreeMap;

use bounds::scope::Scope;
use bounds::verdict::Refusal;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::judge;
use crate::olm::{ClusterServiceVersion, Definition, Permission};
use crate::stores::Stores;

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    /// Everything is there.
    pub are_met: bool,
    /// What is not, in words.
    pub message: String,
    /// All of it, for the status.
    pub status: Value,
}

/// Looks for everything that a ClusterServiceVersion needs.
pub(super) fn check(stores: &Stores, csv: &ClusterServiceVersion, namespace: &str) -> Result<Found, Refusal> {
    let definitions = &csv.spec.customresourcedefinitions;
    let mut rows: Vec<Row> =
        definitions.owned.iter().chain(&definitions.required).map(|crd| definition(stores, crd)).collect();
    rows.extend(services(csv));
    for (account, permissions) in accounts(csv) {
        rows.push(of_account(stores, namespace, account, &permissions)?);
    }
    let missing: Vec<&str> = rows.iter().filter(|row| !row.is_met).map(|row| row.message.as_str()).collect();
    Ok(Found {
        are_met: missing.is_empty(),
        message: format!("one or more requirements couldn't be found: {}", missing.join("; ")),
        status: rows.into_iter().map(|row| row.status).collect(),
    })
}

struct Row {
    is_met: bool,
    message: String,
    status: Value,
}

fn row(is_met: bool, kind: [&str; 3], name: &str, word: &str, message: String, dependents: &[Value]) -> Row {
    let [group, version, kind] = kind;
    let status = json!({
        "group": group, "version": version, "kind": kind, "name": name,
        "status": word, "message": message, "dependents": dependents,
    });
    Row { is_met, message, status }
}

/// A kind that is there, and served in the version that is wanted.
fn definition(stores: &Stores, wanted: &Definition) -> Row {
    let name = wanted.name.as_str();
    let of = ["apiextensions.k8s.io", "v1", "CustomResourceDefinition"];
    let missing = |word: &str, message: String| row(false, of, name, word, message, &[]);
    let Some(crd) = stores.crd(name) else {
        return missing("NotPresent", format!("CustomResourceDefinition {name} does not exist"));
    };
    if !crd.is_established() {
        return missing("PresentNotAvailable", format!("CustomResourceDefinition {name} is not served yet"));
    }
    if !crd.spec.versions.iter().any(|version| version.served && version.name == wanted.version) {
        let message = format!("CustomResourceDefinition {name} does not serve version {:?}", wanted.version);
        return missing("PresentNotSatisfied", message);
    }
    row(true, of, name, "Present", "CRD is present and Established condition is true".to_owned(), &[])
}

/// What this controller does not make: certificates for what the API server calls.
fn services(csv: &ClusterServiceVersion) -> Vec<Row> {
    let owned = csv.spec.apiservicedefinitions.owned.iter().map(|service| {
        ("APIService", "apiregistration.k8s.io", service.object_name(), service.deployment_name.clone())
    });
    let webhooks = csv.spec.webhookdefinitions.iter().flatten().map(|webhook| {
        let text = |key: &str| webhook[key].as_str().unwrap_or_default().to_owned();
        ("WebhookConfiguration", "admissionregistration.k8s.io", text("generateName"), text("deploymentName"))
    });
    owned
        .chain(webhooks)
        .map(|(kind, group, name, deployment)| {
            let message = format!(
                "{kind} {name:?} of Deployment {deployment:?} needs a serving certificate, which this controller does not make: \
                 leave this operator to OLM"
            );
            row(false, [group, "v1", kind], &name, "NotPresent", message, &[])
        })
        .collect()
}

/// Every account that the operator runs as or asks something for, with what it asks.
fn accounts(csv: &ClusterServiceVersion) -> BTreeMap<&str, Vec<(&Permission, bool)>> {
    let strategy = &csv.spec.install.spec;
    let mut accounts: BTreeMap<&str, Vec<(&Permission, bool)>> = BTreeMap::new();
    for deployment in strategy.deployments.iter().flatten() {
        let pods = &deployment.spec["template"]["spec"];
        let text = |key: &str| pods[key].as_str().unwrap_or_default();
        accounts.entry(bounds::csv::account_of(text("serviceAccountName"), text("serviceAccount"))).or_default();
    }
    let in_namespace = strategy.permissions.iter().flatten().map(|permission| (permission, false));
    let in_cluster = strategy.cluster_permissions.iter().flatten().map(|permission| (permission, true));
    for (permission, cluster) in in_namespace.chain(in_cluster) {
        let account = permission.service_account_name.as_deref().unwrap_or_default();
        accounts.entry(bounds::csv::account_of(account, "")).or_default().push((permission, cluster));
    }
    accounts
}

/// An account that exists and holds what the operator asks for it.
fn of_account(
    stores: &Stores,
    namespace: &str,
    name: &str,
    permissions: &[(&Permission, bool)],
) -> Result<Row, Refusal> {
    let of = ["", "v1", "ServiceAccount"];
    let Some(account) = stores.account(namespace, name) else {
        let message = format!("ServiceAccount {namespace}/{name} does not exist");
        return Ok(row(false, of, name, "NotPresent", message, &[]));
    };
    let mut dependents = Vec::new();
    let mut missing = Vec::new();
    for (permission, cluster) in permissions {
        let scope = if *cluster { Scope::Cluster } else { Scope::Namespace(namespace.to_owned()) };
        let rules = if permission.rules.is_null() { json!([]) } else { permission.rules.clone() };
        let lacks = judge::lacking(stores, namespace, name, &scope, &rules)?;
        dependents.push(json!({
            "group": "rbac.authorization.k8s.io", "version": "v1", "kind": "PolicyRule",
            "status": if lacks.is_empty() { "Satisfied" } else { "NotSatisfied" },
            "message": format!("{scope}: {}", if lacks.is_empty() { rules.to_string() } else { lacks.join("; ") }),
        }));
        missing.extend(lacks.iter().map(|rule| format!("{scope}: {rule}")));
    }
    if missing.is_empty() {
        return Ok(row(true, of, &account.name_any(), "Present", String::new(), &dependents));
    }
    let message = format!(
        "ServiceAccount {namespace}/{name} does not hold what the operator asks for it: {}",
        missing.join("; ")
    );
    Ok(row(false, of, name, "PresentNotSatisfied", message, &dependents))
}
