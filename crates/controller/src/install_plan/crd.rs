//! CustomResourceDefinitions are written with the controller's own rights. So it looks closely: a plan may bring a new
//! one, and change one that is its operator's, and neither lose nor break what is stored under it.

use std::time::Duration;

use futures::StreamExt;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::apply::{Kind, apply, create};
use crate::context::Context;
use crate::olm::{MANAGED_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL};

use super::execute::Refused;
use super::schema;

/// The API server takes a moment to serve a new kind.
const PATIENCE: Duration = Duration::from_secs(15);

/// Who wants to write a definition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<'c> {
    /// The namespace of the plan.
    pub(super) namespace: &'c str,
    /// The operator that brings it.
    pub(super) operator: &'c str,
    /// The version that the operator replaces.
    pub(super) replaces: Option<&'c str>,
}

impl Claim<'_> {
    /// The operator itself, or the version that it replaces.
    fn is(self, namespace: &str, operator: &str) -> bool {
        namespace == self.namespace && (operator == self.operator || Some(operator) == self.replaces)
    }
}

/// Whether a definition may be written, before anything of the plan is.
pub(super) async fn may_write(cx: &Context, claim: Claim<'_>, kind: &Kind, object: &Value) -> Result<(), Refused> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if cx.stores.crd(name).is_none() {
        return Ok(());
    }
    let crds: Api<DynamicObject> = Api::all_with(cx.own.0.clone(), &kind.resource);
    match crds.get_opt(name).await? {
        Some(existing) if !is_within(&object["spec"], &existing.data["spec"]) => {
            may_change(cx, claim, &existing, object).await
        }
        _ => Ok(()),
    }
}

/// Creates a definition, or changes it where that is safe, and waits until it is served.
pub(super) async fn carry_out(
    cx: &Context,
    claim: Claim<'_>,
    client: &Client,
    kind: &Kind,
    object: &Value,
) -> Result<DynamicObject, Refused> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let crds: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource);
    let written = match create(&crds, object).await {
        Ok(created) => created,
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let existing = crds.get(name).await?;
            if is_within(&object["spec"], &existing.data["spec"]) {
                return Ok(existing);
            }
            may_change(cx, claim, &existing, object).await?;
            apply(client, kind, object).await?
        }
        Err(error) => return Err(error.into()),
    };
    served(cx, name).await?;
    Ok(written)
}

/// Whether a definition that is there may be changed by this operator.
async fn may_change(cx: &Context, claim: Claim<'_>, existing: &DynamicObject, object: &Value) -> Result<(), Refused> {
    let name = existing.name_any();
    match owners(cx, existing) {
        Owners::Nobody => {
            return Err(Refused::Here(format!(
                "would change CustomResourceDefinition {name}, which no operator has brought. Whoever has, can change it; to \
                 hand it to operators: kubectl label crd {name} {MANAGED_LABEL}=true"
            )));
        }
        Owners::These(owners) => {
            if let Some((namespace, operator)) =
                owners.iter().find(|(namespace, operator)| !claim.is(namespace, operator))
            {
                return Err(Refused::Here(format!(
                    "would change CustomResourceDefinition {name}, which belongs to ClusterServiceVersion {namespace}/{operator}"
                )));
            }
        }
    }
    keeps_stored_versions(&name, existing, object)?;
    keeps_objects(cx, &name, existing, object).await
}

/// Whose a definition is.
enum Owners {
    /// No operator has brought it.
    Nobody,
    /// These have, or say so; none of them, where operators have brought it that are gone.
    These(Vec<(String, String)>),
}

/// Whose a definition is: its label says so, which only the controller writes. Where it has none, or that operator is gone, whoever
/// says that it is theirs. (Anybody may say so, and must not keep the owner from its definition by that.)
fn owners(cx: &Context, existing: &DynamicObject) -> Owners {
    let label = |key: &str| existing.labels().get(key).map(String::as_str).unwrap_or_default();
    let (namespace, operator) = (label(OWNER_NAMESPACE_LABEL), label(OWNER_LABEL));
    if cx.stores.csv(namespace, operator).is_some() {
        return Owners::These(vec![(namespace.to_owned(), operator.to_owned())]);
    }
    let name = existing.name_any();
    let claims = cx.stores.csvs.store.state_filter(|csv| csv.owns_crd(&name) && !csv.is_copied());
    if claims.is_empty() && label(MANAGED_LABEL) != "true" {
        return Owners::Nobody;
    }
    Owners::These(claims.iter().map(|csv| (csv.namespace().unwrap_or_default(), csv.name_any())).collect())
}

/// A version in which objects are stored must stay: without it they could not be read any more.
fn keeps_stored_versions(name: &str, existing: &DynamicObject, object: &Value) -> Result<(), Refused> {
    let versions = object["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for stored in existing.data["status"]["storedVersions"].as_array().into_iter().flatten() {
        if !versions.iter().any(|version| version["name"] == *stored) {
            return Err(Refused::Here(format!(
                "would take version {stored} out of CustomResourceDefinition {name}, in which objects are stored: they would \
                 be lost. Migrate them first"
            )));
        }
    }
    Ok(())
}

/// A schema that takes less than before must not meet objects that it would refuse. Whether there are any is asked as the
/// controller, which sees no custom resources unless an administrator lets it: then it is refused.
async fn keeps_objects(cx: &Context, name: &str, existing: &DynamicObject, object: &Value) -> Result<(), Refused> {
    let Some(place) = schema::narrowed(&existing.data["spec"], &object["spec"]) else { return Ok(()) };
    let crd = cx.stores.crd(name);
    let served = crd.as_ref().and_then(|crd| {
        let version = crd.spec.versions.iter().find(|version| version.served)?;
        crate::apply::defined_by(crd, &crd.spec.group, &version.name, &crd.spec.names.kind)
    });
    let Some(kind) = served else { return Ok(()) };
    let objects: Api<DynamicObject> = Api::all_with(cx.own.0.clone(), &kind.resource);
    match objects.list_metadata(&ListParams::default().limit(1)).await {
        Ok(list) if list.items.is_empty() => Ok(()),
        Ok(_) => Err(Refused::Here(format!(
            "would make the schema of CustomResourceDefinition {name} stricter at {place}, and there are objects of that \
             kind. An administrator who has looked at them can apply the definition: then the plan goes on"
        ))),
        Err(error) => Err(Refused::Here(format!(
            "would make the schema of CustomResourceDefinition {name} stricter at {place}, and whether there are objects of \
             that kind could not be told ({error}). Let the controller list {}, or apply the definition: then the plan goes on",
            kind.resource.plural
        ))),
    }
}

/// Waits until the definition is served, as the watch sees it.
async fn served(cx: &Context, name: &str) -> Result<(), Refused> {
    let mut changes = std::pin::pin!(cx.stores.crds.changed.stream());
    let established = async {
        while !cx.stores.crd(name).is_some_and(|crd| crd.is_established()) {
            if changes.next().await.is_none() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, established)
        .await
        .map_err(|_| Refused::Here(format!("has brought CustomResourceDefinition {name}, which is not served yet")))
}

/// Whether everything that is wanted is there already. The API server adds defaults; those are no difference.
pub(super) fn is_within(wanted: &Value, there: &Value) -> bool {
    match (wanted, there) {
        (Value::Object(wanted), Value::Object(there)) => wanted
            .iter()
            .all(|(key, value)| value.is_null() || there.get(key).is_some_and(|there| is_within(value, there))),
        (Value::Array(wanted), Value::Array(there)) => {
            wanted.len() == there.len() && wanted.iter().zip(there).all(|(wanted, there)| is_within(wanted, there))
        }
        _ => wanted == there,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_that_the_api_server_adds_are_no_difference() {
        let there = json!({"names": {"kind": "A", "listKind": "AList"}, "versions": [{"name": "v1", "served": true}]});
        assert!(is_within(&json!({"names": {"kind": "A"}, "versions": [{"name": "v1"}]}), &there));
        assert!(!is_within(&json!({"names": {"kind": "B"}}), &there));
        assert!(!is_within(&json!({"versions": []}), &there));
        assert!(!is_within(&json!({"scope": "Cluster"}), &there));
    }

    #[test]
    fn a_stored_version_stays() {
        let existing: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "a"}, "status": {"storedVersions": ["v1alpha1", "v1"]}
        }))
        .unwrap();
        let with = |names: &[&str]| {
            let versions: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            keeps_stored_versions("a", &existing, &json!({"spec": {"versions": versions}}))
        };
        assert!(with(&["v1", "v1alpha1", "v2"]).is_ok());
        assert!(matches!(with(&["v1"]), Err(Refused::Here(reason)) if reason.contains("v1alpha1")));
    }
}
