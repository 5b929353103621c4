//! What OLM v1's controller writes or deletes: judged as if the extension's boundary had sent it. What belongs to no
//! extension is OLM's bookkeeping, or is refused.

use serde_json::value::RawValue;

use super::review::Review;
use crate::admission::Operation;
use crate::cluster::{CLUSTER_EXTENSION_REVISIONS, CLUSTER_EXTENSIONS, CLUSTER_OBJECT_SETS, Get, Resource};
use crate::decide::authority::Authority;
use crate::decide::boundary::{self, Boundary};
use crate::decide::demand::{self, Demand, DemandedRules};
use crate::decide::excess::{self, Limit, bounded};
use crate::decide::holders::{Holder, Reach, find};
use crate::decide::lookups::parse;
use crate::decide::verdict::{Admitted, Reason, Refusal};
use crate::olm::extension::ClusterExtension;
use crate::olm::meta::{BindingMeta, Labels, Meta, MetaOnly, OwnerReference};
use crate::olm::workload::{self, Workload};
use crate::rbac::RBAC;
use crate::rbac::rule::Rule;
use crate::rbac::scope::Scope;
use crate::rbac::subject::Identity;
use crate::read::order::ordered;
use crate::settings::{Bound, Crds, Phase};

use super::binding::{self, Binding};
use super::bookkeeping;
use super::role::{self, RoleObject};
use super::{OLM_V1, describe, is_clean_up, read, read_new, read_old, synthetic};

/// Whether this is OLM v1's controller, and the settings say that it is bounded.
pub(super) fn is_judged(cx: &Review<'_>) -> bool {
    cx.settings.cluster_extensions.bound != Bound::Off
        && cx.is_by_olm_v1()
        && cx.request.operation != Operation::Connect
}

/// What remains to be done after an object of OLM v1 was judged as such.
#[derive(Debug)]
pub(super) enum Judged {
    /// Nothing: it is admitted.
    Admitted(Admitted),
    /// It also has to be judged by its own kind, as if each of its boundaries had sent it: an extension that brings
    /// another extension, or an OperatorGroup, chooses a boundary like anyone else.
    AlsoAs(Vec<Identity>),
}

pub(super) fn judge(cx: &Review<'_>) -> Result<Judged, Refusal> {
    let written = Written::read(cx)?;
    // Whoever acts as an extension keeps no records, and is bounded by the API server: what belongs to no extension is their own.
    if let Some(requester) = cx.requester.as_ref().filter(|requester| !cx.settings.is_olm_v1(requester.user()))
        && !written.is_labelled()
    {
        return Ok(Judged::AlsoAs(vec![requester.clone()]));
    }
    if let Some(admitted) = bookkeeping::judge(cx, &written)? {
        return Ok(Judged::Admitted(admitted));
    }
    if is_clean_up(cx)? {
        return Ok(Judged::Admitted(Admitted("terminating")));
    }
    let owners = written.owners();
    let name = written.both().map(Meta::display_name).next().unwrap_or_default();
    if owners.is_empty() {
        return Err(bookkeeping::belongs_to_nobody(cx, &name));
    }
    // Removing rights never widens anything: an uninstall must not hang, and an upgrade must be able to remove the old
    // version's rights.
    if cx.request.operation == Operation::Delete && owners.iter().all(|owner| is_known(owner)) {
        return Ok(Judged::Admitted(Admitted("taken-away")));
    }
    let is_exempt = is_crd(cx) && cx.settings.cluster_extensions.crds == Crds::Exempt;
    if is_exempt && owners.len() == 1 {
        return Ok(Judged::Admitted(Admitted("crd")));
    }
    let extensions = extensions(cx, &name, &owners)?;
    // With more than one extension, the definition is taken from one by another, so it is not exempt.
    if is_exempt && extensions.len() == 1 {
        return Ok(Judged::Admitted(Admitted("crd")));
    }
    let mut boundaries = Vec::new();
    for extension in extensions {
        boundaries.extend(bound_by(cx, &name, &extension)?);
    }
    if has_row_of_its_own(cx) { Ok(Judged::AlsoAs(boundaries)) } else { Ok(Judged::Admitted(Admitted("bounded"))) }
}

/// Judges the object by the boundary of one extension, and returns that boundary.
fn bound_by(cx: &Review<'_>, name: &str, extension_name: &str) -> Result<Option<Identity>, Refusal> {
    // The writer is OLM's own account, not one that an extension names: `bound` decides, unless the settings specify a
    // phase.
    let phase = || Ok(cx.settings.phase().unwrap_or(Phase::Deprecated));
    let Some(boundary) = boundary(cx, name, extension_name, &phase)? else { return Ok(None) };
    bound(cx, name, extension_name, &boundary)?;
    Ok(Some(boundary.identity))
}

/// What bounds an existing extension.
pub(super) fn boundary(
    cx: &Review<'_>,
    name: &str,
    extension_name: &str,
    phase: &dyn Fn() -> Result<Phase, Refusal>,
) -> Result<Option<Boundary>, Refusal> {
    let get = Get { resource: CLUSTER_EXTENSIONS, namespace: None, name: extension_name };
    let Some(answer) = cx.lookups.get(get.resource, get.namespace, get.name)? else {
        return Err(gone(cx, name, extension_name));
    };
    let extension: ClusterExtension<'_> = parse(&answer, &get)?;
    let unreadable = |error| Refusal::unreadable(format!("ClusterExtension {extension_name}"), error);
    let is_decided = extension.account().map_err(unreadable)?.is_none()
        || cx.settings.cluster_extensions.bound == Bound::ServiceAccount;
    // The phase matters only if the extension names an account that does not count anyway by the setting `bound`.
    let phase = if is_decided { cx.settings.phase().unwrap_or(Phase::Deprecated) } else { phase()? };
    let boundary = boundary::of_extension(&extension, cx.settings, phase).map_err(unreadable)?;
    if let Some(boundary) = &boundary {
        cx.fact("boundary", boundary.identity.user());
    }
    Ok(boundary)
}

pub(super) fn is_crd(cx: &Review<'_>) -> bool {
    let kind = &cx.request.kind;
    kind.group == "apiextensions.k8s.io" && kind.kind == "CustomResourceDefinition"
}

/// Whether the object is also judged by its own kind, whoever writes it.
fn has_row_of_its_own(cx: &Review<'_>) -> bool {
    matches!(cx.request.kind.group.as_str(), OLM_V1 | "operators.coreos.com")
}

/// The metadata of the object, as it would be and as it was.
pub(super) struct Written<'p> {
    pub(super) new: Option<Meta<'p>>,
    pub(super) old: Option<Meta<'p>>,
}

impl<'p> Written<'p> {
    fn read(cx: &Review<'p>) -> Result<Self, Refusal> {
        let metadata = |object: Option<&'p RawValue>, root: &str| {
            object.map(|_| read::<MetaOnly<'p>>(cx, object, root).map(|bare| bare.metadata)).transpose()
        };
        Ok(Written { new: metadata(cx.request.object, "object")?, old: metadata(cx.request.old_object, "oldObject")? })
    }

    /// Both of them, new before old.
    pub(super) fn both(&self) -> impl Iterator<Item = &Meta<'p>> {
        self.new.iter().chain(&self.old)
    }

    /// Whether it says that it belongs to something.
    pub(super) fn is_labelled(&self) -> bool {
        self.both().any(|metadata| !metadata.labels.owner_name_v1.is_empty())
    }

    /// The owners that it names, without duplicates: an object that moves from one extension to another is bounded by
    /// both, and removing the label is no way out.
    fn owners(&self) -> Vec<&Labels<'p>> {
        let mut owners: Vec<&Labels<'p>> = Vec::new();
        for labels in self.both().map(|metadata| &metadata.labels).filter(|labels| !labels.owner_name_v1.is_empty()) {
            let same = |known: &&Labels<'_>| {
                known.owner_kind_v1 == labels.owner_kind_v1 && known.owner_name_v1 == labels.owner_name_v1
            };
            if !owners.iter().any(same) {
                owners.push(labels);
            }
        }
        owners
    }
}

/// Whether an owner is of a kind that leads to an extension.
fn is_known(owner: &Labels<'_>) -> bool {
    matches!(owner.owner_kind_v1.as_str(), "ClusterExtension" | "ClusterObjectSet" | "ClusterExtensionRevision")
}

/// The extensions that the owners lead to, without duplicates. The current owner must still exist; a previous one may
/// be gone.
fn extensions(cx: &Review<'_>, name: &str, owners: &[&Labels<'_>]) -> Result<Vec<String>, Refusal> {
    let mut found: Vec<String> = Vec::new();
    for (number, owner) in owners.iter().enumerate() {
        // Otherwise anyone who may change the object could keep OLM from repairing its labels.
        if number > 0 && !is_known(owner) {
            continue;
        }
        let extension = extension_of(cx, owner, name)?;
        let is_there = |extension: &String| {
            let there = cx.lookups.get(CLUSTER_EXTENSIONS, None, extension);
            there.map(|there| there.is_some())
        };
        match extension {
            Some(extension) if found.contains(&extension) => {}
            Some(extension) if number == 0 || is_there(&extension)? => found.push(extension),
            None if number == 0 => return Err(gone(cx, name, &owner.owner_name_v1)),
            Some(_) | None => {}
        }
    }
    Ok(found)
}

/// The extension that an object belongs to; `None` if what leads to it is gone.
fn extension_of(cx: &Review<'_>, labels: &Labels<'_>, name: &str) -> Result<Option<String>, Refusal> {
    let between: Resource = match labels.owner_kind_v1.as_str() {
        "ClusterExtension" => return Ok(Some(labels.owner_name_v1.to_string())),
        "ClusterObjectSet" => CLUSTER_OBJECT_SETS,
        "ClusterExtensionRevision" => CLUSTER_EXTENSION_REVISIONS,
        other => {
            return Err(Refusal::forbidden(
                Reason::UnknownOwner,
                format!(
                    "{} says that it belongs to {other:?} {}, which is not a ClusterExtension and does not lead to \
                     one, so what bounds it cannot be determined",
                    describe(cx, name),
                    labels.owner_name_v1
                ),
            ));
        }
    };
    let get = Get { resource: between, namespace: None, name: &labels.owner_name_v1 };
    let Some(answer) = cx.lookups.get(get.resource, get.namespace, get.name)? else { return Ok(None) };
    let set: MetaOnly<'_> = parse(&answer, &get)?;
    let by_label = Some(&set.metadata.labels)
        .filter(|labels| labels.owner_kind_v1 == "ClusterExtension")
        .map(|labels| labels.owner_name_v1.to_string());
    Ok(by_label.filter(|name| !name.is_empty()).or_else(|| owner(&set.metadata).map(str::to_owned)))
}

/// The extension that owns an object, by its owner references.
pub(super) fn owner<'m>(metadata: &'m Meta<'_>) -> Option<&'m str> {
    let is_extension = |owner: &&OwnerReference<'_>| owner.kind == "ClusterExtension" && is_olm_v1s(owner);
    metadata.owner_references.iter().find(is_extension).map(|owner| owner.name.as_str())
}

/// The owner is gone: nothing new may be written for it.
fn gone(cx: &Review<'_>, name: &str, extension: &str) -> Refusal {
    Refusal::forbidden(
        Reason::UnknownOwner,
        format!(
            "{} says that it belongs to ClusterExtension {extension}, which does not exist, so what bounds it cannot \
             be determined",
            describe(cx, name)
        ),
    )
}

/// Requires the right to use the verb on the object, no escalation in RBAC, and no borrowed account in a workload.
fn bound(cx: &Review<'_>, name: &str, extension: &str, boundary: &Boundary) -> Result<(), Refusal> {
    let scope = scope(cx);
    let runs_as = new_account(cx, extension)?;
    let mut holders = vec![Holder::new(boundary.identity.clone())];
    let account = runs_as.map(|account| Identity::service_account(&cx.request.namespace, &account).itself());
    holders.extend(account.map(Holder::new));
    let namespaces = ordered(scope.namespace().map(str::to_owned));
    let reach = if holders.len() > 1 { Reach::Everywhere } else { Reach::Namespaces(&namespaces) };
    find(&cx.lookups, &mut holders, reach)?;
    let mut holders = holders.into_iter();
    let Some(holder) = holders.next() else { return Ok(()) };
    let role: Option<RoleObject<'_>> = is_rbac(cx, &["Role", "ClusterRole"]).then(|| read_new(cx)).transpose()?;
    let everything = Rule::everything();
    let mut demands = rbac(cx, extension, role.as_ref(), &scope, &everything)?;
    for account in holders {
        demands.extend(borrowed(cx, extension, &account)?);
    }
    let judged = excess::namespaces(&demands);
    let counts = |namespace: &str| judged.contains(namespace) || scope.namespace() == Some(namespace);
    let limit = Limit::new(cx, boundary, holder, &counts)?;
    let authority = Authority { identity: &boundary.identity, grant: &limit.grant };
    demands.extend(verb(cx, &scope, &authority)?);
    let judged = excess::Judged {
        what: format!("{} of ClusterExtension {extension}", describe(cx, name)),
        demands,
        manifest: "BUNDLE".to_owned(),
        notes: Vec::new(),
    };
    bounded(cx, &judged, &[limit], cx.settings.cluster_extensions.escalation)
}

/// The scope in which the API server checks the right: a Namespace is within itself, but only once it exists.
fn scope(cx: &Review<'_>) -> Scope {
    let request = cx.request;
    let creates_namespace =
        request.kind.group.is_empty() && request.kind.kind == "Namespace" && request.operation == Operation::Create;
    Scope::of(request.in_namespace().filter(|_| !creates_namespace))
}

/// The right to do this to this object. Admission cannot distinguish an update from a patch: either right is enough.
fn verb<'r>(cx: &Review<'_>, scope: &Scope, authority: &Authority<'_>) -> Result<Option<Demand<'r>>, Refusal> {
    let request = cx.request;
    let verbs: &[&str] = match request.operation {
        Operation::Create => &["create"],
        Operation::Update => &["update", "patch"],
        Operation::Delete | Operation::Connect => return Ok(None),
    };
    let resource = if request.sub_resource.is_empty() {
        request.resource.resource.to_string()
    } else {
        format!("{}/{}", request.resource.resource, request.sub_resource)
    };
    let rule = |verb: &str| {
        // Before an object is created, there is no name to grant the right for.
        let named = request.operation != Operation::Create && !request.name.is_empty();
        let names = if named { vec![request.name.to_string().into()] } else { Vec::new() };
        Rule { resource_names: names, ..Rule::on(&[&request.resource.group], &[&resource], &[verb]) }.into_owned()
    };
    for verb in verbs {
        if authority.holds(cx, scope, &[rule(verb)])? {
            return Ok(None);
        }
    }
    let why = (verbs.len() > 1).then(|| "either patch or update is enough".to_owned());
    let rules = DemandedRules::Shared([rule(verbs[0])].into());
    Ok(Some(Demand { why, ..Demand::plain(scope.clone(), rules) }))
}

fn is_rbac(cx: &Review<'_>, kinds: &[&str]) -> bool {
    let kind = &cx.request.kind;
    let writes = matches!(cx.request.operation, Operation::Create | Operation::Update);
    writes && cx.request.sub_resource.is_empty() && kind.group == RBAC && kinds.contains(&kind.kind.as_str())
}

/// No escalation: the rules that a role would have, or that a binding would grant. Rules of an object that is taken
/// over from another extension are new to the one that takes it over.
fn rbac<'r>(
    cx: &Review<'_>,
    extension: &str,
    role: Option<&'r RoleObject<'r>>,
    scope: &Scope,
    everything: &'r [Rule<'r>],
) -> Result<Vec<Demand<'r>>, Refusal> {
    if let Some(role) = role {
        let old: Option<RoleObject<'_>> = read_old(cx)?;
        if old.is_some_and(|old| old.gives_the_same(role) && is_labelled(&old.metadata.labels, extension)) {
            return Ok(Vec::new());
        }
        return Ok(role::demands(cx, role, scope, everything));
    }
    if is_rbac(cx, &["RoleBinding", "ClusterRoleBinding"]) {
        let binding: Binding<'_> = read_new(cx)?;
        let old: Option<Binding<'_>> = read_old(cx)?;
        if !old.is_some_and(|old| old.gives_the_same(&binding) && is_labelled(&old.metadata.labels, extension)) {
            synthetic::judge(cx, &binding, false)?;
            binding::cluster_writes(cx, &binding)?;
            return Ok(vec![binding::demand(cx, &binding, scope)?]);
        }
    }
    Ok(Vec::new())
}

/// The account that a workload would run as from now on.
fn new_account(cx: &Review<'_>, extension: &str) -> Result<Option<String>, Refusal> {
    let request = cx.request;
    let kind = request.kind.kind.as_str();
    let (Operation::Create | Operation::Update, Some(object)) = (request.operation, request.object) else {
        return Ok(None);
    };
    if !workload::is_workload(&request.kind.group, kind) || !request.sub_resource.is_empty() {
        return Ok(None);
    }
    let new: Workload<'_> = read(cx, Some(object), "object")?;
    let new = new.account(kind).to_owned();
    // The account of a workload that is taken over is new to the extension that takes it over.
    if let Some(old) = read_old::<Workload<'_>>(cx)?
        && old.account(kind) == new
        && read_old::<MetaOnly<'_>>(cx)?.is_some_and(|old| is_labelled(&old.metadata.labels, extension))
    {
        return Ok(None);
    }
    Ok(Some(new))
}

/// What the account of a workload already holds. RBAC of the same extension was judged when it was written.
pub(super) fn borrowed<'r>(cx: &Review<'_>, extension: &str, account: &Holder) -> Result<Vec<Demand<'r>>, Refusal> {
    let Some((namespace, name)) = account.identity.as_service_account() else { return Ok(Vec::new()) };
    let account_name = format!("{namespace}/{name}");
    let mut demands = Vec::new();
    for held in account.held.iter().filter(|held| !belongs_to(&held.binding, extension)) {
        let Some(rules) = cx.lookups.role(&held.role)? else { continue };
        demands.push(demand::of_held(held, rules, &account_name, "its pods"));
    }
    Ok(demands)
}

/// By label and by owner: anyone can put a label on an existing binding.
fn belongs_to(binding: &BindingMeta<'_>, extension: &str) -> bool {
    is_labelled(&binding.labels, extension)
        && binding
            .owner_references
            .iter()
            .any(|owner| is_olm_v1s(owner) && leads_to(&owner.kind, &owner.name, extension))
}

fn is_labelled(labels: &Labels<'_>, extension: &str) -> bool {
    leads_to(&labels.owner_kind_v1, &labels.owner_name_v1, extension)
}

fn is_olm_v1s(owner: &OwnerReference<'_>) -> bool {
    owner.api_version.split_once('/').is_some_and(|(group, _)| group == OLM_V1)
}

/// Whether an owner is the extension, or one of its sets.
fn leads_to(kind: &str, name: &str, extension: &str) -> bool {
    match kind {
        "ClusterExtension" => name == extension,
        "ClusterObjectSet" | "ClusterExtensionRevision" => is_revision(name, extension),
        _ => false,
    }
}

/// The sets of an extension have its name, followed by a number: `foo-3`.
fn is_revision(name: &str, extension: &str) -> bool {
    let number = name.strip_prefix(extension).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::is_revision;

    #[test]
    fn a_set_belongs_to_the_extension_it_is_called_after_and_to_no_other() {
        assert!(is_revision("foo-3", "foo"));
        assert!(is_revision("foo-1-3", "foo-1"));
        for (name, extension) in [("foobar-1", "foo"), ("foo-1-3", "foo"), ("foo-", "foo"), ("foo", "foo"), ("3", "")] {
            assert!(!is_revision(name, extension), "{name} {extension}");
        }
    }
}
