//! What OLM v0 does with the account of an OperatorGroup when it installs an operator, call by call.
//!
//! The catalog operator runs the steps of the InstallPlan and may repeat them at any time: what already exists is read and
//! patched. The OLM operator writes the Deployments and what stands behind webhooks and API services. CRDs, `OperatorCondition`s
//! and the lifting and copying of Roles are done with OLM's own rights. See docs/decisions/0012-derive.md for the evidence.

use bounds::decide::{Lookups, demand};
use bounds::olm::{ClusterServiceVersion, Targets, kinds};
use bounds::rbac::{RBAC, Rule, Scope};
use serde_json::Value;

use super::bundle::{Bundle, Object};
use super::need::{Needs, Origin, Written};
use super::{DeriveError, brought, declared, names, resources};

const OPERATORS: &str = "operators.coreos.com";
/// What the catalog operator does to a typed object that already exists.
const REPEAT: &[&str] = &["get", "patch"];
/// The same for a kind that it has no type for, and for Deployments.
const REPLACE: &[&str] = &["get", "update"];

/// The OperatorGroup that the operator is installed in.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its namespace, which is the account's and the operator's.
    pub namespace: String,
    /// What it reaches.
    pub targets: Targets,
}

/// Everything the account needs.
pub(super) fn needs(bundle: &Bundle, group: &Group, lookups: &Lookups<'_>) -> Result<Needs, DeriveError> {
    let mut needs = Needs::default();
    let namespace = Scope::Namespace(group.namespace.clone());
    for csv in &bundle.csvs {
        held(&mut needs, csv, group, lookups)?;
        operator(&mut needs, csv, &group.namespace);
        serving(&mut needs, csv, &namespace);
    }
    if bundle.has_dependencies || bundle.csvs.iter().any(requires_others) {
        let rule = Rule::on(&[OPERATORS], &["subscriptions"], &["create"]);
        needs.add(
            &namespace,
            rule,
            Origin::new("OLM writes a Subscription for each operator that this one depends on"),
        );
    }
    brought::needs(&mut needs, bundle, &namespace, lookups)?;
    for object in &bundle.others {
        brought_object(&mut needs, object, &namespace);
    }
    Ok(needs)
}

/// What the operator will hold, declared and implied: the policy's own account of it.
fn held(needs: &mut Needs, csv: &Object, group: &Group, lookups: &Lookups<'_>) -> Result<(), DeriveError> {
    let text = csv.value.to_string();
    let parsed: ClusterServiceVersion<'_> = csv.read(&text, "")?;
    for demand in demand::of_csv(lookups, &parsed, &group.namespace, &group.targets)? {
        let entry = declared::entry(&parsed, demand.origin);
        let why = demand.why.clone().unwrap_or_default();
        for scope in demand.scopes.iter() {
            for (index, rule) in demand.rules.iter().enumerate() {
                let origin = entry.as_ref().map_or_else(|| Origin::new(why.clone()), |entry| entry.of_rule(csv, index));
                needs.add(scope, rule.clone(), origin);
            }
        }
    }
    Ok(())
}

/// The steps for the ClusterServiceVersion itself, its accounts and roles, and its Deployments.
fn operator(needs: &mut Needs, csv: &Object, namespace: &str) {
    let scope = Scope::Namespace(namespace.to_owned());
    let writes = |kind: &str, name: &str| Origin::new(format!("OLM writes {kind} {name}"));
    let create = Rule::on(&[OPERATORS], &["clusterserviceversions"], &["create"]);
    needs.add(&scope, create, writes("ClusterServiceVersion", csv.name()));
    for account in declared::accounts(&csv.value) {
        let object = Written { group: "", resource: "serviceaccounts", name: &account };
        needs.write(&scope, &object, REPEAT, &writes("ServiceAccount", &account));
    }
    for permission in declared::permissions(&csv.value, "permissions") {
        let name = &names::v0_role(csv.name(), permission);
        let origin = Origin::new("OLM writes a Role and a RoleBinding for each entry of permissions");
        needs.write(&scope, &Written { group: RBAC, resource: "roles", name }, REPEAT, &origin);
        needs.write(&scope, &Written { group: RBAC, resource: "rolebindings", name }, REPEAT, &origin);
    }
    for permission in declared::permissions(&csv.value, "clusterPermissions") {
        let name = &names::v0_cluster_role(csv.name(), namespace, permission);
        let origin = Origin::new("OLM writes a ClusterRole and its binding for each entry of clusterPermissions");
        needs.write(&Scope::Cluster, &Written { group: RBAC, resource: "clusterroles", name }, REPEAT, &origin);
        needs.write(&Scope::Cluster, &Written { group: RBAC, resource: "clusterrolebindings", name }, REPEAT, &origin);
    }
    for name in declared::deployments(&csv.value) {
        let object = Written { group: "apps", resource: "deployments", name };
        needs.write(&scope, &object, REPLACE, &writes("Deployment", name));
    }
}

/// What stands behind webhooks and API services: a Service, a certificate that the operator may read, two bindings for
/// delegated authentication; then the registrations themselves.
fn serving(needs: &mut Needs, csv: &Object, namespace: &Scope) {
    let services = declared::list(&csv.value, "/spec/apiservicedefinitions/owned");
    let webhooks = declared::list(&csv.value, "/spec/webhookdefinitions");
    for deployment in declared::deployments(&csv.value) {
        let is_behind = |entry: &&Value| entry["deploymentName"].as_str() == Some(deployment);
        if services.iter().chain(webhooks).any(|entry| is_behind(&entry)) {
            certificate(needs, deployment, namespace);
        }
    }
    for service in services {
        api_service(needs, service, namespace);
    }
    for webhook in webhooks {
        webhook_configuration(needs, webhook);
    }
}

fn certificate(needs: &mut Needs, deployment: &str, namespace: &Scope) {
    let service = format!("{deployment}-service");
    let secret = format!("{service}-cert");
    let origin = Origin::new(format!("OLM creates a certificate for what Deployment {deployment} serves"));
    // Server-side apply: a patch that creates.
    let service_object = Written { group: "", resource: "services", name: &service };
    needs.write(namespace, &service_object, &["patch"], &origin);
    for (group, resource) in [("", "secrets"), (RBAC, "roles"), (RBAC, "rolebindings")] {
        needs.write(namespace, &Written { group, resource, name: &secret }, REPEAT, &origin);
    }
    let origin = Origin::new(format!("OLM binds the account of Deployment {deployment} for delegated authentication"));
    let delegator = &format!("{service}-system:auth-delegator");
    needs.write(
        &Scope::Cluster,
        &Written { group: RBAC, resource: "clusterrolebindings", name: delegator },
        &["patch"],
        &origin,
    );
    let reader = &format!("{service}-auth-reader");
    needs.write(&kube_system(), &Written { group: RBAC, resource: "rolebindings", name: reader }, &["patch"], &origin);
}

fn kube_system() -> Scope {
    Scope::Namespace("kube-system".to_owned())
}

fn api_service(needs: &mut Needs, service: &Value, namespace: &Scope) {
    let text = |key: &str| service[key].as_str().unwrap_or_default();
    let name = &format!("{}.{}", text("version"), text("group"));
    let object = Written { group: "apiregistration.k8s.io", resource: "apiservices", name };
    needs.write(&Scope::Cluster, &object, REPEAT, &Origin::new(format!("OLM writes APIService {name}")));
    let legacy = name.replace('.', "-");
    if legacy == format!("{}-service", text("deploymentName")) {
        return;
    }
    let origin = Origin::new(format!("OLM looks for what its first versions created for APIService {name}"));
    let secret = &format!("{name}-cert");
    let delegator = &format!("{name}-system:auth-delegator");
    let reader = &format!("{name}-auth-reader");
    for (scope, group, resource, name) in [
        (namespace, "", "services", &legacy),
        (namespace, "", "secrets", secret),
        (namespace, RBAC, "roles", secret),
        (namespace, RBAC, "rolebindings", secret),
        (&Scope::Cluster, RBAC, "clusterrolebindings", delegator),
        (&kube_system(), RBAC, "rolebindings", reader),
    ] {
        needs.by_name(scope, &Written { group, resource, name }, &["get"], &origin);
    }
}

/// OLM finds webhook configurations by label and lets the API server name them, so neither can be granted by name.
fn webhook_configuration(needs: &mut Needs, webhook: &Value) {
    const ADMISSION: &str = "admissionregistration.k8s.io";
    let resource = match webhook["type"].as_str().unwrap_or_default() {
        "ValidatingAdmissionWebhook" => "validatingwebhookconfigurations",
        "MutatingAdmissionWebhook" => "mutatingwebhookconfigurations",
        "ConversionWebhook" => {
            for name in declared::list(webhook, "/conversionCRDs").iter().filter_map(Value::as_str) {
                let object = Written { group: "apiextensions.k8s.io", resource: "customresourcedefinitions", name };
                let origin = Origin::new(format!("OLM adds the conversion webhook to CustomResourceDefinition {name}"));
                needs.by_name(&Scope::Cluster, &object, REPLACE, &origin);
            }
            return;
        }
        _ => return,
    };
    let name = webhook["generateName"].as_str().unwrap_or_default();
    let rule = Rule::on(&[ADMISSION], &[resource], &["list", "create", "update"]);
    needs.add(&Scope::Cluster, rule, Origin::new(format!("OLM writes the configuration of webhook {name}")));
}

/// An object of the bundle's manifests.
fn brought_object(needs: &mut Needs, object: &Object, namespace: &Scope) {
    let kind = object.kind();
    if kind == "CustomResourceDefinition" {
        return;
    }
    let typed = matches!(
        kind,
        "ConfigMap"
            | "Secret"
            | "Service"
            | "ServiceAccount"
            | "Role"
            | "RoleBinding"
            | "ClusterRole"
            | "ClusterRoleBinding"
    );
    let scope = if resources::is_namespaced(&object.value) { namespace } else { &Scope::Cluster };
    let resource = &kinds::plural(kind);
    let written = Written { group: resources::group(&object.value), resource, name: object.name() };
    let origin = Origin::new(format!("OLM writes {kind} {} of the bundle", object.name()));
    needs.write(scope, &written, if typed { REPEAT } else { REPLACE }, &origin);
}

/// Whether it says that it needs what other operators bring.
fn requires_others(csv: &Object) -> bool {
    ["/spec/customresourcedefinitions/required", "/spec/apiservicedefinitions/required"]
        .iter()
        .any(|path| !declared::list(&csv.value, path).is_empty())
}
