//! Webhook configurations for scenarios: one webhook for each of the settings that they have.

use std::time::Duration;

use anyhow::bail;
use http::Method;
use serde_json::{Value, json};
use test_kubewarden::webhook::{Endpoint, Kind, configuration, webhook};
use test_plane::api::{Api, Sender};
use tokio::time::{Instant, sleep};

use crate::authorizer::SETTINGS;

/// How long anything in a cluster may take to come into force.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The name of the webhook for some settings, by which its facts are found in the audit log.
pub(crate) fn name(id: &str) -> String {
    format!("{id}.e2e.operator-bounds.example")
}

/// Registers a webhook for each of the settings, for whatever a sender writes that names them. The names are those of
/// the policies; `mutating` are those that may change objects.
pub(crate) async fn register(
    api: &Api,
    endpoint: &Endpoint,
    validating: &[&str],
    mutating: &[&str],
) -> anyhow::Result<()> {
    for (kind, ids) in [(Kind::Validating, validating), (Kind::Mutating, mutating)] {
        let Some(first) = ids.first() else { continue };
        let probe = format!("probe-{kind:?}").to_lowercase();
        let mut webhooks: Vec<Value> = ids.iter().map(|id| for_settings(endpoint, id, id)).collect();
        webhooks.push(for_settings(endpoint, &probe, first));
        api.apply(&configuration(kind, "scenarios", &webhooks)).await?;
        in_force(api, &probe).await?;
    }
    Ok(())
}

fn for_settings(endpoint: &Endpoint, id: &str, policy: &str) -> Value {
    let mut webhook = webhook(endpoint, &name(id), policy);
    webhook["rules"] = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"],
        "operations": ["CREATE", "UPDATE", "DELETE"]}]);
    webhook["matchPolicy"] = json!("Exact");
    webhook["timeoutSeconds"] = json!(30);
    let expression = format!(
        "has(request.userInfo.extra) && '{SETTINGS}' in request.userInfo.extra && request.userInfo.extra['{SETTINGS}'] == ['{id}']"
    );
    webhook["matchConditions"] = json!([{"name": "sent-for-these-settings", "expression": expression}]);
    webhook
}

/// Waits until the API server asks the webhook: it takes a moment to see a configuration. What is asked is refused
/// whatever the settings are.
async fn in_force(api: &Api, id: &str) -> anyhow::Result<()> {
    let sender = Sender { user: "probe".to_owned(), extra: vec![(SETTINGS, id.to_owned())], ..Sender::default() };
    let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "probe", "namespace": "default"}, "spec": {"targetNamespaces": [""]}});
    let path = "/apis/operators.coreos.com/v1/namespaces/default/operatorgroups?dryRun=All";
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = api.send_as(Some(&sender), Method::POST, path, Some(&object)).await?;
        if answer.message().contains(&name(id)) && answer.message().contains("denied the request") {
            return Ok(());
        }
        if Instant::now() > end {
            bail!("the webhooks are not asked after {PATIENCE:?}: {} {}", answer.code, answer.message());
        }
        sleep(Duration::from_millis(100)).await;
    }
}
