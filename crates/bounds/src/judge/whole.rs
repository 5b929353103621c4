//! Everything that comes for an extension, judged at once and before any of it is written: as the extension's boundary
//! would have to write it.
//!
//! What is admitted here is judged again object by object when it is written: only then is it known what existed
//! before. So anything that cannot be determined here does not become a loophole; it is left to that review.

use std::collections::BTreeSet;

use crate::decide::authority::Authority;
use crate::decide::demand::{self, Demand, DemandedRules};
use crate::decide::excess::{self, Limit, bounded};
use crate::decide::holders::{Holder, Reach, find};
use crate::decide::life::Life;
use crate::decide::message::{self, shell};
use crate::decide::plan::{of_binding, with_dangling};
use crate::decide::verdict::{Reason, Refusal};
use crate::olm::definition::Defined;
use crate::olm::kinds::{self, Resource};
use crate::olm::plan::Manifest;
use crate::olm::workload::{self, Workload};
use crate::rbac::RBAC;
use crate::rbac::role::RoleKey;
use crate::rbac::rule::Rule;
use crate::rbac::scope::Scope;
use crate::rbac::subject::Identity;
use crate::read::json;
use crate::settings::Crds;

use super::owned;
use super::review::Review;

/// The maximum number of objects judged together: the largest real bundles bring a few hundred.
const MAX_OBJECTS: usize = 1_000;
/// The group and the kind of CustomResourceDefinitions.
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// Objects that come together.
#[derive(Debug)]
pub(super) struct Whole<'w> {
    /// What they are, as shown to a person.
    pub(super) what: String,
    /// The name of the extension they belong to.
    pub(super) extension: &'w str,
    /// The namespace of objects that do not specify one.
    pub(super) namespace: &'w str,
    /// The objects, each as JSON.
    pub(super) objects: Vec<&'w str>,
    /// Whether this is the first install of the extension, so that none of its objects exist yet.
    pub(super) is_first: bool,
    /// Whether these are all the objects: a role that is neither among them nor in the cluster does not exist.
    pub(super) is_complete: bool,
}

#[derive(Debug)]
struct Member<'w> {
    text: &'w str,
    manifest: &'w Manifest<'w>,
    group: &'w str,
    resource: Resource<'w>,
    scope: Scope,
}

/// Refuses what exceeds the boundary of the extension, listing everything that is missing.
pub(super) fn judge(cx: &Review<'_>, whole: &Whole<'_>) -> Result<(), Refusal> {
    if whole.objects.len() > MAX_OBJECTS {
        return Err(too_many(whole));
    }
    // A stored extension is read in this version.
    let phase = || Life::of(cx, "v1").map(|life| life.phase);
    let name = cx.request.name.as_str();
    let Some(boundary) = owned::boundary(cx, name, whole.extension, &phase)? else { return Ok(()) };
    let manifests = read(whole)?;
    let members = members(cx, whole, &manifests);
    let mut holders = vec![Holder::new(boundary.identity.clone())];
    holders.extend(accounts(whole, &members)?.into_iter().map(Holder::new));
    // One list for all accounts: the bundle determines the namespaces, and each list of its own would be a watch.
    find(&cx.lookups, &mut holders, Reach::Everywhere)?;
    let mut holders = holders.into_iter();
    let Some(holder) = holders.next() else { return Ok(()) };

    let everything = Rule::everything();
    let (mut demands, dangling) = rbac(cx, whole, &members, &everything)?;
    for account in holders {
        demands.extend(owned::borrowed(cx, whole.extension, &account)?);
    }
    let mut judged = excess::namespaces(&demands);
    judged.extend(members.iter().filter_map(|member| member.scope_of_changes().namespace().map(str::to_owned)));
    let limit = Limit::new(cx, &boundary, holder, &|namespace| judged.contains(namespace))?;
    demands.extend(verbs(cx, whole, &members, &limit.authority())?);
    bounded_all(cx, whole, demands, dangling, limit)
}

fn bounded_all(
    cx: &Review<'_>,
    whole: &Whole<'_>,
    demands: Vec<Demand<'_>>,
    dangling: Vec<String>,
    limit: Limit<'_>,
) -> Result<(), Refusal> {
    let name = shell(whole.extension);
    let mut notes = dangling.clone();
    notes.push(format!(
        "nothing of it was written, and what is installed stays as it is. Once it is granted OLM installs it by itself, after \
         a while; at once with: kubectl annotate --overwrite clusterextension {name} operator-bounds/retry=\"$(date)\""
    ));
    notes.push(format!(
        "without the bundle at hand, grant it with: operator-bounds derive --extension {name} --context \
         \"$(kubectl config current-context)\" | kubectl apply -f -"
    ));
    let judged = excess::Judged { what: whole.what.clone(), demands, manifest: "BUNDLE".to_owned(), notes };
    let verdict = bounded(cx, &judged, &[limit], cx.settings.cluster_extensions.escalation);
    with_dangling(verdict, dangling)
}

fn too_many(whole: &Whole<'_>) -> Refusal {
    Refusal::forbidden(
        Reason::OverLimit,
        format!("{} brings {} objects, over the limit of {MAX_OBJECTS}", whole.what, whole.objects.len()),
    )
}

fn read<'w>(whole: &Whole<'w>) -> Result<Vec<Manifest<'w>>, Refusal> {
    let read = |(number, text): (usize, &&'w str)| {
        let manifest = json::read(text, &format!("objects[{number}]"));
        manifest.map_err(|error| Refusal::unreadable(whole.what.clone(), error))
    };
    whole.objects.iter().enumerate().map(read).collect()
}

/// The objects whose resource is known, from a table and from the definitions among them. A warning names the others.
fn members<'w>(cx: &Review<'_>, whole: &Whole<'w>, manifests: &'w [Manifest<'w>]) -> Vec<Member<'w>> {
    let group = |manifest: &'w Manifest<'w>| manifest.api_version.split_once('/').map_or("", |(group, _)| group);
    let is_definition = |manifest: &'w Manifest<'w>| (group(manifest), manifest.kind.as_str()) == DEFINITION;
    let texts = || manifests.iter().zip(whole.objects.iter().copied());
    let definitions = texts().filter(|(manifest, _)| is_definition(manifest));
    let defined: Vec<Defined<'w>> = definitions.map(|(_, text)| Defined::read(text)).collect();
    let mut members = Vec::new();
    let mut unknown = BTreeSet::new();
    for (manifest, text) in texts() {
        let group = group(manifest);
        let by_definition = || {
            let found =
                defined.iter().find(|defined| defined.group == *group && defined.names.kind == manifest.kind)?;
            Some(Resource { plural: found.names.plural.to_string().into(), is_namespaced: found.is_namespaced() })
        };
        let Some(resource) = kinds::resource(group, &manifest.kind).or_else(by_definition) else {
            unknown.insert(format!("{} {}", manifest.kind, manifest.metadata.display_name()));
            continue;
        };
        let stated = Some(manifest.metadata.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let namespace = stated.unwrap_or(whole.namespace);
        let scope = Scope::of(Some(namespace).filter(|_| resource.is_namespaced));
        members.push(Member { text, manifest, group, resource, scope });
    }
    if !unknown.is_empty() {
        let names = message::names(&unknown.into_iter().collect::<Vec<_>>());
        cx.warn(&format!(
            "{}: this policy does not know which resources these are, so they are judged when OLM writes them: {names}",
            whole.what
        ));
    }
    members
}

/// The accounts that pods among them would run as, without duplicates.
fn accounts(whole: &Whole<'_>, members: &[Member<'_>]) -> Result<Vec<Identity>, Refusal> {
    let mut accounts: Vec<Identity> = Vec::new();
    for member in members {
        let kind = member.manifest.kind.as_str();
        let (true, Some(namespace)) = (workload::is_workload(member.group, kind), member.scope.namespace()) else {
            continue;
        };
        let workload: Workload<'_> =
            json::read(member.text, kind).map_err(|error| Refusal::unreadable(whole.what.clone(), error))?;
        let account = Identity::service_account(namespace, workload.account(kind)).itself();
        if !accounts.contains(&account) {
            accounts.push(account);
        }
    }
    Ok(accounts)
}

/// What the roles and bindings among them request, and descriptions of bindings to missing roles.
fn rbac<'r>(
    cx: &Review<'_>,
    whole: &Whole<'_>,
    members: &'r [Member<'r>],
    everything: &'r [Rule<'r>],
) -> Result<(Vec<Demand<'r>>, Vec<String>), Refusal> {
    let mut demands = Vec::new();
    let mut dangling = Vec::new();
    let own = |key: &RoleKey| {
        let found = members.iter().find(|member| member.is_role(key));
        found.map(|member| &member.manifest.rules[..])
    };
    for member in members.iter().filter(|member| member.group == RBAC) {
        let manifest = member.manifest;
        let (kind, name) = (manifest.kind.as_str(), manifest.metadata.name.as_str());
        if let Some(key) = member.role_key() {
            let mut escalate = Rule::on(&[RBAC], &[key.resource()], &["escalate"]);
            // For a role that may already exist, the right can be granted by name.
            if !whole.is_first {
                escalate.resource_names = vec![key.name.into()];
            }
            let is_aggregated = manifest.aggregation_rule.is_some();
            demands.extend(demand::of_role(&member.scope, &manifest.rules, is_aggregated, &escalate, everything));
            continue;
        }
        // The rules of a role among the objects are already requested; there is nothing to explain.
        let is_own = |key: &RoleKey| key.namespace.as_deref() == member.scope.namespace() && own(key).is_some();
        let bound = manifest.role_ref.key(member.scope.namespace());
        match of_binding(cx, kind, manifest, member.scope.clone(), &own)? {
            Some(demand) if bound.as_ref().is_some_and(is_own) => demands.push(Demand { why: None, ..demand }),
            Some(demand) => demands.push(demand),
            // It may be in another part; if it is not, the binding itself is refused.
            None if !whole.is_complete => {}
            None => dangling.push(message::clean(&format!(
                "{} brings {kind} {name}, which refers to {} {}: that does not exist and does not come with it, so it cannot \
                 be determined what it would give",
                whole.what, manifest.role_ref.kind, manifest.role_ref.name
            ))),
        }
    }
    Ok((demands, dangling))
}

impl Member<'_> {
    fn is_any_role(&self) -> bool {
        self.group == RBAC && matches!(self.manifest.kind.as_str(), "Role" | "ClusterRole")
    }

    /// Whether this is the role that the key names.
    fn is_role(&self, key: &RoleKey) -> bool {
        self.manifest.metadata.name == *key.name
            && self.scope.namespace() == key.namespace.as_deref()
            && self.is_any_role()
    }

    /// The key of this role, if it is one.
    fn role_key(&self) -> Option<RoleKey> {
        let namespace = self.scope.namespace().map(str::to_owned);
        self.is_any_role().then(|| RoleKey { namespace, name: self.manifest.metadata.name.to_string() })
    }

    /// The right to use this verb on the object, by its name if the object must already exist for that.
    fn right(&self, verb: &str) -> Rule<'static> {
        let names = if verb == "create" { Vec::new() } else { vec![self.manifest.metadata.name.clone()] };
        let rule = Rule::on(&[self.group], &[&self.resource.plural], &[verb]);
        Rule { resource_names: names, ..rule }.into_owned()
    }

    /// The scope in which the API server checks the right to change it: an existing Namespace is within itself.
    fn scope_of_changes(&self) -> Scope {
        if self.group.is_empty() && self.manifest.kind == "Namespace" {
            return Scope::of(Some(&self.manifest.metadata.name));
        }
        self.scope.clone()
    }
}

/// The right to write each of them: to create it, or, where it may already exist, to change it.
fn verbs<'r>(
    cx: &Review<'_>,
    whole: &Whole<'_>,
    members: &[Member<'_>],
    authority: &Authority<'_>,
) -> Result<Vec<Demand<'r>>, Refusal> {
    let mut creations: Vec<(&Scope, Rule<'static>, bool)> = Vec::new();
    let mut demands = Vec::new();
    for member in members {
        let is_definition = (member.group, member.manifest.kind.as_str()) == DEFINITION;
        if is_definition && cx.settings.cluster_extensions.crds == Crds::Exempt {
            continue;
        }
        let create = member.right("create");
        let known = creations.iter().position(|(scope, rule, _)| **scope == member.scope && *rule == create);
        let (is_new, number) = (known.is_none(), known.unwrap_or(creations.len()));
        if is_new {
            let is_held = authority.holds(cx, &member.scope, std::slice::from_ref(&create))?;
            creations.push((&member.scope, create.clone(), is_held));
        }
        // Each missing right is reported only once.
        if creations[number].2 {
            continue;
        }
        let changes = member.scope_of_changes();
        let may = |verb: &str| authority.holds(cx, &changes, &[member.right(verb)]);
        if whole.is_first || !(may("update")? || may("patch")?) {
            let why = (!whole.is_first)
                .then(|| "of what is there already, update or patch will do as well as create".to_owned());
            let rules = DemandedRules::Shared([create].into());
            demands.push(Demand { why, ..Demand::plain(member.scope.clone(), rules) });
            creations[number].2 = true;
        }
    }
    Ok(demands)
}
