//! RBAC that a bundle brings in its manifests: who writes a role must hold what is in it, and who binds one must hold what
//! it gives.

use bounds::decide::{Lookups, demand};
use bounds::rbac::{RoleKey, Rule, Scope};

use super::DeriveError;
use super::bundle::{Bundle, Object};
use super::need::{Needs, Origin};

/// What the roles and bindings of a bundle ask for. Those of a namespace land in `namespace`.
pub(super) fn needs(
    needs: &mut Needs,
    bundle: &Bundle,
    namespace: &Scope,
    lookups: &Lookups<'_>,
) -> Result<(), DeriveError> {
    for object in &bundle.others {
        let scope = if object.kind().starts_with("Cluster") { &Scope::Cluster } else { namespace };
        match object.kind() {
            "Role" | "ClusterRole" => role(needs, object, scope, &describe(object))?,
            "RoleBinding" | "ClusterRoleBinding" => binding(needs, bundle, object, scope, lookups)?,
            _ => {}
        }
    }
    Ok(())
}

fn describe(object: &Object) -> String {
    format!("{} {} of the bundle", object.kind(), object.name())
}

/// The rules of a role, each with its line; everything if it aggregates other roles.
fn role(needs: &mut Needs, object: &Object, scope: &Scope, what: &str) -> Result<(), DeriveError> {
    for (index, rule) in rules(object)?.into_iter().enumerate() {
        let line = object.line(&["rules", &index.to_string()]).map(|line| (file(object), line));
        needs.add(scope, rule, Origin { what: what.to_owned(), line });
    }
    if !object.value["aggregationRule"].is_null() {
        for rule in Rule::everything() {
            needs.add(
                scope,
                rule,
                Origin::new(format!("{what} has an aggregationRule, which aggregates roles that do not exist yet")),
            );
        }
    }
    Ok(())
}

fn file(object: &Object) -> Option<String> {
    object.file.file_name().map(|name| name.to_string_lossy().into_owned())
}

fn rules(role: &Object) -> Result<Vec<Rule<'static>>, DeriveError> {
    let text = role.value["rules"].to_string();
    let rules: Option<Vec<Rule<'_>>> = role.read(&text, "rules")?;
    Ok(rules.into_iter().flatten().map(Rule::into_owned).collect())
}

/// What a binding gives: the rules of its role, from the bundle, from the cluster, or Kubernetes' own.
fn binding(
    needs: &mut Needs,
    bundle: &Bundle,
    object: &Object,
    scope: &Scope,
    lookups: &Lookups<'_>,
) -> Result<(), DeriveError> {
    let (kind, name) = (&object.value["roleRef"]["kind"], object.value["roleRef"]["name"].as_str().unwrap_or_default());
    let what = format!("{}, which grants what {} {name} holds", describe(object), kind.as_str().unwrap_or_default());
    if let Some(own) = bundle.others.iter().find(|other| other.value["kind"] == *kind && other.name() == name) {
        return role(needs, own, scope, &what);
    }
    let is_role = kind == "Role";
    let key = RoleKey { namespace: scope.namespace().filter(|_| is_role).map(str::to_owned), name: name.to_owned() };
    let found = lookups.role(&key)?.or_else(|| demand::default_rules(&key));
    let rules = found.ok_or_else(|| DeriveError::UnknownRole { binding: describe(object), role: key.to_string() })?;
    for rule in rules.iter() {
        needs.add(scope, rule.clone(), Origin::new(what.clone()));
    }
    Ok(())
}
