//! registry+v1 bundles: `metadata/annotations.yaml` says that a directory, an archive or an image is one, and where its
//! manifests are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::documents::FileError;

use super::objects::text;

const MEDIA_TYPE: &str = "operators.operatorframework.io.bundle.mediatype.v1";
const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";

/// The bundles among the given files.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    bundles: Vec<Bundle>,
    /// The files of all ClusterServiceVersions: whether they are in a bundle may be known only later.
    csvs: Vec<Arc<Path>>,
}

#[derive(Debug)]
struct Bundle {
    annotations: PathBuf,
    media_type: String,
    /// Where its manifests are.
    manifests: PathBuf,
}

impl Bundles {
    /// Records a document that is not a Kubernetes object: it may be a bundle's annotations.
    pub(super) fn note(&mut self, path: &Path, document: &Value) {
        let annotations = &document["annotations"];
        let Some(media_type) = annotations[MEDIA_TYPE].as_str() else { return };
        let below = annotations[MANIFESTS].as_str().unwrap_or("manifests/");
        let Some(root) = path.parent().and_then(Path::parent) else { return };
        self.bundles.push(Bundle {
            annotations: path.to_owned(),
            media_type: media_type.to_owned(),
            manifests: root.join(below.trim_matches('/')),
        });
    }

    /// Where the manifests of the bundle are that a file belongs to.
    #[must_use]
    pub(super) fn of(&self, path: &Path) -> Option<&Path> {
        let found = self.bundles.iter().find(|bundle| path.starts_with(&bundle.manifests));
        found.map(|bundle| bundle.manifests.as_path())
    }

    /// Counts a ClusterServiceVersion.
    pub(super) fn count(&mut self, path: &Arc<Path>) {
        self.csvs.push(Arc::clone(path));
    }

    /// The first of them: where its annotations are.
    #[must_use]
    pub(super) fn first(&self) -> Option<&Path> {
        self.bundles.first().map(|bundle| bundle.annotations.as_path())
    }

    /// What is wrong with them.
    pub(super) fn problems(&self) -> impl Iterator<Item = FileError> {
        self.bundles.iter().filter_map(|bundle| {
            let Bundle { annotations, media_type, manifests } = bundle;
            let csvs = self.csvs.iter().filter(|path| path.starts_with(manifests)).count();
            let manifests = manifests.display();
            let reason = match csvs {
                _ if media_type != "registry+v1" => {
                    format!("bundle type {media_type} is not supported, only registry+v1")
                }
                0 => format!("incomplete bundle: no ClusterServiceVersion in {manifests}"),
                1 => return None,
                many => format!("{many} ClusterServiceVersions in {manifests}: a bundle must have exactly one"),
            };
            Some(FileError::new(annotations, reason))
        })
    }
}

/// What a bundle brings besides its ClusterServiceVersion that gives rights, as the plan that OLM makes of it: the policy
/// judges all of it at once, and the bundle's roles are found by its bindings.
#[must_use]
pub(super) fn plan(namespace: &str, csv: &str, manifests: &[Value]) -> Value {
    let steps: Vec<Value> = manifests
        .iter()
        .map(|manifest| {
            let (group, version) = text(manifest, "/apiVersion").split_once('/').unwrap_or_default();
            serde_json::json!({"resolving": csv, "status": "Unknown", "resource": {
                "group": group, "version": version, "kind": manifest["kind"], "name": manifest["metadata"]["name"],
                "manifest": manifest.to_string()}})
        })
        .collect();
    serde_json::json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": csv, "namespace": namespace},
        "spec": {"approved": true, "approval": "Manual", "clusterServiceVersionNames": [csv]},
        "status": {"phase": "RequiresApproval", "plan": steps, "catalogSources": []}})
}
