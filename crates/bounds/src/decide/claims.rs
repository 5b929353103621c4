//! CustomResourceDefinitions that an operator claims to own. OLM v0 lets everyone who holds `admin`, `edit` or `view`
//! use what an operator owns, through ClusterRoles that are aggregated into those. So an operator that claims an
//! existing definition widens every account that is bound to one of them, including its own boundary.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::cluster::{CLUSTER_SERVICE_VERSIONS, CUSTOM_RESOURCE_DEFINITIONS, Get, List, LookupError};
use crate::decide::borrowed::Operator;
use crate::decide::context::Context;
use crate::decide::demand::{Demand, DemandedRules};
use crate::decide::holders::Holder;
use crate::decide::lookups::{Lookups, each_item, parse};
use crate::decide::verdict::{Reason, Refusal};
use crate::olm::csv::Definitions;
use crate::olm::meta::Meta;
use crate::rbac::rule::Rule;
use crate::rbac::scope::Scope;
use crate::read::object::object;
use crate::read::order::ordered;
use crate::read::text::Text;

/// The maximum number of definitions looked up: twice what the largest real operator owns.
const MAX_CLAIMS: usize = 200;
/// The API groups of the API server itself, of OLM and of Kubewarden. A CustomResourceDefinition can exist in one of
/// the first, but all it exposes are the roles that OLM creates for it.
const PLATFORM: &[&str] = &[
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "olm.operatorframework.io",
    "operators.coreos.com",
    "policies.kubewarden.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];
/// The prefix of an annotation on a definition that OLM installed; its value is `<namespace>/<operator>`.
const ALONGSIDE: &str = "operatorframework.io/installed-alongside-";

object! {
    /// The part of a ClusterServiceVersion that says which definitions it owns.
    #[derive(Debug, Default)]
    struct Claim<'a> {
        metadata: Meta<'a> = "metadata",
        spec: ClaimSpec<'a> = "spec",
    }
}

object! {
    #[derive(Debug, Default)]
    struct ClaimSpec<'a> {
        definitions: Definitions<'a> = "customresourcedefinitions",
    }
}

object! {
    #[derive(Debug, Default)]
    struct Definition<'a> {
        metadata: DefinitionMeta<'a> = "metadata",
    }
}

object! {
    #[derive(Debug, Default)]
    struct DefinitionMeta<'a> {
        annotations: BTreeMap<Text<'a>, Text<'a>> = "annotations",
    }
}

/// What the operator's claims would add: for definitions that did not come with it, to its boundary and its own
/// accounts where they are bound to aggregated roles; for the cluster's own APIs, to anyone who is. The boundary must
/// already hold it.
pub(crate) fn demands<'r>(
    cx: &Context<'_>,
    operator: &Operator<'_>,
    holders: &[&Holder],
) -> Result<Vec<Demand<'r>>, Refusal> {
    let definitions = operator.csv.definitions();
    if definitions.is_empty() {
        return Ok(Vec::new());
    }
    let grows = growing(cx, holders)?;
    if !grows.is_empty() && definitions.len() > MAX_CLAIMS {
        return Err(Refusal::forbidden(
            Reason::OverLimit,
            format!("the operator owns {} definitions, over the limit of {MAX_CLAIMS}", definitions.len()),
        ));
    }
    let mut demands = Vec::new();
    for name in definitions {
        let Some((resource, group)) = name.split_once('.') else { continue };
        let (scopes, why) = if PLATFORM.contains(&group) {
            (
                [Scope::Cluster].into(),
                "is the cluster's own: OLM would let everyone who holds admin, edit or view use it",
            )
        } else if !grows.is_empty() && is_foreign(cx, name, operator.namespace)? {
            let why = "did not come with it: OLM would let everyone who holds admin, edit or view use it, and its boundary or \
                       its own account is bound to such a role. Bind them to roles of their own instead";
            (Rc::clone(&grows), why)
        } else {
            continue;
        };
        let rules = [Rule::on(&[group], &[resource], &["*"]).into_owned()];
        let why = Some(format!("it claims CustomResourceDefinition {name}, which {why}"));
        demands.push(Demand { scopes, why, ..Demand::plain(Scope::Cluster, DemandedRules::Shared(rules.into())) });
    }
    Ok(demands)
}

/// The scopes in which any of the holders is bound to an aggregated role.
fn growing(cx: &Context<'_>, holders: &[&Holder]) -> Result<Rc<[Scope]>, Refusal> {
    let mut scopes: Vec<Scope> = Vec::new();
    for held in holders.iter().flat_map(|holder| &holder.held) {
        if !scopes.contains(&held.scope) && cx.lookups.is_aggregated(&held.role)? {
            scopes.push(held.scope.clone());
        }
    }
    Ok(scopes.into())
}

/// Whether a definition existed before the operators of this namespace, and did not come with another operator that
/// still claims it. In that last case OLM already lets everyone use it, and nobody gains from another claim.
fn is_foreign(cx: &Context<'_>, name: &str, namespace: &str) -> Result<bool, Refusal> {
    let Some(came_with) = came_with(cx, name)? else { return Ok(false) };
    Ok(!came_with.contains(namespace) && !is_any_of(&claimants(&cx.lookups, name)?, &came_with))
}

/// Whether a definition came with an operator that still exists and claims it: the access that OLM then grants is what
/// that operator is meant to provide.
pub(crate) fn is_backed(cx: &Context<'_>, name: &str) -> Result<bool, Refusal> {
    let Some(came_with) = came_with(cx, name)? else { return Ok(false) };
    Ok(is_any_of(&claimants(&cx.lookups, name)?, &came_with))
}

fn is_any_of(claimants: &BTreeSet<String>, came_with: &BTreeSet<String>) -> bool {
    claimants.iter().any(|namespace| came_with.contains(namespace))
}

/// The namespaces of the operators that a definition says it came with; `None` if there is no such definition.
fn came_with(cx: &Context<'_>, name: &str) -> Result<Option<BTreeSet<String>>, Refusal> {
    let get = Get { resource: CUSTOM_RESOURCE_DEFINITIONS, namespace: None, name };
    let Some(answer) = cx.lookups.get(get.resource, get.namespace, get.name)? else { return Ok(None) };
    let definition: Definition<'_> = parse(&answer, &get)?;
    let annotations = definition.metadata.annotations.iter();
    let operators = annotations.filter(|(key, _)| key.starts_with(ALONGSIDE));
    let named = operators.filter_map(|(_, operator)| operator.split_once('/'));
    Ok(Some(ordered(named.map(|(namespace, _)| namespace.to_owned()))))
}

/// The namespaces of the operators that claim a definition, not counting copies.
pub(crate) fn claimants(lookups: &Lookups<'_>, definition: &str) -> Result<BTreeSet<String>, LookupError> {
    let list = List { resource: CLUSTER_SERVICE_VERSIONS, namespace: None };
    let answer = lookups.list(list.resource, list.namespace)?;
    let mut found = BTreeSet::new();
    each_item(&answer, &list, None, &mut |_, claim: Claim<'_>| {
        let metadata = &claim.metadata;
        let owns = claim.spec.definitions.owned.iter().any(|owned| owned.name == *definition);
        if owns && metadata.copied_from(&metadata.namespace).is_none() {
            found.insert(metadata.namespace.to_string());
        }
    })?;
    Ok(found)
}
