//! What people are shown: refusals of at most 8 KiB, warnings of one line. What does not fit is counted, never silently
//! dropped.

use crate::decide::excess::Excess;

/// The longest refusal, in bytes.
pub(crate) const MAX_MESSAGE: usize = 8 * 1024;
/// The longest fact in the audit log, in bytes.
pub(crate) const MAX_FACT: usize = MAX_MESSAGE / 2;
/// The longest warning, in characters.
pub(crate) const MAX_WARNING: usize = 256;
/// The API server passes on about 4 KiB of warnings: anything beyond that is lost anyway.
const MAX_WARNINGS: usize = 14;

/// Text from an untrusted source in a form that is safe on one line of a terminal: characters that move the cursor,
/// change colours or reverse the direction of writing are escaped. Names of roles and users may contain anything.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control()
            || matches!(letter,
                '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
        {
            clean.extend(letter.escape_default());
        } else {
            clean.push(letter);
        }
    }
    clean
}

/// Lists an excess under a heading, ends with what to do next, one step per line, and stays within the limit.
#[must_use]
pub(crate) fn excess(heading: &str, excess: &Excess<'_>, notes: &[String], next: &[&str]) -> String {
    let mut text = format!("{}:\n", clean(heading));
    let mut advice = next.iter().map(|line| clean(line)).collect::<Vec<_>>().join("\n");
    clip(&mut advice, MAX_MESSAGE / 4);
    // When there is not enough room for everything, what to do next takes precedence.
    let mut tail = noted(notes, MAX_MESSAGE / 2 - advice.len());
    tail.push_str(&advice);
    // Leaves room for the line that counts the rest.
    let budget = MAX_MESSAGE.saturating_sub(tail.len() + 80);
    let heading_length = clip(&mut text, budget / 2);
    let mut left_out = 0;
    for (scope, rules) in excess {
        let mut block = format!("  {}\n", clean(&scope.to_string()));
        for (number, rule) in rules.iter().enumerate() {
            let line = format!("    {rule}\n");
            // From here on rules are only counted: there may be tens of thousands.
            if left_out > 0 || text.len() + block.len() + line.len() > budget {
                let shown = usize::from(text.len() == heading_length);
                if shown == 1 {
                    // A single rule may exceed the whole budget: then its beginning shows what it is about.
                    block.push_str(&line);
                    clip(&mut block, budget.saturating_sub(text.len()));
                    text.push_str(&block);
                }
                left_out += rules.len() - number - shown;
                break;
            }
            text.push_str(&block);
            text.push_str(&line);
            block.clear();
        }
    }
    if left_out > 0 {
        text.push_str(&format!("  … and {left_out} more {}\n", if left_out == 1 { "rule" } else { "rules" }));
    }
    text.push_str(&tail);
    text
}

/// The notes, one per line, as far as there is room; the rest is counted.
fn noted(notes: &[String], room: usize) -> String {
    let mut text = String::new();
    for (number, note) in notes.iter().enumerate() {
        let line = format!("  {}\n", clean(note));
        if text.len() + line.len() + 40 > room {
            text.push_str(&format!("  … and {} more notes\n", notes.len() - number));
            break;
        }
        text.push_str(&line);
    }
    text
}

/// A name in a command that may be copied: quoted where a shell would interpret part of it. Names of accounts and
/// namespaces in a spec are whatever a tenant wrote there.
#[must_use]
pub fn shell(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._/:,".contains(c);
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// Several refusals as one text within the limit.
#[must_use]
pub(crate) fn join(mut parts: Vec<String>) -> String {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let share = (MAX_MESSAGE / parts.len().max(1)).saturating_sub(40);
    let mut text = String::new();
    for mut part in parts {
        clip(&mut part, share);
        text.push_str(&part);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// The lines of an excess, each for a warning of its own. Lines that no client would be shown are only counted.
#[must_use]
pub(crate) fn lines(excess: &Excess<'_>) -> Vec<String> {
    const SHOWN: usize = 100;
    let all = excess.iter().flat_map(|(scope, rules)| rules.iter().map(move |rule| (scope, rule)));
    let mut lines: Vec<String> = all.take(SHOWN).map(|(scope, rule)| format!("{scope}: {rule}")).collect();
    let more = excess.values().map(|rules| rules.len()).sum::<usize>().saturating_sub(SHOWN);
    if more > 0 {
        lines.push(format!("… and {more} more rules"));
    }
    lines
}

/// Truncates a text to a size, stating how much is missing. Returns its size.
pub(crate) fn clip(text: &mut String, size: usize) -> usize {
    if text.len() > size {
        let mut end = size.saturating_sub(32);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let missing = text.len() - end;
        text.truncate(end);
        text.push_str(&format!(" … (and {missing} bytes more)\n"));
    }
    text.len()
}

/// Splits a text into warnings: one line each, none longer than [`MAX_WARNING`] characters.
#[must_use]
pub(crate) fn warnings(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut length = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        for piece in pieces(&clean(word)) {
            let size = piece.chars().count();
            if length > 0 && length + 1 + size > MAX_WARNING - 2 {
                line.push_str(" …");
                lines.push(std::mem::replace(&mut line, "… ".to_owned()));
                length = 1;
            }
            if length > 0 && !line.ends_with(' ') {
                line.push(' ');
            }
            line.push_str(piece);
            length = line.chars().count();
        }
    }
    lines.push(line);
    lines
}

/// The pieces of a word that is too long for one line.
fn pieces(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().nth(MAX_WARNING / 2).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

/// Keeps the number of warnings that the client will see, and counts the rest.
#[must_use]
pub(crate) fn limit(mut warnings: Vec<String>) -> Vec<String> {
    if warnings.len() > MAX_WARNINGS {
        let rest = warnings.len() - (MAX_WARNINGS - 1);
        warnings.truncate(MAX_WARNINGS - 1);
        warnings.push(format!("… and {rest} more warnings"));
    }
    warnings
}

/// A list of names for a sentence: all of them, or the first ones and a count.
#[must_use]
pub fn names<S: AsRef<str>>(names: &[S]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use crate::rbac::rule::Rule;
    use crate::rbac::scope::Scope;

    use super::*;

    fn sample(scopes: usize, resources: &[String]) -> Excess<'_> {
        (0..scopes)
            .map(|n| {
                let rules = resources.iter().map(|resource| Rule::on(&["apps"], &[resource], &["get"])).collect();
                (Scope::Namespace(format!("ns-{n:03}")), rules)
            })
            .collect()
    }

    #[test]
    fn a_refusal_has_the_shape_that_the_specification_shows() {
        let excess_of = Excess::from([
            (Scope::Cluster, Rc::from([Rule::on(&[""], &["nodes"], &["get", "list"])])),
            (
                Scope::Namespace("team-b".to_owned()),
                Rc::from([Rule::on(&["apps"], &["deployments"], &["delete"]).named(&["web"])]),
            ),
        ]);
        assert_eq!(
            excess("X asks for more than Y allows (Z)", &excess_of, &[], &["Grant it with: …"]),
            "X asks for more than Y allows (Z):\n  cluster-wide\n    apiGroups: [\"\"]  resources: [nodes]  \
             verbs: [get, list]\n  in namespace team-b\n    apiGroups: [apps]  resources: [deployments]  \
             verbs: [delete]  resourceNames: [web]\nGrant it with: …"
        );
    }

    #[test]
    fn names_in_commands_stay_names() {
        assert_eq!(shell("team-a/installer"), "team-a/installer");
        assert_eq!(shell("x; reboot"), "'x; reboot'");
        assert_eq!(shell("a'$(b)"), "'a'\\''$(b)'");
        assert_eq!(shell("--all"), "'--all'");
        assert_eq!(shell(""), "''");
    }

    #[test]
    fn nothing_that_a_terminal_would_obey_gets_through() {
        let text = excess("a\u{1b}[31m\nb", &sample(1, &["x".to_owned()]), &["c\rd".to_owned()], &["e\u{202e}f"]);
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.contains("a\\u{1b}[31m\\nb:") && text.contains("c\\rd") && text.contains("e\\u{202e}f"), "{text}");
        assert_eq!(warnings("a\u{202e}b \u{1b}[0m"), ["a\\u{202e}b [0m"]);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let resources: Vec<String> = (0..100).map(|n| format!("resource-{n:03}")).collect();
        let all = sample(5, &resources);
        let text = excess("heading", &all, &["note".to_owned()], &["next"]);
        assert!(text.len() <= MAX_MESSAGE, "{}", text.len());
        let shown = text.lines().filter(|line| line.starts_with("    ")).count();
        assert!(text.contains(&format!("… and {} more rules", 500 - shown)), "{text}");
        assert!(text.ends_with("  note\nnext"));
    }

    #[test]
    fn one_huge_rule_does_not_break_the_limit() {
        let resources: Vec<String> = (0..2000).map(|n| format!("resource-{n:04}")).collect();
        let list: Vec<&str> = resources.iter().map(String::as_str).collect();
        let all = Excess::from([(Scope::Cluster, Rc::from([Rule::on(&[""], &list, &["get"])]))]);
        let text = excess("heading", &all, &[], &["next"]);
        assert!(
            text.starts_with("heading:\n  cluster-wide\n    apiGroups: [\"\"]  resources: [resource-0000, "),
            "{text}"
        );
        assert!(text.contains(" … (and ") && text.ends_with(" bytes more)\nnext"), "{text}");
        assert!(text.len() <= MAX_MESSAGE, "{}", text.len());
    }

    #[test]
    fn warnings_are_one_line_of_at_most_256_characters_and_lose_no_word() {
        let words: Vec<String> = (0..200).map(|n| format!("wörd{n}")).collect();
        let text = format!("{}\n{}", words.join(" "), "x".repeat(700));
        let lines = warnings(&text);
        assert!(lines.iter().all(|line| line.chars().count() <= MAX_WARNING && !line.contains('\n')), "{lines:?}");
        let together = lines.join(" ").replace("… ", "").replace(" …", "");
        assert!(words.iter().all(|word| together.contains(word.as_str())));
        assert_eq!(together.matches('x').count(), 700);
        assert_eq!(warnings("short\ttext"), ["short text"]);
    }

    #[test]
    fn too_many_warnings_are_counted() {
        let limited = limit((0..40).map(|n| n.to_string()).collect());
        assert_eq!(limited.len(), MAX_WARNINGS);
        assert_eq!(limited.last().map(String::as_str), Some("… and 27 more warnings"));
    }

    #[test]
    fn several_refusals_share_the_limit() {
        let text = join(vec!["a".repeat(9000), "b".repeat(9000)]);
        assert!(text.len() <= MAX_MESSAGE);
        assert!(text.contains('b') && text.contains("bytes more"));
    }
}
