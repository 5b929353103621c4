//! Changes to the text of a manifest that leave every other byte as it is.

use std::ops::Range;

use super::extension::{Place, Written};
use super::verdict::Change;
use crate::syntax::{Content, Node};

/// Bytes of a text, and what comes instead of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Which bytes.
    pub bytes: Range<usize>,
    /// What instead.
    pub text: String,
}

/// The edit for a change, or why it cannot be made safely.
pub fn of(text: &str, extension: &Written<'_>, change: Change, account: Option<&str>) -> Result<Edit, String> {
    if let Some(reason) = &extension.untouchable {
        return Err(reason.clone());
    }
    match change {
        Change::Remove => remove(text, &extension.place),
        Change::Insert => {
            let account = account.ok_or("choose the account with --service-account NAME")?;
            insert(text, &extension.place, account)
        }
    }
}

/// The text with all edits made. They must not overlap.
#[must_use]
pub fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.bytes.start);
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for Edit { bytes, text: instead } in edits {
        out.push_str(&text[at..bytes.start]);
        out.push_str(&instead);
        at = bytes.end;
    }
    out.push_str(&text[at..]);
    out
}

fn remove(text: &str, place: &Place<'_>) -> Result<Edit, String> {
    let (Some(mapping), Some((key, value))) = (place.mapping, place.entry) else {
        return Err("the field does not exist".to_owned());
    };
    if key.has_anchor() || value.has_anchor() {
        return Err("part of the field has an anchor".to_owned());
    }
    if mapping.entries().len() == 1 {
        return Err("its mapping would be left empty".to_owned());
    }
    let bytes = match &mapping.content {
        Content::Mapping { in_braces: true, .. } => in_braces(text, key, value)?,
        _ => whole_lines(text, mapping, key, value)?,
    };
    Ok(Edit { bytes, text: String::new() })
}

/// The lines of an entry. Comments over it stay: they may be about what comes next.
fn whole_lines(text: &str, mapping: &Node, key: &Node, value: &Node) -> Result<Range<usize>, String> {
    let start = text[..key.bytes.start].rfind('\n').map_or(0, |at| at + 1);
    if !text[start..key.bytes.start].trim().is_empty() {
        // `- spec: …` or `? …`: the line has something else on it, too.
        return Err("the line of the field contains something else".to_owned());
    }
    let end = value.bytes.end.max(key.bytes.end);
    let rest = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
    let tail = text[end..rest].trim();
    if !(tail.is_empty() || tail.starts_with('#') || tail == ":") {
        return Err("the last line of the field contains something else".to_owned());
    }
    // At the end of a file without a last line break, the one before goes instead.
    let is_last = mapping.entries().last().is_some_and(|(last, _)| last.bytes == key.bytes);
    if is_last && rest == text.len() && !text.ends_with('\n') {
        let before =
            text[..start].strip_suffix('\n').map_or(start, |text| text.strip_suffix('\r').unwrap_or(text).len());
        return Ok(before..rest);
    }
    Ok(start..rest)
}

/// An entry between braces, with one of its commas; with its whole line where nothing else is in it.
fn in_braces(text: &str, key: &Node, value: &Node) -> Result<Range<usize>, String> {
    let (mut start, mut end) = (key.bytes.start, value.bytes.end);
    let after = end + text[end..].len() - text[end..].trim_start().len();
    if text[after..].starts_with(',') {
        end = after + 1;
        let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let next = text[end..].find('\n').map(|at| end + at + 1);
        match next {
            Some(next) if text[line..start].trim().is_empty() && text[end..next].trim().is_empty() => {
                return Ok(line..next);
            }
            _ => end += text[end..].len() - text[end..].trim_start_matches(' ').len(),
        }
        return Ok(start..end);
    }
    if text[after..].starts_with('#') {
        return Err("a comment is between the field and its comma".to_owned());
    }
    let before = text[..start].trim_end();
    if !before.ends_with(',') {
        return Err("the comma before the field was not found".to_owned());
    }
    start = before.len() - 1;
    Ok(start..end)
}

/// Behind the namespace, in the same style.
fn insert(text: &str, place: &Place<'_>, account: &str) -> Result<Edit, String> {
    if let Some((_, value)) = place.entry {
        return fill(value, account);
    }
    let Some(mapping) = place.mapping else { return Err("there is no spec to add the field to".to_owned()) };
    let Some((key, value)) = place.namespace.or_else(|| mapping.entries().first()) else {
        return Err("the spec is empty, so the field has no neighbour to be added after".to_owned());
    };
    let name = crate::yaml::scalar(account);
    if let Content::Mapping { in_braces: true, .. } = &mapping.content {
        let is_json = text[key.bytes.clone()].starts_with('"');
        let field = if is_json {
            format!(", \"serviceAccount\": {{\"name\": {}}}", serde_json::Value::from(account))
        } else {
            format!(", serviceAccount: {{name: {name}}}")
        };
        return Ok(Edit { bytes: value.bytes.end..value.bytes.end, text: field });
    }
    if !matches!(value.content, Content::Scalar(_)) || text[value.bytes.clone()].contains('\n') {
        return Err("the namespace spans several lines".to_owned());
    }
    let line = text[..key.bytes.start].rfind('\n').map_or(0, |at| at + 1);
    let indent = " ".repeat(text[line..key.bytes.start].chars().count());
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let field = format!("{indent}serviceAccount:{ending}{indent}  name: {name}");
    let end = value.bytes.end;
    Ok(match text[end..].find('\n') {
        Some(at) => Edit { bytes: end + at + 1..end + at + 1, text: format!("{field}{ending}") },
        None => Edit { bytes: text.len()..text.len(), text: format!("{ending}{field}") },
    })
}

/// A field that is there and names nobody.
fn fill(value: &Node, account: &str) -> Result<Edit, String> {
    match value.get("name") {
        Some(name) if name.text().is_some() && !name.bytes.is_empty() => {
            Ok(Edit { bytes: name.bytes.clone(), text: serde_json::Value::from(account).to_string() })
        }
        _ => Err("the field exists without a name: add the name by hand".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;
    use crate::upgrade_check::extension;

    fn changed(text: &str, change: Change) -> Result<String, String> {
        let documents = syntax::parse(text).unwrap();
        let mut edits = Vec::new();
        for document in &documents {
            for written in extension::all(document) {
                if change == Change::Insert || written.place.entry.is_some() {
                    edits.push(of(text, &written, change, Some("installer"))?);
                }
            }
        }
        Ok(apply(text, edits))
    }

    const HEAD: &str = "apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata: {name: x}\n";

    #[test]
    fn the_field_goes_and_everything_else_stays() {
        for (spec, left) in [
            (
                "spec:\n  # where\n  namespace: ns   # here\n  # who\n  serviceAccount:   # old\n    name: 'sa'\n  # what\n  source: {}\n",
                "spec:\n  # where\n  namespace: ns   # here\n  # who\n  # what\n  source: {}\n",
            ),
            (
                "spec:\n  namespace: ns\n  serviceAccount: {name: sa}\n---\na: 1\n",
                "spec:\n  namespace: ns\n---\na: 1\n",
            ),
            ("spec:\n  namespace: ns\n  serviceAccount:\n    name: sa", "spec:\n  namespace: ns"),
            ("spec: {serviceAccount: {name: sa}, namespace: ns}\n", "spec: {namespace: ns}\n"),
            ("spec: {namespace: ns, serviceAccount: {name: sa}}\n", "spec: {namespace: ns}\n"),
            (
                "spec: {\n  namespace: ns,\n  serviceAccount: {name: sa},\n  source: {}\n}\n",
                "spec: {\n  namespace: ns,\n  source: {}\n}\n",
            ),
            ("spec:\n  serviceAccount:\n    name: \"ü\"\n\n\n  source: {}\n", "spec:\n\n\n  source: {}\n"),
        ] {
            assert_eq!(changed(&format!("{HEAD}{spec}"), Change::Remove).unwrap(), format!("{HEAD}{left}"), "{spec}");
        }
    }

    #[test]
    fn line_ends_of_another_system_stay() {
        let text = format!("{HEAD}spec:\n  namespace: ns\n  serviceAccount:\n    name: sa\n  source: {{}}\n")
            .replace('\n', "\r\n");
        let left = format!("{HEAD}spec:\n  namespace: ns\n  source: {{}}\n").replace('\n', "\r\n");
        assert_eq!(changed(&text, Change::Remove).unwrap(), left);
        assert_eq!(changed(&left, Change::Insert).unwrap(), text.replace("name: sa", "name: installer"));
    }

    #[test]
    fn json_and_lists_are_edited_too() {
        let item = |spec: &str| {
            format!(
                "{{\n  \"items\": [{{\"apiVersion\": \"olm.operatorframework.io/v1\", \"kind\": \"ClusterExtension\",\n    \"spec\": {spec}}}],\n  \"kind\": \"List\"\n}}\n"
            )
        };
        let before = item("{\"namespace\": \"ns\", \"serviceAccount\": {\"name\": \"installer\"}, \"source\": {}}");
        let after = item("{\"namespace\": \"ns\", \"source\": {}}");
        assert_eq!(changed(&before, Change::Remove).unwrap(), after);
        assert_eq!(changed(&after, Change::Insert).unwrap(), before);
    }

    #[test]
    fn both_shapes_of_the_old_version_are_known() {
        let head = "apiVersion: olm.operatorframework.io/v1alpha1\nkind: ClusterExtension\n";
        let early = format!("{head}spec:\n  installNamespace: ns\n  serviceAccount:\n    name: installer\n");
        let late = format!("{head}spec:\n  install:\n    namespace: ns\n    serviceAccount:\n      name: installer\n");
        for (text, left) in [
            (early, format!("{head}spec:\n  installNamespace: ns\n")),
            (late, format!("{head}spec:\n  install:\n    namespace: ns\n")),
        ] {
            assert_eq!(changed(&text, Change::Remove).unwrap(), left);
            assert_eq!(changed(&left, Change::Insert).unwrap(), text);
        }
    }

    #[test]
    fn what_cannot_be_done_safely_is_refused() {
        for (spec, reason) in [
            ("spec: &s\n  namespace: ns\n  serviceAccount: {name: sa}\nother: *s\n", "its spec has an anchor"),
            ("spec:\n  namespace: ns\n  serviceAccount: &a {name: sa}\nother: *a\n", "part of the field has an anchor"),
            ("spec:\n  serviceAccount: {name: sa}\n", "its mapping would be left empty"),
            (
                "base: &b {a: 1}\nspec:\n  <<: *b\n  serviceAccount: {name: sa}\n",
                "merges an alias of something defined elsewhere",
            ),
        ] {
            let error = changed(&format!("{HEAD}{spec}"), Change::Remove).unwrap_err();
            assert!(error.contains(reason), "{spec}: {error}");
        }
    }
}
