//! Whether a schema takes everything that the one before took. Where that cannot be told, it is taken for stricter.

use serde_json::Value;

/// What may be added or changed without refusing anything: words for people, and defaults.
const HARMLESS: &[&str] = &["description", "title", "example", "examples", "externalDocs", "default", "$schema", "id"];

/// The first place at which the new definition takes less than the old one, in a version that both have.
#[must_use]
pub(super) fn narrowed(old: &Value, new: &Value) -> Option<String> {
    let versions = |spec: &Value| spec["versions"].as_array().cloned().unwrap_or_default();
    let after = versions(new);
    versions(old).iter().find_map(|before| {
        let after = after.iter().find(|version| version["name"] == before["name"])?;
        let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
        stricter(&schema(before), &schema(after), before["name"].as_str().unwrap_or_default())
    })
}

/// The place at which `new` may refuse what `old` took.
fn stricter(old: &Value, new: &Value, place: &str) -> Option<String> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| place.to_owned());
    };
    let keys = before.keys().chain(after.keys()).filter(|key| !HARMLESS.contains(&key.as_str()));
    for key in keys {
        let (was, is) = (before.get(key), after.get(key));
        if was == is {
            continue;
        }
        let at = format!("{place}.{key}");
        let found = match (key.as_str(), was, is) {
            ("properties", was, is) => fields(was.unwrap_or(&Value::Null), is.unwrap_or(&Value::Null), &at),
            ("items" | "additionalProperties", Some(was), Some(is)) => stricter(was, is, &at),
            ("required", was, Some(is)) => {
                list(is).find(|name| !list(was.unwrap_or(&Value::Null)).any(|old| old == *name)).map(|_| at)
            }
            ("enum", Some(was), Some(is)) => list(was).find(|value| !list(is).any(|new| new == *value)).map(|_| at),
            ("maximum" | "maxLength" | "maxItems" | "maxProperties", Some(was), Some(is)) => {
                (is.as_f64() < was.as_f64()).then_some(at)
            }
            ("minimum" | "minLength" | "minItems" | "minProperties", Some(was), Some(is)) => {
                (is.as_f64() > was.as_f64()).then_some(at)
            }
            (key, was, is) => (!is_wider(key, was, is)).then_some(at),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// A limit that is gone refuses nothing, and neither does leave to be something else.
fn is_wider(key: &str, was: Option<&Value>, is: Option<&Value>) -> bool {
    let limits = ["required", "enum", "pattern", "format", "x-kubernetes-validations"];
    let leaves = ["nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"];
    match (was, is) {
        (Some(_), None) => limits.contains(&key) || key.starts_with("min") || key.starts_with("max"),
        (_, Some(Value::Bool(true))) => leaves.contains(&key),
        _ => false,
    }
}

/// A new field refuses nothing (unknown ones were dropped before); one that is gone loses what is in it.
fn fields(old: &Value, new: &Value, place: &str) -> Option<String> {
    let (before, after) = (old.as_object(), new.as_object());
    before.into_iter().flatten().find_map(|(name, was)| {
        let at = format!("{place}.{name}");
        match after.and_then(|after| after.get(name)) {
            None => Some(at),
            Some(is) => stricter(was, is, &at),
        }
    })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn narrows(old: Value, new: Value) -> Option<String> {
        let spec = |schema: Value| json!({"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]});
        narrowed(&spec(old), &spec(new))
    }

    #[test]
    fn what_only_adds_takes_everything_that_was_taken() {
        let old = json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 5, "enum": ["x"]}}});
        assert_eq!(narrows(old.clone(), old.clone()), None);
        let new = json!({"type": "object", "description": "new words",
                         "properties": {"a": {"type": "string", "maxLength": 9, "enum": ["x", "y"]}, "b": {"type": "integer"}}});
        assert_eq!(narrows(old.clone(), new), None);
        assert_eq!(narrows(old, json!({"type": "object", "properties": {"a": {"type": "string"}}})), None);
    }

    #[test]
    fn what_takes_less_is_named() {
        let old = json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "y"]}}});
        for (new, place) in [
            (json!({"type": "object", "properties": {}}), "v1.properties.a"),
            (
                json!({"type": "object", "properties": {"a": {"type": "integer", "enum": ["x", "y"]}}}),
                "v1.properties.a.type",
            ),
            (json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}}), "v1.properties.a.enum"),
            (
                json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "enum": ["x", "y"]}}}),
                "v1.required",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x", "y"], "pattern": "^z"}}}),
                "v1.properties.a.pattern",
            ),
        ] {
            assert_eq!(narrows(old.clone(), new.clone()).as_deref(), Some(place), "{new}");
        }
    }

    #[test]
    fn a_new_version_is_nobodys_yet() {
        let old = json!({"versions": [{"name": "v1"}]});
        let new =
            json!({"versions": [{"name": "v1"}, {"name": "v2", "schema": {"openAPIV3Schema": {"type": "object"}}}]});
        assert_eq!(narrowed(&old, &new), None);
    }
}
