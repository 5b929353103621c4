//! Bindings to the synthetic identities of extensions: broad grants, misspelt names, confused kinds.

use super::review::Review;
use crate::cluster::CLUSTER_EXTENSIONS;
use crate::decide::boundary::{SYNTHETIC_GROUP, SYNTHETIC_USER_PREFIX};
use crate::decide::message::shell;
use crate::decide::verdict::{Reason, Refusal};
use crate::rbac::RBAC;
use crate::rbac::rule::Rule;
use crate::rbac::subject::Subject;
use crate::read::text::Text;
use crate::settings::Severity;

use super::binding::Binding;
use super::describe;

/// The maximum number of extensions looked up for one binding.
const MAX_HINTS: usize = 3;

/// Warns about, or refuses, what a binding would grant to extensions. With `hints`, also warns about extensions that do
/// not exist.
pub(super) fn judge(cx: &Review<'_>, binding: &Binding<'_>, hints: bool) -> Result<(), Refusal> {
    let what = describe(cx, &binding.metadata.display_name());
    let mut users = Vec::new();
    let mut group = false;
    for subject in &binding.subjects {
        match named(subject) {
            Named::User(extension) => users.push(extension),
            Named::Group => group = true,
            Named::Nobody(Some(hint)) => cx.warn(&format!("{what} gives nothing to any extension: {hint}")),
            Named::Nobody(None) => {}
        }
    }
    if users.is_empty() && !group {
        return Ok(());
    }
    broad_grant(cx, binding, &what, &users, group)?;
    for extension in users.iter().take(if hints { MAX_HINTS } else { 0 }) {
        // Only a hint: where OLM v1 is not installed (yet), this is no reason to refuse.
        if matches!(cx.lookups.get(CLUSTER_EXTENSIONS, None, extension), Ok(None)) {
            cx.warn(&format!(
                "{what} is for User {SYNTHETIC_USER_PREFIX}{extension}, but there is no ClusterExtension {extension} (yet)"
            ));
        }
    }
    Ok(())
}

enum Named<'s> {
    /// The extension of this name.
    User(&'s str),
    /// Every extension without an account.
    Group,
    /// No extension; possibly a misspelt one, with what was probably meant.
    Nobody(Option<String>),
}

fn named<'s>(subject: &'s Subject<'_>) -> Named<'s> {
    let name = subject.name.as_str();
    let extension = name.strip_prefix(SYNTHETIC_USER_PREFIX);
    let misspelt = name.strip_prefix(SYNTHETIC_GROUP).and_then(|rest| rest.strip_prefix(':'));
    let hint = match (subject.kind.as_str(), extension, misspelt) {
        ("User", Some(extension), _) => return Named::User(extension),
        ("Group", _, _) if name == SYNTHETIC_GROUP => return Named::Group,
        ("User", None, Some(extension)) => {
            format!("there is no user {name}; the right name is {SYNTHETIC_USER_PREFIX}{extension}")
        }
        ("User", _, _) if name == SYNTHETIC_GROUP => format!("{name} is a Group, not a User"),
        ("Group", Some(_), _) => format!("{name} is a User, not a Group"),
        ("Group", None, Some(extension)) => {
            format!("{name} is neither; the User of that extension is {SYNTHETIC_USER_PREFIX}{extension}")
        }
        _ => return Named::Nobody(None),
    };
    Named::Nobody(Some(hint))
}

fn broad_grant(cx: &Review<'_>, binding: &Binding<'_>, what: &str, users: &[&str], group: bool) -> Result<(), Refusal> {
    let severity = cx.settings.cluster_extensions.broad_grants;
    let Some(key) = binding.role_ref.key(cx.request.in_namespace()).filter(|_| severity != Severity::Off) else {
        return Ok(());
    };
    let Some(rules) = cx.lookups.role(&key)? else { return Ok(()) };
    let broad: Vec<String> = rules.iter().filter(|rule| is_broad(rule)).map(ToString::to_string).collect();
    if broad.is_empty() {
        return Ok(());
    }
    let whom = if group {
        format!("EVERY extension without a service account, present and future (Group {SYNTHETIC_GROUP})")
    } else {
        format!("User {SYNTHETIC_USER_PREFIX}{}", users.join(", "))
    };
    let text = format!(
        "{what} gives {whom} more than an extension should hold: {key} has {}. Grant what it needs instead: \
         operator-bounds derive BUNDLE --for synthetic {}",
        broad.join("; "),
        shell(users.first().copied().unwrap_or("NAME"))
    );
    cx.fact("broadGrant", broad.join("; "));
    cx.object(severity, Reason::BroadGrant, text)
}

/// A wildcard, or, on objects of any name, one of the verbs that lead to everything.
fn is_broad(rule: &Rule<'_>) -> bool {
    let has = |list: &[Text<'_>], wanted: &[&str]| list.iter().any(|item| wanted.contains(&item.as_str()));
    let all_of_them = has(&rule.verbs, &["*"]) || has(&rule.resources, &["*"]);
    // URLs have no API group, and belong to the API server itself.
    let shared = rule.api_groups.is_empty() || rule.api_groups.iter().any(|group| is_shared(group));
    let wildcard = has(&rule.api_groups, &["*"]) || (all_of_them && shared);
    let unnamed = rule.resource_names.is_empty();
    let climbs = has(&rule.api_groups, &[RBAC])
        && has(&rule.resources, &["roles", "clusterroles"])
        && has(&rule.verbs, &["escalate", "bind"]);
    // For users, groups, accounts, uids or extras: each leads to another identity.
    let impersonates = has(&rule.verbs, &["impersonate"]);
    wildcard || (unnamed && (climbs || impersonates))
}

/// Whether an API group belongs to Kubernetes, `OpenShift` or OLM. An operator may have every right to APIs that it
/// brings itself.
fn is_shared(group: &str) -> bool {
    !group.contains('.')
        || [".k8s.io", ".openshift.io", ".operatorframework.io", "operators.coreos.com"]
            .iter()
            .any(|shared| group.ends_with(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_and_the_verbs_that_lead_to_everything_are_broad() {
        for (rule, broad) in [
            (Rule::on(&["apps"], &["deployments"], &["*"]), true),
            (Rule::on(&["apps"], &["*"], &["get"]), true),
            (Rule::on(&["*"], &["pods"], &["get"]), true),
            (Rule::on(&["example.com"], &["*"], &["*"]), false),
            (Rule::on(&["example.com", ""], &["*"], &["get"]), true),
            (Rule::on(&["olm.operatorframework.io"], &["*"], &["create"]), true),
            (Rule::on(&["storage.k8s.io"], &["storageclasses"], &["*"]), true),
            (Rule::on(&[RBAC], &["clusterroles"], &["escalate"]), true),
            (Rule::on(&[RBAC], &["roles"], &["bind"]).named(&["view"]), false),
            (Rule::on(&[""], &["users"], &["impersonate"]), true),
            (Rule::on(&[""], &["serviceaccounts"], &["impersonate"]).named(&["me"]), false),
            (Rule::on(&["apps"], &["deployments"], &["get", "create"]), false),
        ] {
            assert_eq!(is_broad(&rule), broad, "{rule}");
        }
    }
}
