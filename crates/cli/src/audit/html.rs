//! The report as a page.

use std::io::{self, Write};

use bounds::rbac::{Index, Rule, Scope};

use crate::check::html::{as_admins, ways};
use crate::page::matrix::{Mark, Matrix};
use crate::page::{Card, Page, Section, paste, text};

use super::admin::Right;
use super::table::{describe, policy_note};
use super::{Audited, Bound, Origin, Outcome, Report, Verdict, commands};

/// Writes the page.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let mut notes = vec![policy_note(report)];
    notes.extend(report.notes.iter().cloned());
    let page = Page {
        title: "operator-bounds audit",
        lead: describe(report),
        problems: problems(report),
        notes,
        cards: report.audited.iter().enumerate().map(|(number, audited)| card(number, audited, report)).collect(),
        last: "Proposal",
        sections: [proposals(report), surplus(report)].into_iter().flatten().collect(),
    };
    page.write(out)
}

fn problems(report: &Report) -> Vec<String> {
    let unread = report.unread.iter().map(|unread| {
        let place = unread.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}"));
        format!("{}{}: {}. {}", unread.kind, place.unwrap_or_default(), unread.meaning, unread.reason)
    });
    unread.chain(commands::grant(&report.unread, report.user.as_deref())).collect()
}

fn card(number: usize, audited: &Audited, report: &Report) -> Card {
    let name = &audited.name;
    let is_extension = name.namespace.is_empty();
    let labels: Vec<&str> = audited.bounds.iter().map(|bound| bound.label.as_str()).collect();
    let boundary = match audited.verdict {
        _ if !labels.is_empty() => labels.join(", "),
        Verdict::Unknown => "?".to_owned(),
        _ => "nothing".to_owned(),
    };
    let matrix = matrix(audited);
    let scopes = matrix.scopes();
    Card {
        // The report is sorted already.
        rank: (number, false),
        verdict: audited.verdict.word(),
        name: name.name.clone(),
        place: if is_extension { name.kind.clone() } else { name.namespace.clone() },
        boundary,
        missing: audited.missing_rules(),
        admin: (audited.is_admin_known || audited.is_admin()).then(|| {
            let itself = audited.admin.iter();
            ways(itself.chain(audited.bounds.iter().flat_map(|bound| &bound.admin)))
        }),
        last: last(audited, report),
        body: body(audited) + &matrix.html(&name.to_string()),
        scopes,
    }
}

/// What the overview says about a proposal.
fn last(audited: &Audited, report: &Report) -> String {
    match &audited.proposal {
        None => "<span class=\"none\">–</span>".to_owned(),
        Some(Outcome::Impossible(_)) => "none possible".to_owned(),
        Some(Outcome::Proven { file, .. }) => {
            let number = report.proposals.iter().position(|proposal| proposal.file == *file).unwrap_or_default();
            format!("<a class=\"good\" href=\"#p{number}\">proven: bounded</a>")
        }
    }
}

fn body(audited: &Audited) -> String {
    let mut out = String::new();
    let mut paragraph = |content: &str| out.push_str(&format!("<p>{}</p>\n", text(content)));
    if !audited.why.is_empty() {
        paragraph(&audited.why);
    }
    for bound in &audited.bounds {
        let is = bound.admin.first().map(|admin| format!(", which is cluster-admin itself: it {}", admin.how));
        paragraph(&format!("Boundary: {} ({}){}", bound.label, bound.by, is.unwrap_or_default()));
    }
    match &audited.proposal {
        Some(Outcome::Proven { file, boundary }) => paragraph(&format!("Proposed: {boundary} ({file})")),
        Some(Outcome::Impossible(_)) if !audited.admin.is_empty() => {
            paragraph("No boundary is proposed: one that allows this would be cluster-admin too.");
        }
        Some(Outcome::Impossible(reason)) => paragraph(&format!("No boundary is proposed: {reason}")),
        None => {}
    }
    for note in &audited.notes {
        paragraph(&format!("Note: {note}"));
    }
    out.push_str(&as_admins(&audited.admin));
    // What OLM writes for an extension is in no matrix.
    if audited.name.namespace.is_empty() && !audited.missing.is_empty() {
        out.push_str(&missing(audited));
    }
    out
}

fn missing(audited: &Audited) -> String {
    let mut out = String::from("<p>Missing:</p><ul>");
    for missing in &audited.missing {
        for rule in &missing.rules {
            out.push_str(&format!("<li><code>{}</code> {}", text(&rule.to_string()), text(&missing.scope.to_string())));
        }
    }
    out + "</ul>\n"
}

/// Everything that it holds, and what of that its boundaries lack.
fn matrix(audited: &Audited) -> Matrix {
    let mut matrix = Matrix::default();
    for holding in &audited.holds {
        for scope in &holding.scopes {
            let bounds: Vec<Index<'_>> = audited.bounds.iter().map(|bound| in_scope(bound, scope)).collect();
            let is_covered = |atom: &Rule<'_>| {
                audited.verdict == Verdict::Bounded
                    || bounds.iter().all(|bound| bound.covers(std::slice::from_ref(atom)))
            };
            let fate = |atom: &Rule<'_>| match audited.verdict {
                _ if bounds.is_empty() => (Mark::Held, None),
                _ if is_covered(atom) => (Mark::Covered, None),
                _ => (Mark::Missing, None),
            };
            let notes = match holding.origin {
                Origin::Borrowed => format!("borrowed: {}", holding.why),
                _ => holding.why.clone(),
            };
            for rule in &holding.rules {
                matrix.add(scope, rule, holding.origin != Origin::Declared, &notes, &fate);
            }
        }
    }
    matrix
}

fn in_scope<'b>(bound: &'b Bound, scope: &Scope) -> Index<'b> {
    let holds = |right: &&Right| right.scope == Scope::Cluster || right.scope == *scope;
    Index::new(bound.rights.iter().filter(holds).map(|right| &right.rule).collect::<Vec<_>>())
}

fn proposals(report: &Report) -> Option<Section> {
    let each = report.proposals.iter().enumerate().map(|(number, proposal)| {
        let names: Vec<String> = proposal.bounds.iter().map(|name| text(&name.to_string())).collect();
        let takes: String = proposal
            .settings
            .iter()
            .map(|change| {
                let setting = format!("{}.{}: {}", change.section, change.setting, change.to);
                format!("<p>It takes the setting <code>{}</code>: {}.</p>", text(&setting), text(change.meaning))
            })
            .collect();
        format!(
            "<div class=\"proposal\" id=\"p{number}\"><h3><bdi>{}</bdi></h3><p>bounds {}</p>{takes}{}</div>\n",
            text(&proposal.boundary),
            names.join(", "),
            paste(&format!("y{number}"), &proposal.file, &proposal.file, &proposal.yaml)
        )
    });
    let body: String = each.collect();
    (!body.is_empty()).then(|| Section {
        id: "proposals",
        title: "Proposed and proven: with these applied, the policy calls them bounded".to_owned(),
        body,
    })
}

fn surplus(report: &Report) -> Option<Section> {
    let each = report.surplus.iter().map(|surplus| {
        let admins = as_admins(&surplus.admin);
        let unused: String = surplus
            .unused
            .iter()
            .map(|unused| {
                let rules: String =
                    unused.rules.iter().map(|rule| format!("<li><code>{}</code>", text(&rule.to_string()))).collect();
                format!("<p>{} by {}</p><ul>{rules}</ul>", text(&unused.role), text(&unused.binding))
            })
            .collect();
        let names: Vec<String> = surplus.bounds.iter().map(|name| text(name)).collect();
        format!(
            "<div class=\"proposal\"><h3><bdi>{}</bdi></h3><p>bounds {}</p>{admins}{unused}</div>\n",
            text(&surplus.label),
            names.join(", ")
        )
    });
    let body: String = each.collect();
    (!body.is_empty()).then(|| Section {
        id: "surplus",
        title: "Boundaries that hold more than what they bound needs".to_owned(),
        body,
    })
}
