//! Real operators, in a form that reaches `Succeeded` on a cluster without nodes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Context;
use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::bundle::{Bundle, minimal_definition};
use crate::catalog::Package;

/// The permissions of a version.
const PERMISSIONS: [&str; 2] = ["permissions", "clusterPermissions"];

/// The operators of `../shared/corpus`.
#[derive(Debug)]
pub struct Corpus {
    csvs: BTreeMap<String, Value>,
    /// The last versions of some of them, oldest first.
    versions: BTreeMap<String, Vec<Value>>,
}

impl Corpus {
    /// `None` where it is not there.
    pub fn read() -> anyhow::Result<Option<Self>> {
        let Some(directory) = test_parts::shared("corpus") else { return Ok(None) };
        Ok(Some(Corpus {
            csvs: csvs(&directory.join("csv.tar.gz"))?,
            versions: versions(&directory.join("upgrades.jsonl.gz"))?,
        }))
    }

    /// The names of all operators.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.csvs.keys().map(String::as_str)
    }

    /// The newest version of an operator.
    pub fn newest(&self, name: &str) -> anyhow::Result<Bundle> {
        let csv = self.csvs.get(name).with_context(|| format!("the corpus has no {name}"))?;
        Ok(installable(csv))
    }

    /// The newest version and the one before it: with the permissions that it really had, where they are known.
    pub fn package(&self, name: &str) -> anyhow::Result<Package> {
        let newest = self.newest(name)?;
        let before = self.before(name, &newest);
        Ok(Package::new(name, vec![before, newest]))
    }

    fn before(&self, name: &str, newest: &Bundle) -> Bundle {
        let mut bundle = newest.clone();
        let known = self.versions.get(name).into_iter().flatten().rfind(|version| version["csv"] != newest.name());
        let Some(version) = known else {
            bundle.csv["metadata"]["name"] = json!(format!("{name}.v0.0.0-before"));
            bundle.csv["spec"]["version"] = json!("0.0.0-before");
            return bundle;
        };
        bundle.csv["metadata"]["name"] = version["csv"].clone();
        bundle.csv["spec"]["version"] = version["version"].clone();
        for field in PERMISSIONS {
            bundle.csv["spec"]["install"]["spec"][field] = version[field].clone();
        }
        bundle
    }
}

fn csvs(path: &Path) -> anyhow::Result<BTreeMap<String, Value>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    let mut csvs = BTreeMap::new();
    for entry in archive.entries()? {
        let entry = entry?;
        let name = entry.path()?.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        if entry.header().entry_type().is_file() {
            csvs.insert(name, serde_json::from_reader(entry)?);
        }
    }
    Ok(csvs)
}

fn versions(path: &Path) -> anyhow::Result<BTreeMap<String, Vec<Value>>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let mut found = BTreeMap::new();
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let mut operator: Value = serde_json::from_str(&line?)?;
        let versions = operator["versions"].as_array_mut().map(std::mem::take).unwrap_or_default();
        found.insert(operator["name"].as_str().unwrap_or_default().to_owned(), versions);
    }
    Ok(found)
}

/// No pods, definitions that say nothing, and none of what only a catalog's page shows.
fn installable(csv: &Value) -> Bundle {
    let mut csv = csv.clone();
    // Some say another one, or none; in a cluster there is only this.
    csv["apiVersion"] = json!("operators.coreos.com/v1alpha1");
    csv["metadata"] = json!({"name": csv["metadata"]["name"]});
    csv["spec"]["description"] = json!("For tests.");
    if let Some(fields) = csv.as_object_mut() {
        fields.remove("status");
    }
    if let Some(spec) = csv["spec"].as_object_mut() {
        spec.retain(|key, _| !["icon", "skips", "replaces", "minkubeversion"].contains(&key.to_lowercase().as_str()));
    }
    for deployment in csv["spec"]["install"]["spec"]["deployments"].as_array_mut().into_iter().flatten() {
        deployment["spec"]["replicas"] = json!(0);
    }
    let others = definitions(&mut csv);
    Bundle { csv, others }
}

/// The definitions that it owns, one for each name with all of its versions.
fn definitions(csv: &mut Value) -> Vec<Value> {
    let mut definitions: BTreeMap<String, Value> = BTreeMap::new();
    for owned in csv["spec"]["customresourcedefinitions"]["owned"].as_array_mut().into_iter().flatten() {
        // The definition of ClusterServiceVersions demands a name of each resource; some of these have none.
        for resource in owned["resources"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            resource.entry("name").or_insert_with(|| json!(""));
        }
        let made = minimal_definition(owned);
        let name = owned["name"].as_str().unwrap_or_default().to_owned();
        match definitions.get_mut(&name) {
            None => {
                definitions.insert(name, made);
            }
            Some(known) => add_version(known, &made),
        }
    }
    definitions.into_values().collect()
}

fn add_version(known: &mut Value, made: &Value) {
    let mut version = made["spec"]["versions"][0].clone();
    version["storage"] = json!(false);
    if let Some(versions) = known["spec"]["versions"].as_array_mut()
        && versions.iter().all(|other| other["name"] != version["name"])
    {
        versions.push(version);
    }
}
