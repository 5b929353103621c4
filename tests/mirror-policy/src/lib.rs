//! Says what the watches of a policy server show. A test asks for the lists that the policy under test reads, in the same words, and
//! so looks into the same watches; it waits until they show what is in the cluster.
//!
//! The object of the request has the `queries`. The answer is always a refusal; its message is a list in JSON, one entry for each
//! query, with the versions of the objects by their namespaces and names.

use std::collections::BTreeMap;

use kubewarden_policy_sdk::request::ValidationRequest;
use kubewarden_policy_sdk::settings::Validatable;
use kubewarden_policy_sdk::{protocol_version_guest, reject_request, validate_settings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wapc_guest::{CallResult, host_call, register_function};

#[derive(Debug, Default, Deserialize, Serialize)]
struct Settings {}

impl Validatable for Settings {
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }
}

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: String,
    name: String,
    resource_version: String,
}

/// Called by the host before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn wapc_init() {
    register_function("validate", validate);
    register_function("validate_settings", validate_settings::<Settings>);
    register_function("protocol_version", protocol_version_guest);
}

fn validate(payload: &[u8]) -> CallResult {
    let request = ValidationRequest::<Settings>::new(payload)?;
    let queries = request.request.object["queries"].as_array().cloned().unwrap_or_default();
    let shown = queries.iter().map(ask).collect::<Result<Vec<_>, _>>()?;
    reject_request(Some(serde_json::to_string(&shown)?), None, None, None)
}

fn ask(query: &Value) -> Result<BTreeMap<String, String>, Box<dyn std::error::Error + Sync + Send>> {
    let operation = if query["namespace"].is_null() { "list_resources_all" } else { "list_resources_by_namespace" };
    let answer = host_call("kubewarden", "kubernetes", operation, &serde_json::to_vec(query)?)?;
    let list: List = serde_json::from_slice(&answer)?;
    let versions = list
        .items
        .into_iter()
        .map(|Item { metadata }| (format!("{}/{}", metadata.namespace, metadata.name), metadata.resource_version));
    Ok(versions.collect())
}
