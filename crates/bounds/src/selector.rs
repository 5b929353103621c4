//! Label selectors, as the API server reads them.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::json::null_default;
use crate::text::Text;

/// A `LabelSelector`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector<'a> {
    /// Labels that must be there with these values.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub match_labels: BTreeMap<Text<'a>, Text<'a>>,
    /// Further requirements.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub match_expressions: Vec<Requirement<'a>>,
}

/// One requirement of a selector.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Requirement<'a> {
    /// The label.
    #[serde(borrow, default)]
    pub key: Text<'a>,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub values: Vec<Text<'a>>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Operator {
    /// There, with one of the values.
    In,
    /// Not there, or with another value.
    NotIn,
    /// There.
    Exists,
    /// Not there.
    DoesNotExist,
}

impl Selector<'_> {
    /// An empty selector selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether these labels are selected.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<Text<'_>, Text<'_>>) -> bool {
        let value = |key: &str| labels.get(key).map(Text::as_str);
        self.match_labels.iter().all(|(key, wanted)| value(key) == Some(wanted))
            && self.match_expressions.iter().all(|requirement| {
                let value = value(&requirement.key);
                let among = || value.is_some_and(|value| requirement.values.iter().any(|wanted| *wanted == *value));
                match requirement.operator {
                    Operator::In => among(),
                    Operator::NotIn => !among(),
                    Operator::Exists => value.is_some(),
                    Operator::DoesNotExist => value.is_none(),
                }
            })
    }

    /// The same selector, independent of the payload.
    #[must_use]
    pub fn into_owned(self) -> Selector<'static> {
        Selector {
            match_labels: self.match_labels.into_iter().map(|(k, v)| (k.into_owned(), v.into_owned())).collect(),
            match_expressions: self
                .match_expressions
                .into_iter()
                .map(|requirement| Requirement {
                    key: requirement.key.into_owned(),
                    operator: requirement.operator,
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
        assert!(
            serde_json::from_str::<Selector<'_>>(r#"{"matchExpressions":[{"key":"a","operator":"Near"}]}"#).is_err()
        );
    }
}
