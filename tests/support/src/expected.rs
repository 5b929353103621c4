//! What a scenario expects of an answer, whoever gave it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// `expect.yaml`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expected {
    pub says: String,
    pub allowed: bool,
    pub code: Option<u64>,
    #[serde(default)]
    pub message: Vec<String>,
    #[serde(default)]
    pub not_message: Vec<String>,
    pub warnings: Option<Vec<String>>,
    #[serde(default)]
    pub not_warnings: Vec<String>,
    #[serde(default)]
    pub audit_annotations: BTreeMap<String, Option<String>>,
    pub lookups: Option<usize>,
    #[serde(default)]
    pub host_errors: BTreeMap<String, String>,
    pub invalid_settings: Option<Vec<String>>,
    /// Null: it is not changed.
    #[serde(default)]
    pub mutated: Value,
}

impl Expected {
    /// What is not as expected in an answer of the policy.
    pub fn problems(&self, response: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        if response["accepted"].as_bool() != Some(self.allowed) {
            problems.push(format!("allowed: expected {}", self.allowed));
        }
        if let Some(code) = self.code
            && response["code"].as_u64() != Some(code)
        {
            problems.push(format!("code: expected {code}, found {}", response["code"]));
        }
        let message = response["message"].as_str().unwrap_or_default();
        expect_words("the message", message, &self.message, &mut problems);
        expect_no_words("the message", message, &self.not_message, &mut problems);
        let warnings = unbroken(&warnings_of(response));
        if let Some(words) = &self.warnings {
            if words.is_empty() && !warnings.is_empty() {
                problems.push("warnings: expected none".to_owned());
            }
            expect_words("the warnings", &warnings, words, &mut problems);
        }
        expect_no_words("the warnings", &warnings, &self.not_warnings, &mut problems);
        for (key, value) in &self.audit_annotations {
            let found = response["audit_annotations"][key].as_str();
            if found != value.as_deref() {
                problems.push(format!("auditAnnotations.{key}: expected {value:?}, found {found:?}"));
            }
        }
        if response["mutated_object"] != self.mutated {
            problems.push(format!("mutated: expected {}, found {}", self.mutated, response["mutated_object"]));
        }
        problems
    }
}

pub fn warnings_of(response: &Value) -> Vec<&str> {
    response["warnings"].as_array().into_iter().flatten().map(|warning| warning.as_str().unwrap_or_default()).collect()
}

/// A long warning comes as several: put together again, so that a case need not know where it was broken.
fn unbroken(warnings: &[&str]) -> String {
    warnings.join("\n").replace(" …\n… ", " ")
}

pub fn expect_words(place: &str, text: &str, words: &[String], problems: &mut Vec<String>) {
    problems.extend(words.iter().filter(|word| !text.contains(*word)).map(|word| format!("not in {place}: {word}")));
}

fn expect_no_words(place: &str, text: &str, words: &[String], problems: &mut Vec<String>) {
    problems.extend(words.iter().filter(|word| text.contains(*word)).map(|word| format!("in {place}: {word}")));
}
