//! The registrations that are shipped, `policy-metadata/*.yaml`, as what Kubewarden's controller makes of them: what is
//! tested is what is applied by those who use it.

use anyhow::Context;
use operator_bounds::documents;
use serde_json::{Map, Value, json};
use test_parts::root;

use crate::webhook::{Endpoint, Kind, configuration, webhook};

/// Where Kubewarden is installed. Its webhooks leave that namespace alone.
const KUBEWARDEN: &str = "kubewarden";
/// What a `ClusterAdmissionPolicy` has in common with the webhook that is made of it.
const COPIED: [&str; 6] =
    ["rules", "matchConditions", "failurePolicy", "matchPolicy", "objectSelector", "timeoutSeconds"];

/// Shipped `ClusterAdmissionPolicy` manifests.
#[derive(Debug, Clone)]
pub struct Shipped(Vec<Value>);

impl Shipped {
    /// Those of these files, but for the ones that are left out by name.
    pub fn read(files: &[&str], left_out: &[&str]) -> anyhow::Result<Self> {
        let mut policies = Vec::new();
        for file in files {
            let path = root().join("policy-metadata").join(file);
            let found = documents::read(&path).with_context(|| path.display().to_string())?;
            policies.extend(found.into_iter().filter(|policy| !left_out.contains(&name(policy))));
        }
        Ok(Shipped(policies))
    }

    /// The same with other settings: each is laid over the shipped ones, as a JSON merge patch.
    #[must_use]
    pub fn with_settings(mut self, changes: &Value) -> Self {
        for policy in &mut self.0 {
            merge(&mut policy["spec"]["settings"], changes);
        }
        self
    }

    /// The manifests.
    #[must_use]
    pub fn manifests(&self) -> &[Value] {
        &self.0
    }

    /// The policy server's file.
    #[must_use]
    pub fn policies(&self, module: &str) -> Value {
        let policy = |policy: &Value| {
            let spec = &policy["spec"];
            let mut served = json!({
                "module": module,
                "settings": spec["settings"],
                "allowedToMutate": spec["mutating"],
                "policyMode": spec["mode"],
                "contextAwareResources": spec["contextAwareResources"],
                // What every policy gets that is not in a namespace.
                "hostCapabilities": ["*"],
            });
            if !spec["timeoutEvalSeconds"].is_null() {
                served["timeoutEvalSeconds"] = spec["timeoutEvalSeconds"].clone();
            }
            (unique_name(policy), served)
        };
        Value::Object(self.0.iter().map(policy).collect::<Map<_, _>>())
    }

    /// One configuration for each.
    #[must_use]
    pub fn configurations(&self, endpoint: &Endpoint) -> Vec<Value> {
        let configured = |policy: &Value| {
            let (name, spec) = (unique_name(policy), &policy["spec"]);
            let mut webhook = webhook(endpoint, &format!("{name}.kubewarden.admission"), &name);
            for field in COPIED {
                if !spec[field].is_null() {
                    webhook[field] = spec[field].clone();
                }
            }
            webhook["namespaceSelector"] = namespace_selector(spec);
            let kind = if spec["mutating"] == true { Kind::Mutating } else { Kind::Validating };
            configuration(kind, &name, &[webhook])
        };
        self.0.iter().map(configured).collect()
    }
}

/// Kubewarden keeps policies out of its own namespace, unless a policy says otherwise.
fn namespace_selector(spec: &Value) -> Value {
    let given = &spec["namespaceSelector"];
    if spec["allowInsideAdmissionControllerNamespace"] == true {
        return given.clone();
    }
    let mut expressions =
        vec![json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [KUBEWARDEN]})];
    expressions.extend(given["matchExpressions"].as_array().into_iter().flatten().cloned());
    json!({"matchExpressions": expressions})
}

fn name(policy: &Value) -> &str {
    policy["metadata"]["name"].as_str().unwrap_or_default()
}

/// What Kubewarden calls a policy that is in no namespace: in paths, in webhooks, in the audit log.
fn unique_name(policy: &Value) -> String {
    format!("clusterwide-{}", name(policy))
}

fn merge(into: &mut Value, changes: &Value) {
    match (into, changes) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(fields.entry(key).or_insert(Value::Null), change);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use operator_bounds::policy::MODULE;

    use super::*;

    /// A policy server refuses a look-up that the registration does not name, and the policy then refuses whatever was asked: an
    /// extension with a ClusterRoleBinding could never be installed.
    #[test]
    fn every_registration_lets_the_policy_look_at_all_that_it_declares() {
        let declared = policy_module::read_metadata(MODULE).unwrap().unwrap().context_aware_resources;
        let declared = serde_json::to_value(declared).unwrap();
        for policy in Shipped::read(&["olm-v0.yaml", "olm-v1.yaml", "olm-v1-strip.yaml"], &[]).unwrap().manifests() {
            assert_eq!(policy["spec"]["contextAwareResources"], declared, "{}", name(policy));
        }
    }
}
