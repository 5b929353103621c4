//! Proof: the policy judges every proposal, laid over what was read.

use bounds::cluster::OPERATOR_GROUPS;
use serde_json::Value;

use super::super::extension::{self as extensions, Extension};
use super::super::judge::{Answer, Judge, Written};
use super::super::operator::Operator;
use super::super::settings::Chosen;
use super::super::text;
use super::{BOUND, CLUSTER_WRITES, Change, Draft, Proposal};

/// Judges the grants, the group and its operators, as they would be. Returns the settings that this takes.
pub(super) fn group(
    judge: &Judge<'_>,
    draft: &Draft,
    members: &[(usize, String)],
    operators: &[Operator],
    settings: &Chosen,
) -> Result<Vec<Change>, String> {
    let csvs: Vec<&Value> = members.iter().map(|(member, _)| &operators[*member].csv).collect();
    match judge_group(judge, draft, &csvs, settings) {
        Ok(()) => Ok(Vec::new()),
        Err(answer) if answer.reason == "cluster-writes" => {
            let Change { section, setting, to, .. } = CLUSTER_WRITES;
            let warning = settings.with(section, setting, to)?;
            let judged = judge_group(judge, draft, &csvs, &warning);
            judged.map(|()| vec![CLUSTER_WRITES]).map_err(|answer| refused(&answer))
        }
        Err(answer) => Err(refused(&answer)),
    }
}

fn refused(answer: &Answer) -> String {
    if answer.is_unknown() {
        return format!("what would be proposed could not be proven: {}", answer.sentence());
    }
    format!("the policy does not admit what would be proposed: {}", answer.message)
}

fn judge_group(judge: &Judge<'_>, draft: &Draft, csvs: &[&Value], settings: &Chosen) -> Result<(), Answer> {
    judge_grants(judge, &draft.proposal, settings)?;
    for object in draft.proposal.objects.iter().filter(|object| object["kind"] == OPERATOR_GROUPS.kind) {
        let old = draft.group.as_ref();
        let answer = judge.judge(&Written { object, old, resource: "operatorgroups", user: None }, settings);
        if !answer.accepted {
            return Err(answer);
        }
    }
    for csv in csvs {
        let written = Written { object: csv, old: None, resource: "clusterserviceversions", user: None };
        let answer = judge.judge(&written, settings);
        if !answer.accepted || answer.reason != "bounded" {
            return Err(answer);
        }
    }
    Ok(())
}

fn judge_grants(judge: &Judge<'_>, proposal: &Proposal, settings: &Chosen) -> Result<(), Answer> {
    for object in &proposal.objects {
        let resource = match text(object, "/kind") {
            "RoleBinding" => "rolebindings",
            "ClusterRoleBinding" => "clusterrolebindings",
            _ => continue,
        };
        let answer = judge.judge(&Written { object, old: None, resource, user: None }, settings);
        if !answer.accepted {
            return Err(answer);
        }
    }
    Ok(())
}

/// Judges the grants and OLM's records of an extension, as they would be.
pub(super) fn extension(
    judge: &Judge<'_>,
    draft: &Draft,
    extension: &Extension,
    settings: &Chosen,
) -> Result<Vec<Change>, String> {
    let Change { section, setting, to, .. } = BOUND;
    let bounding = settings.with(section, setting, to)?;
    judge_grants(judge, &draft.proposal, &bounding).map_err(|answer| refused(&answer))?;
    let records = extension.installed.iter().flat_map(|installed| &installed.records);
    for record in records {
        let answer = extensions::judge(judge, record, &bounding);
        if !answer.accepted {
            return Err(refused(&answer));
        }
    }
    Ok(vec![BOUND])
}
