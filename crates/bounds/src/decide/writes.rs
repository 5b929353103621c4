//! What is reserved for OLM: the account of an OperatorGroup must not write CustomResourceDefinitions or APIServices.

use crate::decide::context::Context;
use crate::decide::verdict::{Reason, Refusal};
use crate::rbac::compact::compact;
use crate::rbac::covers::Index;
use crate::rbac::rule::Rule;
use crate::settings::Severity;

const WRITE_VERBS: [&str; 6] = ["create", "update", "patch", "delete", "deletecollection", "*"];
const RESOURCES: [(&str, &str); 2] =
    [("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices")];

/// Whether this check is switched on.
#[must_use]
pub(crate) fn is_judged(cx: &Context<'_>) -> bool {
    cx.settings.operator_groups.cluster_writes != Severity::Off
}

/// Refuses, or warns, when the rules (held at cluster scope) write what is reserved for OLM. `what` begins the sentence
/// that continues with `write what only OLM should write`.
pub(crate) fn check<'r>(
    cx: &Context<'_>,
    what: &str,
    rules: impl Iterator<Item = &'r Rule<'r>>,
) -> Result<(), Refusal> {
    let written = written(&rules.collect::<Vec<_>>());
    if written.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = written.iter().map(ToString::to_string).collect();
    let severity = cx.settings.operator_groups.cluster_writes;
    let way_out = if severity == Severity::Deny {
        " (Unmodified OLM uses the account for APIServices and conversion webhooks: where such operators run under an \
         account, set operatorGroups.clusterWrites: warn in the policy's settings.)"
    } else {
        ""
    };
    let lines = lines.join("; ");
    let text = format!(
        "{what} write what only OLM should write, cluster-wide: {lines}. Leave these verbs out of its roles.{way_out}"
    );
    cx.fact("clusterWrites", lines);
    cx.object(severity, Reason::ClusterWrites, text)
}

/// The part of the rules that writes what is reserved for OLM. A rule with resource names counts too: it writes those.
#[must_use]
pub fn written(rules: &[&Rule<'_>]) -> Vec<Rule<'static>> {
    let mut found = Vec::new();
    for (group, resource) in RESOURCES {
        for rule in rules {
            let has = |list: &[crate::read::text::Text<'_>], wanted: &str| list.iter().any(|item| *item == *wanted);
            if !(has(&rule.api_groups, group) || has(&rule.api_groups, "*"))
                || !(has(&rule.resources, resource) || has(&rule.resources, "*"))
            {
                continue;
            }
            let verbs = rule.verbs.iter().filter(|verb| WRITE_VERBS.contains(&verb.as_str())).cloned().collect();
            let written =
                Rule { verbs, resource_names: rule.resource_names.clone(), ..Rule::on(&[group], &[resource], &[]) };
            found.push(written.into_owned());
        }
    }
    compact(Index::new(&[]).uncovered(&found)).into_iter().map(Rule::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_writing_is_found_and_reading_is_not() {
        let crds = ("apiextensions.k8s.io", "customresourcedefinitions");
        for (rule, writes) in [
            (Rule::on(&[crds.0], &[crds.1], &["get", "list", "watch"]), false),
            (Rule::on(&[crds.0], &[crds.1], &["get", "patch"]), true),
            (Rule::on(&["*"], &["*"], &["*"]), true),
            (Rule::on(&[crds.0], &["*"], &["delete"]), true),
            (Rule::on(&[crds.0], &[crds.1], &["update"]).named(&["widgets.example.com"]), true),
            (Rule::on(&[crds.0], &["customresourcedefinitions/status"], &["update"]), false),
            (Rule::on(&["apiregistration.k8s.io"], &["apiservices"], &["deletecollection"]), true),
            (Rule::on(&["apps"], &["*"], &["*"]), false),
        ] {
            assert_eq!(!written(&[&rule]).is_empty(), writes, "{rule}");
        }
    }
}
