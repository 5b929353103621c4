//! A ClusterServiceVersion: the part of it that asks for permissions.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::json::null_default;
use crate::meta::Meta;
use crate::rule::Rule;
use crate::text::Text;

/// A ClusterServiceVersion. `spec.install.spec` is read whatever `strategy` says.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ClusterServiceVersion<'a> {
    /// `metadata`.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub metadata: Meta<'a>,
    /// `spec`.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub spec: Spec<'a>,
}

/// `spec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Spec<'a> {
    /// The version it comes after.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub replaces: Text<'a>,
    /// How it is installed.
    #[serde(borrow, default, deserialize_with = "null_default")]
    install: Install<'a>,
    /// API services.
    #[serde(borrow, default, deserialize_with = "null_default")]
    apiservicedefinitions: ApiServices<'a>,
    /// Webhooks.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub webhookdefinitions: Vec<Webhook<'a>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct Install<'a> {
    #[serde(borrow, default, deserialize_with = "null_default")]
    spec: Strategy<'a>,
}

/// `spec.install.spec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Strategy<'a> {
    /// Permissions in namespaces.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub permissions: Vec<Permission<'a>>,
    /// Permissions in the whole cluster.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub cluster_permissions: Vec<Permission<'a>>,
    /// What runs.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub deployments: Vec<Deployment<'a>>,
}

/// An entry of `permissions` or `clusterPermissions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permission<'a> {
    /// Whose they are.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub service_account_name: Text<'a>,
    /// The rules.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub rules: Vec<Rule<'a>>,
}

/// An entry of `deployments`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Deployment<'a> {
    /// The name.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub name: Text<'a>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    spec: DeploymentSpec<'a>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct DeploymentSpec<'a> {
    #[serde(borrow, default, deserialize_with = "null_default")]
    template: PodTemplate<'a>,
}

/// The part of a pod template that says who it runs as.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PodTemplate<'a> {
    #[serde(borrow, default, deserialize_with = "null_default")]
    spec: PodSpec<'a>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec<'a> {
    #[serde(borrow, default, deserialize_with = "null_default")]
    service_account_name: Text<'a>,
    #[serde(borrow, default, deserialize_with = "null_default")]
    service_account: Text<'a>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct ApiServices<'a> {
    #[serde(borrow, default, deserialize_with = "null_default")]
    owned: Vec<ApiService<'a>>,
}

/// An entry of `apiservicedefinitions.owned`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiService<'a> {
    /// The Deployment behind it.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub deployment_name: Text<'a>,
}

/// An entry of `webhookdefinitions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook<'a> {
    /// `ValidatingAdmissionWebhook`, `MutatingAdmissionWebhook` or `ConversionWebhook`.
    #[serde(borrow, default, rename = "type", deserialize_with = "null_default")]
    pub webhook_type: Text<'a>,
    /// The Deployment behind it.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub deployment_name: Text<'a>,
}

impl PodTemplate<'_> {
    /// The account of the pods: `serviceAccountName`, else the old alias `serviceAccount`, else `default`.
    #[must_use]
    pub fn account(&self) -> &str {
        [&self.spec.service_account_name, &self.spec.service_account]
            .into_iter()
            .map(Text::as_str)
            .find(|name| !name.is_empty())
            .unwrap_or("default")
    }
}

impl<'a> ClusterServiceVersion<'a> {
    /// `spec.install.spec`.
    #[must_use]
    pub fn strategy(&self) -> &Strategy<'a> {
        &self.spec.install.spec
    }

    /// The accounts that its Deployments run as.
    #[must_use]
    pub fn accounts(&self) -> BTreeSet<&str> {
        self.strategy().deployments.iter().map(|deployment| deployment.spec.template.account()).collect()
    }

    /// The Deployments behind its API services and webhooks.
    #[must_use]
    pub fn serving_deployments(&self) -> BTreeSet<&str> {
        let services = self.spec.apiservicedefinitions.owned.iter().map(|service| service.deployment_name.as_str());
        let webhooks = self.spec.webhookdefinitions.iter().map(|webhook| webhook.deployment_name.as_str());
        services.chain(webhooks).collect()
    }

    /// The namespace this says it is a copy of: by label, or by an annotation that names another namespace.
    #[must_use]
    pub fn copied_from(&self, namespace: &str) -> Option<&str> {
        let label = self.metadata.labels.copied_from.as_str();
        let annotation = self.metadata.annotations.operator_namespace.as_str();
        if !label.is_empty() {
            Some(label)
        } else if !annotation.is_empty() && annotation != namespace {
            Some(annotation)
        } else {
            None
        }
    }

    /// Whether both ask for the same: what an UPDATE must leave alone to be admitted without a look-up.
    #[must_use]
    pub fn asks_the_same(&self, other: &ClusterServiceVersion<'_>) -> bool {
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
