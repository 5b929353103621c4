//! Fills in what the API server demands of an object and the policy does not look at.
//!
//! Scenarios hold what matters to their sentence. The definitions of OLM demand more: a display name, a selector. What the
//! policy judges is never made up: an object that lacks it is one that no API server takes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The schemas of the custom resources that a server has, by apiVersion and kind.
#[derive(Default)]
pub(crate) struct Schemas(BTreeMap<(String, String), Value>);

/// What the policy judges, or what gives an object its identity.
const JUDGED: [&str; 14] = [
    "approved",
    "catalog",
    "deploymentName",
    "install",
    "metadata",
    "name",
    "namespace",
    "permissions",
    "rules",
    "serviceAccountName",
    "source",
    "spec",
    "type",
    "verbs",
];

impl Schemas {
    /// Out of the server's CustomResourceDefinitions.
    pub(crate) fn new(definitions: &[Value]) -> Self {
        let mut schemas = BTreeMap::new();
        for definition in definitions {
            let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
                let api_version = format!("{}/{}", text("/spec/group"), version["name"].as_str().unwrap_or_default());
                let schema = version["schema"]["openAPIV3Schema"].clone();
                schemas.insert((api_version, text("/spec/names/kind").to_owned()), schema);
            }
        }
        Schemas(schemas)
    }

    /// The object as the API server may take it.
    pub(crate) fn complete(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        match self.0.get(&(text("apiVersion"), text("kind"))) {
            Some(schema) => fill(schema, &mut object),
            None => workload(&mut object),
        }
        object
    }
}

fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !fields.contains_key(key) && !JUDGED.contains(&key) {
                    fields.insert(key.to_owned(), neutral(&schema["properties"][key]));
                }
            }
            for (key, field) in fields {
                let known = &schema["properties"][key.as_str()];
                fill(if known.is_null() { &schema["additionalProperties"] } else { known }, field);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(&schema["items"], item)),
        _ => {}
    }
}

/// A value of the type that says nothing.
fn neutral(schema: &Value) -> Value {
    match (schema["type"].as_str(), &schema["enum"][0], schema["format"].as_str()) {
        (_, first, _) if !first.is_null() => first.clone(),
        (Some("string"), _, Some("date-time")) => json!("2026-01-01T00:00:00Z"),
        (Some("string"), ..) => json!("e2e"),
        (Some("integer" | "number"), ..) => json!(1),
        (Some("boolean"), ..) => json!(false),
        (Some("array"), ..) => json!([]),
        _ => {
            let mut object = json!({});
            fill(schema, &mut object);
            object
        }
    }
}

/// The kinds of Kubernetes itself that make pods: a selector that fits the template, and a container.
fn workload(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let odd = |place: &&str| object.pointer(place).is_some_and(|part| !part.is_object() && !part.is_null());
    if !object["spec"].is_object() || TEMPLATE.iter().any(odd) {
        return; // It is no template at all: the API server will say so.
    }
    match kind.as_str() {
        "Pod" => pod(&mut object["spec"], None),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => {
            select(&mut object["spec"]);
            pod(&mut object["spec"]["template"]["spec"], None);
            if kind == "StatefulSet" {
                set(&mut object["spec"], "serviceName", json!("e2e"));
            }
        }
        "ReplicationController" => {
            set(&mut object["spec"], "selector", json!({"app": "e2e"}));
            set(&mut object["spec"]["template"], "metadata", json!({}));
            set(&mut object["spec"]["template"]["metadata"], "labels", json!({"app": "e2e"}));
            pod(&mut object["spec"]["template"]["spec"], None);
        }
        "Job" => pod(&mut object["spec"]["template"]["spec"], Some("Never")),
        "CronJob" => {
            set(&mut object["spec"], "schedule", json!("@yearly"));
            pod(&mut object["spec"]["jobTemplate"]["spec"]["template"]["spec"], Some("Never"));
        }
        _ => {}
    }
}

/// Where a pod's template may be.
const TEMPLATE: [&str; 8] = [
    "/spec/template",
    "/spec/template/metadata",
    "/spec/template/metadata/labels",
    "/spec/template/spec",
    "/spec/jobTemplate",
    "/spec/jobTemplate/spec",
    "/spec/jobTemplate/spec/template",
    "/spec/jobTemplate/spec/template/spec",
];

fn select(spec: &mut Value) {
    if !spec["selector"].is_object() {
        spec["selector"] = json!({"matchLabels": {"app": "e2e"}});
        set(&mut spec["template"], "metadata", json!({}));
        set(&mut spec["template"]["metadata"], "labels", json!({}));
        set(&mut spec["template"]["metadata"]["labels"], "app", json!("e2e"));
    }
}

fn pod(spec: &mut Value, restart_policy: Option<&str>) {
    set(spec, "containers", json!([{"name": "e2e", "image": "e2e"}]));
    for (number, container) in spec["containers"].as_array_mut().into_iter().flatten().enumerate() {
        set(container, "name", json!(format!("e2e-{number}")));
        set(container, "image", json!("e2e"));
    }
    if let Some(policy) = restart_policy {
        set(spec, "restartPolicy", json!(policy));
    }
}

/// Sets a field that is not there.
fn set(object: &mut Value, key: &str, value: Value) {
    if object.is_null() {
        *object = Value::Object(Map::new());
    }
    if let Value::Object(fields) = object {
        fields.entry(key).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_demanded_and_not_judged_is_filled_in() {
        let schemas = Schemas::new(&[json!({"spec": {
            "group": "example.com", "names": {"kind": "Thing"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": {
                "required": ["displayName", "serviceAccountName", "parts"],
                "properties": {
                    "displayName": {"type": "string"}, "serviceAccountName": {"type": "string"},
                    "parts": {"type": "array", "items": {"required": ["kind"], "properties": {"kind": {"enum": ["a", "b"]}}}},
                }}}}}}],
        }})]);
        let object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"parts": [{}]}});
        let expected = json!({"displayName": "e2e", "parts": [{"kind": "a"}]});
        assert_eq!(schemas.complete(&object)["spec"], expected);
    }

    #[test]
    fn a_workload_gets_a_selector_that_fits_its_template() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {}}}});
        let spec = Schemas::default().complete(&object)["spec"].clone();
        assert_eq!(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]);
        assert_eq!(spec["template"]["spec"]["containers"][0]["image"], "e2e");
    }
}
