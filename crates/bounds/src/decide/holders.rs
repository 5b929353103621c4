//! What an identity holds: the bindings that name it, and the roles they refer to.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::value::RawValue;

use crate::cluster::{CLUSTER_ROLE_BINDINGS, List, LookupError, ROLE_BINDINGS};
use crate::decide::lookups::{Lookups, each_item, parse};
use crate::olm::meta::BindingMeta;
use crate::rbac::grant::Grant;
use crate::rbac::role::{RoleKey, RoleRef};
use crate::rbac::scope::Scope;
use crate::rbac::subject::{Accounts, Identity, Subject};
use crate::read::items::Words;
use crate::read::name::is_plain;
use crate::read::object::object;
use crate::read::order::ordered;

/// Which bindings are examined.
#[derive(Debug, Clone, Copy)]
pub enum Reach<'s> {
    /// ClusterRoleBindings, and the RoleBindings of these namespaces.
    Namespaces(&'s BTreeSet<String>),
    /// Every binding in the cluster.
    Everywhere,
}

impl Reach<'_> {
    fn counts(self, scope: &Scope) -> bool {
        match (self, scope) {
            (Reach::Everywhere, _) | (_, Scope::Cluster) => true,
            (Reach::Namespaces(namespaces), Scope::Namespace(namespace)) => namespaces.contains(namespace),
        }
    }
}

/// An identity, and the roles that bindings give it.
#[derive(Debug)]
pub struct Holder {
    /// The identity that is looked for in the subjects of bindings.
    pub(crate) identity: Identity,
    /// The roles it holds, in the order of the bindings.
    pub held: Vec<Held>,
}

/// A role that an identity holds in some scope, shared by all identities that the same binding names.
pub type Held = Rc<HeldRole>;

/// A role that is held in some scope.
#[derive(Debug)]
pub struct HeldRole {
    /// The scope of the binding.
    pub scope: Scope,
    /// The role that the binding refers to.
    pub role: RoleKey,
    /// The metadata of the binding that grants it.
    pub binding: BindingMeta<'static>,
    /// The position of that binding in its list.
    row: usize,
}

impl HeldRole {
    /// `RoleBinding` or `ClusterRoleBinding`.
    #[must_use]
    pub fn binding_kind(&self) -> &'static str {
        match self.scope {
            Scope::Cluster => "ClusterRoleBinding",
            Scope::Namespace(_) => "RoleBinding",
        }
    }

    /// Identifies the binding, and puts bindings in the order in which they are examined.
    #[must_use]
    pub(crate) fn position(&self) -> (bool, usize) {
        (self.scope != Scope::Cluster, self.row)
    }

    /// The binding's name, with its namespace.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.scope {
            Scope::Cluster => self.binding.name.to_string(),
            Scope::Namespace(namespace) => format!("{namespace}/{}", self.binding.name),
        }
    }
}

impl Holder {
    /// An identity that is not known to hold anything yet.
    #[must_use]
    pub(crate) fn new(identity: Identity) -> Self {
        Holder { identity, held: Vec::new() }
    }

    /// The rules that it holds in every scope that was searched.
    pub fn grant(&self, lookups: &Lookups<'_>) -> Result<Grant, LookupError> {
        self.grant_in(lookups, &|_| true)
    }

    /// The rules that it holds cluster-wide and in these namespaces: no other roles are looked up. A role that does not
    /// exist, or whose name cannot be looked up safely, grants nothing: for what is allowed, less is the stricter
    /// verdict.
    pub(crate) fn grant_in(&self, lookups: &Lookups<'_>, counts: &dyn Fn(&str) -> bool) -> Result<Grant, LookupError> {
        let mut roles = Vec::new();
        for held in &self.held {
            if held.scope.namespace().is_none_or(counts)
                && is_plain(&held.role.name)
                && let Some(rules) = lookups.role(&held.role)?
            {
                roles.push((held.scope.clone(), rules));
            }
        }
        Ok(Grant::new(roles))
    }
}

object! {
    #[derive(Debug, Default)]
    struct BindingRow<'a> {
        // Raw: of thousands of bindings only the few that match are parsed further.
        metadata: Option<&'a RawValue> = "metadata",
        subjects: Vec<Subject<'a>> = "subjects",
        role_ref: RoleRef<'a> = "roleRef",
    }
}

/// Finds the roles that each of the holders holds within `reach`. Results of a search through all bindings are reused:
/// RoleBindings are by far the longest list, and an approval of many operators would read it again for each.
pub(crate) fn find(lookups: &Lookups<'_>, holders: &mut [Holder], reach: Reach<'_>) -> Result<(), LookupError> {
    let mut unknown = Vec::new();
    for holder in holders {
        match lookups.held(&holder.identity) {
            Some(held) => holder.held = held.into_iter().filter(|held| reach.counts(&held.scope)).collect(),
            None => unknown.push(holder),
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let sought = Sought::new(unknown.iter().map(|holder| &holder.identity).collect());
    let mut found: Vec<Vec<Held>> = unknown.iter().map(|_| Vec::new()).collect();
    each_binding(lookups, reach, Some(&Words::any_of(&sought.names)), &mut |within, position, row| {
        sought.select(row, position, within, &mut found)
    })?;
    for (holder, held) in unknown.into_iter().zip(found) {
        if matches!(reach, Reach::Everywhere) {
            lookups.remember(&holder.identity, &held);
        }
        holder.held = held;
    }
    Ok(())
}

/// What one identity holds within `reach`.
pub fn holder(lookups: &Lookups<'_>, identity: Identity, reach: Reach<'_>) -> Result<Holder, LookupError> {
    let mut holder = [Holder::new(identity)];
    find(lookups, &mut holder, reach)?;
    let [holder] = holder;
    Ok(holder)
}

/// The callback for each binding: which bindings of its list count, its position in the list, and the binding itself.
type EachBinding<'f> = dyn FnMut(Within<'_>, usize, &BindingRow<'_>) -> Result<(), LookupError> + 'f;

/// Passes on every binding within `reach`; with `words`, only those in which one of them occurs.
fn each_binding(
    lookups: &Lookups<'_>,
    reach: Reach<'_>,
    words: Option<&Words<'_>>,
    binding: &mut EachBinding<'_>,
) -> Result<(), LookupError> {
    read(lookups, &List { resource: CLUSTER_ROLE_BINDINGS, namespace: None }, Within::Cluster, words, binding)?;
    match reach {
        Reach::Everywhere => {
            read(lookups, &List { resource: ROLE_BINDINGS, namespace: None }, Within::AnyNamespace, words, binding)
        }
        Reach::Namespaces(namespaces) if namespaces.is_empty() => Ok(()),
        Reach::Namespaces(namespaces) => {
            // A single namespace is a small list of its own. Several would take one look-up each, so the cluster-wide
            // list is used.
            let alone = namespaces.iter().next().filter(|_| namespaces.len() == 1);
            let whole = alone.is_none() || lookups.knows_list(ROLE_BINDINGS, None);
            let namespace = alone.map(String::as_str).filter(|_| !whole);
            read(lookups, &List { resource: ROLE_BINDINGS, namespace }, Within::Namespaces(namespaces), words, binding)
        }
    }
}

/// Which bindings of a list count.
#[derive(Debug, Clone, Copy)]
enum Within<'s> {
    /// All of them: they are ClusterRoleBindings.
    Cluster,
    /// RoleBindings of any namespace.
    AnyNamespace,
    /// RoleBindings of these namespaces.
    Namespaces(&'s BTreeSet<String>),
}

fn read(
    lookups: &Lookups<'_>,
    list: &List<'_>,
    within: Within<'_>,
    words: Option<&Words<'_>>,
    binding: &mut EachBinding<'_>,
) -> Result<(), LookupError> {
    let answer = lookups.list(list.resource, list.namespace)?;
    let mut failed = None;
    each_item(&answer, list, words, &mut |position, row: BindingRow<'_>| {
        if let Err(error) = binding(within, position, &row) {
            failed = Some(error);
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// The identities that are looked for, by the names that subjects use for them: there may be thousands of both.
struct Sought<'h> {
    identities: Vec<&'h Identity>,
    names: Vec<&'h str>,
    /// For each name, the holders that a subject of that name may refer to.
    meant: Vec<Vec<usize>>,
}

impl<'h> Sought<'h> {
    fn new(identities: Vec<&'h Identity>) -> Self {
        let names: Vec<&str> = ordered(identities.iter().flat_map(|identity| names_of(identity))).into_iter().collect();
        let mut meant: Vec<Vec<usize>> = names.iter().map(|_| Vec::new()).collect();
        for (number, identity) in identities.iter().enumerate() {
            for name in names_of(identity) {
                meant[names.partition_point(|other| *other < name)].push(number);
            }
        }
        Sought { identities, names, meant }
    }

    /// The holders that a subject may refer to.
    fn meant_by(&self, subject: &Subject<'_>) -> &[usize] {
        let place = self.names.partition_point(|name| *name < subject.name.as_str());
        if self.names.get(place).is_some_and(|name| subject.name == *name) { &self.meant[place] } else { &[] }
    }

    /// Adds the role of a binding to the results of every holder that the binding names.
    fn select(
        &self,
        row: &BindingRow<'_>,
        position: usize,
        within: Within<'_>,
        found: &mut [Vec<Held>],
    ) -> Result<(), LookupError> {
        // The metadata is parsed only if a holder could match at all.
        if row.subjects.iter().all(|subject| self.meant_by(subject).is_empty()) {
            return Ok(());
        }
        let Some((metadata, scope)) = row.place(within)? else { return Ok(()) };
        let Some(role) = row.role_ref.key(scope.namespace()) else { return Ok(()) };
        let held = Rc::new(HeldRole { scope, role, binding: metadata.into_owned(), row: position });
        for subject in &row.subjects {
            for &one in self.meant_by(subject) {
                // A binding may name the same holder more than once.
                let is_new = found[one].last().is_none_or(|last| last.position() != held.position());
                if is_new && self.identities[one].named_by(subject, held.scope.namespace()) {
                    found[one].push(Rc::clone(&held));
                }
            }
        }
        Ok(())
    }
}

/// The names that a subject may use for this identity.
fn names_of(identity: &Identity) -> impl Iterator<Item = &str> {
    let account = identity.as_service_account().map(|(_, name)| name);
    identity.groups().iter().map(String::as_str).chain([identity.user()]).chain(account)
}

impl<'a> BindingRow<'a> {
    /// The metadata, and the scope of the binding; `None` if that scope does not count.
    fn place(&self, within: Within<'_>) -> Result<Option<(BindingMeta<'a>, Scope)>, LookupError> {
        let metadata: BindingMeta<'a> =
            parse(self.metadata.map_or("{}", RawValue::get).as_bytes(), &"metadata of a binding")?;
        let scope = match within {
            Within::Cluster => Scope::Cluster,
            Within::Namespaces(namespaces) if !namespaces.contains(metadata.namespace.as_str()) => return Ok(None),
            Within::AnyNamespace | Within::Namespaces(_) => Scope::Namespace(metadata.namespace.to_string()),
        };
        Ok(Some((metadata, scope)))
    }
}

/// The accounts that a subject names, and the scope of the binding that names them.
#[derive(Debug)]
pub(crate) struct Bound {
    accounts: Accounts<String>,
    scope: Scope,
}

impl Bound {
    /// A subject of a binding in this scope.
    #[must_use]
    pub(crate) fn new(subject: &Subject<'_>, scope: &Scope) -> Self {
        Bound { accounts: subject.accounts(scope.namespace()).into_owned(), scope: scope.clone() }
    }

    /// The scope of the binding.
    #[must_use]
    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }
}

/// The namespaces whose accounts are bound: there may be thousands of namespaces and of accounts.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// Namespaces of which one account is named, or all at once through their group.
    named: BTreeSet<String>,
    /// Whether all accounts of the cluster are named.
    all: bool,
}

impl Reached {
    /// Collects the namespaces that these subjects name.
    #[must_use]
    pub(crate) fn of(bound: &[Bound]) -> Self {
        let mut reached = Reached::default();
        for bound in bound {
            let accounts = bound.accounts.as_ref();
            reached.all |= accounts == Accounts::All;
            reached.named.extend(accounts.namespace().map(str::to_owned));
        }
        reached
    }

    /// Whether an account of this namespace is named, or all of them through their group.
    #[must_use]
    pub(crate) fn names(&self, namespace: &str) -> bool {
        self.named.contains(namespace)
    }

    /// Whether any account of this namespace is reached in any way.
    #[must_use]
    pub(crate) fn reaches(&self, namespace: &str) -> bool {
        self.all || self.names(namespace)
    }
}

/// The accounts of one namespace that are bound.
#[derive(Debug)]
pub(crate) struct ReachedIn<'b> {
    /// Those that are named one by one.
    pub(crate) named: BTreeSet<&'b str>,
    /// Whether all accounts of the namespace are bound.
    pub(crate) all: bool,
}

impl<'b> ReachedIn<'b> {
    /// The accounts of this namespace among the ones these subjects name.
    #[must_use]
    pub(crate) fn new(namespace: &str, bound: &'b [Bound]) -> Self {
        let mut reached = ReachedIn { named: BTreeSet::new(), all: false };
        for bound in bound {
            match bound.accounts.as_ref() {
                Accounts::One(of, name) if of == namespace => drop(reached.named.insert(name)),
                Accounts::AllOf(of) if of == namespace => reached.all = true,
                Accounts::All => reached.all = true,
                Accounts::One(..) | Accounts::AllOf(_) | Accounts::None => {}
            }
        }
        reached
    }

    /// Whether this account is reached in any way.
    #[must_use]
    pub(crate) fn reaches(&self, account: &str) -> bool {
        self.all || self.named.contains(account)
    }
}

/// The accounts bound to any role within `reach`, each with its role, as far as `wanted` accepts them.
pub(crate) fn bound(
    lookups: &Lookups<'_>,
    reach: Reach<'_>,
    wanted: &dyn Fn(&RoleKey, Accounts<&str>) -> bool,
) -> Result<Vec<(RoleKey, Bound)>, LookupError> {
    let mut found = Vec::new();
    each_binding(lookups, reach, None, &mut |within, _, row| {
        let Some((_, scope)) = row.place(within)? else { return Ok(()) };
        let Some(role) = row.role_ref.key(scope.namespace()) else { return Ok(()) };
        let accounts = row.subjects.iter().map(|subject| subject.accounts(scope.namespace()));
        let wanted = accounts.filter(|accounts| wanted(&role, *accounts));
        let owned = |accounts: Accounts<&str>| Bound { accounts: accounts.into_owned(), scope: scope.clone() };
        found.extend(wanted.map(|accounts| (role.clone(), owned(accounts))));
        Ok(())
    })?;
    Ok(found)
}

/// Whether a namespace has a RoleBinding of this name with the same role and the same subjects.
pub(crate) fn is_there(
    lookups: &Lookups<'_>,
    namespace: &str,
    name: &str,
    role_ref: &RoleRef<'_>,
    subjects: &[Subject<'_>],
) -> Result<bool, LookupError> {
    let namespaces = ordered([namespace.to_owned()]);
    let mut found = false;
    each_binding(lookups, Reach::Namespaces(&namespaces), Some(&Words::any_of(&[name])), &mut |within, _, row| {
        if let Some((metadata, Scope::Namespace(_))) = row.place(within)? {
            found |= metadata.name == *name && row.role_ref == *role_ref && row.subjects == subjects;
        }
        Ok(())
    })?;
    Ok(found)
}
