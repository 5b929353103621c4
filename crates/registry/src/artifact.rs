//! A policy as a Kubewarden artifact: an empty configuration, the module as the one layer, and its annotations.

use std::collections::BTreeMap;

use oci_client::annotations::ORG_OPENCONTAINERS_IMAGE_SOURCE;
use oci_client::client::{Config, ImageLayer};
use oci_client::manifest::{OciImageManifest, WASM_CONFIG_MEDIA_TYPE, WASM_LAYER_MEDIA_TYPE};
use policy_module::Metadata;
use serde::Serialize;

use crate::digest::sha256;

/// Where a policy says that its sources are.
const SOURCE: &str = "io.kubewarden.policy.source";

/// The body of the configuration: there is nothing to configure.
pub(crate) const CONFIG: &[u8] = b"{}";

/// What is uploaded, and what it will be called.
pub(crate) struct Artifact {
    pub(crate) manifest: Vec<u8>,
    pub(crate) digest: String,
    pub(crate) layer_digest: String,
    pub(crate) config_digest: String,
}

impl Artifact {
    /// The artifact of an annotated module. The same module gives the same digest, here and with kwctl.
    pub(crate) fn of(wasm: &[u8]) -> Result<Self, String> {
        let metadata = metadata(wasm)?;
        let layer = ImageLayer::new(wasm.to_vec(), WASM_LAYER_MEDIA_TYPE.to_owned(), None);
        let config = Config::new(CONFIG, WASM_CONFIG_MEDIA_TYPE.to_owned(), None);
        let manifest = OciImageManifest::build(&[layer], &config, metadata.annotations.map(annotations));
        let mut bytes = Vec::new();
        let canonical = olpc_cjson::CanonicalFormatter::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, canonical);
        manifest.serialize(&mut serializer).map_err(|error| error.to_string())?;
        Ok(Artifact {
            digest: sha256(&bytes),
            layer_digest: manifest.layers.into_iter().map(|layer| layer.digest).collect(),
            config_digest: manifest.config.digest,
            manifest: bytes,
        })
    }
}

/// The metadata that a module must carry to be a policy.
pub(crate) fn metadata(wasm: &[u8]) -> Result<Metadata, String> {
    let metadata = policy_module::read_metadata(wasm).map_err(|error| error.to_string())?;
    metadata.ok_or_else(|| {
        "a wasm module without Kubewarden's metadata: annotate it first (`make annotated-policy.wasm`, or `kwctl annotate`)"
            .to_owned()
    })
}

/// The annotations of the manifest, made of those of the module the way `kwctl push` makes them: one line each, so a long
/// text stays in the module; and registries find the sources under their own name for them.
fn annotations(of_module: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_one_line = |text: &str| text.lines().nth(1).is_none();
    let mut annotations: BTreeMap<_, _> = of_module
        .into_iter()
        .filter(|(_, text)| is_one_line(text))
        .map(|(name, text)| (name, text.trim().to_owned()))
        .collect();
    if let Some(source) = annotations.get(SOURCE).cloned() {
        annotations.entry(ORG_OPENCONTAINERS_IMAGE_SOURCE.to_owned()).or_insert(source);
    }
    annotations
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &[u8] = b"\0asm\x01\0\0\0";

    fn annotated(annotations: &str) -> Vec<u8> {
        let rules = "[{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]";
        let yaml = format!("mutating: false\nrules: {rules}\nannotations: {annotations}");
        policy_module::annotate(MODULE, &Metadata::from_yaml(&yaml).unwrap()).unwrap()
    }

    fn manifest(wasm: &[u8]) -> serde_json::Value {
        serde_json::from_slice(&Artifact::of(wasm).unwrap().manifest).unwrap()
    }

    #[test]
    fn the_manifest_is_the_one_that_kwctl_writes() {
        let wasm = annotated("{io.kubewarden.policy.title: t}");
        let expected = format!(
            concat!(
                r#"{{"annotations":{{"io.kubewarden.policy.title":"t"}},"#,
                r#""config":{{"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","#,
                r#""mediaType":"application/vnd.wasm.config.v1+json","size":2}},"#,
                r#""layers":[{{"digest":"{}","mediaType":"application/vnd.wasm.content.layer.v1+wasm","size":{}}}],"#,
                r#""schemaVersion":2}}"#
            ),
            sha256(&wasm),
            wasm.len()
        );
        assert_eq!(String::from_utf8(Artifact::of(&wasm).unwrap().manifest).unwrap(), expected);
    }

    #[test]
    fn long_texts_stay_in_the_module_and_the_rest_is_trimmed() {
        let manifest = manifest(&annotated(r#"{a: "one\ntwo", b: "  one\n", c: ""}"#));
        assert_eq!(manifest["annotations"], serde_json::json!({"b": "one", "c": ""}));
    }

    #[test]
    fn registries_are_told_where_the_sources_are() {
        let manifest = manifest(&annotated("{io.kubewarden.policy.source: https://example.com}"));
        assert_eq!(manifest["annotations"]["org.opencontainers.image.source"], "https://example.com");
    }

    #[test]
    fn what_the_module_says_about_its_sources_itself_wins() {
        let both = "{io.kubewarden.policy.source: https://a, org.opencontainers.image.source: https://b}";
        assert_eq!(manifest(&annotated(both))["annotations"]["org.opencontainers.image.source"], "https://b");
    }

    #[test]
    fn only_an_annotated_module_is_an_artifact() {
        assert!(Artifact::of(MODULE).is_err_and(|reason| reason.contains("without Kubewarden's metadata")));
        assert!(Artifact::of(b"#!/bin/sh").is_err_and(|reason| reason.contains("not a wasm module")));
        assert!(Artifact::of(b"").is_err_and(|reason| reason.contains("not a wasm module")));
    }
}
