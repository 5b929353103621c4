//! Field masks: which fields of an object cross from the host to the policy.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value};

/// The annotation that Kubewarden's watch cache drops.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A tree of field names. Nothing below a name means everything below it.
#[derive(Debug, Default)]
pub(crate) struct Mask<'p> {
    fields: BTreeMap<&'p str, Mask<'p>>,
}

impl<'p> Mask<'p> {
    /// Paths with dots: `spec.template.spec.serviceAccountName`. No path at all lets everything through.
    pub(crate) fn new(paths: impl IntoIterator<Item = &'p str>) -> Self {
        let mut root = Mask::default();
        for path in paths {
            let mut node = &mut root;
            for field in path.split('.') {
                node = node.fields.entry(field).or_default();
            }
        }
        root
    }

    /// The mask of one field's value, or nothing when the field is not let through.
    fn below(&self, field: &str) -> Option<&Mask<'p>> {
        if self.fields.is_empty() { Some(self) } else { self.fields.get(field) }
    }

    /// An object as `get_resource` answers it.
    pub(crate) fn object<'a>(&'a self, object: &'a Value) -> impl Serialize + 'a {
        Masked { value: object, mask: self, level: Level::Object }
    }

    /// An object as an item of a list: it comes from a watch cache, which drops some of it.
    pub(crate) fn item<'a>(&'a self, object: &'a Value) -> impl Serialize + 'a {
        Masked { value: object, mask: self, level: Level::Item }
    }
}

/// Masks apply to all but the type and the metadata of an object, at the top.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Object,
    Item,
    Field,
}

/// A value as it looks through a mask; nothing is copied.
struct Masked<'a, 'p> {
    value: &'a Value,
    mask: &'a Mask<'p>,
    level: Level,
}

impl Masked<'_, '_> {
    fn serialize_field<M: SerializeMap>(&self, map: &mut M, key: &str, value: &Value) -> Result<(), M::Error> {
        match (self.level, key) {
            (Level::Item, "apiVersion" | "kind") => Ok(()),
            (Level::Item, "metadata") => map.serialize_entry(key, &cached_metadata(value)),
            (Level::Object, "apiVersion" | "kind" | "metadata") => map.serialize_entry(key, value),
            _ => match self.mask.below(key) {
                Some(mask) => map.serialize_entry(key, &Masked { value, mask, level: Level::Field }),
                None => Ok(()),
            },
        }
    }
}

impl Serialize for Masked<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Value::Object(fields) => {
                let mut map = serializer.serialize_map(None)?;
                for (key, value) in fields {
                    self.serialize_field(&mut map, key, value)?;
                }
                map.end()
            }
            // A path goes through arrays, to each of their elements.
            Value::Array(elements) => {
                let mut sequence = serializer.serialize_seq(Some(elements.len()))?;
                for value in elements {
                    sequence.serialize_element(&Masked { value, mask: self.mask, level: Level::Field })?;
                }
                sequence.end()
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

/// Metadata is always whole, but the watch cache empties `managedFields` and drops kubectl's copy of the object.
fn cached_metadata(metadata: &Value) -> Value {
    let mut metadata = metadata.clone();
    if let Value::Object(fields) = &mut metadata {
        fields.insert("managedFields".to_owned(), Value::Array(Vec::new()));
        let annotations = fields.entry("annotations").or_insert_with(|| Map::new().into());
        if let Value::Object(annotations) = annotations {
            annotations.remove(LAST_APPLIED);
        }
    }
    metadata
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"a": "b"}, "managedFields": [{"manager": "kubectl"}],
                         "annotations": {LAST_APPLIED: "{}", "kept": "yes"}},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}, {"image": "j"}]}}},
            "status": {"replicas": 1},
        })
    }

    fn item(paths: &[&str]) -> Value {
        serde_json::to_value(Mask::new(paths.iter().copied()).item(&deployment())).unwrap()
    }

    #[test]
    fn only_the_named_fields_pass_through_every_element_of_an_array() {
        let item = item(&["spec.template.spec.containers.image"]);
        assert_eq!(item["spec"], json!({"template": {"spec": {"containers": [{"image": "i"}, {"image": "j"}]}}}));
        assert!(item.get("status").is_none());
    }

    #[test]
    fn everything_below_a_named_field_passes() {
        assert_eq!(item(&["spec"])["spec"], deployment()["spec"]);
    }

    #[test]
    fn no_mask_lets_everything_through() {
        assert_eq!(item(&[])["status"], json!({"replicas": 1}));
    }

    #[test]
    fn a_list_item_has_metadata_but_no_type_and_no_managed_fields() {
        let item = item(&["metadata.name"]);
        assert_eq!(
            item,
            json!({"metadata": {"name": "web", "labels": {"a": "b"}, "managedFields": [], "annotations": {"kept": "yes"}}})
        );
    }

    #[test]
    fn an_object_keeps_its_type_and_all_its_metadata() {
        let mask = Mask::new(["status.missing"]);
        let object = serde_json::to_value(mask.object(&deployment())).unwrap();
        assert_eq!(object["kind"], "Deployment");
        assert_eq!(object["metadata"], deployment()["metadata"]);
        assert_eq!(object["status"], json!({}));
        assert!(object.get("spec").is_none());
    }
}
