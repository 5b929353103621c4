//! The RBAC that OLM v0 creates by itself, with its own rights: recognized by who writes it *and* by its exact
//! content.

use serde_json::value::RawValue;

use super::review::Review;
use crate::decide::claims;
use crate::decide::demand;
use crate::decide::lookups::AggregationRule;
use crate::decide::verdict::Refusal;
use crate::rbac::role::RoleKey;
use crate::rbac::rule::Rule;

use super::attribution::Piece;
use super::binding::Binding;
use super::read_new;
use super::role::{Labelled, RoleObject};

/// The prefix of the labels by which the roles for an operator's APIs are aggregated into the roles of a group.
const AGGREGATED_BY_GROUP: &str = "olm.opgroup.permissions/aggregate-to-";
/// A role that OLM creates for an API that an operator provides.
struct ApiRole {
    /// The suffix of its name.
    suffix: &'static str,
    verbs: &'static [&'static str],
    /// The role of Kubernetes that it is aggregated into.
    taken_in_by: &'static str,
}

const API_ROLES: &[ApiRole] = &[
    ApiRole { suffix: "admin", verbs: &["*"], taken_in_by: "admin" },
    ApiRole { suffix: "edit", verbs: &["create", "update", "patch", "delete"], taken_in_by: "edit" },
    ApiRole { suffix: "view", verbs: &["get", "list", "watch"], taken_in_by: "view" },
];
const CRD_VIEW: &[ApiRole] = &[ApiRole { suffix: "crdview", verbs: &["get"], taken_in_by: "view" }];

/// Whether this is one of OLM's own roles or bindings. The caller has already checked that OLM is the writer.
pub(super) fn is_olms_own(cx: &Review<'_>, piece: &Piece<'_>) -> Result<bool, Refusal> {
    match (piece, cx.request.in_namespace()) {
        (Piece::Role(role, _), Some(_)) => Ok(own_role(&role.metadata.name, &role.rules).is_some()),
        (Piece::Role(role, old), None) => Ok(is_group_role(role, *old) || is_api_role(cx, role)?),
        (Piece::Binding(binding, _), Some(namespace)) => is_own_binding(cx, binding, namespace),
        (Piece::Binding(..), None) => Ok(false),
    }
}

/// A Role that OLM creates in a namespace: one rule, about one object.
#[derive(Debug, PartialEq, Eq)]
enum OwnRole {
    /// An operator's access to its OperatorCondition, which has the same name as the operator and the Role.
    Condition,
    /// Access of the Job that unpacks a bundle to the ConfigMap for it, which has the same name as the Role and the
    /// Job's account.
    Unpacking,
    /// A catalog server's access to the ConfigMap that contains the catalog.
    Catalog,
    /// An operator's access to its certificate. Bindings to it are still judged: it is part of what the operator
    /// requests.
    Certificate,
}

fn own_role(name: &str, rules: &[Rule<'_>]) -> Option<OwnRole> {
    let [rule] = rules else { return None };
    let [object] = &rule.resource_names[..] else { return None };
    let is = |group, resource, verbs: &[&str]| *rule == Rule::on(&[group], &[resource], verbs).named(&[object]);
    if object == name && *rule == demand::operator_condition(name) {
        Some(OwnRole::Condition)
    } else if object == name && is_digest(name) && is("", "configmaps", &["create", "get", "update"]) {
        Some(OwnRole::Unpacking)
    } else if name.ends_with("-configmap-reader") && is("", "configmaps", &["get"]) {
        Some(OwnRole::Catalog)
    } else if object == name && name.ends_with("-service-cert") && is("", "secrets", &["get"]) {
        Some(OwnRole::Certificate)
    } else {
        None
    }
}

/// Whether this is the kind of name OLM gives to the objects it creates to unpack a bundle.
fn is_digest(name: &str) -> bool {
    name.len() > 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_own_binding(cx: &Review<'_>, binding: &Binding<'_>, namespace: &str) -> Result<bool, Refusal> {
    let role = binding.role_ref.name.as_str();
    if binding.role_ref.kind != "Role" {
        return Ok(false);
    }
    let key = RoleKey { namespace: Some(namespace.to_owned()), name: role.to_owned() };
    let Some(rules) = cx.lookups.role(&key)? else { return Ok(false) };
    let accounts: Option<Vec<&str>> = binding
        .subjects
        .iter()
        .map(|subject| subject.account(Some(namespace)).filter(|(of, _)| *of == namespace).map(|(_, name)| name))
        .collect();
    let Some(accounts) = accounts else { return Ok(false) };
    Ok(match own_role(role, &rules) {
        Some(OwnRole::Condition) => true,
        Some(OwnRole::Unpacking) => accounts == [role],
        Some(OwnRole::Catalog) => accounts.iter().all(|account| account.ends_with("-configmap-server")),
        Some(OwnRole::Certificate) | None => false,
    })
}

/// `olm.og.<group>.<admin|edit|view>-<hash>`: aggregates the roles of the APIs that operators of the group provide. OLM
/// gives it no rules; on an update it retains those that the aggregation controller of Kubernetes has filled in.
fn is_group_role(role: &RoleObject<'_>, old: Option<&RoleObject<'_>>) -> bool {
    let labels = &role.metadata.labels;
    let by_group = |raw: &RawValue| {
        serde_json::from_str(raw.get()).is_ok_and(|rule: AggregationRule<'_>| {
            rule.selectors.iter().all(|selector| {
                let keys = selector.match_labels.keys();
                selector.match_expressions.is_empty()
                    && !selector.match_labels.is_empty()
                    && keys.into_iter().all(|key| key.starts_with(AGGREGATED_BY_GROUP))
            })
        })
    };
    labels.owner_kind == "OperatorGroup"
        && role.metadata.name.starts_with("olm.og.")
        && (role.rules.is_empty() || old.is_some_and(|old| old.rules == role.rules))
        && role.aggregation_rule.is_none_or(by_group)
}

/// The definition that a role is about, if the role is what OLM writes for an API that an operator provides: for using
/// the API, or for reading its definition, with the name `<definition>-<version>-<admin|edit|view|crdview>`.
pub(super) fn definition_of(role: &RoleObject<'_>, labels: &Labelled<'_>) -> Option<String> {
    let ([rule], None) = (&role.rules[..], role.aggregation_rule) else { return None };
    let ([group], [resource]) = (&rule.api_groups[..], &rule.resources[..]) else { return None };
    let reads_definition = group == "apiextensions.k8s.io" && resource == "customresourcedefinitions";
    let (definition, expected): (String, &[ApiRole]) = match &rule.resource_names[..] {
        [definition] if reads_definition => (definition.to_string(), CRD_VIEW),
        // A CustomResourceDefinition cannot be in the core group.
        [] if !group.is_empty() => (format!("{resource}.{group}"), API_ROLES),
        _ => return None,
    };
    let rest = role.metadata.name.strip_prefix(definition.as_str())?.strip_prefix('-')?;
    let (version, suffix) = rest.rsplit_once('-')?;
    let is_written_so = expected
        .iter()
        .any(|known| known.suffix == suffix && rule.verbs == *known.verbs && labels.are_taken_in_by(known.taken_in_by));
    (is_version(version) && is_written_so).then_some(definition)
}

fn is_version(text: &str) -> bool {
    text.strip_prefix('v').is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_digit()) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Whether a role is what OLM creates for a definition that came with an operator that still exists.
fn is_api_role(cx: &Review<'_>, role: &RoleObject<'_>) -> Result<bool, Refusal> {
    let Some(definition) = definition_of(role, &read_new(cx)?) else { return Ok(false) };
    claims::is_backed(cx, &definition)
}
