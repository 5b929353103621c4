//! Converts the YAML of a bundle to JSON.
//!
//! Only the events of a maintained parser are used: its serde front end alone is as big as the whole policy. Everything
//! that is read from a bundle is text, so every plain scalar except `null` becomes a string, as in Go where a string is
//! expected. Anchors are refused: bundles have none, and they allow a small document to expand enormously.

use granit_parser::{Event, Parser, ScalarStyle, ScanError};

/// The maximum nesting depth of a manifest, below the limit of `serde_json` (128).
const MAX_DEPTH: usize = 100;

/// What the next scalar is.
enum Open {
    Sequence { empty: bool },
    Mapping { empty: bool, key_next: bool },
}

/// Converts the first document of a YAML text to JSON.
pub fn to_json(text: &str) -> Result<String, String> {
    let mut json = String::with_capacity(text.len());
    let mut open: Vec<Open> = Vec::new();
    for next in Parser::new_from_str(text) {
        let (event, _) = next.map_err(|error| broken(&error))?;
        match event {
            Event::Scalar(text, style, _, _) => {
                let is_key = before(&mut json, &mut open)?;
                if style == ScalarStyle::Plain && !is_key && matches!(&*text, "" | "~" | "null" | "Null" | "NULL") {
                    json.push_str("null");
                } else {
                    push_string(&mut json, &text)?;
                }
            }
            Event::SequenceStart(_, _, _) => {
                start(&mut json, &mut open, '[', Open::Sequence { empty: true })?;
            }
            Event::MappingStart(_, _, _) => {
                start(&mut json, &mut open, '{', Open::Mapping { empty: true, key_next: true })?;
            }
            Event::SequenceEnd => {
                open.pop();
                json.push(']');
            }
            Event::MappingEnd => {
                open.pop();
                json.push('}');
            }
            Event::Alias(_) => return Err("aliases are not read here".to_owned()),
            Event::DocumentEnd => break,
            _ => {}
        }
    }
    Ok(json)
}

/// Where the YAML is invalid. The parser's own messages are left out of the module: they take as much space as a
/// verdict.
fn broken(error: &ScanError) -> String {
    let place = error.marker();
    format!("invalid YAML at line {}, column {}", place.line(), place.col() + 1)
}

fn start(json: &mut String, open: &mut Vec<Open>, bracket: char, with: Open) -> Result<(), String> {
    if before(json, open)? {
        return Err("keys must be plain scalars".to_owned());
    }
    if open.len() >= MAX_DEPTH {
        return Err(format!("is nested more than {MAX_DEPTH} levels deep"));
    }
    json.push(bracket);
    open.push(with);
    Ok(())
}

/// Writes the separator in front of the next value; returns whether that value is a key.
fn before(json: &mut String, open: &mut [Open]) -> Result<bool, String> {
    match open.last_mut() {
        None if json.is_empty() => Ok(false),
        None => Err("has more than one value".to_owned()),
        Some(Open::Sequence { empty }) => {
            if !std::mem::take(empty) {
                json.push(',');
            }
            Ok(false)
        }
        Some(Open::Mapping { empty, key_next }) => {
            let is_key = std::mem::replace(key_next, !*key_next);
            if !is_key {
                json.push(':');
            } else if !std::mem::take(empty) {
                json.push(',');
            }
            Ok(is_key)
        }
    }
}

fn push_string(json: &mut String, text: &str) -> Result<(), String> {
    json.push_str(&serde_json::to_string(text).map_err(|error| error.to_string())?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::to_json;

    #[test]
    fn block_and_flow_yaml_become_json() {
        let yaml = "# a bundle\nkind: Role\nmetadata:\n  name: \"a\\tb\"\nrules:\n- verbs: [get, '*']\n  apiGroups:\n  - \"\"\n\
                    - {}\n- []\nempty:\nversion: 1.0\nflag: yes\ntext: |\n  two\n  lines\n";
        assert_eq!(
            to_json(yaml).unwrap(),
            r#"{"kind":"Role","metadata":{"name":"a\tb"},"rules":[{"verbs":["get","*"],"apiGroups":[""]},{},[]],"empty":null,"version":"1.0","flag":"yes","text":"two\nlines\n"}"#
        );
    }

    #[test]
    fn anchors_depth_and_broken_yaml_are_errors() {
        assert_eq!(to_json("a: &x [1]\nb: *x\n").unwrap_err(), "aliases are not read here");
        let deep = format!("{}{}", "[".repeat(150), "]".repeat(150));
        assert!(to_json(&deep).unwrap_err().contains("nested"), "{:?}", to_json(&deep));
        assert!(to_json("a: [1, 2").is_err());
        assert!(to_json("? [a]\n: b\n").is_err());
    }
}
