//! The verdicts as a page: what each operator asks for against what it may have.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use bounds::rbac::Rule;

use crate::audit::admin::{self, Admin, Admins, Right, Way};
use crate::page::matrix::{Mark, Matrix};
use crate::page::{Card, Page, paste, text};

use super::explain::{Asked, Bound, Cover, Explained, Weight};
use super::report::{Emitter, Summary};
use super::verdict::{Finding, Status};

/// The page. What is worst comes first, so the objects wait until all of them are known.
#[derive(Debug, Default)]
pub struct Html {
    cards: Vec<Card>,
}

impl Emitter for Html {
    fn finding(&mut self, _out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        if finding.status != Status::NotJudged {
            self.cards.push(card(finding, self.cards.len()));
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
        let page = Page {
            title: "operator-bounds check",
            lead: summary.describe(),
            problems: summary.problems.iter().map(ToString::to_string).collect(),
            cards: std::mem::take(&mut self.cards),
            ..Page::default()
        };
        page.write(out)
    }
}

fn card(finding: &Finding, number: usize) -> Card {
    let name = &finding.name;
    let is_operator = name.kind == "ClusterServiceVersion";
    let admin = finding.explained.as_ref().map(admins);
    let mut card = Card {
        rank: (
            Status::ALL.iter().position(|status| *status == finding.status).unwrap_or_default(),
            admin.as_ref().is_none_or(Vec::is_empty),
        ),
        verdict: finding.status.word(),
        name: name.name.clone(),
        place: if is_operator { name.namespace.clone() } else { format!("{} {}", name.kind, name.namespace) },
        boundary: boundary(finding),
        missing: finding.explained.as_ref().map(missing).unwrap_or_default(),
        admin: admin.as_ref().map(|admin| ways(admin.iter())),
        ..Card::default()
    };
    card.body = body(finding, admin.as_deref().unwrap_or_default());
    if let Some(explained) = &finding.explained {
        let matrix = matrix(explained);
        card.scopes = matrix.scopes();
        card.body.push_str(&matrix.html(&name.to_string()));
    }
    if let Some(rbac) = &finding.rbac {
        let what = format!("the RBAC for {name}");
        card.body.push_str(&paste(&format!("rbac-{number}"), "RBAC that is missing", &what, rbac));
    }
    card
}

/// The words for the ways, each once.
pub(crate) fn ways<'a>(admins: impl Iterator<Item = &'a Admin>) -> Vec<&'static str> {
    let ways: BTreeSet<Way> = admins.map(|admin| admin.way).collect();
    ways.into_iter().map(Way::word).collect()
}

/// Who bounds it, for the overview.
fn boundary(finding: &Finding) -> String {
    let explained = finding.explained.iter().flat_map(|explained| &explained.boundaries);
    let labels: Vec<&str> = explained.map(|bound| bound.label.as_str()).collect();
    match (finding.status, finding.facts.get("boundary")) {
        _ if !labels.is_empty() => labels.join(", "),
        (_, Some(user)) => user.clone(),
        (Status::Unbounded, None) => "nothing".to_owned(),
        (_, None) => "–".to_owned(),
    }
}

/// How many rules of the operator ask for something that is missing.
fn missing(explained: &Explained) -> usize {
    explained.asked.iter().map(|asked| asked.missing().len()).sum()
}

fn body(finding: &Finding, admins: &[Admin]) -> String {
    let place = format!("{}:{}", finding.file.display(), finding.place.line);
    let mut out = format!("<p class=\"where\">{} in <bdi>{}</bdi></p>\n", text(&finding.name.kind), text(&place));
    if let Some(remark) = finding.remark() {
        out.push_str(&format!("<p>{}</p>\n", text(&remark)));
    }
    out.push_str(&as_admins(admins));
    for bound in finding.explained.iter().flat_map(|explained| &explained.boundaries) {
        out.push_str(&holds(bound));
    }
    if let Some(message) = &finding.message {
        out.push_str(&format!(
            "<pre class=\"message\" tabindex=\"0\">{}</pre>\n",
            text(&shortened(message, finding.explained.is_some()))
        ));
    }
    for warning in &finding.warnings {
        out.push_str(&format!("<p class=\"warning\">{}</p>\n", text(warning)));
    }
    out
}

/// A refusal without its list of rules, where the matrix shows them.
fn shortened(message: &str, is_shown: bool) -> String {
    let is_listed =
        |line: &str| line.starts_with("    ") || line == "  cluster-wide" || line.starts_with("  in namespace ");
    let lines = message.lines().filter(|line| !(is_shown && is_listed(line)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Who is cluster-admin in effect, and by which rules; nothing where nobody is.
pub(crate) fn as_admins(admins: &[Admin]) -> String {
    let rule = |right: &Right| {
        let (rule, scope, from) = (right.rule.to_string(), right.scope.to_string(), &right.from);
        format!("<li><code>{}</code> {} ({})", text(&rule), text(&scope), text(from))
    };
    let each: String = admins
        .iter()
        .map(|admin| {
            let rules: String = admin.rights.iter().map(rule).collect();
            format!("<li>{}<ul>{rules}</ul>", text(&admin.to_string()))
        })
        .collect();
    if each.is_empty() {
        return each;
    }
    format!("<div class=\"warning bad-edge\"><strong>Cluster-admin in effect</strong><ul>{each}</ul></div>\n")
}

fn holds(bound: &Bound) -> String {
    let through: Vec<String> =
        bound.grants.iter().map(|grant| format!("{} → {} {}", grant.binding, grant.role, grant.scope)).collect();
    let holds =
        if through.is_empty() { "holds nothing here".to_owned() } else { format!("holds {}", through.join("; ")) };
    format!("<p>Boundary: {} ({}); it {}</p>\n", text(&bound.label), text(&bound.by), text(&holds))
}

/// The accounts that would be cluster-admin in effect, by what the operator asks for them.
fn admins(explained: &Explained) -> Vec<Admin> {
    let mut accounts: BTreeMap<&str, Vec<Right>> = BTreeMap::new();
    for asked in &explained.asked {
        if let Some(source) = &asked.source {
            let (scope, rule, from) = (asked.scope.clone(), asked.rule.clone(), asked_by(asked));
            let right = Right { scope, rule, from, is_asked: true };
            accounts.entry(&source.account).or_default().push(right);
        }
    }
    let each = accounts.into_iter().flat_map(|(account, rights)| {
        let account = if account.is_empty() { "default" } else { account };
        admin::ways(&format!("service account {account}"), &rights, &BTreeSet::new(), &Admins::default())
    });
    each.collect()
}

fn matrix(explained: &Explained) -> Matrix {
    let mut matrix = Matrix::default();
    for asked in &explained.asked {
        let fate = |atom: &Rule<'_>| match asked.atoms.iter().find(|weight| weight.rule == *atom) {
            Some(weight) if weight.is_missing() => (Mark::Missing, None),
            Some(weight) => (Mark::Covered, covered(explained, weight)),
            None => (Mark::Covered, None),
        };
        matrix.add(&asked.scope, &asked.rule, asked.source.is_none(), &asked_by(asked), &fate);
    }
    matrix
}

fn asked_by(asked: &Asked) -> String {
    match (&asked.source, &asked.why) {
        (Some(source), _) => {
            format!("{}[{}].rules[{}], line {}", source.section, source.entry, source.rule, asked.place.line)
        }
        (None, Some(why)) => why.clone(),
        (None, None) => "implied".to_owned(),
    }
}

/// What covers a permission that every boundary holds.
fn covered(explained: &Explained, weight: &Weight) -> Option<String> {
    let each = explained.boundaries.iter().zip(&weight.covered).filter_map(|(bound, cover)| match cover {
        Cover::Missing => None,
        Cover::By { grant, .. } => bound.grants.get(*grant).map(|grant| format!("covered by {}", grant.role)),
        Cover::Honored => Some(format!("{} may escalate or bind", bound.label)),
        Cover::Review => Some("covered according to the API server".to_owned()),
    });
    let each: BTreeSet<String> = each.collect();
    (!each.is_empty()).then(|| each.into_iter().collect::<Vec<_>>().join("; "))
}
