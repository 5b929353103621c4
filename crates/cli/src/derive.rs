//! The RBAC that lets an operator install under an OperatorGroup's service account, ready to apply.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bounds::cluster::LookupError;
use bounds::compact::compact;
use bounds::covers::Index;
use bounds::csv::ClusterServiceVersion;
use bounds::demand;
use bounds::grant::{Grant, Reach, held};
use bounds::group::Targets;
use bounds::lookups::Lookups;
use bounds::needs;
use bounds::rule::Rule;
use bounds::scope::Scope;
use bounds::subject::Identity;
use serde_json::Value;

use crate::documents::{self, FileError};
use crate::host::Host;
use crate::manifests;
use crate::yaml::scalar;

/// For whom, and where.
#[derive(Debug, Clone)]
pub struct Purpose {
    /// The namespace of the account, the OperatorGroup and the operator.
    pub namespace: String,
    /// The account.
    pub account: String,
    /// What the OperatorGroup reaches.
    pub targets: Targets,
}

/// The first ClusterServiceVersion of a file.
pub fn read_csv(path: &Path) -> Result<Value, FileError> {
    documents::read(path)?
        .into_iter()
        .flat_map(manifests::objects)
        .find(|object| object["kind"] == "ClusterServiceVersion")
        .ok_or_else(|| FileError::new(path, "has no ClusterServiceVersion in it"))
}

/// Why nothing could be derived.
#[derive(Debug, thiserror::Error)]
pub enum DeriveError {
    /// The ClusterServiceVersion cannot be read.
    #[error("the ClusterServiceVersion cannot be read: {0}")]
    Csv(#[from] bounds::json::Unreadable),
    /// Something in the cluster cannot be read.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

/// The manifests, as YAML. With `missing`, only what the account does not hold in the cluster yet.
pub fn derive(csv: &Value, purpose: &Purpose, cluster: &Arc<Host>, missing: bool) -> Result<String, DeriveError> {
    let text = csv.to_string();
    let csv: ClusterServiceVersion<'_> = bounds::json::read(&text, "")?;
    let lookups = Lookups::new(cluster.as_ref());
    let demands = demand::of_csv(&lookups, &csv, &purpose.namespace, &purpose.targets)?;
    let mut wanted: BTreeMap<Scope, Vec<Rule<'static>>> = BTreeMap::new();
    for demand in &demands {
        wanted.entry(demand.scope.clone()).or_default().extend(demand.rules.iter().cloned().map(Rule::into_owned));
    }
    wanted.entry(Scope::Namespace(purpose.namespace.clone())).or_default().extend(needs::in_namespace());
    wanted.entry(Scope::Cluster).or_default().extend(needs::cluster_wide(&csv));

    let grant = if missing { grant(&lookups, purpose)? } else { Grant::default() };
    let name = format!("{}-{}", purpose.account, csv.metadata.said_name());
    let mut documents = Vec::new();
    let covered = Rules(wanted.remove(&Scope::Cluster).unwrap_or_default());
    if let Some(rules) = covered.lacking(&grant.index(&Scope::Cluster)) {
        documents.push(role(purpose, &name, &Scope::Cluster, &rules));
    }
    for (scope, rules) in wanted {
        // What is granted in the whole cluster need not be granted in a namespace again.
        let index = grant.index(&scope);
        if let Some(rules) = Rules(rules).lacking_beside(&index, &covered.0) {
            documents.push(role(purpose, &name, &scope, &rules));
        }
    }
    Ok(documents.join("---\n"))
}

struct Rules(Vec<Rule<'static>>);

impl Rules {
    fn lacking(&self, granted: &Index<'_>) -> Option<Vec<Rule<'_>>> {
        let rules = compact(granted.uncovered(&self.0));
        if rules.is_empty() { None } else { Some(rules) }
    }

    fn lacking_beside(&self, granted: &Index<'_>, cluster_wide: &[Rule<'_>]) -> Option<Vec<Rule<'_>>> {
        let wide = Index::new(cluster_wide);
        let lacking = granted.uncovered(&self.0);
        let rules = compact(lacking.into_iter().filter(|atom| !wide.covers(&[atom.to_rule()])));
        if rules.is_empty() { None } else { Some(rules) }
    }
}

fn grant(lookups: &Lookups<'_>, purpose: &Purpose) -> Result<Grant, LookupError> {
    let mut namespaces = BTreeSet::from([purpose.namespace.clone(), "kube-system".to_owned()]);
    if let Targets::Namespaces(targets) = &purpose.targets {
        namespaces.extend(targets.iter().cloned());
    }
    let identity = Identity::service_account(&purpose.namespace, &purpose.account);
    let held = held(lookups, &[identity], Reach::Namespaces(&namespaces))?;
    Grant::of(lookups, &held, 0)
}

/// A role and its binding.
fn role(purpose: &Purpose, name: &str, scope: &Scope, rules: &[Rule<'_>]) -> String {
    let prefix = if *scope == Scope::Cluster { "Cluster" } else { "" };
    let mut metadata = format!("metadata:\n  name: {}\n", scalar(name));
    if let Some(namespace) = scope.namespace() {
        metadata.push_str(&format!("  namespace: {}\n", scalar(namespace)));
    }
    let rules: String = rules.iter().map(rule).collect();
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}Role\n{metadata}rules:\n{rules}---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}RoleBinding\n{metadata}\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {prefix}Role, name: {}}}\n\
         subjects:\n- {{kind: ServiceAccount, name: {}, namespace: {}}}\n",
        scalar(name),
        scalar(&purpose.account),
        scalar(&purpose.namespace)
    )
}

fn rule(rule: &Rule<'_>) -> String {
    let lists = [
        ("apiGroups", &rule.api_groups),
        ("resources", &rule.resources),
        ("nonResourceURLs", &rule.non_resource_urls),
        ("resourceNames", &rule.resource_names),
        ("verbs", &rule.verbs),
    ];
    let mut text = String::new();
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        let items: Vec<String> = list.iter().map(|item| scalar(item)).collect();
        let lead = if text.is_empty() { "- " } else { "  " };
        text.push_str(&format!("{lead}{key}: [{}]\n", items.join(", ")));
    }
    text
}
