//! What OLM v1 writes when it installs a bundle, object by object, and what that takes of the extension's identity.

use std::collections::BTreeMap;

use bounds::decide::Lookups;
use bounds::olm::{Targets, kinds};
use bounds::rbac::{Index, RBAC, Rule, Scope};
use serde_json::{Value, json};

use super::bundle::{Bundle, Object};
use super::declared::{self, Entry};
use super::need::{Need, Needs, Origin, Written};
use super::{DeriveError, brought, names, resources};

/// Who sends OLM's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The controller, and the policy bounds what it writes by the extension's identity: from OLM 1.11 on.
    Controller,
    /// The identity itself, by its token or by impersonation: up to OLM 1.10.
    Identity,
}

/// The extension that installs the bundle.
#[derive(Debug, Clone)]
pub struct Extension {
    /// Its name.
    pub name: String,
    /// Where it installs; without it every right is cluster-wide.
    pub namespace: Option<String>,
    /// What the operator watches.
    pub targets: Targets,
    /// Who sends.
    pub sender: Sender,
}

/// Everything the extension's identity needs.
pub(super) fn needs(bundle: &Bundle, extension: &Extension, lookups: &Lookups<'_>) -> Result<Needs, DeriveError> {
    let mut install = Install { needs: Needs::default(), patched: Needs::default(), extension };
    let own = Scope::of(extension.namespace.as_deref());
    for csv in &bundle.csvs {
        install.roles(csv)?;
        for account in declared::accounts(&csv.value).iter().filter(|account| *account != "default") {
            install.write(&own, "", "ServiceAccount", account);
        }
        for name in declared::deployments(&csv.value) {
            install.write(&own, "apps", "Deployment", name);
        }
        install.webhooks(csv, &own);
    }
    brought::needs(&mut install.needs, bundle, &own, lookups)?;
    for object in &bundle.others {
        let scope = if resources::is_namespaced(&object.value) { &own } else { &Scope::Cluster };
        install.write(scope, resources::group(&object.value), object.kind(), object.name());
    }
    install.finalizers();
    Ok(install.finished())
}

struct Install<'x> {
    needs: Needs,
    /// Changing what was written, where the policy is the judge: it cannot tell a patch from an update, and takes either.
    patched: Needs,
    extension: &'x Extension,
}

impl Install<'_> {
    /// Creating and patching an object. Up to 1.10 OLM also reads, watches and, when a later version does not bring it any
    /// more, deletes with the same identity; where the policy bounds, taking away needs nothing. There CRDs are OLM's own,
    /// and webhook configurations never reach a policy but as a part of the release, before they are there.
    fn write(&mut self, scope: &Scope, group: &str, kind: &str, name: &str) {
        let origin = Origin::new(format!("OLM writes {kind} {name}"));
        let resource = kinds::plural(kind);
        let object = Written { group, resource: &resource, name };
        match self.extension.sender {
            Sender::Controller if kind == "CustomResourceDefinition" => {}
            Sender::Controller if kind.ends_with("WebhookConfiguration") => {
                self.needs.write(scope, &object, &[], &origin);
            }
            Sender::Controller => {
                self.needs.write(scope, &object, &[], &origin);
                self.patched.by_name(scope, &object, &["patch"], &origin);
            }
            Sender::Identity => {
                self.needs.write(scope, &object, &["get", "patch", "update", "delete"], &origin);
                let watch = Rule::on(&[group], &[&resource], &["list", "watch"]);
                self.needs.add(
                    &Scope::Cluster,
                    watch,
                    Origin::new("OLM watches what it has written in all namespaces"),
                );
            }
        }
    }

    /// The roles and bindings that OLM makes of a ClusterServiceVersion's permissions, and what is in them.
    fn roles(&mut self, csv: &Object) -> Result<(), DeriveError> {
        let namespaces = json!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["namespaces"]});
        let lifted = match &self.extension.targets {
            Targets::All => Some(namespaces),
            Targets::Namespaces(_) => None,
        };
        for (position, permission) in declared::permissions(&csv.value, "clusterPermissions").iter().enumerate() {
            self.role(csv, ("clusterPermissions", position), permission, None, &Scope::Cluster)?;
        }
        for (position, permission) in declared::permissions(&csv.value, "permissions").iter().enumerate() {
            let entry = ("permissions", position);
            match &self.extension.targets {
                Targets::All => self.role(csv, entry, permission, lifted.as_ref(), &Scope::Cluster)?,
                Targets::Namespaces(targets) => {
                    for target in targets {
                        self.role(csv, entry, permission, None, &Scope::Namespace(target.clone()))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn role(
        &mut self,
        csv: &Object,
        (list, position): (&'static str, usize),
        permission: &Value,
        lifted: Option<&Value>,
        scope: &Scope,
    ) -> Result<(), DeriveError> {
        let text = permission["rules"].to_string();
        let rules: Option<Vec<Rule<'_>>> = csv.read(&text, &format!("spec.install.spec.{list}[{position}].rules"))?;
        let entry = Entry::new(list, position, permission["serviceAccountName"].as_str().unwrap_or_default());
        for (index, rule) in rules.iter().flatten().enumerate() {
            self.needs.add(scope, rule.clone(), entry.of_rule(csv, index));
        }
        if lifted.is_some() {
            let why = "OLM adds read access to namespaces when it lifts permissions to all namespaces";
            self.needs.add(scope, Rule::on(&[""], &["namespaces"], &["get", "list", "watch"]), Origin::new(why));
        }
        let added: Vec<Value> = lifted.into_iter().cloned().collect();
        let name = names::v1_role(csv.name(), permission, &added);
        let prefix = if *scope == Scope::Cluster { "Cluster" } else { "" };
        self.write(scope, RBAC, &format!("{prefix}Role"), &name);
        self.write(scope, RBAC, &format!("{prefix}RoleBinding"), &name);
        Ok(())
    }

    /// The Service behind webhooks, the certificate of cert-manager, and the registrations.
    fn webhooks(&mut self, csv: &Object, own: &Scope) {
        const ADMISSION: &str = "admissionregistration.k8s.io";
        let webhooks = declared::list(&csv.value, "/spec/webhookdefinitions");
        for deployment in declared::deployments(&csv.value) {
            if !webhooks.iter().any(|webhook| webhook["deploymentName"].as_str() == Some(deployment)) {
                continue;
            }
            let service = names::joined(&deployment.replace('.', "-"), "service");
            let certificate = names::joined(&service, "cert");
            self.write(own, "", "Service", &service);
            self.write(own, "cert-manager.io", "Certificate", &certificate);
            self.write(own, "cert-manager.io", "Issuer", &names::joined(&certificate, "selfsigned-issuer"));
        }
        for webhook in webhooks {
            let name = webhook["generateName"].as_str().unwrap_or_default();
            let name = name.strip_suffix('-').unwrap_or(name);
            match webhook["type"].as_str().unwrap_or_default() {
                "ValidatingAdmissionWebhook" => {
                    self.write(&Scope::Cluster, ADMISSION, "ValidatingWebhookConfiguration", name);
                }
                "MutatingAdmissionWebhook" => {
                    self.write(&Scope::Cluster, ADMISSION, "MutatingWebhookConfiguration", name);
                }
                _ => {}
            }
        }
    }

    /// Everything, without `patch` where what the operator will hold has `update`.
    fn finished(self) -> Needs {
        let Install { mut needs, patched, .. } = self;
        let in_scope = |scope: &Scope| -> Vec<Rule<'static>> {
            let holds = |need: &&Need| need.scope == *scope || need.scope == Scope::Cluster;
            needs.0.iter().filter(holds).map(|need| need.rule.clone()).collect()
        };
        let mut scopes: BTreeMap<Scope, Vec<Rule<'static>>> = BTreeMap::new();
        for need in &patched.0 {
            scopes.entry(need.scope.clone()).or_insert_with_key(in_scope);
        }
        let indexes: BTreeMap<&Scope, Index<'_>> =
            scopes.iter().map(|(scope, rules)| (scope, Index::new(rules))).collect();
        let is_updated = |need: &Need| {
            let update = Rule { verbs: vec!["update".into()], ..need.rule.clone() };
            indexes.get(&need.scope).is_some_and(|index| index.covers(&[update]))
        };
        let (_, missing): (Vec<Need>, Vec<Need>) = patched.0.into_iter().partition(is_updated);
        needs.0.extend(missing);
        needs
    }

    /// Up to 1.10, owning objects that block the extension's deletion takes a right on its finalizers.
    fn finalizers(&mut self) {
        if self.extension.sender == Sender::Identity {
            let name = self.extension.name.as_str();
            let object = Written { group: "olm.operatorframework.io", resource: "clusterextensions/finalizers", name };
            let origin = Origin::new("OLM makes the extension the owner of what it writes");
            self.needs.by_name(&Scope::Cluster, &object, &["update"], &origin);
        }
    }
}
