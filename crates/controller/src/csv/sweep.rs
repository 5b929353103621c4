//! Removes what operators leave behind: ClusterRoles, ClusterRoleBindings and APIServices are in no namespace, and Roles for
//! its targets in others, so the garbage collector does not know whose they are. Their labels do.

use std::collections::BTreeSet;
use std::fmt::Debug;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::Error;
use crate::olm::{ClusterServiceVersion, OWNER_KIND_LABEL, OWNER_LABEL, OWNER_NAMESPACE_LABEL};

/// Looks for everything whose operator is gone, and removes it. Whoever could forge such a label could empty the role as
/// well, so the label gives nobody anything; and only what belongs to namespaces of this controller is touched.
pub async fn sweep(cx: &Context) -> Result<(), Error> {
    let mut gone = Gone::default();
    for binding in cx.stores.cluster_role_bindings.store.state() {
        if gone.owned(cx, &*binding).await? {
            remove::<ClusterRoleBinding>(&Api::all(cx.own.0.clone()), "ClusterRoleBinding", &binding.name_any())
                .await?;
        }
    }
    for role in cx.stores.cluster_roles.store.state() {
        if gone.owned(cx, &*role).await? {
            remove::<ClusterRole>(&Api::all(cx.own.0.clone()), "ClusterRole", &role.name_any()).await?;
        }
    }
    for binding in cx.stores.role_bindings.store.state() {
        if gone.owned(cx, &*binding).await? {
            let namespace = binding.namespace().unwrap_or_default();
            let bindings: Api<RoleBinding> = Api::namespaced(cx.own.0.clone(), &namespace);
            remove(&bindings, "RoleBinding", &binding.name_any()).await?;
        }
    }
    for role in cx.stores.roles.store.state() {
        if gone.owned(cx, &*role).await? {
            let roles: Api<Role> = Api::namespaced(cx.own.0.clone(), &role.namespace().unwrap_or_default());
            remove(&roles, "Role", &role.name_any()).await?;
        }
    }
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService"));
    let services: Api<DynamicObject> = Api::all_with(cx.own.0.clone(), &kind);
    let owned = ListParams::default().labels(&format!("{OWNER_KIND_LABEL}=ClusterServiceVersion"));
    for service in services.list(&owned).await.map_err(Error::api("list", "APIServices"))? {
        if gone.owned(cx, &service).await? {
            remove(&services, "APIService", &service.name_any()).await?;
        }
    }
    Ok(())
}

/// Which operators are gone, each asked for once.
#[derive(Default)]
struct Gone {
    gone: BTreeSet<(String, String)>,
    there: BTreeSet<(String, String)>,
}

impl Gone {
    /// Whether the operator that an object belongs to is gone. What is watched may lag behind, so the API server is asked
    /// before anything is removed.
    async fn owned<K: Resource>(&mut self, cx: &Context, object: &K) -> Result<bool, Error> {
        let labels = object.labels();
        let label = |key: &str| labels.get(key).map(String::as_str).unwrap_or_default();
        let (namespace, name) = (label(OWNER_NAMESPACE_LABEL), label(OWNER_LABEL));
        let is_operators = label(OWNER_KIND_LABEL) == "ClusterServiceVersion";
        let are_names = [namespace, name].into_iter().all(crate::apply::is_object_name);
        if !is_operators || !are_names || !cx.acts_in(namespace) || cx.stores.csv(namespace, name).is_some() {
            return Ok(false);
        }
        let key = (namespace.to_owned(), name.to_owned());
        if !self.gone.contains(&key) && !self.there.contains(&key) {
            let csvs: Api<ClusterServiceVersion> = Api::namespaced(cx.own.0.clone(), namespace);
            let found = csvs
                .get_metadata_opt(name)
                .await
                .map_err(Error::api("read", format!("ClusterServiceVersion {namespace}/{name}")))?;
            if found.is_some() {
                self.there.insert(key.clone())
            } else {
                self.gone.insert(key.clone())
            };
        }
        Ok(self.gone.contains(&key))
    }
}

async fn remove<K: Clone + DeserializeOwned + Debug>(objects: &Api<K>, kind: &str, name: &str) -> Result<(), Error> {
    match objects.delete(name, &DeleteParams::default()).await {
        Ok(_) => {
            tracing::info!(kind, name, "removed what an operator has left behind");
            Ok(())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(source) => Err(Error::api("remove", format!("{kind} {name}"))(source)),
    }
}
