//! Definitions that an operator says are its own. OLM v0 lets whoever holds `admin`, `edit` or `view` use what an operator
//! owns: it makes ClusterRoles that those take in. So an operator that claims what was there before it makes every account
//! grow that is bound to one of them, and its own boundary with them.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cluster::{CUSTOM_RESOURCE_DEFINITIONS, Get};
use crate::decide::borrowed::Operator;
use crate::decide::context::Context;
use crate::decide::demand::{Demand, DemandedRules, permission_scopes};
use crate::decide::holders::Holder;
use crate::decide::lookups::parse;
use crate::decide::verdict::{Reason, Refusal};
use crate::rbac::rule::Rule;
use crate::rbac::scope::Scope;
use crate::read::object::object;
use crate::read::text::Text;

/// As many definitions as are looked up: the largest real operator owns half of that.
const MAX_CLAIMS: usize = 200;
/// The API server's own groups. A definition in one of them is possible, and shows nobody anything but the roles that OLM makes
/// for it.
const BUILT_IN: &[&str] = &[
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
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];
/// On a definition that OLM installed: `<namespace>/<operator>`.
const ALONGSIDE: &str = "operatorframework.io/installed-alongside-";

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

/// What a boundary would come to hold by the claims of an operator: it must hold it already.
pub(crate) fn demands<'r>(
    cx: &Context<'_>,
    operator: &Operator<'_>,
    boundaries: &[Holder],
) -> Result<Vec<Demand<'r>>, Refusal> {
    let definitions = operator.csv.definitions();
    if definitions.is_empty() {
        return Ok(Vec::new());
    }
    let reached = permission_scopes(operator.namespace, operator.targets);
    let mut scopes = Vec::new();
    for held in boundaries.iter().flat_map(|boundary| &boundary.held) {
        let counts = held.scope == Scope::Cluster || reached.contains(&held.scope);
        if counts && !scopes.contains(&held.scope) && cx.lookups.is_aggregated(&held.role)? {
            scopes.push(held.scope.clone());
        }
    }
    if scopes.is_empty() {
        return Ok(Vec::new());
    }
    if definitions.len() > MAX_CLAIMS {
        return Err(Refusal::forbidden(
            Reason::OverLimit,
            format!("the operator owns {} definitions, over the limit of {MAX_CLAIMS}", definitions.len()),
        ));
    }
    let scopes: Rc<[Scope]> = scopes.into();
    let mut demands = Vec::new();
    for name in definitions {
        let Some((resource, group)) = name.split_once('.') else { continue };
        if !is_foreign(cx, name, group, operator.namespace)? {
            continue;
        }
        let rules = [Rule::on(&[group], &[resource], &["*"]).into_owned()];
        let why = format!(
            "it claims CustomResourceDefinition {name}, which did not come with it: OLM would let everyone who holds \
             admin, edit or view use it, and its boundary is bound to such a role. Bind the boundary to roles of its \
             own instead"
        );
        let demand = Demand::plain(Scope::Cluster, DemandedRules::Shared(rules.into()));
        demands.push(Demand { scopes: Rc::clone(&scopes), why: Some(why), ..demand });
    }
    Ok(demands)
}

/// Whether a definition was there before the operators of this namespace.
fn is_foreign(cx: &Context<'_>, name: &str, group: &str, namespace: &str) -> Result<bool, Refusal> {
    if BUILT_IN.contains(&group) {
        return Ok(true);
    }
    let get = Get { resource: CUSTOM_RESOURCE_DEFINITIONS, namespace: None, name };
    let Some(answer) = cx.lookups.get(get.resource, get.namespace, get.name)? else { return Ok(false) };
    let definition: Definition<'_> = parse(&answer, &get)?;
    let came_along = definition.metadata.annotations.iter().any(|(key, operator)| {
        key.starts_with(ALONGSIDE) && operator.split_once('/').is_some_and(|(of, _)| of == namespace)
    });
    Ok(!came_along)
}
