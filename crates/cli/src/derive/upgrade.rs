//! An upgrade: what the new version needs, with a word on what the old one did not, and what it takes to put the old one away.

use std::path::PathBuf;

use bounds::rbac::{Grant, Index, Rule, Scope, compact};

use super::bundle::{Bundle, Object};
use super::need::{Need, Needs, Origin};
use super::roles::{self, Role};

/// Takes the version that is there out of a bundle, where two versions of one operator were given: the old one first.
#[must_use]
pub fn take_old(bundle: &mut Bundle, paths: &[PathBuf]) -> Option<Bundle> {
    let [old, new] = bundle.csvs.as_slice() else { return None };
    if !is_upgrade(old, new) {
        return None;
    }
    let root = paths.iter().find(|path| old.file.starts_with(path))?.clone();
    let (others, kept) =
        std::mem::take(&mut bundle.others).into_iter().partition(|object| object.file.starts_with(&root));
    bundle.others = kept;
    Some(Bundle { csvs: vec![bundle.csvs.remove(0)], others, ..Bundle::default() })
}

/// Whether both are versions of one operator: by what the new one says, or by their names, `etcdoperator.v0.9.4`.
fn is_upgrade(old: &Object, new: &Object) -> bool {
    let package = |csv: &Object| csv.name().split_once(".v").map(|(package, _)| package.to_owned());
    new.value["spec"]["replaces"].as_str() == Some(old.name())
        || (package(new).is_some() && package(new) == package(old))
}

/// What it takes to put away what only the old version has, with the identity that wrote it. Nothing where the policy bounds: there
/// taking away needs nothing, and nothing of it says `delete`.
#[must_use]
pub fn putting_away(old: &Needs, new: &Needs) -> Needs {
    let is_kept = |need: &Need| {
        new.0.iter().any(|kept| {
            kept.scope == need.scope
                && kept.rule.resource_names == need.rule.resource_names
                && kept.rule.resources == need.rule.resources
        })
    };
    let mut away = Needs::default();
    for need in old.0.iter().filter(|need| !need.rule.resource_names.is_empty() && !is_kept(need)) {
        if need.rule.verbs.iter().any(|verb| *verb == "delete") {
            let rule = Rule { verbs: vec!["get".into(), "delete".into()], ..need.rule.clone() };
            let what = need.origin.what.replace("OLM writes", "OLM puts away");
            away.add(&need.scope, rule, Origin::new(what));
        }
    }
    away
}

/// Says over each rule what of it the old version did not need.
pub fn mark(roles: &mut [Role], old: &Needs, version: &str) {
    for role in roles {
        let before: Vec<&Rule<'static>> = in_scope(old, &role.scope);
        let index = Index::new(before);
        for granted in &mut role.rules {
            let rule = std::slice::from_ref(&granted.rule);
            let new: Vec<String> = compact(index.uncovered(rule)).iter().map(ToString::to_string).collect();
            if !new.is_empty() {
                granted.comments.insert(0, format!("new: {version} does not need {}", new.join("; ")));
            }
        }
    }
}

/// What the old version needed and the new one does not, a line each.
#[must_use]
pub fn no_longer_needed(old: &Needs, new: &Needs) -> Vec<String> {
    let left = roles::of(
        old,
        &Grant::new(new.0.iter().map(|need| (need.scope.clone(), [need.rule.clone()].into())).collect()),
    );
    let lines =
        left.iter().flat_map(|role| role.rules.iter().map(|granted| format!("{}: {}", role.scope, granted.rule)));
    lines.collect()
}

fn in_scope<'n>(needs: &'n Needs, scope: &Scope) -> Vec<&'n Rule<'static>> {
    let holds = |need: &&Need| need.scope == *scope || need.scope == Scope::Cluster;
    needs.0.iter().filter(holds).map(|need| &need.rule).collect()
}
