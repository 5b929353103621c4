//! Removes what operators leave behind: ClusterRoles, ClusterRoleBindings and APIServices are in no namespace, and Roles for
//! its targets in others, so the garbage collector does not know whose they are. Their labels do.

use std::collections::BTreeMap;

use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Preconditions};
use kube::{Api, Resource, ResourceExt};

use crate::apply::is_object_name;
use crate::context::Context;
use crate::error::Error;
use crate::olm::{ClusterServiceVersion, OWNER_KIND_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL};

/// An object that belongs to an operator which is not watched (any more).
#[derive(Debug)]
struct Leftover {
    /// Namespace and name of the operator.
    operator: (String, String),
    kind: ApiResource,
    namespace: Option<String>,
    name: String,
    /// The object as it was seen, and not another that has got its name meanwhile.
    seen: Preconditions,
}

/// Looks for everything whose operator is gone, and removes it. Whoever could forge such a label could empty the role as
/// well, so the label gives nobody anything; and only what belongs to namespaces of this controller is touched.
///
/// All of it is found before the API server is asked which operators are gone: what a new operator of the same name brings
/// after that is not among it. What cannot be removed does not keep the rest, and is the error.
pub async fn sweep(cx: &Context) -> Result<(), Error> {
    let left = leftovers(cx).await?;
    let mut gone: BTreeMap<(String, String), bool> = BTreeMap::new();
    let mut outcome = Ok(());
    for leftover in left {
        let is_gone = match gone.get(&leftover.operator) {
            Some(known) => *known,
            None => is_gone(cx, &leftover.operator).await?,
        };
        gone.insert(leftover.operator.clone(), is_gone);
        if is_gone && let Err(error) = remove(cx, &leftover).await {
            tracing::warn!(%error, "what an operator has left behind could not be removed, and will be tried again");
            outcome = Err(error);
        }
    }
    outcome
}

async fn leftovers(cx: &Context) -> Result<Vec<Leftover>, Error> {
    let stores = &cx.stores;
    let rbac = |kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind));
    let mut left = Vec::new();
    // Bindings first: what gives rights goes before what says which.
    let bindings = rbac("ClusterRoleBinding");
    left.extend(
        stores.cluster_role_bindings.store.state().iter().filter_map(|found| leftover(cx, &bindings, &**found)),
    );
    let roles = rbac("ClusterRole");
    left.extend(stores.cluster_roles.store.state().iter().filter_map(|found| leftover(cx, &roles, &**found)));
    let bindings = rbac("RoleBinding");
    left.extend(stores.role_bindings.store.state().iter().filter_map(|found| leftover(cx, &bindings, &**found)));
    let roles = rbac("Role");
    left.extend(stores.roles.store.state().iter().filter_map(|found| leftover(cx, &roles, &**found)));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService"));
    let services: Api<DynamicObject> = Api::all_with(cx.own.0.clone(), &kind);
    let owned = ListParams::default().labels(&format!("{OWNER_KIND_LABEL}=ClusterServiceVersion"));
    let services = services.list(&owned).await.map_err(Error::api("list", "APIServices"))?;
    left.extend(services.iter().filter_map(|found| leftover(cx, &kind, found)));
    Ok(left)
}

/// The object, if it belongs to an operator of the controller's namespaces that is not watched.
fn leftover<K: Resource>(cx: &Context, kind: &ApiResource, object: &K) -> Option<Leftover> {
    let operator = owner(object)?;
    let (namespace, name) = &operator;
    if !cx.acts_in(namespace) || cx.stores.csv(namespace, name).is_some() {
        return None;
    }
    Some(Leftover {
        operator,
        kind: kind.clone(),
        namespace: object.namespace(),
        name: object.name_any(),
        seen: Preconditions { uid: object.uid(), resource_version: object.resource_version() },
    })
}

/// The operator that the labels of an object name.
fn owner<K: Resource>(object: &K) -> Option<(String, String)> {
    let label = |key: &str| object.labels().get(key).map(String::as_str).unwrap_or_default();
    let (namespace, name) = (label(OWNER_NAMESPACE_LABEL), label(OWNER_LABEL));
    let is_operators = label(OWNER_KIND_LABEL) == "ClusterServiceVersion";
    (is_operators && is_object_name(namespace) && is_object_name(name)).then(|| (namespace.to_owned(), name.to_owned()))
}

/// What is watched may lag behind, so the API server is asked before anything is removed.
async fn is_gone(cx: &Context, (namespace, name): &(String, String)) -> Result<bool, Error> {
    let csvs: Api<ClusterServiceVersion> = Api::namespaced(cx.own.0.clone(), namespace);
    let found = csvs.get_metadata_opt(name).await;
    Ok(found.map_err(Error::api("read", format!("ClusterServiceVersion {namespace}/{name}")))?.is_none())
}

async fn remove(cx: &Context, leftover: &Leftover) -> Result<(), Error> {
    let Leftover { kind, name, .. } = leftover;
    let objects: Api<DynamicObject> = match &leftover.namespace {
        Some(namespace) => Api::namespaced_with(cx.own.0.clone(), namespace, kind),
        None => Api::all_with(cx.own.0.clone(), kind),
    };
    let params = DeleteParams { preconditions: Some(leftover.seen.clone()), ..DeleteParams::default() };
    match objects.delete(name, &params).await {
        Ok(_) => {
            tracing::info!(kind = kind.kind, name, "removed what an operator has left behind");
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(source) => Err(Error::api("remove", format!("{} {name}", kind.kind))(source)),
    }
}
