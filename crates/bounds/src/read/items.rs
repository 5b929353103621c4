//! The items of a list in JSON, found without parsing them.
//!
//! A list of all RoleBindings of a large cluster has tens of megabytes, of which a verdict needs a few hundred bytes.
//! Finding where an item ends, and whether a name occurs in it, takes a fraction of the time of parsing it.

use memchr::memchr2;

/// Which items are passed on: those that contain, as a whole string, one of these words. (A key is a string too: that
/// only means that an item is parsed for nothing.)
#[derive(Debug)]
pub(crate) struct Words<'w> {
    /// In order.
    sorted: &'w [&'w str],
    /// The lengths that occur, by their remainder: most strings are ruled out by this alone.
    lengths: u64,
}

impl<'w> Words<'w> {
    /// Any of these, which must be in order.
    pub(crate) fn any_of(sorted: &'w [&'w str]) -> Self {
        let lengths = sorted.iter().fold(0, |lengths, word| lengths | bit(word.len()));
        Words { sorted, lengths }
    }

    fn contain(&self, string: &[u8]) -> bool {
        self.lengths & bit(string.len()) != 0
            && self.sorted.binary_search_by(|word| word.as_bytes().cmp(string)).is_ok()
    }
}

fn bit(length: usize) -> u64 {
    1 << (length % 64)
}

/// Passes on the text of each item of the list, or of those that contain one of the words, with its position in the list.
/// `None` if this is not a list, or if it breaks off.
pub(crate) fn each<'a>(list: &'a str, words: Option<&Words<'_>>, item: &mut dyn FnMut(usize, &'a str)) -> Option<()> {
    let bytes = list.as_bytes();
    let (mut at, mut depth, mut begin, mut position) = (0, 0_usize, 0, 0);
    let (mut is_list, mut is_in_items, mut is_wanted) = (false, false, false);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let start = at;
                let has_escapes;
                (at, has_escapes) = end_of_string(bytes, at)?;
                let string = &bytes[start..at - 1];
                if depth == 1 {
                    is_in_items = string == b"items" && begins_a_list(&bytes[at..]);
                    is_list |= is_in_items;
                } else if is_in_items && depth == 2 {
                    return None;
                } else if is_in_items && !is_wanted {
                    // A string that is written with escapes might be anything.
                    is_wanted = has_escapes || words.is_none_or(|words| words.contain(string));
                }
            }
            b'{' | b'[' => {
                depth += 1;
                if depth == 3 {
                    begin = at - 1;
                    is_wanted = words.is_none();
                }
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 2 && is_in_items {
                    if is_wanted {
                        item(position, list.get(begin..at)?);
                    }
                    position += 1;
                }
            }
            b',' | b' ' | b'\n' | b'\r' | b'\t' => {}
            // Items are objects.
            _ if is_in_items && depth == 2 => return None,
            _ => {}
        }
    }
    (is_list && depth == 0).then_some(())
}

/// The position after the string that begins at `at`, and whether anything in it is escaped.
fn end_of_string(bytes: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let mut has_escapes = false;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some((at + 1, has_escapes));
        }
        has_escapes = true;
        at += 2;
    }
}

/// Whether the string before this is a key with a list as its value.
fn begins_a_list(rest: &[u8]) -> bool {
    let value = rest.trim_ascii_start().strip_prefix(b":");
    value.is_some_and(|value| value.trim_ascii_start().starts_with(b"["))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn found(list: &str, words: &[&str]) -> Option<Vec<String>> {
        let mut found = Vec::new();
        let words = Words::any_of(words);
        let words = Some(&words).filter(|words| !words.sorted.is_empty());
        each(list, words, &mut |_, item| found.push(item.to_owned()))?;
        Some(found)
    }

    #[test]
    fn items_with_one_of_the_words_are_found() {
        let list = r#"{"kind":"items","metadata":{"items":[{"a":"me"}]}, "items" : [ {"a":"me"},{"b":["m","e","me "]},{"c":{"d":"me"}} ,
            {"e":"m\u0065"},{"f":"{\"me\"}"}], "more":[{"a":"me"}]}"#;
        let wanted = found(list, &["me", "you"]).unwrap();
        assert_eq!(wanted, [r#"{"a":"me"}"#, r#"{"c":{"d":"me"}}"#, r#"{"e":"m\u0065"}"#, r#"{"f":"{\"me\"}"}"#]);
        assert_eq!(found(list, &[]).unwrap().len(), 5);
    }

    #[test]
    fn what_is_not_a_list_of_objects_is_not_taken_for_an_empty_list() {
        for list in [
            "",
            "{}",
            "[]",
            r#"{"items":null}"#,
            r#"{"items":{}}"#,
            r#"{"items":"[]"}"#,
            r#"{"items":["a"]}"#,
            r#"{"items":[1]}"#,
            r#"{"items":[null]}"#,
            r#"{"items":[{"a":"b"}]"#,
            r#"{"items":[{"a":"b"#,
            r#"{"items":[]}}"#,
            r#"{"kind":"items"}"#,
        ] {
            assert_eq!(found(list, &[]), None, "{list}");
        }
        assert_eq!(found(r#"{"items":[]}"#, &[]), Some(Vec::new()));
    }

    fn value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![Just("me".to_owned()), Just("items".to_owned()), "[a-c\"\\\\{}\\[\\],:é]{0,6}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            text.clone().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn contains(value: &Value, word: &str) -> bool {
        match value {
            Value::String(text) => text == word,
            Value::Array(elements) => elements.iter().any(|element| contains(element, word)),
            Value::Object(members) => members.iter().any(|(key, value)| key == word || contains(value, word)),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn items_are_what_a_parser_finds(items in prop::collection::vec(prop::collection::btree_map("[a-z]{1,3}", value(), 0..4), 0..5), beside in value(), is_pretty: bool) {
            let items: Vec<Value> = items.into_iter().map(|item| json!(item)).collect();
            let list = json!({"alpha": beside, "items": items, "zeta": beside});
            let text = if is_pretty { format!("{list:#}") } else { list.to_string() };
            let parsed = |texts: Vec<String>| texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect::<Vec<Value>>();
            prop_assert_eq!(&parsed(found(&text, &[]).unwrap()), &items);
            let wanted = parsed(found(&text, &["me"]).unwrap());
            for item in &items {
                // One with an escape somewhere may be passed on for nothing.
                prop_assert!(wanted.contains(item) || !contains(item, "me"));
                prop_assert!(!wanted.contains(item) || contains(item, "me") || item.to_string().contains('\\'));
            }
        }
    }
}
