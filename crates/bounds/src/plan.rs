//! The steps of an InstallPlan, and the manifests behind them: inline, or in the ConfigMap of an unpacked bundle.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::bundle;
use crate::cluster::CONFIG_MAPS;
use crate::context::Context;
use crate::csv::ClusterServiceVersion;
use crate::demand::RBAC;
use crate::grant::RoleRef;
use crate::json;
use crate::meta::Meta;
use crate::object::object;
use crate::rule::Rule;
use crate::text::Text;
use crate::verdict::Refusal;

/// As many unpacked bundles as one approval looks into.
const MAX_BUNDLES: usize = 16;

object! {
    /// A step.
    #[derive(Default, Debug)]
    pub struct Step<'a> {
        /// The name of the ClusterServiceVersion that the step belongs to.
        resolving: Text<'a> = "resolving",
        resource: StepResource<'a> = "resource",
    }
}

object! {
    #[derive(Default, Debug)]
    struct StepResource<'a> {
        group: Text<'a> = "group",
        kind: Text<'a> = "kind",
        name: Text<'a> = "name",
        manifest: Text<'a> = "manifest",
    }
}

object! {
    /// The fields of the RBAC kinds.
    #[derive(Debug, Default)]
    pub struct Manifest<'a> {
        /// `metadata`.
        pub metadata: Meta<'a> = "metadata",
        /// Of a binding.
        pub role_ref: RoleRef<'a> = "roleRef",
        /// Of a role.
        pub rules: Vec<Rule<'a>> = "rules",
        /// Of a ClusterRole.
        pub aggregation_rule: Option<&'a RawValue> = "aggregationRule",
    }
}

object! {
    /// Where OLM put the manifests of a bundle that it unpacked.
    #[derive(Debug, Default)]
    struct BundleReference<'a> {
        kind: Text<'a> = "kind",
        name: Text<'a> = "name",
        namespace: Text<'a> = "namespace",
        catalog_source: Text<'a> = "catalogSourceName",
        replaces: Text<'a> = "replaces",
    }
}

object! {
    #[derive(Debug, Default)]
    struct Kind<'a> {
        api_version: Text<'a> = "apiVersion",
        kind: Text<'a> = "kind",
    }
}

/// One object that a plan brings.
#[derive(Debug)]
pub struct Piece {
    /// The ClusterServiceVersion it comes for.
    pub operator: String,
    /// The kind: the step's, for OLM reads the manifest as that.
    pub kind: String,
    /// Where it stands, in words.
    place: String,
    json: String,
    /// What OLM puts into `spec.replaces` of a ClusterServiceVersion that it unpacked.
    replaces: Option<String>,
}

impl Piece {
    /// The object, as RBAC.
    pub fn read(&self, plan: &str) -> Result<Manifest<'_>, Refusal> {
        self.read_as(plan)
    }

    /// The object, as a ClusterServiceVersion.
    pub fn read_csv(&self, plan: &str) -> Result<ClusterServiceVersion<'_>, Refusal> {
        let mut csv: ClusterServiceVersion<'_> = self.read_as(plan)?;
        if let Some(replaces) = &self.replaces {
            csv.spec.replaces = Text::from(replaces.as_str());
        }
        Ok(csv)
    }

    fn read_as<'a, T: Deserialize<'a>>(&'a self, plan: &str) -> Result<T, Refusal> {
        json::read(&self.json, "manifest")
            .map_err(|error| Refusal::Unreadable { what: format!("{plan}, {}", self.place), error })
    }
}

/// The judged objects of a plan.
#[must_use]
pub fn pieces(cx: &Context<'_>, plan: &str, steps: &[Step<'_>]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut bundles = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let resource = &step.resource;
        if !is_judged(&resource.group, &resource.kind) {
            continue;
        }
        match reference(&resource.manifest) {
            None => pieces.push(Piece {
                operator: step.resolving.to_string(),
                kind: resource.kind.to_string(),
                place: format!("step {} {} (status.plan[{number}].resource)", resource.kind, resource.name),
                json: resource.manifest.to_string(),
                replaces: None,
            }),
            // Roles that OLM makes from a CSV refer to its bundle too: once read, the CSV has been judged whole.
            Some(bundle) if bundles.contains(&bundle) => {}
            Some(bundle) => {
                pieces.extend(unpacked(cx, plan, step, &bundle, bundles.len()));
                bundles.push(bundle);
            }
        }
    }
    pieces
}

fn is_judged(group: &str, kind: &str) -> bool {
    match group {
        "operators.coreos.com" => kind == "ClusterServiceVersion",
        RBAC => matches!(kind, "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding"),
        _ => false,
    }
}

/// A ConfigMap with an unpacked bundle.
#[derive(Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What OLM puts into `spec.replaces` of the ClusterServiceVersion.
    pub replaces: String,
}

/// Where the manifest of a step is, if it is not the manifest itself.
#[must_use]
pub fn reference(manifest: &str) -> Option<Unpacked> {
    let reference: BundleReference<'_> = serde_json::from_str(manifest).ok()?;
    let complete = reference.kind == "ConfigMap" && !reference.name.is_empty() && !reference.namespace.is_empty();
    (complete && !reference.catalog_source.is_empty()).then(|| Unpacked {
        namespace: reference.namespace.to_string(),
        name: reference.name.to_string(),
        replaces: reference.replaces.to_string(),
    })
}

/// The judged manifests of an unpacked bundle. If it cannot be read that is a warning: the CSV itself is judged later.
fn unpacked(cx: &Context<'_>, plan: &str, step: &Step<'_>, bundle: &Unpacked, read: usize) -> Vec<Piece> {
    let place = format!("ConfigMap {}/{}", bundle.namespace, bundle.name);
    let warn = |reason: &str| {
        cx.warn(&format!(
            "{plan}: step {} {} is in {place}, {reason}. It was not judged now; the ClusterServiceVersion is judged when \
             OLM creates it.",
            step.resource.kind, step.resource.name
        ));
    };
    if read >= MAX_BUNDLES {
        warn(&format!("and one approval looks into {MAX_BUNDLES} bundles only"));
        return Vec::new();
    }
    let found = match cx.lookups.get(CONFIG_MAPS, Some(&bundle.namespace), &bundle.name) {
        Ok(Some(answer)) => bundle::read(&answer).map_err(|reason| format!("which cannot be understood ({reason})")),
        Ok(None) => Err("which is gone".to_owned()),
        Err(error) => Err(format!("which could not be read ({})", error.reason)),
    };
    let found = match found {
        Ok(found) => found,
        Err(reason) => {
            warn(&reason);
            return Vec::new();
        }
    };
    for reason in &found.unreadable {
        warn(&format!("one entry of which cannot be understood ({reason})"));
    }
    let piece = |json: String| {
        let kind = judged_kind(&json)?;
        Some(Piece {
            operator: step.resolving.to_string(),
            place: format!("{kind} in {place}"),
            kind,
            json,
            replaces: Some(bundle.replaces.clone()),
        })
    };
    found.manifests.into_iter().filter_map(piece).collect()
}

fn judged_kind(manifest: &str) -> Option<String> {
    let object: Kind<'_> = serde_json::from_str(manifest).ok()?;
    let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
    is_judged(group, &object.kind).then(|| object.kind.to_string())
}
