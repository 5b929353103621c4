//! Bundles that OLM has unpacked into a ConfigMap: plain, or compressed with gzip and encoded in base64.

use std::collections::BTreeMap;

use crate::read::gzip;
use crate::read::object::object;
use crate::read::text::Text;
use crate::read::yaml;

/// What one verdict may spend on bundles: decompressing is cheap, parsing YAML is not.
#[derive(Debug)]
pub(crate) struct Budget {
    unpacked: usize,
    read: usize,
}

impl Default for Budget {
    /// A ConfigMap holds at most 1 MiB; decompressed, sixteen times that is allowed. Anything larger is taken for a
    /// decompression bomb. One MiB of it is parsed: the largest real ClusterServiceVersion takes two thirds of that.
    fn default() -> Self {
        Budget { unpacked: 16 * 1024 * 1024, read: 1024 * 1024 }
    }
}

object! {
    #[derive(Debug, Default)]
    struct ConfigMap<'a> {
        data: BTreeMap<Text<'a>, Text<'a>> = "data",
        binary_data: BTreeMap<Text<'a>, Text<'a>> = "binaryData",
    }
}

/// The content of an unpacked bundle.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    /// The manifests, each as JSON, except those that are clearly of a kind that is not wanted.
    pub(crate) manifests: Vec<String>,
    /// Entries that cannot be read, and why. OLM skips entries that are not manifests, and installs the rest.
    pub(crate) unreadable: Vec<String>,
}

/// The manifests of an unpacked bundle. The error says why it is not a bundle.
pub(crate) fn read(config_map: &[u8], wanted: &dyn Fn(&str) -> bool, budget: &mut Budget) -> Result<Bundle, String> {
    let text = std::str::from_utf8(config_map).map_err(|error| error.to_string())?;
    let map: ConfigMap<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut bundle = Bundle::default();
    for (key, text) in &map.data {
        if looks_packed(text) {
            bundle.add(key, unpack(text, &mut budget.unpacked), wanted, budget);
        } else {
            bundle.add(key, Ok(text.to_string()), wanted, budget);
        }
    }
    for (key, text) in &map.binary_data {
        let inner = gzip::from_base64(text)
            .and_then(|inner| String::from_utf8(inner).map_err(|error| error.to_string()))
            .and_then(|inner| unpack(&inner, &mut budget.unpacked));
        bundle.add(key, inner, wanted, budget);
    }
    Ok(bundle)
}

impl Bundle {
    fn add(&mut self, key: &str, text: Result<String, String>, wanted: &dyn Fn(&str) -> bool, budget: &mut Budget) {
        let manifest = match text {
            Ok(text) if plain_kind(&text).is_some_and(|kind| !wanted(kind)) => return,
            Ok(text) if text.len() > budget.read => Err("exceeds what is read of bundles for one verdict".to_owned()),
            Ok(text) => {
                budget.read -= text.len();
                to_json(&text)
            }
            Err(reason) => Err(reason),
        };
        match manifest {
            Ok(manifest) => self.manifests.push(manifest),
            Err(reason) => self.unreadable.push(format!("{key}: {reason}")),
        }
    }
}

/// The kind of a manifest in the usual notation: YAML with a single line for the kind. Definitions are by far the
/// longest manifests of a bundle, and this avoids parsing them.
fn plain_kind(text: &str) -> Option<&str> {
    let mut lines = text.lines().filter(|line| line.get(..4).is_some_and(|key| key.eq_ignore_ascii_case("kind")));
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let kind = line.strip_prefix("kind: ")?.trim_end();
    kind.bytes().all(|letter| letter.is_ascii_alphanumeric()).then_some(kind)
}

/// Whether it begins with a gzip header in base64.
fn looks_packed(text: &str) -> bool {
    text.starts_with("H4sI")
}

fn unpack(packed: &str, budget: &mut usize) -> Result<String, String> {
    gzip::unpack(&gzip::from_base64(packed)?, budget)
}

/// Bundles contain YAML or JSON.
fn to_json(text: &str) -> Result<String, String> {
    if text.trim_start().starts_with('{') {
        return Ok(text.to_owned());
    }
    yaml::to_json(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

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
        let found = read(map.to_string().as_bytes(), &|_| true, &mut Budget::default()).unwrap().manifests;
        let role = r#"{"kind":"Role","rules":[{"verbs":["get"]}]}"#;
        assert_eq!(found, [r#"{"kind":"Service"}"#, r#"{"kind":"ConfigMap"}"#, role, role]);
    }

    #[test]
    fn a_bomb_and_a_broken_entry_are_named() {
        let bomb = gzip(&"a".repeat(17 * 1024 * 1024));
        let map = serde_json::json!({"data": {"bomb.yaml": bomb, "x.yaml": "a: [1, 2", "z.yaml": "kind: Role"}});
        let bundle = read(map.to_string().as_bytes(), &|_| true, &mut Budget::default()).unwrap();
        assert_eq!(bundle.manifests, [r#"{"kind":"Role"}"#]);
        assert!(bundle.unreadable[0].starts_with("bomb.yaml: unpacks to 17825792 bytes"), "{:?}", bundle.unreadable);
        assert!(bundle.unreadable[1].starts_with("x.yaml: invalid YAML at line "), "{:?}", bundle.unreadable);
    }
    #[test]
    fn what_is_plainly_of_another_kind_is_not_read() {
        let map = serde_json::json!({"data": {
            "a.yaml": "kind: CustomResourceDefinition\nspec: [broken",
            "b.yaml": "kind: 'Role'\n",
            "c.yaml": "kind: Service\nKind: Role\n",
            "d.yaml": "metadata: {name: x}\nkind: Role\n",
        }});
        let mut budget = Budget::default();
        let bundle = read(map.to_string().as_bytes(), &|kind| kind == "Role", &mut budget).unwrap();
        assert_eq!(bundle.manifests.len(), 3, "{bundle:?}");
        assert!(bundle.unreadable.is_empty(), "{bundle:?}");
    }

    #[test]
    fn no_more_is_read_for_one_verdict_than_its_budget() {
        let long = format!("kind: Role\nmetadata: {{name: {}}}\n", "a".repeat(600 * 1024));
        let map = serde_json::json!({"data": {"a.yaml": long, "b.yaml": long}});
        let bundle = read(map.to_string().as_bytes(), &|_| true, &mut Budget::default()).unwrap();
        assert_eq!(bundle.manifests.len(), 1);
        assert!(bundle.unreadable[0].contains("exceeds what is read"), "{:?}", bundle.unreadable);
    }
}
