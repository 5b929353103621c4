//! Coverage, exactly as the API server decides it.
//!
//! Kubernetes breaks the requested rules down into atoms and tests every granted rule against every atom. The result is
//! the same here, but a granted rule is a bit: each verb, group, resource and name has the set of rules it occurs in,
//! and an atom is covered if the intersection of its four sets is not empty. The cost is one pass over the grant plus a
//! few machine words per atom.

use std::collections::BTreeMap;

use crate::rbac::rule::{Atom, Rule, Target};

const BITS: usize = u64::BITS as usize;

/// The granted rules in which a key occurs: a list while they are few, and bits as soon as those take less space. So a
/// set is never larger than its input, however many keys and rules there are.
#[derive(Debug)]
enum Set {
    Few(Vec<usize>),
    Many(Vec<u64>),
}

impl Set {
    fn insert(&mut self, rule: usize, words: usize) {
        match self {
            // The same key occurs twice in one list of one rule.
            Set::Few(rules) if rules.last() == Some(&rule) => {}
            Set::Few(rules) if rules.len() < 2 * words => rules.push(rule),
            Set::Few(rules) => {
                let mut bits = vec![0; words];
                rules.iter().chain([&rule]).for_each(|rule| set_bit(&mut bits, *rule));
                *self = Set::Many(bits);
            }
            Set::Many(bits) => set_bit(bits, rule),
        }
    }

    fn add_to(&self, set: &mut [u64]) {
        match self {
            Set::Few(rules) => rules.iter().for_each(|rule| set_bit(set, *rule)),
            Set::Many(bits) => set.iter_mut().zip(bits).for_each(|(word, more)| *word |= more),
        }
    }
}

fn set_bit(bits: &mut [u64], number: usize) {
    bits[number / BITS] |= 1 << (number % BITS);
}

/// Sets of granted rules by key.
#[derive(Debug, Default)]
struct Sets<'g>(BTreeMap<&'g str, Set>);

impl<'g> Sets<'g> {
    fn insert(&mut self, key: &'g str, rule: usize, words: usize) {
        self.0.entry(key).or_insert_with(|| Set::Few(Vec::new())).insert(rule, words);
    }

    /// Adds the rules of `key` to `set`.
    fn add_to(&self, key: &str, set: &mut [u64]) {
        if let Some(rules) = self.0.get(key) {
            rules.add_to(set);
        }
    }
}

/// A grant, indexed to answer "is this covered?".
///
/// ```
/// use bounds::rbac::{Index, Rule};
///
/// let granted = [Rule::on(&["apps"], &["deployments"], &["get", "list"])];
/// let asked = [Rule::on(&["apps"], &["deployments", "deployments/scale"], &["get"])];
/// let missing = Index::new(&granted).uncovered(&asked);
/// assert_eq!(missing.len(), 1);
/// assert_eq!(missing[0].to_rule(), Rule::on(&["apps"], &["deployments/scale"], &["get"]));
/// ```
#[derive(Debug)]
pub struct Index<'g> {
    words: usize,
    verbs: Sets<'g>,
    groups: Sets<'g>,
    resources: Sets<'g>,
    names: Sets<'g>,
    urls: Sets<'g>,
    /// Granted URLs that end in `*`, with the `*` removed.
    url_prefixes: Vec<(&'g str, usize)>,
    /// The rules without any resourceName: they apply to every name.
    nameless: Vec<u64>,
}

impl<'g> Index<'g> {
    /// Indexes the granted rules.
    pub fn new<'r, I>(granted: I) -> Self
    where
        I: IntoIterator<Item = &'g Rule<'r>>,
        I::IntoIter: Clone,
        'r: 'g,
    {
        let granted = granted.into_iter();
        let words = granted.clone().count().div_ceil(BITS).max(1);
        let mut index = Index {
            words,
            verbs: Sets::default(),
            groups: Sets::default(),
            resources: Sets::default(),
            names: Sets::default(),
            urls: Sets::default(),
            url_prefixes: Vec::new(),
            nameless: vec![0; words],
        };
        for (number, rule) in granted.enumerate() {
            index.insert(number, rule);
        }
        index
    }

    fn insert(&mut self, number: usize, rule: &'g Rule<'_>) {
        for (sets, list) in [
            (&mut self.verbs, &rule.verbs),
            (&mut self.groups, &rule.api_groups),
            (&mut self.resources, &rule.resources),
            (&mut self.names, &rule.resource_names),
            (&mut self.urls, &rule.non_resource_urls),
        ] {
            for key in list {
                sets.insert(key, number, self.words);
            }
        }
        for url in &rule.non_resource_urls {
            if url.ends_with('*') {
                self.url_prefixes.push((url.trim_end_matches('*'), number));
            }
        }
        if rule.resource_names.is_empty() {
            set_bit(&mut self.nameless, number);
        }
    }

    /// The atoms of `requested` that no granted rule covers, in the order in which the API server names them.
    #[must_use]
    pub fn uncovered<'r>(&self, requested: &'r [Rule<'_>]) -> Vec<Atom<'r>> {
        let mut missing = Vec::new();
        let mut sets = Sieve::new(self.words);
        // If a list that must not be empty is empty, the rule requests nothing, however long its other lists are.
        for rule in requested.iter().filter(|rule| rule.atom_count() > 0) {
            self.sift(rule, &mut sets, &mut missing);
        }
        missing
    }

    /// Whether every atom of `requested` is covered.
    #[must_use]
    pub fn covers(&self, requested: &[Rule<'_>]) -> bool {
        self.uncovered(requested).is_empty()
    }

    fn sift<'r>(&self, rule: &'r Rule<'_>, sieve: &mut Sieve, missing: &mut Vec<Atom<'r>>) {
        sieve.verbs.clear();
        for verb in &rule.verbs {
            sieve.push_verb(|set| {
                self.verbs.add_to("*", set);
                self.verbs.add_to(verb, set);
            });
        }
        for group in &rule.api_groups {
            fill(&mut sieve.group, |set| {
                self.groups.add_to("*", set);
                self.groups.add_to(group, set);
            });
            for resource in &rule.resources {
                fill(&mut sieve.resource, |set| self.resource_set(resource, set));
                meet(&mut sieve.resource, &sieve.group);
                self.sift_names(rule, (group, resource), sieve, missing);
            }
        }
        for url in &rule.non_resource_urls {
            fill(&mut sieve.resource, |set| self.url_set(url, set));
            meet(&mut sieve.resource, &self.nameless);
            for (verb, set) in rule.verbs.iter().zip(sieve.verbs.chunks(self.words)) {
                if disjoint(&sieve.resource, set) {
                    missing.push(Atom { target: Target::Url(url), verb });
                }
            }
        }
    }

    fn sift_names<'r>(
        &self,
        rule: &'r Rule<'_>,
        (group, resource): (&'r str, &'r str),
        sieve: &mut Sieve,
        missing: &mut Vec<Atom<'r>>,
    ) {
        let verbs = rule.verbs.iter().zip(sieve.verbs.chunks(self.words));
        if rule.resource_names.is_empty() {
            meet(&mut sieve.resource, &self.nameless);
            for (verb, set) in verbs {
                if disjoint(&sieve.resource, set) {
                    missing.push(Atom { target: Target::Resource { group, resource, name: None }, verb });
                }
            }
            return;
        }
        for (verb, set) in verbs {
            for name in &rule.resource_names {
                fill(&mut sieve.name, |set| {
                    set.copy_from_slice(&self.nameless);
                    self.names.add_to(name, set);
                });
                meet(&mut sieve.name, &sieve.resource);
                if disjoint(&sieve.name, set) {
                    missing.push(Atom { target: Target::Resource { group, resource, name: Some(name) }, verb });
                }
            }
        }
    }

    /// The rules that cover a resource: by `*`, by its name, or by `*/sub`.
    fn resource_set(&self, resource: &str, set: &mut [u64]) {
        self.resources.add_to("*", set);
        self.resources.add_to(resource, set);
        if let Some((_, subresource)) = resource.split_once('/') {
            // Allocates a few bytes for each subresource of the request, never for each atom.
            self.resources.add_to(&format!("*/{subresource}"), set);
        }
    }

    fn url_set(&self, url: &str, set: &mut [u64]) {
        self.urls.add_to(url, set);
        for (prefix, number) in &self.url_prefixes {
            if url.starts_with(prefix) {
                set_bit(set, *number);
            }
        }
    }

    /// The granted rules that cover this atom, as bits: the first rule is the lowest bit of the first word.
    #[must_use]
    pub fn covering(&self, atom: &Atom<'_>) -> Vec<u64> {
        let mut set = vec![0; self.words];
        let mut with = vec![0; self.words];
        match atom.target {
            Target::Url(url) => {
                self.url_set(url, &mut set);
                meet(&mut set, &self.nameless);
            }
            Target::Resource { group, resource, name } => {
                self.resource_set(resource, &mut set);
                self.groups.add_to("*", &mut with);
                self.groups.add_to(group, &mut with);
                meet(&mut set, &with);
                with.copy_from_slice(&self.nameless);
                if let Some(name) = name {
                    self.names.add_to(name, &mut with);
                }
                meet(&mut set, &with);
            }
        }
        fill(&mut with, |with| {
            self.verbs.add_to("*", with);
            self.verbs.add_to(atom.verb, with);
        });
        meet(&mut set, &with);
        set
    }
}

/// The sets of one requested rule, reused between rules so that nothing is allocated per atom.
struct Sieve {
    verbs: Vec<u64>,
    group: Vec<u64>,
    resource: Vec<u64>,
    name: Vec<u64>,
}

impl Sieve {
    fn new(words: usize) -> Self {
        Sieve { verbs: Vec::new(), group: vec![0; words], resource: vec![0; words], name: vec![0; words] }
    }

    fn push_verb(&mut self, add: impl FnOnce(&mut [u64])) {
        let start = self.verbs.len();
        self.verbs.resize(start + self.group.len(), 0);
        add(&mut self.verbs[start..]);
    }
}

fn fill(set: &mut [u64], add: impl FnOnce(&mut [u64])) {
    set.fill(0);
    add(set);
}

fn meet(set: &mut [u64], with: &[u64]) {
    for (word, other) in set.iter_mut().zip(with) {
        *word &= other;
    }
}

fn disjoint(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a & b == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(granted: &[Rule<'_>], requested: &Rule<'_>) -> bool {
        Index::new(granted).covers(std::slice::from_ref(requested))
    }

    #[test]
    fn each_atom_needs_one_rule_that_covers_all_of_it() {
        let granted = [Rule::on(&["apps"], &["deployments"], &["get"]), Rule::on(&[""], &["pods"], &["list"])];
        assert!(covered(&granted, &Rule::on(&["apps"], &["deployments"], &["get"])));
        assert!(!covered(&granted, &Rule::on(&["apps"], &["deployments"], &["list"])));
        assert!(!covered(&granted, &Rule::on(&["", "apps"], &["pods"], &["list"])));
    }

    #[test]
    fn a_requested_star_needs_a_granted_star() {
        let granted = [Rule::on(&["*"], &["*"], &["get", "list", "watch", "create", "update", "patch", "delete"])];
        assert!(!covered(&granted, &Rule::on(&[""], &["pods"], &["*"])));
        assert!(covered(&[Rule::on(&["*"], &["*"], &["*"])], &Rule::on(&["*"], &["*"], &["*"])));
        assert!(!covered(&[Rule::on(&["apps"], &["*"], &["*"])], &Rule::on(&["*"], &["pods"], &["get"])));
    }

    #[test]
    fn subresources_are_covered_by_star_by_name_or_by_star_sub() {
        assert!(!covered(&[Rule::on(&[""], &["pods"], &["get"])], &Rule::on(&[""], &["pods/log"], &["get"])));
        assert!(covered(&[Rule::on(&[""], &["*"], &["get"])], &Rule::on(&[""], &["pods/log"], &["get"])));
        assert!(covered(&[Rule::on(&[""], &["*/log"], &["get"])], &Rule::on(&[""], &["pods/log"], &["get"])));
        assert!(!covered(&[Rule::on(&[""], &["pods/*"], &["get"])], &Rule::on(&[""], &["pods/log"], &["get"])));
        assert!(covered(&[Rule::on(&[""], &["*/b/c"], &["get"])], &Rule::on(&[""], &["a/b/c"], &["get"])));
    }

    #[test]
    fn names_narrow_a_grant_and_never_widen_it() {
        let web = [Rule::on(&[""], &["secrets"], &["get"]).named(&["web"])];
        assert!(covered(&web, &Rule::on(&[""], &["secrets"], &["get"]).named(&["web"])));
        assert!(!covered(&web, &Rule::on(&[""], &["secrets"], &["get"]).named(&["web", "db"])));
        assert!(!covered(&web, &Rule::on(&[""], &["secrets"], &["get"])));
        assert!(covered(&[Rule::on(&[""], &["secrets"], &["get"])], &web[0]));
    }

    #[test]
    fn urls_match_whole_or_by_a_granted_prefix() {
        let granted = [Rule::on_urls(&["/healthz/*"], &["get"])];
        assert!(covered(&granted, &Rule::on_urls(&["/healthz/ready"], &["get"])));
        assert!(!covered(&granted, &Rule::on_urls(&["/healthz"], &["get"])));
        assert!(!covered(&[Rule::on_urls(&["/a"], &["get"]).named(&["x"])], &Rule::on_urls(&["/a"], &["get"])));
    }

    #[test]
    fn empty_lists_ask_for_nothing() {
        assert!(covered(&[], &Rule::on(&[], &["pods"], &["get"])));
        assert!(covered(&[], &Rule::on(&[""], &["pods"], &[])));
        assert!(!covered(&[], &Rule::on(&[""], &[""], &[""])));
    }

    #[test]
    fn a_grant_of_more_than_one_word_of_rules_is_searched_whole() {
        let names: Vec<String> = (0..200).map(|n| format!("r{n}")).collect();
        let granted: Vec<Rule<'_>> = names.iter().map(|name| Rule::on(&["g"], &[name], &["get"])).collect();
        let index = Index::new(&granted);
        for name in &names {
            assert!(index.covers(&[Rule::on(&["g"], &[name], &["get"])]), "{name}");
            assert!(!index.covers(&[Rule::on(&["g"], &[name], &["list"])]), "{name}");
        }
    }

    #[test]
    fn covering_says_which_rules_cover_an_atom() {
        let granted = [
            Rule::on(&["g"], &["a"], &["get"]),
            Rule::on(&["*"], &["*"], &["*"]),
            Rule::on(&["g"], &["a"], &["get"]).named(&["n"]),
            Rule::on_urls(&["/x*"], &["get"]),
        ];
        let index = Index::new(&granted);
        let atom = |name| Atom { target: Target::Resource { group: "g", resource: "a", name }, verb: "get" };
        assert_eq!(index.covering(&atom(None)), [0b0011]);
        assert_eq!(index.covering(&atom(Some("n"))), [0b0111]);
        assert_eq!(index.covering(&Atom { target: Target::Url("/xy"), verb: "get" }), [0b1000]);
    }
}
