//! The RBAC that lets an operator install: under an OperatorGroup's service account (OLM v0), or as the synthetic identity of
//! a ClusterExtension (OLM v1), ready to apply.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bounds::boundary::SYNTHETIC_USER_PREFIX;
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

/// What it takes to install, upgrade and uninstall an object.
const WRITE: &[&str] = &["create", "update", "patch", "delete"];

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

/// The RBAC for the synthetic identity of an extension, as YAML: everything the operator will hold, and writing each object
/// of its bundle. OLM v1 installs for all namespaces, so all of it is cluster-wide.
pub fn derive_synthetic(objects: &[Value], extension: &str) -> Result<String, DeriveError> {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let mut wanted: Vec<Rule<'static>> = Vec::new();
    for (object, text) in objects.iter().zip(&texts) {
        if object["kind"] == "ClusterServiceVersion" {
            let csv: ClusterServiceVersion<'_> = bounds::json::read(text, "")?;
            let strategy = csv.strategy();
            let permissions = strategy.permissions.iter().chain(&strategy.cluster_permissions);
            wanted.extend(permissions.flat_map(|permission| permission.rules.iter().cloned()).map(Rule::into_owned));
            // What OLM v1 makes of a ClusterServiceVersion.
            wanted.push(Rule::on(&[""], &["serviceaccounts", "services"], WRITE));
            wanted.push(Rule::on(&["apps"], &["deployments"], WRITE));
            let rbac = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
            wanted.push(Rule::on(&[demand::RBAC], &rbac, WRITE));
            if !csv.spec.webhookdefinitions.is_empty() {
                // The certificates of webhooks come from cert-manager.
                wanted.push(Rule::on(&["cert-manager.io"], &["certificates", "issuers"], WRITE));
            }
        } else if object["kind"] != "CustomResourceDefinition" {
            wanted.push(write_rule(object));
        }
        if let Some(rules) = object["rules"].as_array().filter(|_| is_role(object)) {
            let text = Value::Array(rules.clone()).to_string();
            let rules: Vec<Rule<'_>> = bounds::json::read(&text, "rules")?;
            wanted.extend(rules.into_iter().map(Rule::into_owned));
        }
    }
    let name = format!("olm-clusterextension-{extension}");
    let subject = format!(
        "{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {}}}",
        scalar(&format!("{SYNTHETIC_USER_PREFIX}{extension}"))
    );
    Ok(role(&subject, &name, &Scope::Cluster, &compact(Index::new(&[]).uncovered(&wanted))))
}

fn is_role(object: &Value) -> bool {
    matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"))
}

/// The right to write an object. The plural of a kind is its name in small letters with an `s`, but for a few.
fn write_rule(object: &Value) -> Rule<'static> {
    let group =
        object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group);
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let resource = match kind.as_bytes() {
        [.., b's', b's'] => format!("{kind}es"),
        [.., b's'] => kind,
        [.., consonant, b'y'] if !b"aeiou".contains(consonant) => format!("{}ies", &kind[..kind.len() - 1]),
        _ => format!("{kind}s"),
    };
    Rule::on(&[group], &[&resource], WRITE).into_owned()
}

/// Every object of a bundle: a file, or a directory of manifests.
pub fn read_bundle(path: &Path) -> Result<Vec<Value>, FileError> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let manifests = path.join("manifests");
        let directory = if manifests.is_dir() { manifests } else { path.to_owned() };
        let entries = std::fs::read_dir(&directory).map_err(|error| FileError::new(&directory, error))?;
        files = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| documents::is_manifest(path))
            .collect();
        files.sort();
    }
    let mut objects = Vec::new();
    for file in files {
        objects.extend(documents::read(&file)?.into_iter().flat_map(manifests::objects));
    }
    if objects.iter().any(|object| object["kind"] == "ClusterServiceVersion") {
        Ok(objects)
    } else {
        Err(FileError::new(path, "has no ClusterServiceVersion in it"))
    }
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
    let subject = format!(
        "{{kind: ServiceAccount, name: {}, namespace: {}}}",
        scalar(&purpose.account),
        scalar(&purpose.namespace)
    );
    let mut documents = Vec::new();
    let covered = Rules(wanted.remove(&Scope::Cluster).unwrap_or_default());
    if let Some(rules) = covered.lacking(&grant.index(&Scope::Cluster)) {
        documents.push(role(&subject, &name, &Scope::Cluster, &rules));
    }
    for (scope, rules) in wanted {
        // What is granted in the whole cluster need not be granted in a namespace again.
        let index = grant.index(&scope);
        if let Some(rules) = Rules(rules).lacking_beside(&index, &covered.0) {
            documents.push(role(&subject, &name, &scope, &rules));
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
fn role(subject: &str, name: &str, scope: &Scope, rules: &[Rule<'_>]) -> String {
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
         subjects:\n- {subject}\n",
        scalar(name)
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
