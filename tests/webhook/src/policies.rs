//! What is served: settings by id, in the form of policy-server's `policies.yml`.

use std::collections::BTreeMap;
use std::path::Path;

use operator_bounds::documents::{self, FileError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tracing::warn;

/// The id of the only policy when no file names any.
const DEFAULT_ID: &str = "operator-bounds";

/// The policies by id. All of them are the embedded module; they differ in their settings.
#[derive(Debug)]
pub struct Policies(BTreeMap<String, Registration>);

/// One policy.
#[derive(Debug)]
pub struct Registration {
    /// Its settings.
    pub settings: Box<RawValue>,
    /// Whether it may change objects. Where it may not and wants to, the request is refused.
    pub allowed_to_mutate: bool,
    /// Whether its verdicts count.
    pub mode: Mode,
}

/// Whether verdicts count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// What is refused is refused.
    #[default]
    Protect,
    /// Everything is admitted; the verdict is only logged.
    Monitor,
}

/// An entry of the file. What comes after the mode belongs to policy-server and means nothing here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    settings: Option<Map<String, Value>>,
    #[serde(default)]
    allowed_to_mutate: Option<bool>,
    #[serde(default)]
    policy_mode: Mode,
    module: Option<IgnoredAny>,
    context_aware_resources: Option<IgnoredAny>,
    host_capabilities: Option<IgnoredAny>,
    timeout_eval_seconds: Option<IgnoredAny>,
}

impl Policies {
    /// One policy with the default settings. It protects, and does not change objects.
    pub fn single() -> Result<Self, serde_json::Error> {
        let settings = RawValue::from_string("{}".to_owned())?;
        let registration = Registration { settings, allowed_to_mutate: false, mode: Mode::Protect };
        Ok(Policies(BTreeMap::from([(DEFAULT_ID.to_owned(), registration)])))
    }

    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let fail = |reason: String| FileError::new(path, reason);
        let document = match <[Value; 1]>::try_from(documents::read(path)?) {
            Ok([document]) => document,
            Err(documents) => return Err(fail(format!("{} documents instead of one", documents.len()))),
        };
        let Value::Object(entries) = document else {
            return Err(fail("not a map of policies by their id".to_owned()));
        };
        if entries.is_empty() {
            return Err(fail("there is no policy in it".to_owned()));
        }
        let read = |(id, entry): (String, Value)| {
            let entry = Entry::deserialize(entry).map_err(|error| fail(format!("policy {id}: {error}")))?;
            let registration = entry.register(&id).map_err(|error| fail(format!("policy {id}: {error}")))?;
            Ok((id, registration))
        };
        entries.into_iter().map(read).collect::<Result<_, _>>().map(Policies)
    }

    /// A policy by its id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Registration> {
        self.0.get(id)
    }

    /// All of them, sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Registration)> {
        self.0.iter().map(|(id, registration)| (id.as_str(), registration))
    }

    /// Their ids, sorted.
    #[must_use]
    pub fn ids(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

impl Entry {
    fn register(self, id: &str) -> Result<Registration, serde_json::Error> {
        let ignored = [
            ("module", &self.module, "the built-in module is served"),
            ("contextAwareResources", &self.context_aware_resources, "the module's metadata counts"),
            ("hostCapabilities", &self.host_capabilities, "the module's metadata counts"),
            ("timeoutEvalSeconds", &self.timeout_eval_seconds, "--evaluation-limit counts"),
        ];
        for (key, value, instead) in ignored {
            if value.is_some() {
                warn!("policy {id}: `{key}` is ignored, {instead}");
            }
        }
        Ok(Registration {
            settings: serde_json::value::to_raw_value(&self.settings.unwrap_or_default())?,
            allowed_to_mutate: self.allowed_to_mutate.unwrap_or_default(),
            mode: self.policy_mode,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(yaml: &str) -> Result<Policies, String> {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("policies.yml");
        std::fs::write(&path, yaml).unwrap();
        Policies::load(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_of_policy_server_is_read() {
        let policies = load(
            "strict:\n  module: registry://example.com/policy:v1\n  settings: {mode: enforce}\n  allowedToMutate: true\n\
             loose:\n  policyMode: monitor\n",
        )
        .unwrap();
        assert_eq!(policies.ids(), ["loose", "strict"]);
        let (strict, loose) = (policies.get("strict").unwrap(), policies.get("loose").unwrap());
        assert_eq!(
            (strict.settings.get(), strict.allowed_to_mutate, strict.mode),
            (r#"{"mode":"enforce"}"#, true, Mode::Protect)
        );
        assert_eq!((loose.settings.get(), loose.allowed_to_mutate, loose.mode), ("{}", false, Mode::Monitor));
        assert!(policies.get("other").is_none());
    }

    #[test]
    fn what_is_no_such_file_is_an_error_that_names_the_policy() {
        for (yaml, words) in [
            ("a: {policyMode: watch}", "policy a: unknown variant `watch`"),
            ("a: {setings: {}}", "policy a: unknown field `setings`"),
            ("a: {expression: 'b()', policies: {}}", "policy a: unknown field `expression`"),
            ("a: {settings: []}", "policy a: invalid type: sequence"),
            ("[]", "not a map"),
            ("{}", "no policy"),
            ("", "0 documents"),
        ] {
            let error = load(yaml).unwrap_err();
            assert!(error.contains("policies.yml: ") && error.contains(words), "{yaml}: {error}");
        }
    }
}
