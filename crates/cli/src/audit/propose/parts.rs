//! The objects that a proposal consists of.

use bounds::cluster::OPERATOR_GROUPS;
use serde_json::{Value, json};

use crate::check::objects::Name;
use crate::derive::Whom;
use crate::derive::bundle::{Bundle, Object};
use crate::derive::manifest::{self, Manifests as Applied};
use crate::derive::roles::Role;
use crate::yaml;

use super::super::operator::Operator;
use super::Proposal;

/// An identity as people are shown it.
pub(super) fn label(whom: &Whom) -> String {
    match whom {
        Whom::Account { namespace, name } => format!("ServiceAccount {namespace}/{name}"),
        Whom::Synthetic { .. } => format!("User {}", whom.identity().user()),
    }
}

/// What its roles are called.
pub(super) fn applied_name(whom: &Whom, operators: &[&Operator]) -> String {
    let csvs = operators.iter().map(|operator| Object::unwritten(operator.csv.clone())).collect();
    manifest::name(whom, &Bundle { csvs, ..Bundle::default() })
}

/// An OperatorGroup as it would be in a manifest.
pub(super) fn group_of(old: &Value) -> Value {
    let mut metadata = json!({"name": old["metadata"]["name"], "namespace": old["metadata"]["namespace"]});
    if old["metadata"]["labels"].is_object() {
        metadata["labels"] = old["metadata"]["labels"].clone();
    }
    // What OLM notes on a group is OLM's to keep.
    let annotations = old["metadata"]["annotations"].as_object().into_iter().flatten();
    let annotations: serde_json::Map<String, Value> = annotations
        .filter(|(key, _)| !key.starts_with("olm.") && !key.starts_with("kubectl.kubernetes.io/"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    let spec = if old["spec"].is_object() { old["spec"].clone() } else { json!({}) };
    json!({"apiVersion": OPERATOR_GROUPS.api_version, "kind": OPERATOR_GROUPS.kind, "metadata": metadata, "spec": spec})
}

/// What a proposal consists of, as objects and as YAML.
#[derive(Default)]
pub(super) struct Parts {
    objects: Vec<Value>,
    yaml: Vec<String>,
}

impl Parts {
    pub(super) fn grant(&mut self, whom: &Whom, name: &str, roles: &[Role]) {
        let with_account = matches!(whom, Whom::Account { .. });
        let applied = Applied { whom, name: name.to_owned(), with_account, roles };
        let list = applied.json();
        self.objects.extend(list["items"].as_array().into_iter().flatten().cloned());
        self.yaml.push(applied.yaml());
    }

    pub(super) fn object(&mut self, object: Value) {
        self.yaml.push(yaml::document(&object));
        self.objects.push(object);
    }

    pub(super) fn proposal(self, file: &str, boundary: String, bounds: Vec<Name>) -> Proposal {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
        let file: String = file.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
        let yaml = self.yaml.into_iter().filter(|document| !document.is_empty()).collect::<Vec<_>>().join("---\n");
        Proposal { file: format!("{file}.yaml"), boundary, bounds, objects: self.objects, yaml, settings: Vec::new() }
    }
}
