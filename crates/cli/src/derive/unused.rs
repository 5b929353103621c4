//! What an identity holds and no operator of its scope needs.

use bounds::cluster::{CLUSTER_SERVICE_VERSIONS, LookupError, Resource};
use bounds::decide::{Held, Lookups, Reach, holder};
use bounds::rbac::{Atom, Index, Rule, Scope, compact};
use serde::Serialize;
use serde_json::Value;

use super::bundle::Object;
use super::manifest::{harmless, rule_yaml};
use super::need::Needs;
use super::{DeriveError, Whom};

/// ClusterServiceVersions as they are: installing takes more of them than a verdict does.
const WHOLE: Resource = Resource { masks: &[], ..CLUSTER_SERVICE_VERSIONS };

/// What one binding gives for nothing.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unused {
    /// `RoleBinding team-a/installer`.
    pub binding: String,
    /// `Role team-a/installer`.
    pub role: String,
    /// The namespace where it holds; none for the whole cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What nobody needs.
    pub rules: Vec<Rule<'static>>,
}

/// The operators that are installed in a namespace, copies aside.
pub fn installed(lookups: &Lookups<'_>, namespace: &str) -> Result<Vec<Object>, DeriveError> {
    let answer = lookups.list(WHOLE, None)?;
    let list: Value = serde_json::from_slice(&answer)
        .map_err(|error| LookupError::new(&"list of ClusterServiceVersions", error.to_string()))?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let is_own = |csv: &Value| {
        csv["metadata"]["namespace"] == namespace && csv["metadata"]["labels"]["olm.copiedFrom"].is_null()
    };
    Ok(items.into_iter().filter(is_own).map(Object::unwritten).collect())
}

/// What the bindings that name the identity itself give it, and none of the needs takes. What everybody holds through a group
/// is not this identity's to give back.
pub fn of(lookups: &Lookups<'_>, whom: &Whom, needs: &Needs) -> Result<Vec<Unused>, DeriveError> {
    let mut found = Vec::new();
    for held in holder(lookups, whom.identity().itself(), Reach::Everywhere)?.held {
        let Some(rules) = lookups.role(&held.role)? else { continue };
        let unused = left(&rules, &held.scope, needs);
        if !unused.is_empty() {
            found.push(describe(&held, unused));
        }
    }
    Ok(found)
}

/// The atoms of the rules that cover none of the needs. A wildcard that is needed in part is used.
fn left(rules: &[Rule<'static>], scope: &Scope, needs: &Needs) -> Vec<Rule<'static>> {
    let reaches = |at: &Scope| *scope == Scope::Cluster || at == scope;
    let wanted: Vec<Rule<'static>> =
        needs.0.iter().filter(|need| reaches(&need.scope)).map(|need| need.rule.clone()).collect();
    let total = Index::new(&[]).uncovered(&wanted).len();
    let is_unused = |atom: &Atom<'_>| Index::new(&[atom.to_rule()]).uncovered(&wanted).len() == total;
    let atoms = Index::new(&[]).uncovered(rules);
    compact(atoms.into_iter().filter(is_unused)).into_iter().map(Rule::into_owned).collect()
}

fn describe(held: &Held, rules: Vec<Rule<'static>>) -> Unused {
    let namespace = held.scope.namespace().map(str::to_owned);
    let binding = format!("{} {}", held.binding_kind(), held.place());
    Unused { binding, role: held.role.to_string(), namespace, rules }
}

/// As YAML: a list of rules for each binding, under comments that say which.
#[must_use]
pub fn yaml(unused: &[Unused]) -> String {
    let block = |unused: &Unused| {
        let rules: String = unused.rules.iter().map(rule_yaml).collect();
        format!("# {}\n# by {}\n{rules}", harmless(&unused.role), harmless(&unused.binding))
    };
    unused.iter().map(block).collect::<Vec<_>>().join("---\n")
}
