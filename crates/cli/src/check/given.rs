//! The given files, read for the first time: what is wrong with them, what there is to judge, and the cluster as it would be
//! with them applied.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bounds::cluster::{
    CLUSTER_EXTENSION_REVISIONS, CLUSTER_EXTENSIONS, CLUSTER_OBJECT_SETS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES,
    CLUSTER_SERVICE_VERSIONS, NAMESPACES, OPERATOR_GROUPS, Resource,
};
use serde_json::Value;

use crate::documents::{self, FileError};
use crate::input::{FileRead, Inputs};
use crate::manifests::Manifests;
use crate::mask::Mask;
use crate::source::LOOKED_UP;

use super::bundle::Bundles;
use super::objects::{self, Object, text};

/// The kinds that live in no namespace.
const CLUSTER_SCOPED: [Resource; 6] = [
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    CLUSTER_EXTENSIONS,
    CLUSTER_OBJECT_SETS,
    CLUSTER_EXTENSION_REVISIONS,
];

/// What the first reading found.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// What could not be read, and why.
    pub(super) problems: Vec<FileError>,
    /// How many files were read.
    pub(super) files: usize,
    /// How many objects there are to judge.
    pub(super) judged: usize,
    /// The bundles.
    pub(super) bundles: Bundles,
    /// What verdicts may look up, to be put over the cluster.
    looked_up: Vec<(Value, Arc<Path>)>,
    /// Objects to judge that say no namespace.
    homeless: Option<(PathBuf, String)>,
}

impl Given {
    /// Reads everything once.
    #[must_use]
    pub(super) fn read(inputs: &Inputs, problems: Vec<FileError>) -> Self {
        let mut given = Given { problems, ..Given::default() };
        inputs.each(&mut |read| given.add(read));
        // In a bundle everything is the operator's own, and gives nobody anything.
        let bundles = &given.bundles;
        given.looked_up.retain(|(_, file)| bundles.of(file).is_none());
        let problems: Vec<FileError> = given.bundles.problems().collect();
        given.problems.extend(problems);
        given
    }

    fn add(&mut self, read: FileRead) {
        let objects = read.and_then(|(path, bytes)| {
            self.files += 1;
            if path.file_stem().is_some_and(|name| name == "annotations") {
                documents::parse(&path, &bytes)?.iter().for_each(|document| self.bundles.note(&path, document));
            }
            objects::read(&path, &bytes).map(|objects| (path, objects))
        });
        match objects {
            Err(error) => self.problems.push(error),
            Ok((path, objects)) => {
                let file: Arc<Path> = path.into();
                for object in objects {
                    self.take(object, &file);
                }
            }
        }
    }

    fn take(&mut self, object: Object, file: &Arc<Path>) {
        if let Some(judged) = object.judged() {
            self.judged += 1;
            if judged.namespaced && object.namespace().is_empty() && self.homeless.is_none() {
                self.homeless = Some((file.to_path_buf(), object.name().to_string()));
            }
        }
        if object.text("/kind") == CLUSTER_SERVICE_VERSIONS.kind {
            self.bundles.count(file);
        }
        if let Some(kept) = looked_up(object.value) {
            self.looked_up.push((kept, Arc::clone(file)));
        }
    }

    /// Forgets what could be looked up in the given files: only the cluster counts.
    pub(super) fn forget(&mut self) {
        self.looked_up.clear();
    }

    /// The cluster with the given files applied, and the namespace of what says none.
    pub(super) fn over(&mut self, mut cluster: Manifests, namespace: Option<&str>) -> (Manifests, String) {
        let namespace = self.home(&cluster, namespace);
        for (mut object, file) in std::mem::take(&mut self.looked_up) {
            if text(&object, "/metadata/namespace").is_empty() && is_namespaced(&object) {
                object["metadata"]["namespace"] = namespace.as_str().into();
            }
            if let Err(error) = cluster.lay_over(object, &file) {
                self.problems.push(error);
            }
        }
        (cluster, namespace)
    }

    /// The namespace for objects without one: as given, otherwise that of the only OperatorGroup. Without any group nothing
    /// bounds them anywhere; with several, it cannot be determined.
    fn home(&mut self, cluster: &Manifests, told: Option<&str>) -> String {
        if let Some(told) = told {
            return told.to_owned();
        }
        let groups = cluster.list(OPERATOR_GROUPS.api_version, OPERATOR_GROUPS.kind, None);
        let given = self.looked_up.iter().map(|(object, _)| object);
        let given = given.filter(|object| object["kind"] == OPERATOR_GROUPS.kind);
        let namespaces: BTreeSet<&str> = groups
            .chain(given)
            .map(|group| text(group, "/metadata/namespace"))
            .filter(|namespace| !namespace.is_empty())
            .collect();
        let namespaces: Vec<&str> = namespaces.into_iter().collect();
        let bundle = || self.bundles.first().map(|path| (path.to_owned(), "the bundle".to_owned()));
        if let ([_, _, ..], Some((path, object))) = (&*namespaces, self.homeless.clone().or_else(bundle)) {
            let reason = format!(
                "{object} has no namespace, and there are OperatorGroups in {}: choose one with --namespace",
                bounds::decide::message::names(&namespaces)
            );
            self.problems.push(FileError::new(&path, reason));
        }
        namespaces.first().copied().unwrap_or("default").to_owned()
    }
}

/// The part of an object that a verdict may look up.
fn looked_up(mut object: Value) -> Option<Value> {
    // The API server serves both versions as the newer one.
    if object["kind"] == OPERATOR_GROUPS.kind && object["apiVersion"] == "operators.coreos.com/v1alpha2" {
        object["apiVersion"] = OPERATOR_GROUPS.api_version.into();
    }
    let resource = resource_of(&object)?;
    // A candidate is not there yet.
    if objects::is_candidate(&object) || text(&object, "/metadata/name").is_empty() {
        return None;
    }
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        // Examples and icons are most of a ClusterServiceVersion.
        annotations.retain(|key, _| key.starts_with("olm.") || key.starts_with("operator-bounds/"));
    }
    serde_json::to_value(Mask::new(resource.masks.iter().copied()).object(&object)).ok()
}

fn resource_of(object: &Value) -> Option<&'static Resource> {
    let is = |resource: &&Resource| object["kind"] == resource.kind && object["apiVersion"] == resource.api_version;
    LOOKED_UP.iter().find(is)
}

fn is_namespaced(object: &Value) -> bool {
    resource_of(object).is_some_and(|resource| !CLUSTER_SCOPED.contains(resource))
}
