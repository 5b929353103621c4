//! One right that an install takes: where it must hold, what it is, and who asks for it.

use bounds::rbac::{Rule, Scope};

/// A right that is needed.
#[derive(Debug, Clone)]
pub struct Need {
    /// The scope that it is needed in.
    pub scope: Scope,
    /// The rule that is needed.
    pub rule: Rule<'static>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a need comes from, for the person who has to agree to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// `CSV permissions of service account etcd-operator`, `OLM writes Deployment etcd-operator`.
    pub what: String,
    /// The file, where it is not the ClusterServiceVersion's, and the line.
    pub line: Option<(Option<String>, usize)>,
}

impl Origin {
    /// Something that OLM does, or that is not written anywhere.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Origin { what: what.into(), line: None }
    }
}

/// The comments over a rule: one for each origin, with all its lines, in the order in which they were found.
#[must_use]
pub fn comments<'n>(origins: impl Iterator<Item = &'n Origin>) -> Vec<String> {
    /// More than these are counted: a rule that everything asks for needs no list of everybody.
    const SHOWN: usize = 6;
    let mut grouped: Vec<(&str, Option<&str>, Vec<usize>)> = Vec::new();
    for Origin { what, line } in origins {
        let file = line.as_ref().and_then(|(file, _)| file.as_deref());
        let known = grouped.iter().position(|(known, of, _)| known == what && *of == file);
        let at = known.unwrap_or_else(|| {
            grouped.push((what, file, Vec::new()));
            grouped.len() - 1
        });
        if let Some((_, line)) = line
            && !grouped[at].2.contains(line)
        {
            grouped[at].2.push(*line);
        }
    }
    let rest = grouped.len().saturating_sub(SHOWN);
    let mut lines: Vec<String> =
        grouped.into_iter().take(SHOWN).map(|(what, file, lines)| describe(what, file, lines)).collect();
    if rest > 0 {
        lines.push(format!("… and {rest} more"));
    }
    lines
}

fn describe(what: &str, file: Option<&str>, mut lines: Vec<usize>) -> String {
    lines.sort_unstable();
    let numbers: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let file = file.map(|file| format!(", {file}")).unwrap_or_default();
    match numbers.len() {
        0 => format!("{what}{file}"),
        1 => format!("{what}{file}, line {}", numbers[0]),
        _ => format!("{what}{file}, lines {}", numbers.join(", ")),
    }
}

/// The needs of an install, gathered.
#[derive(Debug, Default)]
pub struct Needs(pub Vec<Need>);

impl Needs {
    /// One right.
    pub fn add(&mut self, scope: &Scope, rule: Rule<'_>, origin: Origin) {
        self.0.push(Need { scope: scope.clone(), rule: rule.into_owned(), origin });
    }

    /// Creating an object, and doing these things to it by its name afterwards. `create` cannot be granted by name: there is
    /// no name before the object is there.
    pub fn write(&mut self, scope: &Scope, object: &Written<'_>, afterwards: &[&str], origin: &Origin) {
        let Written { group, resource, name } = *object;
        self.add(scope, Rule::on(&[group], &[resource], &["create"]), origin.clone());
        self.by_name(scope, object, afterwards, origin);
        debug_assert!(!name.is_empty(), "{resource} without a name");
    }

    /// Doing these things to an object, by its name.
    pub fn by_name(&mut self, scope: &Scope, object: &Written<'_>, verbs: &[&str], origin: &Origin) {
        let Written { group, resource, name } = *object;
        if !verbs.is_empty() {
            self.add(scope, Rule::on(&[group], &[resource], verbs).named(&[name]), origin.clone());
        }
    }
}

/// An object that an installer writes.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// Its API group.
    pub group: &'a str,
    /// Its resource.
    pub resource: &'a str,
    /// Its name.
    pub name: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_origin_are_said_together() {
        let at = |what: &str, line: usize| Origin { what: what.to_owned(), line: Some((None, line)) };
        let origins = [
            at("CSV permissions of a", 9),
            at("CSV permissions of a", 4),
            Origin::new("OLM does"),
            at("CSV permissions of a", 9),
        ];
        assert_eq!(comments(origins.iter()), ["CSV permissions of a, lines 4, 9", "OLM does"]);
    }

    #[test]
    fn too_many_origins_are_counted() {
        let origins: Vec<Origin> = (0..10).map(|number| Origin::new(format!("OLM writes {number}"))).collect();
        assert_eq!(comments(origins.iter()).last().map(String::as_str), Some("… and 4 more"));
    }
}
