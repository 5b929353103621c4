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

/// The maximum number of unpacked bundles read for one approval.
const MAX_BUNDLES: usize = 16;

/// One object that a plan brings.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The ClusterServiceVersion it belongs to.
    pub(crate) operator: String,
    /// The kind given in the step, because OLM reads the manifest as that kind.
    pub(crate) kind: String,
    /// Where it was found, as shown to a person.
    place: String,
    json: Result<String, Unreadable>,
    /// What OLM sets as `spec.replaces` in a ClusterServiceVersion that it unpacked.
    replaces: Option<String>,
}

impl Piece {
    /// Parses the object as RBAC.
    pub(crate) fn read(&self, plan: &str) -> Result<Manifest<'_>, Refusal> {
        self.read_as(plan)
    }

    /// Parses the object as a ClusterServiceVersion.
    pub(crate) fn read_csv(&self, plan: &str) -> Result<ClusterServiceVersion<'_>, Refusal> {
        let mut csv: ClusterServiceVersion<'_> = self.read_as(plan)?;
        if let Some(replaces) = &self.replaces {
            csv.spec.replaces = Text::from(replaces.as_str());
        }
        Ok(csv)
    }

    pub(crate) fn read_as<'a, T: Deserialize<'a>>(&'a self, plan: &str) -> Result<T, Refusal> {
        let read = self.json.as_ref().map_err(Clone::clone).and_then(|json| json::read(json, "manifest"));
        read.map_err(|error| Refusal::unreadable(format!("{plan}, {}", self.place), error))
    }
}

/// The objects of a plan that are judged.
#[derive(Debug, Default)]
pub struct Brought {
    pub(crate) pieces: Vec<Piece>,
    /// What could not be read, and why: one sentence each, without its full stop.
    pub unread: Vec<String>,
}

impl Brought {
    /// Parses every object as RBAC, in the same order.
    pub(crate) fn read(&self, plan: &str) -> Result<Vec<Manifest<'_>>, Refusal> {
        self.pieces.iter().map(|piece| piece.read(plan)).collect()
    }
}

/// What the steps of a plan bring. `plan` is the plan as shown to a person.
#[must_use]
pub fn brought(cx: &Context<'_>, plan: &str, steps: &[Step<'_>]) -> Brought {
    let mut brought = Brought::default();
    let mut bundles = Vec::new();
    let mut budget = Budget::default();
    for (number, step) in steps.iter().enumerate() {
        let resource = &step.resource;
        if !is_judged(&resource.kind) {
            continue;
        }
        match reference(&resource.manifest) {
            None => brought.pieces.push(Piece {
                operator: step.resolving.to_string(),
                kind: resource.kind.to_string(),
                place: format!("step {} {} (status.plan[{number}].resource)", resource.kind, resource.name),
                json: go::as_go_reads(&resource.manifest, "manifest"),
                replaces: None,
            }),
            // Roles that OLM creates from a CSV refer to its bundle too: once that is read, the CSV has been judged as
            // a whole.
            Some(bundle) if bundles.contains(&bundle) => {}
            Some(bundle) => {
                unpacked(cx, plan, step, &bundle, bundles.len(), &mut budget, &mut brought);
                bundles.push(bundle);
            }
        }
    }
    brought
}

/// By the kind alone: OLM does not check the API group either.
fn is_judged(kind: &str) -> bool {
    matches!(kind, "ClusterServiceVersion" | "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding")
}

/// The manifests of an unpacked bundle that are judged.
fn unpacked(
    cx: &Context<'_>,
    plan: &str,
    step: &Step<'_>,
    bundle: &Unpacked,
    read: usize,
    budget: &mut Budget,
    brought: &mut Brought,
) {
    let place = format!("ConfigMap {}/{}", bundle.namespace, bundle.name);
    let resource = &step.resource;
    let unread = |reason: &str| format!("{plan}: step {} {} is in {place}, {reason}", resource.kind, resource.name);
    if read >= MAX_BUNDLES {
        brought.unread.push(unread(&format!("and one approval reads at most {MAX_BUNDLES} bundles")));
        return;
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
            brought.unread.push(unread(&reason));
            return;
        }
    };
    let broken = |reason: &String| unread(&format!("one entry of which cannot be parsed ({reason})"));
    brought.unread.extend(found.unreadable.iter().map(broken));
    for manifest in found.manifests {
        let json = go::as_go_reads(&manifest, "manifest");
        let Some(kind) = judged_kind(json.as_ref().map_or(&manifest, String::as_str)) else { continue };
        brought.pieces.push(Piece {
            operator: step.resolving.to_string(),
            place: format!("{kind} in {place}"),
            kind,
            json,
            replaces: Some(bundle.replaces.clone()),
        });
    }
}

fn judged_kind(manifest: &str) -> Option<String> {
    let object: Kind<'_> = serde_json::from_str(manifest).ok()?;
    is_judged(&object.kind).then(|| object.kind.to_string())
}
