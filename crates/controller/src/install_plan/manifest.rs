//! The manifest behind a step: inline, or in the ConfigMap of a bundle that OLM unpacked.

use std::collections::HashMap;

use bounds::bundle;
use bounds::plan::{Unpacked, reference};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::apply::is_object_name;
use crate::context::Context;
use crate::error::Error;
use crate::generated;
use crate::olm::{MANAGED_LABEL, Step};

/// Where OLM keeps what a bundle says of itself.
const PROPERTIES: &str = "operatorframework.io/properties";

/// Why there is no manifest.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The step is broken, and stays so.
    Broken(String),
    /// It may be there later.
    Later(String),
}

fn broken(reason: impl Into<String>) -> Trouble {
    Trouble::Broken(reason.into())
}

/// The bundles that a plan refers to, each read once.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    bundles: HashMap<(String, String), Vec<Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Properties {
    properties: String,
}

impl Manifests {
    /// The object that a step brings.
    pub(super) async fn of(
        &mut self,
        cx: &Context,
        namespace: &str,
        step: &Step,
    ) -> Result<Result<Value, Trouble>, Error> {
        let text = step.resource.manifest.as_str();
        if text.trim().is_empty() {
            return Ok(Err(broken("has no manifest")));
        }
        let Some(at) = reference(text) else { return Ok(parse(text).map_err(broken)) };
        let key = (at.namespace.clone(), at.name.clone());
        if !self.bundles.contains_key(&key) {
            match read(cx, namespace, &at).await? {
                Ok(manifests) => self.bundles.insert(key.clone(), manifests),
                Err(trouble) => return Ok(Err(trouble)),
            };
        }
        let properties: Properties = serde_json::from_str(text).unwrap_or_default();
        let bundle = self.bundles.get(&key).map(Vec::as_slice).unwrap_or_default();
        let found = find(bundle, namespace, step, &at, &properties.properties).map_err(broken);
        Ok(found.and_then(|found| {
            found.ok_or_else(|| broken(format!("is not in {}, where its manifest should be", said(&at))))
        }))
    }
}

fn said(at: &Unpacked) -> String {
    format!("ConfigMap {}/{}", at.namespace, at.name)
}

/// JSON, or YAML as people write it.
fn parse(text: &str) -> Result<Value, String> {
    let object: Value = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| format!("has a broken manifest: {error}"))?
    } else {
        serde_saphyr::from_str(text).map_err(|error| format!("has a broken manifest: {error}"))?
    };
    if object.is_object() { Ok(object) } else { Err("has a manifest that is no object".to_owned()) }
}

/// Reads an unpacked bundle. Catalogs are in other namespaces, and the controller may read there: so it takes nothing from
/// elsewhere but what OLM has marked as its own.
async fn read(cx: &Context, namespace: &str, at: &Unpacked) -> Result<Result<Vec<Value>, Trouble>, Error> {
    if !is_object_name(&at.name) || !is_object_name(&at.namespace) {
        return Ok(Err(broken("refers to a ConfigMap by something that is no name")));
    }
    let maps: Api<ConfigMap> = Api::namespaced(cx.own.0.clone(), &at.namespace);
    let Some(map) = maps.get_opt(&at.name).await.map_err(Error::api("read", said(at)))? else {
        return Ok(Err(Trouble::Later(format!("is in {}, which does not exist (any more)", said(at)))));
    };
    if at.namespace != namespace && map.labels().get(MANAGED_LABEL).map(String::as_str) != Some("true") {
        return Ok(Err(broken(format!(
            "refers to {}, which OLM has not unpacked: it has no label {MANAGED_LABEL}",
            said(at)
        ))));
    }
    let bytes = serde_json::to_vec(&map).unwrap_or_default();
    let texts = match bundle::texts(&bytes) {
        Ok(texts) => texts,
        Err(reason) => return Ok(Err(broken(format!("is in {}, which cannot be understood: {reason}", said(at))))),
    };
    // What is no manifest is skipped, as OLM does: a step that needed it does not find it.
    Ok(Ok(texts.iter().filter_map(|text| parse(text).ok()).collect()))
}

/// The manifest of a step in its bundle, or what OLM makes of the ClusterServiceVersion's permissions.
fn find(
    bundle: &[Value],
    namespace: &str,
    step: &Step,
    at: &Unpacked,
    properties: &str,
) -> Result<Option<Value>, String> {
    let Some(csv) = bundle.iter().find(|object| object["kind"] == "ClusterServiceVersion") else { return Ok(None) };
    let wanted = &step.resource;
    let kind = if wanted.kind == "BundleSecret" { "Secret" } else { &wanted.kind };
    if kind == "ClusterServiceVersion" {
        return completed(csv, at, properties).map(Some);
    }
    let is_it = |object: &&Value| {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        object["kind"] == kind
            && object["metadata"]["name"] == wanted.name.as_str()
            && (group, version) == (&wanted.group, &wanted.version)
    };
    let brought = bundle.iter().find(is_it).cloned();
    Ok(brought.or_else(|| generated::find(csv, namespace, kind, &wanted.name)))
}

/// The ClusterServiceVersion of a bundle, with what the reference to it says.
fn completed(csv: &Value, at: &Unpacked, properties: &str) -> Result<Value, String> {
    // Anybody may have written it, and setting a field of what has no fields panics.
    let parts = [&csv["spec"], &csv["metadata"], &csv["metadata"]["annotations"]];
    if !parts.iter().all(|part| part.is_object() || part.is_null()) {
        return Err("has a manifest whose spec, metadata or annotations are no object".to_owned());
    }
    let mut csv = csv.clone();
    csv["spec"]["replaces"] = json!(at.replaces);
    if !properties.is_empty() {
        csv["metadata"]["annotations"][PROPERTIES] = json!(properties);
    }
    Ok(csv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_json_or_yaml_with_numbers_that_stay_numbers() {
        assert_eq!(parse("kind: Service\nspec: {ports: [{port: 80}]}\n").unwrap()["spec"]["ports"][0]["port"], 80);
        assert_eq!(parse(" {\"kind\": \"Role\"}").unwrap()["kind"], "Role");
        for text in ["{", "[1]", "just words", "{\"a\": 1}}", "a: [1", "a: 1\n---\nb: 2\n"] {
            assert!(parse(text).unwrap_err().starts_with("has a"), "{text}");
        }
    }

    #[test]
    fn a_bundle_whose_operator_has_no_fields_is_broken() {
        let at = Unpacked { name: "bundle".into(), namespace: "team-a".into(), replaces: String::new() };
        assert!(completed(&json!({"kind": "ClusterServiceVersion"}), &at, "{}").is_ok());
        for csv in [
            json!({"spec": "x"}),
            json!({"spec": []}),
            json!({"metadata": "x"}),
            json!({"metadata": {"annotations": "x"}}),
            json!({"metadata": {"annotations": 1}}),
        ] {
            assert!(completed(&csv, &at, "{}").unwrap_err().contains("are no object"), "{csv}");
        }
    }
}
