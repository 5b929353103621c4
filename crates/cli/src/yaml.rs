//! Writing YAML scalars.

use std::fmt::Write as _;

use serde_json::Value;

/// A text that any YAML parser reads back as it was: plain where nothing can be mistaken, else in quotes.
pub(crate) fn scalar(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "./-_".contains(character);
    let is_word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str());
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.chars().all(is_plain) && !is_word {
        return text.to_owned();
    }
    if text.chars().any(needs_escape) {
        return double_quoted(text);
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// A whole document, in block style, with keys in the order of the value.
pub(crate) fn document(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                _ = write!(out, "{:indent$}{}:", "", scalar(key));
                // An element of a list may stand as far to the left as its key.
                below(value, if value.is_array() { indent } else { indent + 2 }, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                _ = write!(out, "{:indent$}-", "");
                below(item, indent + 2, out);
            }
        }
        _ => _ = writeln!(out, "{:indent$}{}", "", inline(value)),
    }
}

fn below(value: &Value, indent: usize, out: &mut String) {
    let is_block = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        out.push('\n');
        block(value, indent, out);
    } else {
        _ = writeln!(out, " {}", inline(value));
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        // Numbers, words, and what is empty are the same in JSON.
        other => other.to_string(),
    }
}

/// Characters that a parser would refuse, fold or drop: control characters, line breaks and the byte order mark.
pub(crate) fn needs_escape(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            // Writing to a string cannot fail.
            _ if needs_escape(character) => _ = write!(out, "\\u{:04x}", u32::from(character)),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_read_back_as_it_was() {
        let value = json!({"kind": "X", "metadata": {"name": "on", "labels": {}, "annotations": {"a: b": "{\"x\": 1}"}},
            "spec": {"list": ["a", "1", {"deep": [[], {"er": null}], "n": 2}], "empty": [], "text": "a\nb"}});
        let text = document(&value);
        assert_eq!(crate::documents::parse(Path::new("x.yaml"), text.as_bytes()).unwrap(), [value], "{text}");
        assert!(text.starts_with("kind: X\nmetadata:\n"), "{text}");
    }
}
