//! APIServices are written with the controller's own rights. Whoever serves an API group sees everything that is sent to
//! it, so a plan may only bring a group that nobody serves, and that its ClusterServiceVersion says is its own.

use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::apply::{Kind, apply, as_seen, create};
use crate::context::Context;

use super::crd::Claim;
use super::execute::Refused;

/// Creates an APIService, or changes one that is the operator's.
pub(super) async fn carry_out(
    cx: &Context,
    claim: Claim<'_>,
    client: &Client,
    kind: &Kind,
    object: &Value,
) -> Result<DynamicObject, Refused> {
    let Claim { namespace, operator, .. } = claim;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let csv = cx.stores.csv(namespace, operator);
    let declares = |csv: &crate::olm::ClusterServiceVersion| {
        csv.spec.apiservicedefinitions.owned.iter().any(|service| service.object_name() == name)
    };
    if !csv.as_deref().is_some_and(declares) {
        return Err(Refused::Here(format!(
            "brings APIService {name}, which is not among the spec.apiservicedefinitions.owned of ClusterServiceVersion \
             {namespace}/{operator}"
        )));
    }
    let services: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource);
    let there = services.list(&ListParams::default()).await?.items;
    match may_serve(claim, object, &there)? {
        None => Ok(create(&services, object).await?),
        // Always written: the label has to name the version that brings it now, or the sweep would take it for a leftover.
        Some(ours) => Ok(apply(client, kind, &as_seen(object, ours)).await?),
    }
}

/// The APIService that would be changed, if there is one. Whatever has its name or its group must be the operator's.
fn may_serve<'s>(
    claim: Claim<'_>,
    object: &Value,
    there: &'s [DynamicObject],
) -> Result<Option<&'s DynamicObject>, Refused> {
    let (name, group) = (&object["metadata"]["name"], &object["spec"]["group"]);
    let is_touched = |service: &&DynamicObject| service.name_any() == *name || service.data["spec"]["group"] == *group;
    if let Some(other) = there.iter().filter(is_touched).find(|service| !claim.is_on(service)) {
        return Err(Refused::Here(format!(
            "brings APIService {name}, but {group} is served by somebody else already (APIService {})",
            other.name_any()
        )));
    }
    Ok(there.iter().find(|service| service.name_any() == *name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(name: &str, group: &str, owner: Option<&str>) -> DynamicObject {
        let labels = owner.map(|owner| json!({"olm.owner": owner, "olm.owner.namespace": "team-a"}));
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": {"group": group}})).unwrap()
    }

    #[test]
    fn what_has_its_name_or_its_group_must_be_the_operators() {
        let claim = Claim { namespace: "team-a", operator: "op.v1", csv: None };
        let brought = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        let there = [service("v1.apps", "apps", None), service("v1.x.io", "x.io", Some("op.v1"))];
        let may = |object: &Value| may_serve(claim, object, &there).map(|found| found.map(ResourceExt::name_any));
        assert_eq!(may(&brought("v1.x.io", json!({"group": "x.io"}))).unwrap().as_deref(), Some("v1.x.io"));
        assert_eq!(may(&brought("v1.y.io", json!({"group": "y.io"}))).unwrap(), None);
        for taken in [
            brought("v1.apps", json!({})),
            brought("v1.apps", json!({"group": ""})),
            brought("v1.apps", json!({"group": "y.io"})),
            brought("v9.apps", json!({"group": "apps"})),
        ] {
            assert!(matches!(may(&taken), Err(Refused::Here(reason)) if reason.contains("somebody else")), "{taken}");
        }
        let stranger = Claim { namespace: "team-b", ..claim };
        assert!(may_serve(stranger, &brought("v1.x.io", json!({"group": "x.io"})), &there).is_err());
    }
}
