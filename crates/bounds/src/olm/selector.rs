//! Label selectors, as the API server reads them.

use std::collections::BTreeMap;

use crate::read::object::object;
use crate::read::text::Text;

object! {
    /// A `LabelSelector`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct Selector<'a> {
        /// Labels that must be present with these values.
        pub(crate) match_labels: BTreeMap<Text<'a>, Text<'a>> = "matchLabels",
        /// Further requirements, all of which must be met.
        pub(crate) match_expressions: Vec<Requirement<'a>> = "matchExpressions",
    }
}

object! {
    /// One requirement of a selector.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub(crate) struct Requirement<'a> {
        /// The label key.
        pub(crate) key: Text<'a> = "key",
        /// How it is compared: `In`, `NotIn`, `Exists` or `DoesNotExist`.
        pub(crate) operator: Text<'a> = "operator",
        /// The values for `In` and `NotIn`.
        pub(crate) values: Vec<Text<'a>> = "values",
    }
}

impl Selector<'_> {
    /// An empty selector selects everything.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// The first requirement with an unknown operator, and its index.
    #[must_use]
    pub(crate) fn unknown_operator(&self) -> Option<(usize, &str)> {
        let operators = self.match_expressions.iter().map(|requirement| requirement.operator.as_str()).enumerate();
        operators.into_iter().find(|(_, operator)| !matches!(*operator, "In" | "NotIn" | "Exists" | "DoesNotExist"))
    }

    /// Whether an object with these labels is selected.
    #[must_use]
    pub(crate) fn selects(&self, labels: &BTreeMap<Text<'_>, Text<'_>>) -> bool {
        let value = |key: &str| labels.get(key).map(Text::as_str);
        self.match_labels.iter().all(|(key, wanted)| value(key) == Some(wanted))
            && self.match_expressions.iter().all(|requirement| {
                let value = value(&requirement.key);
                let among = || value.is_some_and(|value| requirement.values.iter().any(|wanted| *wanted == *value));
                match requirement.operator.as_str() {
                    "In" => among(),
                    "NotIn" => !among(),
                    "Exists" => value.is_some(),
                    "DoesNotExist" => value.is_none(),
                    // OLM cannot resolve this; the wider interpretation is the stricter verdict.
                    _ => true,
                }
            })
    }

    /// The same selector, independent of the payload.
    #[must_use]
    pub(crate) fn into_owned(self) -> Selector<'static> {
        let mut match_labels = BTreeMap::new();
        match_labels.extend(self.match_labels.into_iter().map(|(key, value)| (key.into_owned(), value.into_owned())));
        Selector {
            match_labels,
            match_expressions: self
                .match_expressions
                .into_iter()
                .map(|requirement| Requirement {
                    key: requirement.key.into_owned(),
                    operator: requirement.operator.into_owned(),
                    values: requirement.values.into_iter().map(Text::into_owned).collect(),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &str) -> bool {
        let selector: Selector<'_> = serde_json::from_str(selector).unwrap();
        selector.selects(&serde_json::from_str(labels).unwrap())
    }

    #[test]
    fn labels_and_expressions_must_all_hold() {
        let both = r#"{"matchLabels":{"a":"1"},"matchExpressions":[{"key":"b","operator":"In","values":["x","y"]}]}"#;
        assert!(selects(both, r#"{"a":"1","b":"y"}"#));
        assert!(!selects(both, r#"{"a":"1","b":"z"}"#));
        assert!(!selects(both, r#"{"b":"y"}"#));
        assert!(selects("{}", "{}"));
    }

    #[test]
    fn not_in_holds_where_the_label_is_missing() {
        let not_in = r#"{"matchExpressions":[{"key":"a","operator":"NotIn","values":["1"]}]}"#;
        assert!(selects(not_in, "{}"));
        assert!(selects(not_in, r#"{"a":"2"}"#));
        assert!(!selects(not_in, r#"{"a":"1"}"#));
    }

    #[test]
    fn existence_does_not_look_at_the_value() {
        assert!(selects(r#"{"matchExpressions":[{"key":"a","operator":"Exists"}]}"#, r#"{"a":""}"#));
        assert!(!selects(r#"{"matchExpressions":[{"key":"a","operator":"DoesNotExist"}]}"#, r#"{"a":""}"#));
        assert!(selects(r#"{"matchExpressions":[{"key":"a","operator":"Near"}]}"#, "{}"));
    }
}
