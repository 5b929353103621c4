//! Reads JSON the way Go does, and reports where reading failed.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::read::text::Text;

/// JSON that could not be read as the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Unreadable {
    /// The path of the value: `spec.install.spec.permissions[0].rules`.
    pub path: String,
    /// The error message, without the position.
    pub(crate) reason: String,
}

/// Reads `text`; an error gives the path below `root` where it happened.
pub fn read<'a, T: Deserialize<'a>>(text: &'a str, root: &str) -> Result<T, Unreadable> {
    serde_json::from_str(text).map_err(|error| explain(text, root, &error))
}

/// Not generic: a single copy is enough for all types that are read.
#[cold]
#[inline(never)]
fn explain(text: &str, root: &str, error: &serde_json::Error) -> Unreadable {
    let path = path_at(text, offset_of(text, error.line(), error.column()));
    let path = match (root.is_empty(), path.is_empty()) {
        (false, false) if path.starts_with('[') => format!("{root}{path}"),
        (false, false) => format!("{root}.{path}"),
        (false, true) => root.to_owned(),
        (true, false) => path,
        (true, true) => "payload".to_owned(),
    };
    Unreadable { path, reason: reason_of(error) }
}

/// The members of an object in the order in which they are written.
pub(crate) struct Members<'a>(pub(crate) Vec<(Text<'a>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

/// The raw value at a path through objects; `None` if the path does not exist.
pub(crate) fn at<'a>(text: &'a str, way: &[&str]) -> Option<&'a str> {
    let Some((first, rest)) = way.split_first() else { return Some(text) };
    let members: Members<'a> = serde_json::from_str(text).ok()?;
    // Of duplicate keys the last one counts, as in Go.
    let (_, value) = members.0.iter().rfind(|(key, _)| key == first)?;
    at(value.get(), rest)
}

/// The text at a path; empty if there is none.
pub(crate) fn text_at<'a>(text: &'a str, way: &[&str]) -> Text<'a> {
    at(text, way).and_then(|value| serde_json::from_str(value).ok()).unwrap_or_default()
}

/// The raw elements of the list at a path; empty if there is no list.
pub(crate) fn list_at<'a>(text: &'a str, way: &[&str]) -> Vec<&'a RawValue> {
    at(text, way).and_then(|value| serde_json::from_str(value).ok()).unwrap_or_default()
}

/// The error without serde's line and column: the path is more useful.
pub(crate) fn reason_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (start + column).min(text.len())
}

enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// The path of the value that is being read at `offset`.
fn path_at(text: &str, offset: usize) -> String {
    let bytes = text.as_bytes();
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut key_next = false;
    let mut at = 0;
    while at < offset.min(bytes.len()) {
        match bytes[at] {
            b'{' => {
                steps.push(Step::Key(""));
                key_next = true;
            }
            b'[' => steps.push(Step::Index(0)),
            b'}' | b']' => {
                steps.pop();
                if at + 1 >= offset {
                    return render(&steps);
                }
            }
            b',' => match steps.last_mut() {
                Some(Step::Index(index)) => *index += 1,
                Some(Step::Key(_)) => key_next = true,
                None => {}
            },
            b'"' => {
                let end = string_end(bytes, at);
                if key_next {
                    if let Some(Step::Key(key)) = steps.last_mut() {
                        *key = text.get(at + 1..end).unwrap_or_default();
                    }
                    key_next = false;
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    render(&steps)
}

/// The index of the quote that ends the string starting at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn render(steps: &[Step<'_>]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Index(index) => path.push_str(&format!("[{index}]")),
            Step::Key("") => {}
            Step::Key(key) if key.contains(['.', '/', '[', ' ']) => path.push_str(&format!("[\"{key}\"]")),
            Step::Key(key) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Deserialize, Debug)]
    struct Sample {
        #[allow(dead_code)]
        rules: Vec<BTreeMap<String, Vec<String>>>,
    }

    fn error(text: &str) -> String {
        read::<Sample>(text, "object").unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_type_is_named_by_its_path() {
        assert_eq!(
            error(r#"{"a":{"b":[1,{"c":2}]},"rules":[{"verbs":["get"]},{"verbs":"get"}]}"#),
            "object.rules[1].verbs: invalid type: string \"get\", expected a sequence"
        );
    }

    #[test]
    fn a_wrong_element_is_named_by_its_index() {
        assert_eq!(
            error("{\n \"rules\": [\n  {\"verbs\": [\"get\", 7]}]}"),
            "object.rules[0].verbs[1]: invalid type: integer `7`, expected a string"
        );
    }

    #[test]
    fn a_missing_field_is_said_of_the_object_that_lacks_it() {
        assert_eq!(error(r#"{"x":[1,2,{"y":1}]}"#), "object: missing field `rules`");
    }

    #[test]
    fn keys_with_dots_are_quoted_and_escapes_do_not_confuse() {
        assert_eq!(
            error(r#"{"rules":[{"a\"]b":["x"],"app.k8s.io/name":1}]}"#),
            "object.rules[0][\"app.k8s.io/name\"]: invalid type: integer `1`, expected a sequence"
        );
    }

    #[test]
    fn a_way_leads_to_what_is_written_there() {
        let text = r#"{"a":{"b":1,"b":"\u0041"},"l":[{"x":1},2]}"#;
        assert_eq!(at(text, &["a", "b"]), Some(r#""\u0041""#));
        assert_eq!(text_at(text, &["a", "b"]), "A");
        let elements: Vec<&str> = list_at(text, &["l"]).into_iter().map(RawValue::get).collect();
        assert_eq!(elements, [r#"{"x":1}"#, "2"]);
        for way in [&["a", "c"][..], &["a", "b", "c"], &["l", "x"], &["z"]] {
            assert_eq!(at(text, way), None, "{way:?}");
            assert!(text_at(text, way).is_empty() && list_at(text, way).is_empty());
        }
    }

    #[test]
    fn text_that_is_no_json_is_an_error_and_not_a_crash() {
        for text in ["", "{", "[", "\"", "{\"rules\":[{\"a\":[\"\\", "nul", "{\"rules\" 1}"] {
            assert!(read::<Sample>(text, "").is_err(), "{text}");
        }
    }
}
