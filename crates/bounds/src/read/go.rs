//! Manifests that have so far been read only by OLM, whose Go code accepts `Rules` for `rules`. (What comes from the
//! API server always has the canonical spelling.)

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::read::json::{Unreadable, reason_of};
use crate::read::text::Text;

/// All keys that are read from such a manifest.
const KEYS: &[&str] = &[
    "aggregationRule",
    "annotations",
    "apiGroups",
    "apiservicedefinitions",
    "clusterPermissions",
    "deploymentName",
    "deployments",
    "generateName",
    "install",
    "kind",
    "labels",
    "metadata",
    "name",
    "namespace",
    "nonResourceURLs",
    "owned",
    "ownerReferences",
    "permissions",
    "replaces",
    "resourceNames",
    "resources",
    "roleRef",
    "rules",
    "serviceAccount",
    "serviceAccountName",
    "spec",
    "template",
    "type",
    "verbs",
    "webhookdefinitions",
];

/// Maps in which the keys are chosen by users.
const MAPS: &[&str] = &["annotations", "labels"];

/// The same JSON with every known key in its canonical spelling. A duplicate key is an error: which of the two counts,
/// and how much of the other, is not worth guessing.
pub(crate) fn as_go_reads(text: &str, root: &str) -> Result<String, Unreadable> {
    let mut out = String::with_capacity(text.len());
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Rewrite(&mut out).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    match read {
        Ok(()) => Ok(out),
        Err(error) => Err(Unreadable { path: root.to_owned(), reason: reason_of(&error) }),
    }
}

/// Writes one value as it is read. Numbers are replaced by a placeholder: none are read from these manifests.
struct Rewrite<'o>(&'o mut String);

impl<'de> DeserializeSeed<'de> for Rewrite<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Rewrite<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.push_str("null");
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.0.push('0');
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.0.push('0');
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.0.push('0');
        Ok(())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.0.push_str(&serde_json::to_string(value).map_err(E::custom)?);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.push('[');
        let mut separator = false;
        loop {
            let length = self.0.len();
            if separator {
                self.0.push(',');
            }
            if seq.next_element_seed(Rewrite(&mut *self.0))?.is_none() {
                self.0.truncate(length);
                break;
            }
            separator = true;
        }
        self.0.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Vec::new();
        self.0.push('{');
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let known = KEYS.iter().find(|known| is_same(known, &key)).copied();
            if let Some(known) = known {
                if seen.contains(&known) {
                    return Err(de::Error::custom(format_args!("has the key {known} twice")));
                }
                seen.push(known);
            }
            if !self.0.ends_with('{') {
                self.0.push(',');
            }
            let name = known.unwrap_or(&key);
            self.0.push_str(&serde_json::to_string(name).map_err(de::Error::custom)?);
            self.0.push(':');
            if MAPS.contains(&name) {
                self.0.push_str(map.next_value::<&RawValue>()?.get());
            } else {
                map.next_value_seed(Rewrite(&mut *self.0))?;
            }
        }
        self.0.push('}');
        Ok(())
    }
}

/// Whether Go treats the two keys as the same: it ignores case, and folds two Unicode letters to ASCII ones.
fn is_same(known: &str, key: &str) -> bool {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    known.chars().map(fold).eq(key.chars().map(fold))
}

#[cfg(test)]
mod tests {
    use super::as_go_reads;

    #[test]
    fn keys_are_spelt_as_they_should_be_but_not_those_that_people_choose() {
        let text = r#"{"KIND":"Role","Metadata":{"Labels":{"Name":"x"},"NAME":"r"},"\u017fpec":[{"Verbs":["GET"]}],"other":1}"#;
        assert_eq!(
            as_go_reads(text, "m").unwrap(),
            r#"{"kind":"Role","metadata":{"labels":{"Name":"x"},"name":"r"},"spec":[{"verbs":["GET"]}],"other":0}"#
        );
    }

    #[test]
    fn a_key_that_is_there_twice_is_an_error() {
        for text in [r#"{"rules":[],"Rules":[]}"#, r#"{"a":[{"verbs":[],"verbs":[]}]}"#] {
            assert!(as_go_reads(text, "m").unwrap_err().to_string().contains("twice"), "{text}");
        }
    }

    #[test]
    fn depth_and_broken_text_are_errors() {
        assert!(as_go_reads(&format!("{}{}", "[".repeat(200), "]".repeat(200)), "m").is_err());
        assert!(as_go_reads("{\"a\":", "m").is_err());
    }
}
