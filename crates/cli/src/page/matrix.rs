//! What is asked for, by scope: a row for each rule, or for each part of one that fares differently, and a column for each verb.

use std::collections::{BTreeMap, BTreeSet};

use bounds::rbac::{Index, Rule, Scope, Target};

use super::{attribute, text};

/// The verbs that everybody knows, in the order in which everybody says them; all of them comes first.
const VERBS: [&str; 9] = ["*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// What becomes of a single permission, and by what.
pub(crate) type Fate = (Mark, Option<String>);
/// What becomes of each verb on a resource, and by what.
type Fates = (BTreeMap<String, Mark>, BTreeSet<String>);

/// What becomes of a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// The boundary holds it.
    Covered,
    /// The boundary does not hold it.
    Missing,
    /// It is held, and nothing bounds it.
    Held,
}

impl Mark {
    fn class(self) -> &'static str {
        match self {
            Mark::Covered => "c",
            Mark::Missing => "m",
            Mark::Held => "h",
        }
    }
}

/// The matrices of one object.
#[derive(Debug, Default)]
pub(crate) struct Matrix {
    scopes: BTreeMap<Scope, Vec<Row>>,
}

/// Resources that fare alike, and how.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    group: String,
    resources: Vec<String>,
    cells: BTreeMap<String, Mark>,
    /// Whether the operator does not ask for it itself.
    is_implied: bool,
    notes: String,
}

impl Matrix {
    /// Adds a rule that is asked for by something; `fate` tells what becomes of each single permission of it.
    pub(crate) fn add(
        &mut self,
        scope: &Scope,
        rule: &Rule<'_>,
        is_implied: bool,
        asked_by: &str,
        fate: &dyn Fn(&Rule<'_>) -> Fate,
    ) {
        let mut resources: BTreeMap<(String, String), Fates> = BTreeMap::new();
        for atom in Index::new(&[]).uncovered(std::slice::from_ref(rule)) {
            let row = match atom.target {
                Target::Url(url) => ("URL".to_owned(), url.to_owned()),
                Target::Resource { group, resource, name } => {
                    let resource = name.map_or(resource.to_owned(), |name| format!("{resource} named {name}"));
                    (if group.is_empty() { "core".to_owned() } else { group.to_owned() }, resource)
                }
            };
            let (mark, by) = fate(&atom.to_rule());
            let (cells, reasons) = resources.entry(row).or_default();
            cells.insert(atom.verb.to_owned(), mark);
            reasons.extend(by);
        }
        let rows = self.scopes.entry(scope.clone()).or_default();
        let mut alike: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for ((group, resource), (cells, reasons)) in resources {
            alike.entry((group, cells, reasons)).or_default().push(resource);
        }
        for ((group, cells, reasons), resources) in alike {
            let notes: Vec<&str> = std::iter::once(asked_by).chain(reasons.iter().map(String::as_str)).collect();
            rows.push(Row { group, resources, cells, is_implied, notes: notes.join("; ") });
        }
    }

    /// The scopes, as filters name them.
    pub(crate) fn scopes(&self) -> BTreeSet<String> {
        self.scopes.keys().map(ToString::to_string).collect()
    }

    /// As HTML.
    pub(crate) fn html(mut self, name: &str) -> String {
        let mut out = String::new();
        for (scope, rows) in &mut self.scopes {
            rows.sort();
            rows.dedup();
            table(&mut out, scope, rows, name);
        }
        out
    }
}

fn table(out: &mut String, scope: &Scope, rows: &[Row], name: &str) {
    let used: BTreeSet<&str> = rows.iter().flat_map(|row| row.cells.keys().map(String::as_str)).collect();
    let known = VERBS.into_iter().filter(|verb| used.contains(verb));
    let verbs: Vec<&str> = known.chain(used.iter().copied().filter(|verb| !VERBS.contains(verb))).collect();
    let place = scope.to_string();
    out.push_str(&format!(
        "<div class=\"scope\" data-scope=\"{0}\"><h3>{1}</h3><div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Permissions of {2} {0}\"><table><thead><tr><th scope=\"col\">resource",
        attribute(&place),
        text(&place),
        attribute(name)
    ));
    for verb in &verbs {
        out.push_str(&format!("<th scope=\"col\">{}", text(verb)));
    }
    out.push_str("<th scope=\"col\" class=\"by\">asked by<tbody>\n");
    for row in rows {
        line(out, row, &verbs);
    }
    out.push_str("</table></div></div>\n");
}

fn line(out: &mut String, row: &Row, verbs: &[&str]) {
    let implied = if row.is_implied { "<tr class=i>" } else { "<tr>" };
    out.push_str(&format!(
        "{implied}<th scope=row>{} <small>{}</small>",
        text(&row.resources.join(", ")),
        text(&row.group)
    ));
    for verb in verbs {
        match row.cells.get(*verb) {
            None => out.push_str("<td>"),
            Some(mark) => out.push_str(&format!("<td class={}>", mark.class())),
        }
    }
    out.push_str(&format!("<td class=by>{}\n", text(&row.notes)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_that_fare_alike_share_a_row_and_every_verb_comes_first() {
        let mut matrix = Matrix::default();
        let rule = Rule::on(&["", "apps"], &["b", "a"], &["list", "*", "get"]);
        let fate = |atom: &Rule<'_>| match atom.resources[0].as_str() {
            "b" => (Mark::Missing, None),
            _ => (Mark::Covered, Some("by Role x".to_owned())),
        };
        matrix.add(&Scope::Cluster, &rule, false, "line 3", &fate);
        matrix.add(&Scope::Cluster, &Rule::on(&[""], &["c", "d"], &["get"]), true, "", &|_| (Mark::Held, None));
        let html = matrix.html("x");
        assert!(html.contains("resource<th scope=\"col\">*<th scope=\"col\">get<th scope=\"col\">list"), "{html}");
        assert_eq!(html.matches("<tr").count(), 6, "{html}");
        assert_eq!(html.matches("line 3; by Role x\n").count(), 2, "what is missing is covered by nothing: {html}");
        assert!(html.contains("<tr class=i><th scope=row>c, d <small>core</small><td><td class=h><td>"), "{html}");
    }
}
