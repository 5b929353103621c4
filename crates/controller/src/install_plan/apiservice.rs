//! APIServices are written with the controller's own rights. Whoever serves an API group sees everything that is sent to
//! it, so a plan may only bring a group that nobody serves, and that its ClusterServiceVersion says is its own.

use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::apply::{Kind, apply, create};
use crate::context::Context;
use crate::olm::{OWNER_LABEL, OWNER_NAMESPACE_LABEL};

use super::crd::{Claim, is_within};
use super::execute::Refused;

/// Creates an APIService, or changes one that is the operator's.
pub(super) async fn carry_out(
    cx: &Context,
    claim: Claim<'_>,
    client: &Client,
    kind: &Kind,
    object: &Value,
) -> Result<DynamicObject, Refused> {
    let Claim { namespace, operator, replaces } = claim;
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
    let is_ours = |service: &DynamicObject| {
        let owner = service.labels().get(OWNER_LABEL);
        service.labels().get(OWNER_NAMESPACE_LABEL).map(String::as_str) == Some(namespace)
            && owner.is_some_and(|owner| owner == operator || Some(owner.as_str()) == replaces)
    };
    let mut is_there = false;
    let services: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource);
    for service in services.list(&ListParams::default()).await? {
        let same_group = service.data["spec"]["group"] == object["spec"]["group"];
        if same_group && !is_ours(&service) {
            return Err(Refused::Here(format!(
                "brings APIService {name}, but {} is served by somebody else already (APIService {})",
                object["spec"]["group"],
                service.name_any()
            )));
        }
        if service.name_any() == name {
            if is_within(&object["spec"], &service.data["spec"]) {
                return Ok(service);
            }
            is_there = true;
        }
    }
    if is_there { Ok(apply(client, kind, object).await?) } else { Ok(create(&services, object).await?) }
}
