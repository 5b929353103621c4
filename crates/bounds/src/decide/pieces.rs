//! What an InstallPlan brings: the manifests behind its steps, inline or in the ConfigMap of an unpacked bundle.

use serde::Deserialize;

use crate::cluster::CONFIG_MAPS;
use crate::decide::context::Context;
use crate::decide::verdict::Refusal;
use crate::olm::bundle::{self, Budget};
use crate::olm::csv::ClusterServiceVersion;
use crate::olm::plan::{Kind, Manifest, Step, Unpacked, reference};
use crate::read::go;
use crate::read::json::{self, Unreadable};
use crate::read::text::Text;

/// As many unpacked bundles as one approval looks into.
const MAX_BUNDLES: usize = 16;

/// One object that a plan brings.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The ClusterServiceVersion it comes for.
    pub operator: String,
    /// The kind: the step's, for OLM reads the manifest as that.
    pub kind: String,
    /// Where it stands, in words.
    place: String,
    json: Result<String, Unreadable>,
    /// What OLM puts into `spec.replaces` of a ClusterServiceVersion that it unpacked.
    replaces: Option<String>,
}

impl Piece {
    /// The object, as RBAC.
    pub(crate) fn read(&self, plan: &str) -> Result<Manifest<'_>, Refusal> {
        self.read_as(plan)
    }

    /// The object, as a ClusterServiceVersion.
    pub(crate) fn read_csv(&self, plan: &str) -> Result<ClusterServiceVersion<'_>, Refusal> {
        let mut csv: ClusterServiceVersion<'_> = self.read_as(plan)?;
        if let Some(replaces) = &self.replaces {
            csv.spec.replaces = Text::from(replaces.as_str());
        }
        Ok(csv)
    }

    fn read_as<'a, T: Deserialize<'a>>(&'a self, plan: &str) -> Result<T, Refusal> {
        let read = self.json.as_ref().map_err(Clone::clone).and_then(|json| json::read(json, "manifest"));
        read.map_err(|error| Refusal::unreadable(format!("{plan}, {}", self.place), error))
    }
}

/// The judged objects of a plan.
#[must_use]
pub(crate) fn pieces(cx: &Context<'_>, plan: &str, steps: &[Step<'_>]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut bundles = Vec::new();
    let mut budget = Budget::default();
    for (number, step) in steps.iter().enumerate() {
        let resource = &step.resource;
        if !is_judged(&resource.kind) {
            continue;
        }
        match reference(&resource.manifest) {
            None => pieces.push(Piece {
                operator: step.resolving.to_string(),
                kind: resource.kind.to_string(),
                place: format!("step {} {} (status.plan[{number}].resource)", resource.kind, resource.name),
                json: go::as_go_reads(&resource.manifest, "manifest"),
                replaces: None,
            }),
            // Roles that OLM makes from a CSV refer to its bundle too: once read, the CSV has been judged whole.
            Some(bundle) if bundles.contains(&bundle) => {}
            Some(bundle) => {
                pieces.extend(unpacked(cx, plan, step, &bundle, bundles.len(), &mut budget));
                bundles.push(bundle);
            }
        }
    }
    pieces
}

/// By the kind alone: OLM does not look at the API group either.
fn is_judged(kind: &str) -> bool {
    matches!(kind, "ClusterServiceVersion" | "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding")
}

/// The judged manifests of an unpacked bundle. If it cannot be read that is a warning: the CSV itself is judged later.
fn unpacked(
    cx: &Context<'_>,
    plan: &str,
    step: &Step<'_>,
    bundle: &Unpacked,
    read: usize,
    budget: &mut Budget,
) -> Vec<Piece> {
    let place = format!("ConfigMap {}/{}", bundle.namespace, bundle.name);
    let warn = |reason: &str| {
        cx.warn(&format!(
            "{plan}: step {} {} is in {place}, {reason}. It was not judged yet; the ClusterServiceVersion is judged \
             when OLM creates it.",
            step.resource.kind, step.resource.name
        ));
    };
    if read >= MAX_BUNDLES {
        warn(&format!("and one approval reads at most {MAX_BUNDLES} bundles"));
        return Vec::new();
    }
    let found = match cx.lookups.get(CONFIG_MAPS, Some(&bundle.namespace), &bundle.name) {
        Ok(Some(answer)) => {
            bundle::read(&answer, &is_judged, budget).map_err(|reason| format!("which cannot be parsed ({reason})"))
        }
        Ok(None) => Err("which is gone".to_owned()),
        Err(error) => Err(format!("which could not be read ({})", error.reason())),
    };
    let found = match found {
        Ok(found) => found,
        Err(reason) => {
            warn(&reason);
            return Vec::new();
        }
    };
    for reason in &found.unreadable {
        warn(&format!("one entry of which cannot be parsed ({reason})"));
    }
    let mut pieces = Vec::new();
    for manifest in found.manifests {
        let json = go::as_go_reads(&manifest, "manifest");
        let Some(kind) = judged_kind(json.as_ref().map_or(&manifest, String::as_str)) else { continue };
        pieces.push(Piece {
            operator: step.resolving.to_string(),
            place: format!("{kind} in {place}"),
            kind,
            json,
            replaces: Some(bundle.replaces.clone()),
        });
    }
    pieces
}

fn judged_kind(manifest: &str) -> Option<String> {
    let object: Kind<'_> = serde_json::from_str(manifest).ok()?;
    is_judged(&object.kind).then(|| object.kind.to_string())
}
