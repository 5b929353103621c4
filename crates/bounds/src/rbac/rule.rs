//! An RBAC rule, and the atoms it breaks down into.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::read::object::object;
use crate::read::text::Text;

object! {
    /// A `PolicyRule`, as in a Role, a ClusterRole or a ClusterServiceVersion. Lists that are missing or `null` are
    /// empty.
    #[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Rule<'a> {
        /// API groups; `""` is the core group.
        pub api_groups: Vec<Text<'a>> = "apiGroups",
        /// Resources, including `resource/subresource`.
        pub resources: Vec<Text<'a>> = "resources",
        /// Verbs; `*` is every verb.
        pub verbs: Vec<Text<'a>> = "verbs",
        /// Object names; an empty list means every object.
        pub resource_names: Vec<Text<'a>> = "resourceNames",
        /// URLs that are not resources, such as `/metrics`.
        pub non_resource_urls: Vec<Text<'a>> = "nonResourceURLs",
    }
}

/// The smallest unit that can be granted: one verb on one resource (of one name), or on one URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Atom<'r> {
    /// What the verb applies to.
    pub target: Target<'r>,
    /// A single verb, or `*`.
    pub verb: &'r str,
}

/// What an atom applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target<'r> {
    /// A resource of an API group, of one name or of every name.
    Resource {
        /// The API group; empty for the core group.
        group: &'r str,
        /// The resource, with its subresource if there is one.
        resource: &'r str,
        /// The name of one object, or `None` for every object.
        name: Option<&'r str>,
    },
    /// A URL that is not a resource.
    Url(&'r str),
}

impl<'a> Rule<'a> {
    /// A rule on resources.
    #[must_use]
    pub fn on(groups: &[&'a str], resources: &[&'a str], verbs: &[&'a str]) -> Self {
        Rule { api_groups: texts(groups), resources: texts(resources), verbs: texts(verbs), ..Rule::default() }
    }

    /// A rule on URLs.
    #[must_use]
    pub fn on_urls(urls: &[&'a str], verbs: &[&'a str]) -> Self {
        Rule { non_resource_urls: texts(urls), verbs: texts(verbs), ..Rule::default() }
    }

    /// The same rule, limited to these names.
    #[must_use]
    pub fn named(mut self, names: &[&'a str]) -> Self {
        self.resource_names = texts(names);
        self
    }

    /// Every verb on every resource and URL: what cluster-admin holds.
    #[must_use]
    pub fn everything() -> [Rule<'static>; 2] {
        [Rule::on(&["*"], &["*"], &["*"]), Rule::on_urls(&["*"], &["*"])]
    }

    /// The same rule, independent of the payload.
    #[must_use]
    pub fn into_owned(self) -> Rule<'static> {
        let own = |list: Vec<Text<'a>>| list.into_iter().map(Text::into_owned).collect();
        Rule {
            api_groups: own(self.api_groups),
            resources: own(self.resources),
            verbs: own(self.verbs),
            resource_names: own(self.resource_names),
            non_resource_urls: own(self.non_resource_urls),
        }
    }

    /// All entries of all its lists.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Text<'a>> {
        [&self.api_groups, &self.resources, &self.verbs, &self.resource_names, &self.non_resource_urls]
            .into_iter()
            .flatten()
    }

    /// The total length, in bytes, of the atoms that the rule breaks down into.
    #[must_use]
    pub(crate) fn atom_bytes(&self) -> usize {
        let bytes = |list: &[Text<'_>]| list.iter().map(|entry| entry.len()).sum::<usize>();
        let names = self.resource_names.len().max(1);
        // Each entry of a list occurs in as many atoms as there are combinations of the other lists.
        let times = |lists: [usize; 3]| lists.into_iter().fold(1, usize::saturating_mul);
        let (groups, resources, verbs) = (self.api_groups.len(), self.resources.len(), self.verbs.len());
        let urls = self.non_resource_urls.len();
        [
            (bytes(&self.api_groups), times([resources, verbs, names])),
            (bytes(&self.resources), times([groups, verbs, names])),
            (bytes(&self.resource_names), times([groups, resources, verbs])),
            (bytes(&self.non_resource_urls), verbs),
            (bytes(&self.verbs), times([groups, resources, names]).saturating_add(urls)),
        ]
        .into_iter()
        .fold(0, |sum: usize, (bytes, times)| sum.saturating_add(bytes.saturating_mul(times)))
    }

    /// The number of atoms that the rule breaks down into.
    #[must_use]
    pub(crate) fn atom_count(&self) -> usize {
        let names = self.resource_names.len().max(1);
        let resources = self.api_groups.len().saturating_mul(self.resources.len()).saturating_mul(names);
        resources.saturating_add(self.non_resource_urls.len()).saturating_mul(self.verbs.len())
    }
}

/// The number of atoms that these rules break down into.
#[must_use]
pub(crate) fn atom_count(rules: &[Rule<'_>]) -> usize {
    rules.iter().fold(0, |sum: usize, rule| sum.saturating_add(rule.atom_count()))
}

fn texts<'a>(list: &[&'a str]) -> Vec<Text<'a>> {
    list.iter().copied().map(Text::from).collect()
}

impl<'r> Atom<'r> {
    /// The rule that grants exactly this atom.
    #[must_use]
    pub fn to_rule(self) -> Rule<'r> {
        match self.target {
            Target::Resource { group, resource, name } => Rule {
                resource_names: name.map(Text::from).into_iter().collect(),
                ..Rule::on(&[group], &[resource], &[self.verb])
            },
            Target::Url(url) => Rule::on_urls(&[url], &[self.verb]),
        }
    }
}

impl Serialize for Rule<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("verbs", &self.verbs)?;
        for (key, list) in [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ] {
            if !list.is_empty() {
                map.serialize_entry(key, list)?;
            }
        }
        map.end()
    }
}

impl Serialize for Atom<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("verbs", &[self.verb])?;
        match self.target {
            Target::Resource { group, resource, name } => {
                map.serialize_entry("apiGroups", &[group])?;
                map.serialize_entry("resources", &[resource])?;
                if let Some(name) = name {
                    map.serialize_entry("resourceNames", &[name])?;
                }
            }
            Target::Url(url) => map.serialize_entry("nonResourceURLs", &[url])?,
        }
        map.end()
    }
}

impl fmt::Display for Rule<'_> {
    /// One line, as shown to a person: `apiGroups: [""]  resources: [nodes]  verbs: [get, list]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (key, list) in [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("nonResourceURLs", &self.non_resource_urls),
            ("verbs", &self.verbs),
            ("resourceNames", &self.resource_names),
        ] {
            if list.is_empty() {
                continue;
            }
            write!(f, "{separator}{key}: [")?;
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    f.write_str(", ")?;
                }
                write_scalar(f, item)?;
            }
            f.write_str("]")?;
            separator = "  ";
        }
        Ok(())
    }
}

/// A YAML flow scalar: quoted where YAML, a terminal or a log line would interpret it differently.
fn write_scalar(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | ':');
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    if starts_plain && text.chars().all(plain) && !text.ends_with(':') {
        f.write_str(text)
    } else {
        write!(f, "{text:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_reads_null_and_missing_lists_as_empty() {
        let rule: Rule<'_> = serde_json::from_str(r#"{"verbs":null,"apiGroups":[""]}"#).unwrap();
        assert_eq!(rule, Rule { api_groups: vec![Text::from("")], ..Rule::default() });
    }

    #[test]
    fn a_rule_shows_as_one_line_of_yaml() {
        let rule = Rule::on(&["", "apps"], &["nodes", "*/scale"], &["get", "*"]).named(&["web"]);
        assert_eq!(
            rule.to_string(),
            r#"apiGroups: ["", apps]  resources: [nodes, "*/scale"]  verbs: [get, "*"]  resourceNames: [web]"#
        );
        assert_eq!(Rule::on_urls(&["/healthz"], &["get"]).to_string(), "nonResourceURLs: [/healthz]  verbs: [get]");
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        let rule = Rule::on(&["a\nb"], &["\u{1b}[31m"], &["get"]);
        assert!(!rule.to_string().contains(['\n', '\u{1b}']));
    }

    #[test]
    fn atoms_are_counted_without_overflow() {
        let many = vec![Text::from("x"); 1 << 22];
        let rule = Rule {
            api_groups: many.clone(),
            resources: many.clone(),
            verbs: many.clone(),
            resource_names: many,
            non_resource_urls: vec![],
        };
        assert_eq!(rule.atom_count(), usize::MAX);
        assert_eq!(Rule::on(&["a"], &["b", "c"], &["get"]).atom_count(), 2);
        assert_eq!(Rule::on(&[], &["b", "c"], &["get"]).atom_count(), 0);
    }
}
