//! From needs to the roles that grant them: one for the cluster and one for each namespace, compacted, with the origin of
//! each rule.

use std::collections::BTreeMap;

use bounds::rbac::{Atom, Grant, Index, Rule, Scope, compact};

use super::need::{Need, Needs, comments};

/// What is to be granted in one scope.
#[derive(Debug)]
pub struct Role {
    /// The scope that the role holds in.
    pub scope: Scope,
    /// What, and why.
    pub rules: Vec<GrantedRule>,
}

/// A rule of a role.
#[derive(Debug)]
pub struct GrantedRule {
    /// The rule.
    pub rule: Rule<'static>,
    /// Where it comes from, a line each.
    pub comments: Vec<String>,
}

/// The roles that grant what is needed and not held yet. What is granted in the whole cluster is not granted in a namespace
/// again. The cluster comes first, then the namespaces by name.
#[must_use]
pub fn of(needs: &Needs, held: &Grant) -> Vec<Role> {
    let mut by_scope: BTreeMap<&Scope, Vec<&Need>> = BTreeMap::new();
    for need in &needs.0 {
        by_scope.entry(&need.scope).or_default().push(need);
    }
    let everywhere: Vec<Rule<'static>> =
        by_scope.get(&Scope::Cluster).into_iter().flatten().map(|need| need.rule.clone()).collect();
    let wide = Index::new(&everywhere);
    let mut roles = Vec::new();
    for (scope, needs) in by_scope {
        let rules: Vec<Rule<'static>> = needs.iter().map(|need| need.rule.clone()).collect();
        let lacking = held.index(scope).uncovered(&rules);
        let is_wide = |atom: &Atom<'_>| *scope != Scope::Cluster && wide.covers(&[atom.to_rule()]);
        let rules = compact(lacking.into_iter().filter(|atom| !is_wide(atom)));
        let rules: Vec<GrantedRule> = rules.into_iter().map(|rule| with_comments(rule.into_owned(), &needs)).collect();
        if !rules.is_empty() {
            roles.push(Role { scope: scope.clone(), rules });
        }
    }
    roles
}

/// Finds the needs that a rule serves, wholly or in part.
fn with_comments(rule: Rule<'static>, needs: &[&Need]) -> GrantedRule {
    let granted = [rule];
    let index = Index::new(&granted);
    let nothing = Index::new(&[]);
    let serves = |need: &&&Need| {
        let asked = std::slice::from_ref(&need.rule);
        index.uncovered(asked).len() < nothing.uncovered(asked).len()
    };
    let comments = comments(needs.iter().filter(serves).map(|need| &need.origin));
    let [rule] = granted;
    GrantedRule { rule, comments }
}
