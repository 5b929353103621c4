//! Who holds what, by every binding that was read: asked for hundreds of accounts, and so found by name and not by search.

use std::collections::{BTreeSet, HashMap};

use bounds::cluster::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use bounds::rbac::{Identity, RoleKey, Rule, Scope, Subject};
use serde::Deserialize as _;
use serde_json::Value;

use crate::manifests::Manifests;

use super::admin::{self, Admin, Admins, Right};
use super::seen::Unread;
use super::text;

/// Every binding, by the names of its subjects.
#[derive(Debug)]
pub(super) struct Grants<'m> {
    manifests: &'m Manifests,
    bindings: Vec<&'m Value>,
    /// Positions in the list of bindings.
    by_name: HashMap<String, Vec<usize>>,
    is_complete: bool,
}

/// A role that somebody is bound to.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) scope: Scope,
    pub(super) role: RoleKey,
    /// `RoleBinding`, or `ClusterRoleBinding`.
    pub(super) kind: String,
    /// The binding's name.
    pub(super) binding: String,
    pub(super) rules: Vec<Rule<'static>>,
}

impl Held {
    /// `ClusterRole x by RoleBinding team-a/x`.
    pub(super) fn describe(&self) -> String {
        let place = self.scope.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{} by {} {place}{}", self.role, self.kind, self.binding)
    }
}

impl<'m> Grants<'m> {
    pub(super) fn new(manifests: &'m Manifests, unread: &[Unread]) -> Self {
        let kinds = [CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS].into_iter();
        let bindings: Vec<&Value> = kinds.flat_map(|kind| manifests.list(kind.api_version, kind.kind, None)).collect();
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (position, binding) in bindings.iter().enumerate() {
            let names: BTreeSet<&str> = subjects(binding).map(|subject| text(subject, "/name")).collect();
            for name in names {
                by_name.entry(name.to_owned()).or_default().push(position);
            }
        }
        let counts = [CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, CLUSTER_ROLES, ROLES].map(|resource| resource.kind);
        let is_complete = !unread.iter().any(|unread| counts.contains(&unread.kind));
        Grants { manifests, bindings, by_name, is_complete }
    }

    /// Whether all bindings and roles were read.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether any binding names an identity, be it to a role that does not exist.
    pub(super) fn is_named(&self, identity: &Identity) -> bool {
        self.naming(identity).next().is_some()
    }

    /// The roles that bindings give an identity, by its name and by its groups. A role that does not exist gives nothing.
    pub(super) fn of(&self, identity: &Identity) -> Vec<Held> {
        self.naming(identity).filter_map(|binding| self.held(binding)).collect()
    }

    fn naming(&self, identity: &Identity) -> impl Iterator<Item = &'m Value> {
        let account = identity.as_service_account().map(|(_, name)| name);
        let names = [Some(identity.user()), account].into_iter().flatten();
        let names = names.chain(identity.groups().iter().map(String::as_str));
        let may_name: BTreeSet<usize> = names.filter_map(|name| self.by_name.get(name)).flatten().copied().collect();
        let bindings = may_name.into_iter().map(|position| self.bindings[position]);
        bindings.filter(move |binding| is_named(identity, binding))
    }

    fn held(&self, binding: &Value) -> Option<Held> {
        let kind = text(binding, "/kind").to_owned();
        let scope = Scope::of((kind == ROLE_BINDINGS.kind).then(|| text(binding, "/metadata/namespace")));
        let is_role = text(binding, "/roleRef/kind") == "Role";
        let namespace = scope.namespace().filter(|_| is_role).map(str::to_owned);
        let role = RoleKey { namespace, name: text(binding, "/roleRef/name").to_owned() };
        let resource = if is_role { ROLES } else { CLUSTER_ROLES };
        let found = self.manifests.get(resource.api_version, resource.kind, role.namespace.as_deref(), &role.name)?;
        let binding = text(binding, "/metadata/name").to_owned();
        Some(Held { scope, role, kind, binding, rules: admin::rules(found) })
    }

    /// In which ways an identity is cluster-admin in effect: by what is declared for it besides, and by what it holds.
    pub(super) fn admin(&self, who: &str, identity: &Identity, declared: Vec<Right>, admins: &Admins) -> Vec<Admin> {
        let held = self.of(identity);
        let wide = held.iter().filter(|held| held.scope == Scope::Cluster && held.role.namespace.is_none());
        let roles = wide.map(|held| held.role.name.clone()).collect();
        let rights: Vec<Right> = declared.into_iter().chain(rights(&held)).collect();
        admin::ways(who, &rights, &roles, admins)
    }
}

/// Each rule of each role.
pub(super) fn rights(held: &[Held]) -> impl Iterator<Item = Right> {
    held.iter().flat_map(|held| {
        let right = |rule: &Rule<'static>| Right {
            scope: held.scope.clone(),
            rule: rule.clone(),
            from: held.describe(),
            is_asked: false,
        };
        held.rules.iter().map(right)
    })
}

fn subjects(binding: &Value) -> impl Iterator<Item = &Value> {
    binding["subjects"].as_array().into_iter().flatten()
}

fn is_named(identity: &Identity, binding: &Value) -> bool {
    let namespace = binding["metadata"]["namespace"].as_str();
    let mut subjects = subjects(binding).filter_map(|subject| Subject::deserialize(subject).ok());
    subjects.any(|subject| identity.named_by(&subject, namespace))
}
