//! Writing YAML scalars.

use std::fmt::Write as _;

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
