//! Bundles that OLM has unpacked into a ConfigMap: plain, or gzip and base64.

use std::collections::BTreeMap;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::object::object;
use crate::text::Text;
use crate::yaml;

/// A ConfigMap holds at most 1 MiB; unpacked it is allowed to be this much. More is a bomb.
const MAX_UNPACKED: u64 = 16 * 1024 * 1024;

object! {
    #[derive(Debug, Default)]
    struct ConfigMap<'a> {
        data: BTreeMap<Text<'a>, Text<'a>> = "data",
        binary_data: BTreeMap<Text<'a>, Text<'a>> = "binaryData",
    }
}

/// What is in an unpacked bundle.
#[derive(Debug, Default)]
pub struct Bundle {
    /// The manifests, each as JSON.
    pub manifests: Vec<String>,
    /// Entries that cannot be read, and why. OLM skips those that are no manifests, and installs the rest.
    pub unreadable: Vec<String>,
}

/// The manifests of an unpacked bundle. The error says why it is none.
pub fn read(config_map: &[u8]) -> Result<Bundle, String> {
    let text = std::str::from_utf8(config_map).map_err(|error| error.to_string())?;
    let map: ConfigMap<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut budget = MAX_UNPACKED;
    let mut bundle = Bundle::default();
    for (key, text) in &map.data {
        let text = if looks_packed(text) { unpack(text.as_bytes(), &mut budget) } else { Ok(text.to_string()) };
        bundle.add(key, text);
    }
    for (key, text) in &map.binary_data {
        let inner = STANDARD.decode(text.as_bytes()).map_err(|error| error.to_string());
        bundle.add(key, inner.and_then(|inner| unpack(&inner, &mut budget)));
    }
    Ok(bundle)
}

impl Bundle {
    fn add(&mut self, key: &str, text: Result<String, String>) {
        match text.and_then(|text| to_json(&text)) {
            Ok(manifest) => self.manifests.push(manifest),
            Err(reason) => self.unreadable.push(format!("{key}: {reason}")),
        }
    }
}

/// base64 of a gzip header.
fn looks_packed(text: &str) -> bool {
    text.starts_with("H4sI")
}

/// base64, then gzip.
fn unpack(packed: &[u8], budget: &mut u64) -> Result<String, String> {
    let packed = STANDARD.decode(packed.trim_ascii()).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let read = flate2::read::GzDecoder::new(packed.as_slice())
        .take(*budget + 1)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    *budget = budget.checked_sub(read as u64).ok_or("unpacks to more than 16 MiB")?;
    Ok(text)
}

/// Bundles are written in YAML or JSON.
fn to_json(text: &str) -> Result<String, String> {
    if text.trim_start().starts_with('{') {
        return Ok(text.to_owned());
    }
    yaml::to_json(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(text: &str) -> String {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        STANDARD.encode(encoder.finish().unwrap())
    }

    #[test]
    fn plain_yaml_plain_json_and_packed_manifests_are_read() {
        let packed = gzip("kind: Role\nrules:\n- verbs: [get]\n");
        let map = serde_json::json!({
            "data": {"a.yaml": "kind: Service\n", "b.json": "{\"kind\":\"ConfigMap\"}", "c.yaml": packed},
            "binaryData": {"d.yaml": STANDARD.encode(&packed)},
        });
        let found = read(map.to_string().as_bytes()).unwrap().manifests;
        let role = r#"{"kind":"Role","rules":[{"verbs":["get"]}]}"#;
        assert_eq!(found, [r#"{"kind":"Service"}"#, r#"{"kind":"ConfigMap"}"#, role, role]);
    }

    #[test]
    fn a_bomb_and_a_broken_entry_are_named() {
        let bomb = gzip(&"a".repeat(17 * 1024 * 1024));
        let map = serde_json::json!({"data": {"bomb.yaml": bomb, "x.yaml": "a: [1, 2", "z.yaml": "kind: Role"}});
        let bundle = read(map.to_string().as_bytes()).unwrap();
        assert_eq!(bundle.manifests, [r#"{"kind":"Role"}"#]);
        assert_eq!(bundle.unreadable[0], "bomb.yaml: unpacks to more than 16 MiB");
        assert!(bundle.unreadable[1].starts_with("x.yaml: no YAML at line "), "{:?}", bundle.unreadable);
    }
}
