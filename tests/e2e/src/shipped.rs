//! The registrations that are shipped, `policy-metadata/*.yaml`, as the webhook configurations that Kubewarden makes of
//! them: what is tested is what is applied by those who use it.

use anyhow::Context;
use operator_bounds::documents;
use serde_json::{Map, Value, json};

use crate::registration::{Kind, configuration, webhook};
use crate::serve::Serve;
use crate::support::{root, text};

const FILES: [&str; 3] = ["olm-v0.yaml", "olm-v1.yaml", "olm-v1-strip.yaml"];
/// With OLM v0 in the same cluster its own comment says to leave it out.
const LEFT_OUT: &str = "operator-bounds-olm-v1-identities";

/// The shipped `ClusterAdmissionPolicy` manifests.
pub(crate) struct Shipped(Vec<Value>);

impl Shipped {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let mut policies = Vec::new();
        for file in FILES {
            let path = root().join("policy-metadata").join(file);
            let found = documents::read(&path).with_context(|| path.display().to_string())?;
            policies.extend(found.into_iter().filter(|policy| text(policy, "/metadata/name") != LEFT_OUT));
        }
        Ok(Shipped(policies))
    }

    /// The policy server's file.
    pub(crate) fn policies(&self) -> Value {
        let policy = |policy: &Value| {
            let spec = &policy["spec"];
            let served =
                json!({"settings": spec["settings"], "allowedToMutate": spec["mutating"], "policyMode": spec["mode"]});
            (text(policy, "/metadata/name").to_owned(), served)
        };
        Value::Object(self.0.iter().map(policy).collect::<Map<_, _>>())
    }

    /// One configuration for each.
    pub(crate) fn configurations(&self, serve: &Serve) -> Vec<Value> {
        let configured = |policy: &Value| {
            let name = text(policy, "/metadata/name");
            let mut webhook = webhook(serve, &format!("{name}.kubewarden.admission"), name);
            for field in ["rules", "matchConditions", "failurePolicy", "matchPolicy", "timeoutSeconds"] {
                if !policy["spec"][field].is_null() {
                    webhook[field] = policy["spec"][field].clone();
                }
            }
            let kind = if policy["spec"]["mutating"] == true { Kind::Mutating } else { Kind::Validating };
            configuration(kind, name, &[webhook])
        };
        self.0.iter().map(configured).collect()
    }
}
