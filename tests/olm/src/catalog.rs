//! File-based catalogs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::bundle::Bundle;

/// An operator with all its versions, oldest first. Channel `c1` has the first, `c2` the first two, and so on, so that an upgrade is a
/// change of channel.
#[derive(Debug, Clone)]
pub struct Package {
    name: String,
    versions: Vec<Bundle>,
}

impl Package {
    /// Each version replaces the one before it.
    #[must_use]
    pub fn new(name: &str, mut versions: Vec<Bundle>) -> Self {
        for number in 1..versions.len() {
            versions[number].csv["spec"]["replaces"] = json!(versions[number - 1].name());
        }
        Package { name: name.to_owned(), versions }
    }

    /// Its name in the catalog.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Oldest first.
    #[must_use]
    pub fn versions(&self) -> &[Bundle] {
        &self.versions
    }

    /// The package in a catalog; each bundle as this says, beside its name.
    pub(crate) fn documents(&self, mut bundle: impl FnMut(&Bundle) -> Value) -> Vec<Value> {
        let last = format!("c{}", self.versions.len());
        let mut documents = vec![json!({"schema": "olm.package", "name": self.name, "defaultChannel": last})];
        for end in 1..=self.versions.len() {
            let entries: Vec<Value> = (0..end).map(|number| self.entry(number)).collect();
            documents.push(
                json!({"schema": "olm.channel", "package": self.name, "name": format!("c{end}"), "entries": entries}),
            );
        }
        for version in &self.versions {
            let mut document = bundle(version);
            document["schema"] = json!("olm.bundle");
            document["package"] = json!(self.name);
            document["name"] = json!(version.name());
            documents.push(document);
        }
        documents
    }

    fn entry(&self, number: usize) -> Value {
        let mut entry = json!({"name": self.versions[number].name()});
        if number > 0 {
            entry["replaces"] = json!(self.versions[number - 1].name());
        }
        entry
    }

    /// Which package and version a bundle is.
    pub(crate) fn identity(&self, bundle: &Bundle) -> Value {
        json!({"type": "olm.package", "value": {"packageName": self.name, "version": bundle.version()}})
    }

    /// The package with everything inside: nothing has to be pulled and unpacked.
    pub(crate) fn inlined(&self) -> Vec<Value> {
        self.documents(|bundle| {
            let provided = bundle.provided().into_iter().map(|value| json!({"type": "olm.gvk", "value": value}));
            let objects = bundle.objects().map(|object| STANDARD.encode(object.to_string()));
            let objects = objects.map(|data| json!({"type": "olm.bundle.object", "value": {"data": data}}));
            let properties: Vec<Value> =
                std::iter::once(self.identity(bundle)).chain(provided).chain(objects).collect();
            json!({"properties": properties})
        })
    }
}
