//! What the watches of a policy server show, by `tests/mirror-policy` in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use operator_bounds::host::ListResources;
use operator_bounds::policy::MODULE;
use policy_module::Metadata;
use serde_json::{Value, json};

use crate::client::Client;

/// Its name in the policy server's file.
const NAME: &str = "mirror";

/// What is demanded of a module.
const METADATA: &str = r#"
mutating: false
executionMode: kubewarden-wapc
rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]
"#;

/// Builds a policy that is made for tests into this directory. Gives its name for the policy server's file.
pub fn test_policy(name: &str, directory: &Path) -> anyhow::Result<String> {
    let module = policy_module::annotate(&test_parts::policy(name)?, &Metadata::from_yaml(METADATA)?)?;
    let path = directory.join(format!("{name}.wasm"));
    fs::write(&path, module).with_context(|| path.display().to_string())?;
    Ok(format!("file://{}", path.display()))
}

/// The versions of objects, by their namespaces and names.
pub type Versions = BTreeMap<String, String>;

/// The mirror in a policy server.
#[derive(Clone)]
pub struct Mirror(Client);

impl Mirror {
    /// Builds the policy into this directory, and adds it to the policy server's file.
    pub fn add_to(policies: &mut Value, directory: &Path) -> anyhow::Result<()> {
        // It may look at whatever the policy under test may.
        let resources =
            policy_module::read_metadata(MODULE)?.context("the policy is not annotated")?.context_aware_resources;
        policies[NAME] = json!({
            "module": test_policy("mirror-policy", directory)?,
            "contextAwareResources": resources,
            "hostCapabilities": ["*"],
        });
        Ok(())
    }

    /// The one behind this client.
    #[must_use]
    pub fn of(client: Client) -> Self {
        Mirror(client)
    }

    /// What the watches show now, in the order of the questions.
    pub async fn show(&self, queries: &[&ListResources]) -> anyhow::Result<Vec<Versions>> {
        let kind = json!({"group": "", "version": "v1", "kind": "Mirror"});
        let resource = json!({"group": "", "version": "v1", "resource": "mirrors"});
        let request = json!({"uid": "mirror", "operation": "CREATE", "kind": kind, "resource": resource,
            "userInfo": {}, "object": {"queries": queries}});
        let answer = self.0.validate(NAME, &request).await?;
        let message = answer["status"]["message"].as_str().unwrap_or_default();
        serde_json::from_str(message).with_context(|| format!("the mirror says {answer}"))
    }
}
