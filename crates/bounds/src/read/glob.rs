//! Globs on names: `*` matches any sequence of characters, everything else matches itself.

/// Whether `text` matches `pattern`, in time linear in both for any pattern (each `*` is tried once, left to right).
#[must_use]
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_pattern_without_a_star_is_the_name_itself() {
        assert!(matches("a.b", "a.b"));
        assert!(!matches("a.b", "a.bc"));
        assert!(!matches("a.b", "aXb"));
        assert!(matches("", ""));
    }

    #[test]
    fn stars_match_any_run_and_parts_never_overlap() {
        assert!(matches("*", ""));
        assert!(matches("a*c*e", "abcde"));
        assert!(!matches("ab*ba", "aba"));
        assert!(matches("**a**", "xay"));
        assert!(!matches("a*b*c", "acb"));
    }
}
