//! What an identity holds: bindings that name it, and the roles they refer to.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use crate::cluster::{CLUSTER_ROLE_BINDINGS, List, LookupError, ROLE_BINDINGS};
use crate::covers::Index;
use crate::lookups::{Lookups, RoleKey, Rules, each_item, is_plain, parse};
use crate::meta::Meta;
use crate::object::object;
use crate::scope::Scope;
use crate::subject::{Identity, Subject};
use crate::text::Text;

object! {
    /// The role a binding refers to.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct RoleRef<'a> {
        /// `Role` or `ClusterRole`.
        pub kind: Text<'a> = "kind",
        /// The name.
        pub name: Text<'a> = "name",
    }
}

impl RoleRef<'_> {
    /// The role, seen from a binding in this namespace. A ClusterRoleBinding can only refer to a ClusterRole.
    #[must_use]
    pub fn key(&self, binding_namespace: Option<&str>) -> Option<RoleKey> {
        match (self.kind.as_str(), binding_namespace) {
            ("ClusterRole", _) => Some(RoleKey { namespace: None, name: self.name.to_string() }),
            ("Role", Some(namespace)) => {
                Some(RoleKey { namespace: Some(namespace.to_owned()), name: self.name.to_string() })
            }
            _ => None,
        }
    }
}

/// Which bindings are looked at.
#[derive(Debug, Clone, Copy)]
pub enum Reach<'s> {
    /// ClusterRoleBindings, and the RoleBindings of these namespaces.
    Namespaces(&'s BTreeSet<String>),
    /// Every binding there is.
    Everywhere,
}

/// A role that an identity holds somewhere.
#[derive(Debug)]
pub struct Held {
    /// Whose: the position in the list that was asked about.
    pub identity: usize,
    /// Where.
    pub scope: Scope,
    /// Which role.
    pub role: RoleKey,
    /// The binding's `metadata`, as it came.
    metadata: Box<str>,
}

impl Held {
    /// The binding's metadata.
    pub fn binding(&self) -> Result<Meta<'_>, LookupError> {
        parse(self.metadata.as_bytes(), &"metadata of a binding")
    }

    /// `RoleBinding` or `ClusterRoleBinding`.
    #[must_use]
    pub fn binding_kind(&self) -> &'static str {
        match self.scope {
            Scope::Cluster => "ClusterRoleBinding",
            Scope::Namespace(_) => "RoleBinding",
        }
    }
}

object! {
    #[derive(Debug, Default)]
    struct BindingRow<'a> {
        // Raw: of thousands of bindings only the few that match are looked at any closer.
        metadata: Option<&'a RawValue> = "metadata",
        subjects: Vec<Subject<'a>> = "subjects",
        role_ref: RoleRef<'a> = "roleRef",
    }
}

object! {
    #[derive(Debug, Default)]
    struct NamespaceOf<'a> {
        namespace: Text<'a> = "namespace",
    }
}

/// The roles that each of `identities` holds within `reach`, in the order of the bindings.
pub fn held(lookups: &Lookups<'_>, identities: &[Identity], reach: Reach<'_>) -> Result<Vec<Held>, LookupError> {
    let mut found = Vec::new();
    collect(lookups, &List { resource: CLUSTER_ROLE_BINDINGS, namespace: None }, identities, None, &mut found)?;
    match reach {
        Reach::Everywhere => {
            collect(lookups, &List { resource: ROLE_BINDINGS, namespace: None }, identities, None, &mut found)?;
        }
        Reach::Namespaces(namespaces) => {
            // One namespace is a small list of its own. Several would be a look-up each: then it is the one big list.
            let alone = namespaces.iter().next().filter(|_| namespaces.len() == 1);
            let whole = alone.is_none() || lookups.knows_list(ROLE_BINDINGS, None);
            let namespace = alone.map(String::as_str).filter(|_| !whole);
            if !namespaces.is_empty() {
                let list = List { resource: ROLE_BINDINGS, namespace };
                collect(lookups, &list, identities, Some(namespaces), &mut found)?;
            }
        }
    }
    Ok(found)
}

fn collect(
    lookups: &Lookups<'_>,
    list: &List<'_>,
    identities: &[Identity],
    within: Option<&BTreeSet<String>>,
    found: &mut Vec<Held>,
) -> Result<(), LookupError> {
    let namespaced = list.resource == ROLE_BINDINGS;
    let answer = lookups.list(list.resource, list.namespace)?;
    let mut failed = None;
    each_item(&answer, list, &mut |row: BindingRow<'_>| {
        if let Err(error) = select(&row, namespaced, identities, within, found) {
            failed = Some(error);
        }
    })?;
    failed.map_or(Ok(()), Err)
}

fn select(
    row: &BindingRow<'_>,
    namespaced: bool,
    identities: &[Identity],
    within: Option<&BTreeSet<String>>,
    found: &mut Vec<Held>,
) -> Result<(), LookupError> {
    // The namespace matters for subjects without one, so it is read only when somebody could match at all.
    let may_match = row.subjects.iter().any(|subject| {
        subject.kind == "ServiceAccount" && subject.namespace.is_empty()
            || identities.iter().any(|identity| identity.named_by(subject, None))
    });
    if !may_match {
        return Ok(());
    }
    let metadata = row.metadata.map_or("{}", RawValue::get);
    let namespace = if namespaced {
        let of: NamespaceOf<'_> = parse(metadata.as_bytes(), &"metadata of a RoleBinding")?;
        if within.is_some_and(|within| !within.contains(of.namespace.as_str())) {
            return Ok(());
        }
        Some(of.namespace)
    } else {
        None
    };
    let namespace = namespace.as_deref();
    let Some(role) = row.role_ref.key(namespace) else { return Ok(()) };
    for (number, identity) in identities.iter().enumerate() {
        if row.subjects.iter().any(|subject| identity.named_by(subject, namespace)) {
            found.push(Held {
                identity: number,
                scope: Scope::of(namespace),
                role: role.clone(),
                metadata: metadata.into(),
            });
        }
    }
    Ok(())
}

/// The rules that one identity holds, by scope.
#[derive(Debug, Default)]
pub struct Grant {
    roles: Vec<(Scope, Rules)>,
}

impl Grant {
    /// What `held` gives to the identity at this position. A role that does not exist, or whose name nobody can look up
    /// safely, gives nothing: of what somebody is allowed, less is the stricter verdict.
    pub fn of(lookups: &Lookups<'_>, held: &[Held], identity: usize) -> Result<Self, LookupError> {
        let mine = held.iter().filter(|held| held.identity == identity);
        Grant::collect(lookups, mine.filter(|held| is_plain(&held.role.name)))
    }

    /// The same for what counts against somebody: there a role that cannot be looked up is a failure.
    pub fn all_of(lookups: &Lookups<'_>, held: &[Held], identity: usize) -> Result<Self, LookupError> {
        Grant::collect(lookups, held.iter().filter(|held| held.identity == identity))
    }

    fn collect<'h>(lookups: &Lookups<'_>, held: impl Iterator<Item = &'h Held>) -> Result<Self, LookupError> {
        let mut roles = Vec::new();
        for held in held {
            if let Some(rules) = lookups.role(&held.role)? {
                roles.push((held.scope.clone(), rules));
            }
        }
        Ok(Grant { roles })
    }

    /// What holds in a scope, arranged for questions.
    #[must_use]
    pub fn index(&self, scope: &Scope) -> Index<'_> {
        Index::new(self.in_scope(scope).flat_map(|rules| rules.iter()))
    }

    /// The roles that hold in a scope.
    pub fn in_scope(&self, scope: &Scope) -> impl Iterator<Item = &Rules> + Clone {
        let holds = move |at: &Scope| *at == Scope::Cluster || at == scope;
        self.roles.iter().filter(move |(at, _)| holds(at)).map(|(_, rules)| rules)
    }

    /// Every rule, with the scope it is held in.
    pub fn rules(&self) -> impl Iterator<Item = (&Scope, &Rules)> {
        self.roles.iter().map(|(scope, rules)| (scope, rules))
    }
}
