//! CustomResourceDefinitions are written with the controller's own rights. So it looks closely: a plan may bring a new
//! one, and change one that is its operator's, and neither lose nor break what is stored under it.

use std::time::Duration;

use futures::StreamExt;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::apply::{Kind, apply, as_seen, create};
use crate::context::Context;
use crate::olm::{ClusterServiceVersion, MANAGED_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL};

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
    /// Its ClusterServiceVersion: of the plan, or there already.
    pub(super) csv: Option<&'c ClusterServiceVersion>,
}

impl Claim<'_> {
    /// The operator itself, or the version that it replaces.
    fn is(self, namespace: &str, operator: &str) -> bool {
        let replaces = self.csv.and_then(|csv| csv.spec.replaces.as_deref());
        namespace == self.namespace && !operator.is_empty() && (operator == self.operator || Some(operator) == replaces)
    }

    /// Whether the labels of an object say that it is the operator's.
    pub(super) fn is_on(self, object: &DynamicObject) -> bool {
        let (namespace, operator) = owner(object);
        self.is(namespace, operator)
    }
}

/// Namespace and name of the operator that an object's labels name. Only the controller writes them.
fn owner(object: &DynamicObject) -> (&str, &str) {
    let label = |key: &str| object.labels().get(key).map(String::as_str).unwrap_or_default();
    (label(OWNER_NAMESPACE_LABEL), label(OWNER_LABEL))
}

/// Whether a definition may be written, before anything of the plan is.
pub(super) async fn may_write(cx: &Context, claim: Claim<'_>, kind: &Kind, object: &Value) -> Result<(), Refused> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let crds: Api<DynamicObject> = Api::all_with(cx.own.0.clone(), &kind.resource);
    let existing = if cx.stores.crd(name).is_some() { crds.get_opt(name).await? } else { None };
    match existing {
        Some(existing) if is_within(&object["spec"], &existing.data["spec"]) => Ok(()),
        Some(existing) => may_change(cx, claim, &existing, object).await,
        None => may_create(claim, object),
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
    let written = match new(&crds, claim, object).await? {
        Made::New(created) => created,
        Made::There(existing) if is_within(&object["spec"], &existing.data["spec"]) => {
            labelled(cx, claim, &crds, existing, object).await?
        }
        Made::There(existing) => {
            may_change(cx, claim, &existing, object).await?;
            apply(client, kind, &as_seen(object, &existing)).await?
        }
    };
    served(cx, name).await?;
    Ok(written)
}

/// A definition that was created, or one that was there.
enum Made {
    New(DynamicObject),
    There(DynamicObject),
}

/// Creates a definition, if it may be and is not there yet.
async fn new(crds: &Api<DynamicObject>, claim: Claim<'_>, object: &Value) -> Result<Made, Refused> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if let Err(refused) = may_create(claim, object) {
        return crds.get_opt(name).await?.map(Made::There).ok_or(refused);
    }
    match create(crds, object).await {
        Ok(created) => Ok(Made::New(created)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Made::There(crds.get(name).await?)),
        Err(error) => Err(error.into()),
    }
}

/// A definition that is there as it should be gets the label of the version that brings it now, if it is that operator's:
/// a label that names one that is gone would leave it to whoever says that it is theirs.
async fn labelled(
    cx: &Context,
    claim: Claim<'_>,
    crds: &Api<DynamicObject>,
    existing: DynamicObject,
    object: &Value,
) -> Result<DynamicObject, Refused> {
    let is_good = may_own(cx, claim, &existing).and_then(|()| declared(claim, &existing.name_any())).is_ok();
    if !is_good || owner(&existing) == (claim.namespace, claim.operator) {
        return Ok(existing);
    }
    let metadata = json!({"labels": object["metadata"]["labels"], "resourceVersion": existing.resource_version()});
    let patch = Patch::Merge(json!({"metadata": metadata}));
    Ok(crds.patch(&existing.name_any(), &PatchParams::default(), &patch).await?)
}

/// Whether an operator may bring a definition that is not there yet.
fn may_create(claim: Claim<'_>, object: &Value) -> Result<(), Refused> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let group = object["spec"]["group"].as_str().unwrap_or_default();
    let is_under = |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if is_under("k8s.io") || is_under("kubernetes.io") {
        return Err(Refused::Here(format!(
            "brings CustomResourceDefinition {name} of group {group}, which is Kubernetes' own. An administrator can create it: \
             then the plan goes on"
        )));
    }
    declared(claim, name)
}

/// Whether the operator says that a definition is its own.
fn declared(claim: Claim<'_>, name: &str) -> Result<(), Refused> {
    if claim.csv.is_some_and(|csv| csv.owns_crd(name)) {
        return Ok(());
    }
    Err(Refused::Here(format!(
        "brings CustomResourceDefinition {name}, which is not among the spec.customresourcedefinitions.owned of \
         ClusterServiceVersion {}/{}",
        claim.namespace, claim.operator
    )))
}

/// Whether a definition that is there may be changed by this operator.
async fn may_change(cx: &Context, claim: Claim<'_>, existing: &DynamicObject, object: &Value) -> Result<(), Refused> {
    let name = existing.name_any();
    may_own(cx, claim, existing)?;
    declared(claim, &name)?;
    keeps_stored_versions(&name, existing, object)?;
    let (before, after) = (&existing.data["spec"], &object["spec"]);
    if let Some(place) = schema::narrowed(before, after) {
        let change = format!("make the schema of CustomResourceDefinition {name} stricter at {place}");
        has_no_objects(cx, &name, &change).await?;
    }
    // Whoever converts objects sees and rewrites them: those of an operator that is gone are not the next one's.
    if !claim.is_on(existing)
        && !is_within(&after["conversion"], &before["conversion"])
        && !after["conversion"].is_null()
    {
        let change = format!("change the conversion of CustomResourceDefinition {name}, whose operator is gone");
        has_no_objects(cx, &name, &change).await?;
    }
    Ok(())
}

/// Whether a definition that is there is this operator's, or may become so.
fn may_own(cx: &Context, claim: Claim<'_>, existing: &DynamicObject) -> Result<(), Refused> {
    let name = existing.name_any();
    let owners = match owners(existing, |namespace, name| cx.stores.csv(namespace, name).is_some()) {
        Owners::Nobody => {
            return Err(Refused::Here(format!(
                "would change CustomResourceDefinition {name}, which no operator has brought. Whoever has, can change it; to \
                 hand it to operators: kubectl label crd {name} {MANAGED_LABEL}=true"
            )));
        }
        Owners::This(namespace, operator) => vec![(namespace.to_owned(), operator.to_owned())],
        _ if claim.is_on(existing) => Vec::new(),
        Owners::Gone => cx
            .stores
            .csvs
            .store
            .state_filter(|csv| csv.owns_crd(&name) && !csv.is_copied())
            .iter()
            .map(|csv| (csv.namespace().unwrap_or_default(), csv.name_any()))
            .collect(),
    };
    match owners.iter().find(|(namespace, operator)| !claim.is(namespace, operator)) {
        None => Ok(()),
        Some((namespace, operator)) => Err(Refused::Here(format!(
            "would change CustomResourceDefinition {name}, which belongs to ClusterServiceVersion {namespace}/{operator}"
        ))),
    }
}

/// Whose a definition is.
#[derive(Debug, PartialEq, Eq)]
enum Owners<'o> {
    /// No operator has brought it, whatever any of them says.
    Nobody,
    /// The operator of this namespace and name.
    This(&'o str, &'o str),
    /// An operator that is gone: whoever says that it is theirs may have it, if no other does.
    Gone,
}

/// Whose a definition is: its label says so, which only the controller writes. (Anybody may say that it is theirs, and neither
/// gets it nor keeps the owner from it by that.)
fn owners(existing: &DynamicObject, is_there: impl FnOnce(&str, &str) -> bool) -> Owners<'_> {
    let (namespace, operator) = owner(existing);
    let is_managed = existing.labels().get(MANAGED_LABEL).is_some_and(|label| label == "true");
    if operator.is_empty() && !is_managed {
        Owners::Nobody
    } else if !operator.is_empty() && is_there(namespace, operator) {
        Owners::This(namespace, operator)
    } else {
        Owners::Gone
    }
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

/// A change that must not meet objects. Whether there are any is asked as the controller, which sees no custom resources
/// unless an administrator lets it: then it is refused.
async fn has_no_objects(cx: &Context, name: &str, change: &str) -> Result<(), Refused> {
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
            "would {change}, and there are objects of that kind. An administrator who has looked at them can apply the \
             definition: then the plan goes on"
        ))),
        Err(error) => Err(Refused::Here(format!(
            "would {change}, and whether there are objects of that kind could not be told ({error}). Let the controller list \
             {}, or apply the definition: then the plan goes on",
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
    fn what_no_operator_has_brought_is_nobodys_whatever_anybody_says() {
        let with = |labels: Value| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"name": "a", "labels": labels}})).unwrap()
        };
        let label = json!({"olm.owner": "op.v1", "olm.owner.namespace": "team-a", "olm.managed": "true"});
        assert_eq!(owners(&with(json!({})), |_, _| true), Owners::Nobody);
        assert_eq!(owners(&with(json!({"olm.managed": "no"})), |_, _| true), Owners::Nobody);
        assert_eq!(owners(&with(json!({"olm.managed": "true"})), |_, _| true), Owners::Gone);
        assert_eq!(owners(&with(label.clone()), |_, _| true), Owners::This("team-a", "op.v1"));
        assert_eq!(owners(&with(label), |_, _| false), Owners::Gone);
    }

    #[test]
    fn a_new_definition_is_declared_and_not_of_kubernetes_own_groups() {
        let csv: ClusterServiceVersion = serde_json::from_value(json!({
            "metadata": {"name": "op.v1"},
            "spec": {"customresourcedefinitions": {"owned": [{"name": "a.x.io"}, {"name": "a.y.k8s.io"}, {"name": "a.k8s.io"}]}},
        }))
        .unwrap();
        let may = |csv, group: &str| {
            let claim = Claim { namespace: "team-a", operator: "op.v1", csv };
            may_create(claim, &json!({"metadata": {"name": format!("a.{group}")}, "spec": {"group": group}})).is_ok()
        };
        assert!(may(Some(&csv), "x.io"));
        assert!(!may(None, "x.io") && !may(Some(&csv), "z.io"));
        assert!(!may(Some(&csv), "y.k8s.io") && !may(Some(&csv), "k8s.io"));
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
