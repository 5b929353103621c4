//! Bundles that OLM has unpacked into a ConfigMap: plain, or gzip and base64.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_with_limit};

use crate::object::object;
use crate::text::Text;
use crate::yaml;

/// A ConfigMap holds at most 1 MiB; unpacked it is allowed to be this much. More is a bomb.
const MAX_UNPACKED: usize = 16 * 1024 * 1024;

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
    let mut bundle = Bundle::default();
    each_entry(config_map, &mut |key, text| bundle.add(key, text))?;
    Ok(bundle)
}

/// The texts of an unpacked bundle as somebody wrote them. Those that cannot be unpacked are skipped, as OLM does.
pub fn texts(config_map: &[u8]) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    each_entry(config_map, &mut |_, text| texts.extend(text))?;
    Ok(texts)
}

fn each_entry(config_map: &[u8], entry: &mut dyn FnMut(&str, Result<String, String>)) -> Result<(), String> {
    let text = std::str::from_utf8(config_map).map_err(|error| error.to_string())?;
    let map: ConfigMap<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut budget = MAX_UNPACKED;
    for (key, text) in &map.data {
        let text = if looks_packed(text) { unpack(text.as_bytes(), &mut budget) } else { Ok(text.to_string()) };
        entry(key, text);
    }
    for (key, text) in &map.binary_data {
        let inner = STANDARD.decode(text.as_bytes()).map_err(|error| error.to_string());
        entry(key, inner.and_then(|inner| unpack(&inner, &mut budget)));
    }
    Ok(())
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
fn unpack(packed: &[u8], budget: &mut usize) -> Result<String, String> {
    let packed = STANDARD.decode(packed.trim_ascii()).map_err(|error| error.to_string())?;
    let stream = gzip_stream(&packed).ok_or("is not packed with gzip")?;
    let text = decompress_to_vec_with_limit(stream, *budget).map_err(|error| match error.status {
        TINFLStatus::HasMoreOutput => "unpacks to more than 16 MiB".to_owned(),
        _ => "the packed data is damaged".to_owned(),
    })?;
    *budget -= text.len();
    String::from_utf8(text).map_err(|error| error.to_string())
}

/// The compressed stream inside a gzip file (RFC 1952), without its header. The checksum at the end guards against
/// accidents, and what an accident leaves of a manifest does not read as one.
fn gzip_stream(file: &[u8]) -> Option<&[u8]> {
    const CHECKSUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let [0x1f, 0x8b, 8, flags, _, _, _, _, _, _, rest @ ..] = file else { return None };
    let mut rest = rest;
    if flags & EXTRA != 0 {
        let [low, high, after @ ..] = rest else { return None };
        rest = after.get(usize::from(u16::from_le_bytes([*low, *high]))..)?;
    }
    for field in [NAME, COMMENT] {
        if flags & field != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & CHECKSUM != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
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
    fn every_field_of_a_gzip_header_is_passed_over() {
        let plain = STANDARD.decode(gzip("kind: Role")).unwrap();
        let mut odd = plain[..10].to_vec();
        odd[3] = 2 | 4 | 8 | 16;
        odd.extend([3, 0, 1, 2, 3]);
        odd.extend(b"name\0comment\0");
        odd.extend([0, 0]);
        odd.extend(&plain[10..]);
        assert_eq!(unpack(STANDARD.encode(&odd).as_bytes(), &mut 100).unwrap(), "kind: Role");
        for broken in [&odd[..12], &odd[..15], &odd[..20], &odd[..30], b"", b"\x1f\x8b"] {
            assert!(unpack(STANDARD.encode(broken).as_bytes(), &mut 100).is_err(), "{broken:?}");
        }
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
