//! `--explain`: the way to a verdict, written down for a person.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bounds::olm::Targets;
use bounds::rbac::{Rule, Scope};

use super::explain::{Asked, Bound, Cover, Explained, Weight, together};
use super::report::{Emitter, Summary, counted, one_line, printable};
use super::verdict::Finding;

/// Writes everything there is to say about each object.
#[derive(Debug, Default)]
pub struct Explanation;

impl Emitter for Explanation {
    fn finding(&mut self, out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        out.write_all(printable(&explain(finding)).as_bytes())
    }

    fn finish(&mut self, out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
        for problem in &summary.problems {
            writeln!(out, "not read: {}", one_line(&problem.to_string()))?;
        }
        Ok(())
    }
}

fn explain(finding: &Finding) -> String {
    let file = one_line(&finding.file.to_string_lossy());
    let mut text = format!("{}  {file}:{}\n\n", finding.name, finding.place.line);
    if let Some(explained) = &finding.explained {
        group(&mut text, explained);
        for bound in &explained.boundaries {
            boundary(&mut text, bound, explained.boundaries.len());
        }
        text.push_str("Asked for\n");
        for asked in explained.asked.iter().filter(|asked| !asked.atoms.is_empty()) {
            permission(&mut text, asked, &explained.boundaries, &file);
        }
    }
    verdict(&mut text, finding);
    text
}

fn group(text: &mut String, explained: &Explained) {
    let targets = match &explained.targets {
        Targets::All => "all namespaces".to_owned(),
        Targets::Namespaces(names) => names.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    text.push_str(&format!("Group\n  {}, targets {targets}\n\n", explained.group));
}

fn boundary(text: &mut String, bound: &Bound, of: usize) {
    let must = if of > 1 { ", one of several that must all cover the request" } else { "" };
    text.push_str(&format!("Boundary\n  {} ({}{must})\n  user {}\n", bound.label, bound.by, bound.user));
    text.push_str(&format!("  groups {}\n\nGrant\n", bound.groups.join(", ")));
    if bound.grants.is_empty() {
        text.push_str("  nothing: no binding names it in the requested scopes\n");
    }
    for grant in &bound.grants {
        let rules = match &grant.rules {
            Some(rules) => counted(rules.len(), "rule"),
            None => "which does not exist and so grants nothing".to_owned(),
        };
        let through = one_line(&format!("{}: {} → {}", grant.scope, grant.binding, grant.role));
        text.push_str(&format!("  {through}, {rules}\n"));
        grant.rules.iter().flatten().for_each(|rule| text.push_str(&format!("    {rule}\n")));
    }
    text.push('\n');
}

fn permission(text: &mut String, asked: &Asked, bounds: &[Bound], file: &str) {
    let Asked { scope, place, rule, .. } = asked;
    match (&asked.source, &asked.why) {
        (Some(source), _) => text.push_str(&format!(
            "  {file}:{}  {} for account {}, {}{}\n    {rule}\n",
            place.line,
            source.path(),
            one_line(&source.account),
            scope,
            lifted(scope, source.section)
        )),
        (None, why) => {
            let why = one_line(why.as_deref().unwrap_or("by what it is"));
            text.push_str(&format!("  implied, {scope}: {why}\n    {rule}\n"));
        }
    }
    for (number, bound) in bounds.iter().enumerate() {
        for (cover, rules) in by_cover(&asked.atoms, number) {
            let how = covered(&cover, bound);
            for rule in rules {
                text.push_str(&format!("      {how}: {rule}\n"));
            }
        }
    }
}

/// Why a permission of a namespace is asked for in the whole cluster.
fn lifted(scope: &Scope, section: &str) -> &'static str {
    let is_lifted = *scope == Scope::Cluster && section == "permissions";
    if is_lifted { " (OLM lifts it to a ClusterRole because the group targets all namespaces)" } else { "" }
}

/// The permissions, by what covers them for one boundary; what is missing comes first.
fn by_cover(weights: &[Weight], boundary: usize) -> BTreeMap<Cover, Vec<Rule<'_>>> {
    let mut covers: BTreeMap<Cover, Vec<&Weight>> = BTreeMap::new();
    for weight in weights {
        if let Some(cover) = weight.covered.get(boundary) {
            covers.entry(cover.clone()).or_default().push(weight);
        }
    }
    covers.into_iter().map(|(cover, weights)| (cover, together(weights.into_iter()))).collect()
}

fn covered(cover: &Cover, bound: &Bound) -> String {
    match cover {
        Cover::Missing => "MISSING".to_owned(),
        Cover::By { grant, rule } => match bound.grants.get(*grant) {
            Some(grant) => one_line(&format!("covered by rule {} of {} ({})", rule + 1, grant.role, grant.binding)),
            None => "covered".to_owned(),
        },
        Cover::Honored => "covered because it may escalate or bind".to_owned(),
        Cover::Review => "covered according to the API server".to_owned(),
    }
}

fn verdict(text: &mut String, finding: &Finding) {
    let code = finding.code.map(|code| format!(" ({code})")).unwrap_or_default();
    text.push_str(&format!("\nVerdict\n  {}{code}: {}\n", finding.status.word(), finding.reason));
    let lines = finding.message.iter().flat_map(|message| message.lines());
    lines.for_each(|line| text.push_str(&format!("  {line}\n")));
    finding.warnings.iter().for_each(|warning| text.push_str(&format!("  warning: {warning}\n")));
    finding.remark().iter().for_each(|remark| text.push_str(&format!("  {remark}\n")));
    if !finding.lookups.is_empty() {
        text.push_str(&format!("\nLooked up\n  {}\n", finding.lookups.join("\n  ")));
    }
}
