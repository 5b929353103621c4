//! The settings that an audit judges with: those that were given, or those of the policy as it is registered in the cluster, or
//! its defaults.

use std::collections::BTreeSet;

use bounds::settings::Settings;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::manifests::Manifests;

use super::seen::POLICIES;

/// Settings, as they are written and as they are read.
#[derive(Debug)]
pub struct Chosen {
    /// As the policy gets them.
    pub raw: Box<RawValue>,
    /// As they are written.
    pub value: Value,
    /// As decisions use them.
    pub read: Settings,
}

impl Chosen {
    /// Settings that the policy takes; otherwise what is wrong with them.
    pub fn new(value: Value) -> Result<Self, String> {
        let raw = RawValue::from_string(value.to_string()).map_err(|error| error.to_string())?;
        let read = Settings::read(raw.get())?;
        Ok(Chosen { raw, value, read })
    }

    /// The same with one setting of a section changed.
    pub fn with(&self, section: &str, setting: &str, to: &str) -> Result<Self, String> {
        let mut value = self.value.clone();
        if !value[section].is_object() {
            value[section] = json!({});
        }
        value[section][setting] = to.into();
        Chosen::new(value)
    }

    /// Whether extensions are bounded by the policy.
    #[must_use]
    pub fn bounds_extensions(&self) -> bool {
        matches!(self.value["clusterExtensions"]["bound"].as_str(), Some("serviceAccount" | "synthetic"))
    }

    /// The namespaces that OLM v1 keeps its records in.
    #[must_use]
    pub fn olm_v1_namespaces(&self) -> BTreeSet<String> {
        let users = self.read.olm.v1_users.iter();
        users.filter_map(|user| user.split(':').nth(2)).map(str::to_owned).collect()
    }
}

/// A registration of the policy with Kubewarden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The name of the `ClusterAdmissionPolicy`.
    pub name: String,
    /// `protect`, or `monitor`, which refuses nothing.
    pub mode: String,
}

/// Where settings come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// From an argument.
    Given,
    /// From the registrations in the cluster.
    Cluster,
    /// The policy's own.
    Defaults,
}

/// What is judged with.
#[derive(Debug)]
pub struct Rules {
    /// Where the settings come from.
    pub source: Source,
    /// The registrations that were found.
    pub registrations: Vec<Registration>,
    /// For OLM v0.
    pub v0: Chosen,
    /// For OLM v1.
    pub v1: Chosen,
    /// What has to be known about them.
    pub notes: Vec<String>,
}

impl Rules {
    /// Chooses the settings.
    pub fn choose(given: Option<&Value>, manifests: &Manifests) -> Result<Self, String> {
        let objects: Vec<&Value> = registered(manifests).collect();
        let registrations = objects.iter().map(|object| registration(object)).collect();
        let mut notes = Vec::new();
        let (source, v0, v1) = match given {
            Some(given) => (Source::Given, Some(given), Some(given)),
            None if objects.is_empty() => (Source::Defaults, None, None),
            None => {
                let first = |is_it: &dyn Fn(&Value) -> bool| {
                    objects
                        .iter()
                        .copied()
                        .find(|object| is_it(object))
                        .and_then(|object| object.pointer("/spec/settings"))
                };
                let v0 = first(&|object| judges(object, "clusterserviceversions"));
                let v1 = first(&bounds_extensions);
                (Source::Cluster, v0, v1.or(v0))
            }
        };
        let mut read = |settings: Option<&Value>| -> Result<Chosen, String> {
            let chosen = Chosen::new(settings.cloned().unwrap_or_else(|| json!({})))?;
            if chosen.value["authorizer"] != "access-review" {
                return Ok(chosen);
            }
            let note =
                "the settings say authorizer: access-review; an audit judges one reading of the cluster, by RBAC alone";
            if !notes.iter().any(|known| known == note) {
                notes.push(note.to_owned());
            }
            let mut value = chosen.value;
            value["authorizer"] = "rbac".into();
            Chosen::new(value)
        };
        let (v0, v1) = (read(v0)?, read(v1)?);
        Ok(Rules { source, registrations, v0, v1, notes })
    }
}

/// The registrations of this policy: by the name of the module, wherever it is pulled from.
fn registered(manifests: &Manifests) -> impl Iterator<Item = &Value> {
    let all = manifests.list(POLICIES.api_version, POLICIES.kind, None);
    all.filter(|object| {
        let module = object.pointer("/spec/module").and_then(Value::as_str).unwrap_or_default();
        let name = module.rsplit('/').next().unwrap_or_default();
        name.split([':', '@']).next().is_some_and(|name| name.starts_with("operator-bounds"))
    })
}

fn registration(object: &Value) -> Registration {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Registration {
        name: text("/metadata/name").unwrap_or_default(),
        mode: text("/spec/mode").unwrap_or_else(|| "protect".to_owned()),
    }
}

fn judges(object: &Value, resource: &str) -> bool {
    let rules = object.pointer("/spec/rules").and_then(Value::as_array).into_iter().flatten();
    rules.filter_map(|rule| rule["resources"].as_array()).flatten().any(|judged| judged == resource || judged == "*")
}

fn bounds_extensions(object: &Value) -> bool {
    let bound = object.pointer("/spec/settings/clusterExtensions/bound").and_then(Value::as_str);
    matches!(bound, Some("serviceAccount" | "synthetic")) && object["spec"]["mutating"] != true
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;

    fn cluster(policies: &[Value]) -> Manifests {
        let mut manifests = Manifests::default();
        let file: Arc<Path> = Path::new("x").into();
        for (number, spec) in policies.iter().enumerate() {
            let object = json!({"apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
                "metadata": {"name": format!("p{number}")}, "spec": spec});
            manifests.lay_over(object, &file).unwrap();
        }
        manifests
    }

    fn policy(module: &str, resource: &str, settings: &Value) -> Value {
        json!({"module": module, "mode": "protect", "rules": [{"resources": [resource]}], "settings": settings})
    }

    #[test]
    fn the_settings_of_the_registrations_count_each_for_its_olm() {
        let module = "registry://ghcr.io/operator-bounds/policies/operator-bounds:v0.1.0";
        let cluster = cluster(&[
            policy("registry://ghcr.io/kubewarden/policies/pod-privileged:v1", "pods", &json!({"x": 1})),
            policy(module, "clusterserviceversions", &json!({"operatorGroups": {"clusterWrites": "warn"}})),
            policy(module, "*", &json!({"clusterExtensions": {"bound": "synthetic"}})),
        ]);
        let rules = Rules::choose(None, &cluster).unwrap();
        assert_eq!(rules.source, Source::Cluster);
        let names: Vec<&str> = rules.registrations.iter().map(|registration| registration.name.as_str()).collect();
        assert_eq!(names, ["p1", "p2"]);
        assert_eq!(rules.v0.value["operatorGroups"]["clusterWrites"], "warn");
        assert!(rules.v1.bounds_extensions() && !rules.v0.bounds_extensions());
    }

    #[test]
    fn what_is_given_counts_before_what_is_registered() {
        let cluster = cluster(&[policy("operator-bounds:v1", "clusterserviceversions", &json!({"mode": "warn"}))]);
        let rules = Rules::choose(Some(&json!({})), &cluster).unwrap();
        assert_eq!((rules.source, rules.v0.value), (Source::Given, json!({})));
        assert!(Rules::choose(Some(&json!({"mood": "warn"})), &cluster).is_err());
        assert_eq!(Rules::choose(None, &Manifests::default()).unwrap().source, Source::Defaults);
    }

    #[test]
    fn access_reviews_are_not_made() {
        let rules = Rules::choose(Some(&json!({"authorizer": "access-review"})), &Manifests::default()).unwrap();
        assert_eq!(rules.v0.value["authorizer"], "rbac");
        assert_eq!(rules.notes.len(), 1);
    }
}
