//! The report for programs. docs/audit.md has every field; fields may be added, and none goes or changes its meaning.

use std::io::{self, Write};

use serde_json::{Value, json};

use bounds::rbac::{Rule, Scope};

use super::admin::Admin;
use super::propose::{self, Change};
use super::settings::Source;
use super::{Audited, Outcome, Report, Verdict, commands};

/// Writes one JSON object.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &value(report))?;
    writeln!(out)
}

fn value(report: &Report) -> Value {
    let settings = propose::settings(&report.rules, &report.proposals);
    json!({
        "operators": report.audited.iter().map(operator).collect::<Vec<_>>(),
        "proposals": report.proposals.iter().map(|proposal| json!({
            "file": proposal.file,
            "boundary": proposal.boundary,
            "bounds": proposal.bounds.iter().map(|name| json!({
                "kind": name.kind, "namespace": name.namespace, "name": name.name})).collect::<Vec<_>>(),
            "settings": proposal.settings.iter().map(change).collect::<Vec<_>>(),
            "objects": proposal.objects,
        })).collect::<Vec<_>>(),
        "proposedSettings": settings.map(|(settings, _)| settings),
        "accounts": report.surplus.iter().map(|surplus| json!({
            "identity": surplus.label, "bounds": surplus.bounds,
            "clusterAdmin": surplus.admin.iter().map(admin).collect::<Vec<_>>(), "unused": surplus.unused,
        })).collect::<Vec<_>>(),
        "unread": report.unread.iter().map(|unread| json!({
            "kind": unread.kind, "apiGroup": unread.group, "resource": unread.resource, "verb": "list",
            "namespace": unread.namespace, "reason": unread.reason, "meaning": unread.meaning,
        })).collect::<Vec<_>>(),
        "grant": commands::grant(&report.unread, report.user.as_deref()),
        "policy": policy(report),
        "notes": report.notes,
        "summary": summary(report),
    })
}

fn policy(report: &Report) -> Value {
    let source = match report.rules.source {
        Source::Given => "given",
        Source::Cluster => "cluster",
        Source::Defaults => "defaults",
    };
    let registrations: Vec<Value> = report
        .rules
        .registrations
        .iter()
        .map(|registration| json!({"name": registration.name, "mode": registration.mode}))
        .collect();
    json!({"settings": source, "registrations": registrations})
}

fn summary(report: &Report) -> Value {
    let mut summary: Value = Verdict::ALL.into_iter().map(|verdict| (verdict.word(), report.count(verdict))).collect();
    summary["operators"] = report.audited.len().into();
    summary["clusterAdmin"] = report.audited.iter().filter(|audited| audited.is_admin()).count().into();
    summary["proposed"] = report.proposals.iter().map(|proposal| proposal.bounds.len()).sum::<usize>().into();
    summary["complete"] = report.is_complete().into();
    summary
}

fn operator(audited: &Audited) -> Value {
    let bounds = audited.bounds.iter().map(|bound| {
        json!({"identity": bound.label, "user": bound.user, "by": bound.by,
               "clusterAdmin": bound.admin.iter().map(admin).collect::<Vec<_>>()})
    });
    let holds = audited.holds.iter().flat_map(|holding| {
        holding.scopes.iter().map(move |scope| {
            let mut entry = scoped(scope, &holding.rules);
            entry["origin"] = holding.origin.word().into();
            entry["account"] = holding.account.as_deref().into();
            entry["why"] = holding.why.as_str().into();
            entry
        })
    });
    let missing = audited.missing.iter().map(|missing| {
        let mut entry = scoped(&missing.scope, &missing.rules);
        entry["identity"] = missing.label.as_str().into();
        entry
    });
    json!({
        "kind": audited.name.kind, "namespace": audited.name.namespace, "name": audited.name.name,
        "verdict": audited.verdict.word(), "why": audited.why,
        "boundaries": bounds.collect::<Vec<_>>(),
        "holds": holds.collect::<Vec<_>>(),
        "missing": missing.collect::<Vec<_>>(),
        "clusterAdmin": (audited.is_admin_known || !audited.admin.is_empty())
            .then(|| audited.admin.iter().map(admin).collect::<Vec<_>>()),
        "proposal": audited.proposal.as_ref().map(proposal),
        "notes": audited.notes,
    })
}

/// Rules and where they hold: a namespace, or null for the whole cluster.
fn scoped(scope: &Scope, rules: &[Rule<'_>]) -> Value {
    json!({"namespace": scope.namespace(), "rules": rules})
}

fn admin(admin: &Admin) -> Value {
    let rights = admin.rights.iter().map(|right| {
        let mut entry = scoped(&right.scope, std::slice::from_ref(&right.rule));
        entry["from"] = right.from.as_str().into();
        entry
    });
    json!({"identity": admin.who, "way": admin.way.word(), "how": admin.how, "rights": rights.collect::<Vec<_>>()})
}

fn proposal(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Proven { file, boundary } => json!({"outcome": "bounded", "file": file, "boundary": boundary}),
        Outcome::Impossible(reason) => json!({"outcome": "impossible", "reason": reason}),
    }
}

fn change(change: &Change) -> Value {
    json!({"setting": format!("{}.{}", change.section, change.setting), "to": change.to, "meaning": change.meaning})
}
