//! Kubernetes' coverage once more, as slow and as plain as it can be written: what the tests expect is worked out
//! without a line of the code they test, and every answer given here is put before the Go oracle too.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// One namespace, or the whole cluster. The cluster sorts first.
pub type Scope = Option<String>;

/// An RBAC rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub verbs: Vec<String>,
    pub names: Vec<String>,
    pub urls: Vec<String>,
}

/// The smallest thing that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    Resource { group: String, resource: String, verb: String, name: Option<String> },
    Url { url: String, verb: String },
}

impl Rule {
    pub fn read(value: &Value) -> Self {
        let list = |key: &str| {
            let items = value[key].as_array().into_iter().flatten();
            items.map(|item| item.as_str().unwrap_or_else(|| panic!("{key}: {item}")).to_owned()).collect()
        };
        Rule {
            groups: list("apiGroups"),
            resources: list("resources"),
            verbs: list("verbs"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
        }
    }

    pub fn on(group: &str, resource: &str, verbs: &[&str]) -> Self {
        Rule {
            groups: vec![group.to_owned()],
            resources: vec![resource.to_owned()],
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            ..Rule::default()
        }
    }

    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Rule { names: vec![name.to_owned()], ..self }
    }

    pub fn json(&self) -> Value {
        let lists = [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("verbs", &self.verbs),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ];
        let filled = lists.into_iter().filter(|(key, list)| !list.is_empty() || *key == "verbs");
        Value::Object(filled.map(|(key, list)| (key.to_owned(), json!(list))).collect::<Map<_, _>>())
    }

    /// In the order of Kubernetes' `BreakdownRule`.
    pub fn atoms(&self) -> Vec<Atom> {
        let mut atoms = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let atom = |name| Atom::Resource {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb: verb.clone(),
                        name,
                    };
                    if self.names.is_empty() {
                        atoms.push(atom(None));
                    } else {
                        atoms.extend(self.names.iter().map(|name| atom(Some(name.clone()))));
                    }
                }
            }
        }
        for url in &self.urls {
            atoms.extend(self.verbs.iter().map(|verb| Atom::Url { url: url.clone(), verb: verb.clone() }));
        }
        atoms
    }

    pub fn covers(&self, atom: &Atom) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        match atom {
            Atom::Resource { group, resource, verb, name } => {
                let sub = resource.split_once('/').map(|(_, sub)| sub);
                has(&self.verbs, verb)
                    && has(&self.groups, group)
                    && self
                        .resources
                        .iter()
                        .any(|r| r == "*" || r == resource || sub.is_some() && r.strip_prefix("*/") == sub)
                    && (self.names.is_empty() || name.as_ref().is_some_and(|name| self.names.contains(name)))
            }
            Atom::Url { url, verb } => {
                let prefix = |granted: &String| granted.strip_suffix('*').is_some_and(|prefix| url.starts_with(prefix));
                has(&self.verbs, verb) && self.urls.iter().any(|granted| granted == url || prefix(granted))
            }
        }
    }

    /// The same without one of its own atoms; nothing to do with what its wildcards cover.
    pub fn without(&self, atom: &Atom) -> Vec<Rule> {
        let not = |list: &[String], item: &str| list.iter().filter(|other| *other != item).cloned().collect::<Vec<_>>();
        let only = |item: &str| vec![item.to_owned()];
        let resources = Rule { urls: Vec::new(), ..self.clone() };
        let urls = Rule { verbs: self.verbs.clone(), urls: self.urls.clone(), ..Rule::default() };
        let mut left = Vec::new();
        match atom {
            Atom::Resource { group, resource, verb, name } => {
                let of_group = Rule { groups: only(group), ..resources.clone() };
                let of_resource = Rule { resources: only(resource), ..of_group.clone() };
                let of_verb = Rule { verbs: only(verb), ..of_resource.clone() };
                left.push(Rule { groups: not(&self.groups, group), ..resources });
                left.push(Rule { resources: not(&self.resources, resource), ..of_group });
                left.push(Rule { verbs: not(&self.verbs, verb), ..of_resource });
                if let Some(name) = name {
                    // A list of names that has become empty would mean all names.
                    let names = not(&self.names, name);
                    left.extend((!names.is_empty()).then_some(Rule { names, ..of_verb }));
                }
                left.push(urls);
            }
            Atom::Url { url, verb } => {
                left.push(Rule { urls: not(&self.urls, url), ..urls.clone() });
                left.push(Rule { urls: only(url), verbs: not(&self.verbs, verb), ..urls });
                left.push(resources);
            }
        }
        left.retain(|rule| !rule.atoms().is_empty());
        left
    }
}

impl Atom {
    pub fn rule(&self) -> Rule {
        match self {
            Atom::Resource { group, resource, verb, name } => {
                Rule { names: name.iter().cloned().collect(), ..Rule::on(group, resource, &[verb]) }
            }
            Atom::Url { url, verb } => Rule { urls: vec![url.clone()], verbs: vec![verb.clone()], ..Rule::default() },
        }
    }
}

/// What of the requested rules no single rule of the owner covers, in the oracle's order.
pub fn uncovered(owner: &[Rule], requested: &[Rule]) -> Vec<Atom> {
    let atoms = requested.iter().flat_map(Rule::atoms);
    atoms.filter(|atom| !owner.iter().any(|rule| rule.covers(atom))).collect()
}

/// Whether both lists say the same: each covers the other.
pub fn same(one: &[Rule], other: &[Rule]) -> bool {
    uncovered(one, other).is_empty() && uncovered(other, one).is_empty()
}

/// Rules by the scope they hold in.
pub type Scoped = BTreeMap<Scope, Vec<Rule>>;

/// What holds in a scope: what is given in the cluster holds in every namespace.
pub fn holding(grant: &Scoped, scope: &Scope) -> Vec<Rule> {
    let scopes: BTreeSet<&Scope> = [&None, scope].into();
    scopes.into_iter().filter_map(|scope| grant.get(scope)).flatten().cloned().collect()
}

/// What is missing, scope by scope.
pub fn excess(grant: &Scoped, request: &Scoped) -> BTreeMap<Scope, Vec<Atom>> {
    let missing = request.iter().map(|(scope, rules)| (scope.clone(), uncovered(&holding(grant, scope), rules)));
    missing.filter(|(_, atoms)| !atoms.is_empty()).collect()
}

/// The excess that a refusal lists, and how many rules it says it left out.
pub fn listed(message: &str) -> (Scoped, usize) {
    let mut excess = Scoped::new();
    let mut scope: Option<Scope> = None;
    let mut left_out = 0;
    for line in message.lines().skip(1) {
        if let Some(rule) = line.strip_prefix("    ") {
            let scope = scope.clone().unwrap_or_else(|| panic!("a rule without a scope: {message}"));
            excess.entry(scope).or_default().push(parse(rule));
        } else if line == "  cluster-wide" {
            scope = Some(None);
        } else if let Some(namespace) = line.strip_prefix("  in namespace ") {
            scope = Some(Some(namespace.to_owned()));
        } else if let Some(rest) = line.strip_prefix("  … and ") {
            left_out = rest.split(' ').next().unwrap().parse().unwrap();
        } else {
            break;
        }
    }
    (excess, left_out)
}

/// A line such as `apiGroups: [""]  resources: [nodes]  verbs: [get, list]`.
fn parse(line: &str) -> Rule {
    let mut rule = Rule::default();
    let mut rest = line;
    while let Some((key, after)) = rest.split_once(": [") {
        let list = match key.trim() {
            "apiGroups" => &mut rule.groups,
            "resources" => &mut rule.resources,
            "verbs" => &mut rule.verbs,
            "resourceNames" => &mut rule.names,
            "nonResourceURLs" => &mut rule.urls,
            other => panic!("{other} in {line}"),
        };
        rest = after;
        loop {
            let item = if rest.starts_with('"') {
                let mut quoted = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let item = quoted.next().unwrap().unwrap_or_else(|error| panic!("{error} in {line}"));
                rest = &rest[quoted.byte_offset()..];
                item
            } else {
                let end = rest.find([',', ']']).unwrap_or_else(|| panic!("no end in {line}"));
                let item = rest[..end].to_owned();
                rest = &rest[end..];
                item
            };
            list.push(item);
            match rest.strip_prefix(", ") {
                Some(next) => rest = next,
                None => break,
            }
        }
        rest = rest.strip_prefix(']').unwrap_or_else(|| panic!("no end in {line}"));
    }
    rule
}
