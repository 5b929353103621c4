//! What OLM v1's controller writes for an extension: judged as if the extension's boundary had sent it.

use crate::admission::Operation;
use crate::authority::Authority;
use crate::boundary::Boundary;
use crate::cluster::{CLUSTER_EXTENSION_REVISIONS, CLUSTER_EXTENSIONS, CLUSTER_OBJECT_SETS, Get, Resource};
use crate::context::Context;
use crate::demand::{self, Demand, DemandedRules, RBAC};
use crate::excess::{Judged, bounded, grants_of};
use crate::extension::ClusterExtension;
use crate::grant::{Grant, Held, Reach, held};
use crate::lookups::parse;
use crate::meta::{Bare, Meta, OwnerReference};
use crate::object::object;
use crate::order::ordered;
use crate::rule::Rule;
use crate::scope::Scope;
use crate::settings::{Bound, Crds};
use crate::subject::Identity;
use crate::text::Text;
use crate::verdict::{Admitted, Refusal};
use crate::workload::{self, Workload};

use super::binding::{self, Binding};
use super::role::{self, RoleObject};
use super::{OLM_V1, is_clean_up, read, read_new, read_old, said, synthetic};

/// The type of the Secrets in which OLM v1 keeps the objects of a ClusterObjectSet.
const OBJECT_DATA: &str = "olm.operatorframework.io/object-data";

object! {
    #[derive(Debug, Default)]
    struct Secret<'a> {
        secret_type: Text<'a> = "type",
    }
}

/// Whether this is OLM v1's controller, and somebody wants it bounded.
pub(super) fn is_judged(cx: &Context<'_>) -> bool {
    cx.settings.cluster_extensions.bound != Bound::Off && cx.is_olm_v1()
}

/// Judges an object that carries an owner; nothing for objects without one.
pub(super) fn judge(cx: &Context<'_>) -> Result<Option<Admitted>, Refusal> {
    let request = cx.request;
    if is_bookkeeping(cx)? {
        return Ok(Some(Admitted("bookkeeping")));
    }
    if is_clean_up(cx)? {
        return Ok(Some(Admitted("terminating")));
    }
    let metadata = metadata(cx)?;
    let Some(owner) = metadata.iter().find(|metadata| !metadata.labels.owner_name_v1.is_empty()) else {
        return Ok(None);
    };
    let kind = (request.kind.group.as_str(), request.kind.kind.as_str());
    if kind == ("apiextensions.k8s.io", "CustomResourceDefinition")
        && cx.settings.cluster_extensions.crds == Crds::Exempt
    {
        return Ok(Some(Admitted("crd")));
    }
    let name = owner.said_name();
    let Some(extension_name) = extension_of(cx, owner, &name)? else {
        return uninstalled(cx, &name, &owner.labels.owner_name_v1).map(Some);
    };
    let get = Get { resource: CLUSTER_EXTENSIONS, namespace: None, name: &extension_name };
    let Some(answer) = cx.lookups.get(get.resource, get.namespace, get.name)? else {
        return uninstalled(cx, &name, &extension_name).map(Some);
    };
    let extension: ClusterExtension<'_> = parse(&answer, &get)?;
    if request.operation == Operation::Delete && extension.metadata.deletion_timestamp.is_some() {
        return Ok(Some(Admitted("uninstall")));
    }
    let boundary = extension
        .boundary(cx.settings)
        .map_err(|error| Refusal::Unreadable { what: format!("ClusterExtension {extension_name}"), error })?;
    let Some(boundary) = boundary else { return Ok(None) };
    cx.fact("boundary", boundary.identity.user());
    bound(cx, &name, &extension_name, &boundary)?;
    if has_row_of_its_own(cx) {
        // An extension that brings another one, or an OperatorGroup, chooses a boundary like anybody else.
        cx.act_as(boundary.identity);
        return Ok(None);
    }
    Ok(Some(Admitted("bounded")))
}

/// Whether the object is judged for what it is, too, whoever writes it.
fn has_row_of_its_own(cx: &Context<'_>) -> bool {
    let kind = &cx.request.kind;
    let writes = matches!(cx.request.operation, Operation::Create | Operation::Update);
    writes && matches!(kind.group.as_str(), OLM_V1 | "operators.coreos.com")
}

/// The metadata of the object, new before old.
fn metadata<'p>(cx: &Context<'p>) -> Result<Vec<Meta<'p>>, Refusal> {
    let objects = [(cx.request.object, "object"), (cx.request.old_object, "oldObject")];
    let there = objects.into_iter().filter(|(object, _)| object.is_some());
    there.map(|(object, root)| read::<Bare<'p>>(cx, object, root).map(|bare| bare.metadata)).collect()
}

/// ClusterObjectSets, and the Secrets that hold their objects in the controller's own namespace.
fn is_bookkeeping(cx: &Context<'_>) -> Result<bool, Refusal> {
    let request = cx.request;
    match (request.kind.group.as_str(), request.kind.kind.as_str()) {
        (OLM_V1, "ClusterObjectSet" | "ClusterExtensionRevision") => Ok(true),
        ("", "Secret") => {
            let own = cx.requester().is_some_and(|requester| {
                requester.as_service_account().is_some_and(|(namespace, _)| request.namespace == *namespace)
            });
            let object = request.object.or(request.old_object);
            Ok(own && read::<Secret<'_>>(cx, object, "object")?.secret_type == OBJECT_DATA)
        }
        _ => Ok(false),
    }
}

/// The extension that an object belongs to; nothing if what leads to it is gone.
fn extension_of(cx: &Context<'_>, owner: &Meta<'_>, name: &str) -> Result<Option<String>, Refusal> {
    let labels = &owner.labels;
    let between: Resource = match labels.owner_kind_v1.as_str() {
        "ClusterExtension" => return Ok(Some(labels.owner_name_v1.to_string())),
        "ClusterObjectSet" => CLUSTER_OBJECT_SETS,
        "ClusterExtensionRevision" => CLUSTER_EXTENSION_REVISIONS,
        other => {
            return Err(Refusal::forbidden(
                "unknown-owner",
                format!(
                    "{} says that it belongs to {other:?} {}, which is no ClusterExtension and leads to none, so nobody \
                     can tell what bounds it",
                    said(cx, name),
                    labels.owner_name_v1
                ),
            ));
        }
    };
    let get = Get { resource: between, namespace: None, name: &labels.owner_name_v1 };
    let Some(answer) = cx.lookups.get(get.resource, get.namespace, get.name)? else { return Ok(None) };
    let set: Bare<'_> = parse(&answer, &get)?;
    let by_label = Some(&set.metadata.labels)
        .filter(|labels| labels.owner_kind_v1 == "ClusterExtension")
        .map(|labels| labels.owner_name_v1.to_string());
    let by_owner = || {
        let owners = &set.metadata.owner_references;
        let is_extension = |owner: &&OwnerReference<'_>| owner.kind == "ClusterExtension" && is_olm_v1s(owner);
        owners.iter().find(is_extension).map(|owner| owner.name.to_string())
    };
    Ok(by_label.filter(|name| !name.is_empty()).or_else(by_owner))
}

/// An owner that is gone: what is left of it may go too, and nothing new comes.
fn uninstalled(cx: &Context<'_>, name: &str, extension: &str) -> Result<Admitted, Refusal> {
    if cx.request.operation == Operation::Delete {
        return Ok(Admitted("uninstall"));
    }
    Err(Refusal::forbidden(
        "unknown-owner",
        format!(
            "{} says that it belongs to ClusterExtension {extension}, which does not exist, so nobody can tell what \
             bounds it",
            said(cx, name)
        ),
    ))
}

/// The verb on the object, no escalation in RBAC, no borrowed account in a workload.
fn bound(cx: &Context<'_>, name: &str, extension: &str, boundary: &Boundary) -> Result<(), Refusal> {
    let scope = scope(cx);
    let runs_as = new_account(cx, extension)?;
    let mut identities = vec![boundary.identity.clone()];
    identities.extend(runs_as.iter().map(|account| Identity::service_account(&cx.request.namespace, account).itself()));
    let namespaces = ordered(scope.namespace().map(str::to_owned));
    let reach = if runs_as.is_some() { Reach::Everywhere } else { Reach::Namespaces(&namespaces) };
    let held = held(&cx.lookups, &identities, reach)?;
    let role: Option<RoleObject<'_>> = is_rbac(cx, &["Role", "ClusterRole"]).then(|| read_new(cx)).transpose()?;
    let everything = Rule::everything();
    let mut demands = Vec::new();
    demands.extend(rbac(cx, role.as_ref(), &scope, &everything)?);
    if let Some(account) = &runs_as {
        demands.extend(borrowed(cx, extension, account, &held)?);
    }
    let grants: Vec<Grant> = grants_of(cx, &held, 1)?;
    let authority = Authority { identity: &boundary.identity, grant: &grants[0] };
    demands.extend(verb(cx, &scope, &authority)?);
    let judged = Judged {
        what: format!("{} of ClusterExtension {extension}", said(cx, name)),
        demands,
        manifest: "BUNDLE".to_owned(),
        notes: Vec::new(),
    };
    let boundaries = std::slice::from_ref(boundary);
    bounded(cx, &judged, boundaries, &grants, cx.settings.cluster_extensions.escalation)
}

/// Where the API server looks for the right: a namespace is in itself, but not before it is there.
fn scope(cx: &Context<'_>) -> Scope {
    let request = cx.request;
    let creates_namespace =
        request.kind.group.is_empty() && request.kind.kind == "Namespace" && request.operation == Operation::Create;
    Scope::of(request.in_namespace().filter(|_| !creates_namespace))
}

/// The right to do this to this object. Admission cannot tell an update from a patch: either will do.
fn verb<'r>(cx: &Context<'_>, scope: &Scope, authority: &Authority<'_>) -> Result<Option<Demand<'r>>, Refusal> {
    let request = cx.request;
    let verbs: &[&str] = match request.operation {
        Operation::Create => &["create"],
        Operation::Update => &["update", "patch"],
        Operation::Delete => &["delete"],
        Operation::Connect => return Ok(None),
    };
    let resource = if request.sub_resource.is_empty() {
        request.resource.resource.to_string()
    } else {
        format!("{}/{}", request.resource.resource, request.sub_resource)
    };
    let rule = |verb: &str| {
        // There is no name to grant by before an object is created.
        let named = request.operation != Operation::Create && !request.name.is_empty();
        let names = if named { vec![request.name.to_string().into()] } else { Vec::new() };
        Rule { resource_names: names, ..Rule::on(&[&request.resource.group], &[&resource], &[verb]) }.into_owned()
    };
    for verb in verbs {
        if authority.holds(cx, scope, &[rule(verb)])? {
            return Ok(None);
        }
    }
    let why = (verbs.len() > 1).then(|| "patch will do as well as update".to_owned());
    Ok(Some(Demand {
        scope: scope.clone(),
        rules: DemandedRules::Shared([rule(verbs[0])].into()),
        honored: Vec::new(),
        why,
    }))
}

fn is_rbac(cx: &Context<'_>, kinds: &[&str]) -> bool {
    let kind = &cx.request.kind;
    let writes = matches!(cx.request.operation, Operation::Create | Operation::Update);
    writes && cx.request.sub_resource.is_empty() && kind.group == RBAC && kinds.contains(&kind.kind.as_str())
}

/// No escalation: what a role would hold, or what a binding would give.
fn rbac<'r>(
    cx: &Context<'_>,
    role: Option<&'r RoleObject<'r>>,
    scope: &Scope,
    everything: &'r [Rule<'r>],
) -> Result<Vec<Demand<'r>>, Refusal> {
    if let Some(role) = role {
        let old: Option<RoleObject<'_>> = read_old(cx)?;
        if old.is_some_and(|old| old.gives_the_same(role)) {
            return Ok(Vec::new());
        }
        return Ok(role::demands(cx, role, scope, everything));
    }
    if is_rbac(cx, &["RoleBinding", "ClusterRoleBinding"]) {
        let binding: Binding<'_> = read_new(cx)?;
        let old: Option<Binding<'_>> = read_old(cx)?;
        if !old.is_some_and(|old| old.gives_the_same(&binding)) {
            synthetic::judge(cx, &binding, false)?;
            return Ok(vec![binding::demand(cx, &binding, scope)?]);
        }
    }
    Ok(Vec::new())
}

/// The account that a workload would run as from now on.
fn new_account(cx: &Context<'_>, extension: &str) -> Result<Option<String>, Refusal> {
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
    // What is taken over from somebody else is new to who takes it.
    if let Some(old) = read_old::<Workload<'_>>(cx)?
        && old.account(kind) == new
        && read_old::<Bare<'_>>(cx)?.is_some_and(|old| is_labelled(&old.metadata, extension))
    {
        return Ok(None);
    }
    Ok(Some(new))
}

/// What the account of a workload already holds. RBAC of the same extension was judged when it was written.
fn borrowed<'r>(cx: &Context<'_>, extension: &str, account: &str, held: &[Held]) -> Result<Vec<Demand<'r>>, Refusal> {
    let mut demands = Vec::new();
    for held in held.iter().filter(|held| held.identity == 1) {
        let binding = held.binding()?;
        if belongs_to(&binding, extension) {
            continue;
        }
        let Some(rules) = cx.lookups.role(&held.role)? else { continue };
        let account = format!("{}/{account}", cx.request.namespace);
        demands.push(demand::of_held(held, rules, &binding.name, &account, "its pods"));
    }
    Ok(demands)
}

/// By label and by owner: a label alone is easily put on a binding that was there before.
fn belongs_to(binding: &Meta<'_>, extension: &str) -> bool {
    is_labelled(binding, extension)
        && binding
            .owner_references
            .iter()
            .any(|owner| is_olm_v1s(owner) && leads_to(&owner.kind, &owner.name, extension))
}

fn is_labelled(metadata: &Meta<'_>, extension: &str) -> bool {
    leads_to(&metadata.labels.owner_kind_v1, &metadata.labels.owner_name_v1, extension)
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

/// The sets of an extension are called after it, with a number: `foo-3`.
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
