//! A ClusterServiceVersion: the part of it that requests permissions.

use std::collections::BTreeSet;

use crate::olm::meta::Meta;
use crate::rbac::rule::Rule;
use crate::read::object::object;
use crate::read::order::ordered;
use crate::read::text::Text;

object! {
    /// A ClusterServiceVersion. `spec.install.spec` is read whatever `strategy` says.
    #[derive(Debug, Clone, Default)]
    pub struct ClusterServiceVersion<'a> {
        /// The object metadata that affects a verdict.
        pub metadata: Meta<'a> = "metadata",
        /// What the operator consists of and requests.
        pub spec: Spec<'a> = "spec",
    }
}

object! {
    /// The part of `spec` that affects a verdict.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Spec<'a> {
        /// The name of the version that it replaces.
        pub replaces: Text<'a> = "replaces",
        /// `spec.install`, which contains the strategy.
        install: Install<'a> = "install",
        /// Definitions that it claims to own or requires.
        customresourcedefinitions: Definitions<'a> = "customresourcedefinitions",
        /// API services that it serves.
        apiservicedefinitions: ApiServices<'a> = "apiservicedefinitions",
        /// Admission and conversion webhooks.
        pub(crate) webhookdefinitions: Vec<Webhook<'a>> = "webhookdefinitions",
    }
}

object! {
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    struct Install<'a> {
        spec: Strategy<'a> = "spec",
    }
}

object! {
    /// `spec.install.spec`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Strategy<'a> {
        /// Permissions in the operator's own namespace and in its targets.
        pub permissions: Vec<Permission<'a>> = "permissions",
        /// Permissions in the whole cluster.
        pub cluster_permissions: Vec<Permission<'a>> = "clusterPermissions",
        /// The Deployments of the operator.
        pub(crate) deployments: Vec<Deployment<'a>> = "deployments",
    }
}

object! {
    /// An entry of `permissions` or `clusterPermissions`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Permission<'a> {
        /// The account that the rules are granted to.
        pub service_account_name: Text<'a> = "serviceAccountName",
        /// The rules that are granted to it.
        pub(crate) rules: Vec<Rule<'a>> = "rules",
    }
}

object! {
    /// An entry of `deployments`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct Deployment<'a> {
        /// The name of the Deployment, which API services and webhooks refer to.
        pub(crate) name: Text<'a> = "name",
        spec: DeploymentSpec<'a> = "spec",
    }
}

object! {
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    struct DeploymentSpec<'a> {
        template: PodTemplate<'a> = "template",
    }
}

object! {
    /// The part of a pod template that says which account it runs as.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct PodTemplate<'a> {
        spec: PodSpec<'a> = "spec",
    }
}

object! {
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    struct PodSpec<'a> {
        service_account_name: Text<'a> = "serviceAccountName",
        service_account: Text<'a> = "serviceAccount",
    }
}

object! {
    /// `customresourcedefinitions`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct Definitions<'a> {
        /// Definitions that it claims to own.
        pub(crate) owned: Vec<Definition<'a>> = "owned",
    }
}

object! {
    /// An entry of `customresourcedefinitions.owned`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct Definition<'a> {
        /// `<plural>.<group>`.
        pub(crate) name: Text<'a> = "name",
    }
}

object! {
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    struct ApiServices<'a> {
        owned: Vec<ApiService<'a>> = "owned",
    }
}

object! {
    /// An entry of `apiservicedefinitions.owned`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct ApiService<'a> {
        /// The Deployment that serves it.
        pub(crate) deployment_name: Text<'a> = "deploymentName",
        // OLM lets others use what it claims to serve.
        group: Text<'a> = "group",
        version: Text<'a> = "version",
        name: Text<'a> = "name",
        kind: Text<'a> = "kind",
    }
}

object! {
    /// An entry of `webhookdefinitions`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct Webhook<'a> {
        /// `ValidatingAdmissionWebhook`, `MutatingAdmissionWebhook` or `ConversionWebhook`.
        pub(crate) webhook_type: Text<'a> = "type",
        /// The Deployment that serves it.
        pub(crate) deployment_name: Text<'a> = "deploymentName",
    }
}

impl PodTemplate<'_> {
    /// The account that the pods run as.
    #[must_use]
    pub(crate) fn account(&self) -> &str {
        account_of(&self.spec.service_account_name, &self.spec.service_account)
    }
}

/// `serviceAccountName`, otherwise the deprecated alias `serviceAccount`, otherwise `default`.
#[must_use]
pub(crate) fn account_of<'t>(name: &'t str, alias: &'t str) -> &'t str {
    [name, alias].into_iter().find(|name| !name.is_empty()).unwrap_or("default")
}

impl<'a> ClusterServiceVersion<'a> {
    /// `spec.install.spec`.
    #[must_use]
    pub fn strategy(&self) -> &Strategy<'a> {
        &self.spec.install.spec
    }

    /// The accounts that its Deployments run as. OLM does not know the deprecated alias: where it sets up serving, it
    /// writes `default` next to it, and Kubernetes uses that one.
    #[must_use]
    pub fn accounts(&self) -> BTreeSet<&str> {
        let serving = self.serving_deployments();
        let deployments = &self.strategy().deployments;
        let defaulted = deployments.iter().filter(|deployment| {
            deployment.spec.template.spec.service_account_name.is_empty() && serving.contains(deployment.name.as_str())
        });
        let named = deployments.iter().map(|deployment| deployment.spec.template.account());
        ordered(named.chain(defaulted.map(|_| "default")))
    }

    /// The CustomResourceDefinitions that it claims to own.
    #[must_use]
    pub(crate) fn definitions(&self) -> BTreeSet<&str> {
        ordered(self.spec.customresourcedefinitions.owned.iter().map(|definition| definition.name.as_str()))
    }

    /// The Deployments that serve its APIs and webhooks.
    #[must_use]
    pub(crate) fn serving_deployments(&self) -> BTreeSet<&str> {
        let services = self.spec.apiservicedefinitions.owned.iter().map(|service| service.deployment_name.as_str());
        let webhooks = self.spec.webhookdefinitions.iter().map(|webhook| webhook.deployment_name.as_str());
        ordered(services.chain(webhooks))
    }

    /// The namespace of the original, if this claims to be a copy.
    #[must_use]
    pub fn copied_from(&self, namespace: &str) -> Option<&str> {
        self.metadata.copied_from(namespace)
    }

    /// Whether both request the same: what an UPDATE must leave unchanged to be admitted without a look-up.
    #[must_use]
    pub(crate) fn asks_the_same(&self, other: &ClusterServiceVersion<'_>) -> bool {
        self.spec == other.spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_csv_of_nulls_and_nothing_reads_as_one_that_asks_for_nothing() {
        for text in [
            "{}",
            r#"{"metadata":null,"spec":null}"#,
            r#"{"spec":{"install":null,"webhookdefinitions":null,"apiservicedefinitions":null,"replaces":null}}"#,
            r#"{"spec":{"install":{"spec":{"permissions":null,"clusterPermissions":null,"deployments":null}}}}"#,
            r#"{"spec":{"install":{"spec":{"permissions":[{"rules":null,"serviceAccountName":null}]}}}}"#,
        ] {
            let csv: ClusterServiceVersion<'_> = serde_json::from_str(text).unwrap();
            assert!(csv.strategy().permissions.iter().all(|permission| permission.rules.is_empty()), "{text}");
            assert!(csv.accounts().is_empty() && csv.serving_deployments().is_empty(), "{text}");
        }
    }

    #[test]
    fn the_account_of_a_deployment_falls_back_to_the_alias_and_to_default() {
        let text = r#"{"spec":{"install":{"spec":{"deployments":[
            {"spec":{"template":{"spec":{"serviceAccountName":"a","serviceAccount":"b"}}}},
            {"spec":{"template":{"spec":{"serviceAccount":"c"}}}},
            {"spec":{"template":null}}, {}]}}}}"#;
        let csv: ClusterServiceVersion<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(csv.accounts().into_iter().collect::<Vec<_>>(), ["a", "c", "default"]);
    }
}
