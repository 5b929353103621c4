//! Label selectors, equality-based and set-based, as the API server reads them.

use serde_json::Value;

/// One requirement on the labels of an object.
#[derive(Debug, PartialEq, Eq)]
enum Requirement<'s> {
    Exists(&'s str),
    Absent(&'s str),
    In(&'s str, Vec<&'s str>),
    NotIn(&'s str, Vec<&'s str>),
}

/// Requirements that all have to be met. The empty selector selects everything.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selector<'s>(Vec<Requirement<'s>>);

impl<'s> Selector<'s> {
    /// Reads `a=b,c!=d,e in (f, g),h notin (i),j,!k`.
    pub(crate) fn parse(text: &'s str) -> Result<Self, String> {
        let parts = split(text).into_iter().map(str::trim).filter(|part| !part.is_empty());
        parts
            .map(|part| requirement(part).ok_or_else(|| format!("label selector `{text}`: cannot read `{part}`")))
            .collect::<Result<_, _>>()
            .map(Selector)
    }

    /// Whether an object's labels meet every requirement.
    pub(crate) fn selects(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str);
        self.0.iter().all(|requirement| match requirement {
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Absent(key) => label(key).is_none(),
            Requirement::In(key, values) => label(key).is_some_and(|value| values.contains(&value)),
            Requirement::NotIn(key, values) => label(key).is_none_or(|value| !values.contains(&value)),
        })
    }
}

/// At the commas that are not between parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(|character| {
        inside = (inside || character == '(') && character != ')';
        character == ',' && !inside
    })
    .collect()
}

fn requirement(part: &str) -> Option<Requirement<'_>> {
    if let Some(key) = part.strip_prefix('!') {
        return Some(Requirement::Absent(name(key)?));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Some(Requirement::NotIn(name(key)?, vec![value.trim()]));
    }
    if let Some((key, value)) = part.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return Some(Requirement::In(name(key)?, vec![value.trim()]));
    }
    let Some((key, values)) = part.split_once('(') else { return name(part).map(Requirement::Exists) };
    let values = values.strip_suffix(')')?.split(',').map(str::trim).collect();
    match key.trim().split_once(char::is_whitespace)? {
        (key, operator) if operator.trim() == "in" => Some(Requirement::In(name(key)?, values)),
        (key, operator) if operator.trim() == "notin" => Some(Requirement::NotIn(name(key)?, values)),
        _ => None,
    }
}

fn name(key: &str) -> Option<&str> {
    let key = key.trim();
    let is_part = |character: char| character.is_ascii_alphanumeric() || "-_./".contains(character);
    (!key.is_empty() && key.chars().all(is_part)).then_some(key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selector: &str) -> bool {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "front", "example.com/x": ""}}});
        Selector::parse(selector).unwrap().selects(&object)
    }

    #[test]
    fn every_requirement_has_to_be_met() {
        for selector in [
            "",
            "app=web",
            "app==web, tier = front",
            "app!=db",
            "missing!=x",
            "app in (db, web)",
            "app notin (db),tier in (front,back)",
            "missing notin (a)",
            "app,tier",
            "!missing",
            "example.com/x",
            "example.com/x=",
        ] {
            assert!(selects(selector), "{selector}");
        }
        for selector in [
            "app=db",
            "app=web,tier=back",
            "missing=x",
            "app!=web",
            "app notin (web)",
            "missing in (a)",
            "!app",
            "missing",
        ] {
            assert!(!selects(selector), "{selector}");
        }
    }

    #[test]
    fn what_is_no_selector_is_an_error_that_quotes_it() {
        for selector in ["app in web", "app in (web", "a b", "=x", "app near (web)", "app>1"] {
            let error = Selector::parse(selector).unwrap_err();
            assert!(error.contains(selector), "{selector}: {error}");
        }
    }

    #[test]
    fn an_object_without_labels_has_none() {
        assert!(Selector::parse("!app").unwrap().selects(&json!({"metadata": {}})));
        assert!(!Selector::parse("app").unwrap().selects(&json!({})));
    }
}
