//! Atoms combined into the shortest sorted list of rules with the same meaning.

use std::collections::{BTreeMap, BTreeSet};

use crate::rbac::covers::Index;
use crate::rbac::rule::{Atom, Rule, Target};
use crate::read::order::ordered;
use crate::read::text::Text;

/// The maximum number of broad atoms compared with all others.
const MAX_BROAD: usize = 1_000;

/// Compacts atoms into rules: sorted, without duplicates, and without atoms that another one covers.
///
/// ```
/// use bounds::rbac::{Index, Rule, compact};
///
/// let asked = [Rule::on(&[""], &["pods", "nodes"], &["list", "get"]), Rule::on(&[""], &["pods"], &["get"])];
/// let missing = compact(Index::new(&[]).uncovered(&asked));
/// assert_eq!(missing, [Rule::on(&[""], &["nodes", "pods"], &["get", "list"])]);
/// ```
pub fn compact<'r>(atoms: impl IntoIterator<Item = Atom<'r>>) -> Vec<Rule<'r>> {
    let mut rules: Vec<Rule<'r>> = without_implied(ordered(atoms)).into_iter().map(Atom::to_rule).collect();
    // Each step merges the rules that agree in everything else, so that the product of the lists stays exact.
    let lists: [List<'r>; 5] = [
        |rule| &mut rule.verbs,
        |rule| &mut rule.resource_names,
        |rule| &mut rule.resources,
        |rule| &mut rule.api_groups,
        |rule| &mut rule.non_resource_urls,
    ];
    for list in lists {
        rules = merge(rules, list);
    }
    let sorted = ordered(rules);
    let (urls, resources): (Vec<_>, Vec<_>) = sorted.into_iter().partition(|rule| rule.resources.is_empty());
    resources.into_iter().chain(urls).collect()
}

/// One of the lists of a rule.
type List<'r> = for<'x> fn(&'x mut Rule<'r>) -> &'x mut Vec<Text<'r>>;

/// Merges rules that differ only in one list. A rule in which that list is empty is never merged: having no names at
/// all means more than any number of names.
fn merge<'r>(rules: Vec<Rule<'r>>, list: List<'r>) -> Vec<Rule<'r>> {
    let mut merged: BTreeMap<Rule<'r>, BTreeSet<Text<'r>>> = BTreeMap::new();
    let mut result = Vec::new();
    for mut rule in rules {
        let items = std::mem::take(list(&mut rule));
        if items.is_empty() {
            result.push(rule);
        } else {
            merged.entry(rule).or_default().extend(items);
        }
    }
    for (mut rule, items) in merged {
        *list(&mut rule) = items.into_iter().collect();
        result.push(rule);
    }
    result
}

/// Drops atoms that another atom covers: someone told to grant `*` need not be told to grant `get`.
fn without_implied(atoms: BTreeSet<Atom<'_>>) -> Vec<Atom<'_>> {
    let broad: Vec<Atom<'_>> = atoms.iter().copied().filter(|atom| is_broad(atom, &atoms)).collect();
    // Each broad atom is tested against every other atom. A list that long is truncated in the message anyway.
    if broad.is_empty() || broad.len() > MAX_BROAD {
        return atoms.into_iter().collect();
    }
    let rules: Vec<Rule<'_>> = broad.iter().map(|atom| atom.to_rule()).collect();
    let index = Index::new(&rules);
    // Two atoms may cover each other (`/a*` and `/a**`): an atom that was dropped no longer covers others.
    let mut alive = vec![u64::MAX; rules.len().div_ceil(64)];
    atoms
        .into_iter()
        .filter(|atom| {
            let own = broad.binary_search(atom).ok();
            let mut by = index.covering(atom);
            if let Some(own) = own {
                by[own / 64] &= !(1 << (own % 64));
            }
            let implied = by.iter().zip(&alive).any(|(by, alive)| by & alive != 0);
            if let (true, Some(own)) = (implied, own) {
                alive[own / 64] &= !(1 << (own % 64));
            }
            !implied
        })
        .collect()
}

/// Whether the atom can cover another one: by a wildcard, or by having no name where others do.
fn is_broad(atom: &Atom<'_>, atoms: &BTreeSet<Atom<'_>>) -> bool {
    match atom.target {
        Target::Url(url) => atom.verb == "*" || url.ends_with('*'),
        Target::Resource { group, resource, name } => {
            atom.verb == "*"
                || group == "*"
                || resource == "*"
                || resource.starts_with("*/")
                || (name.is_none() && next_is_named(atom, atoms))
        }
    }
}

/// Atoms sort by group, resource and name: those of a resource with a name come right after those without.
fn next_is_named(atom: &Atom<'_>, atoms: &BTreeSet<Atom<'_>>) -> bool {
    let Target::Resource { group, resource, .. } = atom.target else { return false };
    let first_named = Atom { target: Target::Resource { group, resource, name: Some("") }, verb: "" };
    atoms.range(first_named..).next().is_some_and(|next| {
        matches!(next.target, Target::Resource { group: g, resource: r, name: Some(_) } if g == group && r == resource)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all<'r>(rules: &'r [Rule<'_>]) -> Vec<Atom<'r>> {
        Index::new(&[]).uncovered(rules)
    }

    #[test]
    fn what_is_covered_by_another_atom_is_not_said_twice() {
        let rules = [
            Rule::on(&["apps"], &["deployments"], &["*", "get"]),
            Rule::on(&["apps"], &["deployments"], &["list"]).named(&["web"]),
            Rule::on_urls(&["/a*", "/a**", "/ab"], &["get"]),
        ];
        assert_eq!(
            compact(all(&rules)),
            [Rule::on(&["apps"], &["deployments"], &["*"]), Rule::on_urls(&["/a**"], &["get"])]
        );
    }

    #[test]
    fn names_and_no_names_are_kept_apart() {
        let rules = [
            Rule::on(&[""], &["secrets"], &["get"]),
            Rule::on(&[""], &["secrets"], &["delete"]).named(&["b", "a", "a"]),
        ];
        assert_eq!(
            compact(all(&rules)),
            [Rule::on(&[""], &["secrets"], &["delete"]).named(&["a", "b"]), Rule::on(&[""], &["secrets"], &["get"]),]
        );
    }

    fn words(list: &'static [&'static str]) -> impl Strategy<Value = Vec<Text<'static>>> {
        prop::collection::vec(prop::sample::select(list).prop_map(Text::from), 0..3)
    }

    fn rule() -> impl Strategy<Value = Rule<'static>> {
        (
            words(&["", "apps", "*"]),
            words(&["pods", "pods/log", "*", "*/log", "*/*", "a/b/c"]),
            words(&["get", "list", "*", ""]),
            words(&["web", "db", "*"]),
            words(&["/", "/a", "/a*", "*", "/a**"]),
        )
            .prop_map(|(api_groups, resources, verbs, resource_names, non_resource_urls)| Rule {
                api_groups,
                resources,
                verbs,
                resource_names,
                non_resource_urls,
            })
    }

    proptest! {
        #[test]
        fn compacting_changes_nothing_that_is_granted(rules in prop::collection::vec(rule(), 0..6)) {
            let compacted = compact(all(&rules));
            // As atoms: a rule with names and URLs requests its URLs, but would not grant them.
            let asked: Vec<Rule<'_>> = all(&rules).into_iter().map(Atom::to_rule).collect();
            prop_assert!(Index::new(&compacted).covers(&asked), "{compacted:?} lost something of {asked:?}");
            prop_assert!(Index::new(&asked).covers(&compacted), "{compacted:?} added something to {asked:?}");
            prop_assert_eq!(&compact(all(&compacted)), &compacted);
        }
    }
}
