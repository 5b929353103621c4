//! What an audit reads: each kind once, in pages, with only the fields that count; or a dump. What may not be read is written
//! down, with what that means, and the rest is read all the same.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use bounds::cluster::{
    CLUSTER_EXTENSION_REVISIONS, CLUSTER_EXTENSIONS, CLUSTER_OBJECT_SETS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES,
    CLUSTER_SERVICE_VERSIONS, NAMESPACES, OPERATOR_GROUPS, ROLE_BINDINGS, ROLES, Resource, SERVICE_ACCOUNTS,
};
use bounds::olm::{definition, kinds};
use serde_json::Value;

use crate::documents::FileError;
use crate::live::{Cluster, Paged, Unlisted};
use crate::manifests::Manifests;
use crate::mask::Mask;

use super::copies;

/// The registrations of policies with Kubewarden.
pub(super) const POLICIES: Resource = Resource {
    api_version: "policies.kubewarden.io/v1",
    kind: "ClusterAdmissionPolicy",
    masks: &["spec.mode", "spec.module", "spec.mutating", "spec.policyServer", "spec.rules", "spec.settings"],
};
/// Releases of OLM v1, and the objects of its ClusterObjectSets.
pub(super) const SECRETS: Resource = Resource { api_version: "v1", kind: "Secret", masks: &["data", "type"] };
/// CustomResourceDefinitions: their metadata says which operators they came with.
const DEFINITIONS: Resource =
    Resource { api_version: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", masks: &["spec.versions"] };
/// Installing takes more of a ClusterServiceVersion than a verdict does.
const OPERATORS: Resource = Resource {
    masks: &[
        "spec.apiservicedefinitions",
        "spec.customresourcedefinitions.owned.name",
        "spec.customresourcedefinitions.required.name",
        "spec.install.spec.clusterPermissions",
        "spec.install.spec.deployments.name",
        "spec.install.spec.deployments.spec.template.spec.serviceAccount",
        "spec.install.spec.deployments.spec.template.spec.serviceAccountName",
        "spec.install.spec.permissions",
        "spec.installModes",
        "spec.replaces",
        "spec.version",
        "spec.webhookdefinitions.conversionCRDs",
        "spec.webhookdefinitions.deploymentName",
        "spec.webhookdefinitions.generateName",
        "spec.webhookdefinitions.type",
        "status.phase",
    ],
    ..CLUSTER_SERVICE_VERSIONS
};
const EXTENSIONS: Resource = Resource { masks: &["spec", "status.conditions", "status.install"], ..CLUSTER_EXTENSIONS };
const SETS: Resource = Resource { masks: &["spec"], ..CLUSTER_OBJECT_SETS };
const REVISIONS: Resource = Resource { masks: &["spec"], ..CLUSTER_EXTENSION_REVISIONS };

/// A group is proposed as it is, with an account.
const GROUPS: Resource =
    Resource { masks: &["spec", "status.namespaces", "status.serviceAccountRef"], ..OPERATOR_GROUPS };

/// What of each object is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Masked,
    Metadata,
}

/// Every kind that is read as a whole, and what is not known without it.
const READ: [(Resource, Part, &str); 13] = [
    (GROUPS, Part::Masked, "what bounds operators of OLM v0 is not known"),
    (ROLE_BINDINGS, Part::Masked, "what accounts hold in namespaces is not known"),
    (CLUSTER_ROLE_BINDINGS, Part::Masked, "what accounts hold in the whole cluster is not known"),
    (ROLES, Part::Masked, "what the Roles that accounts are bound to contain is not known"),
    (CLUSTER_ROLES, Part::Masked, "what the ClusterRoles that accounts are bound to contain is not known"),
    (NAMESPACES, Part::Metadata, "what OperatorGroups with a selector target is not known"),
    (SERVICE_ACCOUNTS, Part::Metadata, "whether the accounts that OperatorGroups name exist is not known"),
    (DEFINITIONS, Part::Metadata, "whether operators claim what is not theirs is not known"),
    (EXTENSIONS, Part::Masked, "nothing of OLM v1 is in this report"),
    (SETS, Part::Masked, "what extensions installed as ClusterObjectSets hold is not known"),
    (REVISIONS, Part::Masked, "what extensions installed as ClusterExtensionRevisions hold is not known"),
    (POLICIES, Part::Masked, "whether and how the policy is registered is not known: its defaults are taken"),
    (OPERATORS, Part::Masked, "nothing of OLM v0 is in this report"),
];
/// Kinds that every cluster has objects of: a dump without any was not made of them.
const EVERYWHERE: [Resource; 6] =
    [ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS, ROLES, CLUSTER_ROLES, NAMESPACES, SERVICE_ACCOUNTS];

const RBAC: &str = "rbac.authorization.k8s.io/";
const OLM_V0: &str = "operators.coreos.com/";
const LIVE: &str = "the live cluster";
/// The labels of the Secrets that OLM v1 keeps releases in, as Helm does.
const RELEASES: &str = "owner=operator-controller,type=index";
/// The labels of those that it keeps the objects of ClusterObjectSets in: on what it installs it sets both.
const OBJECT_DATA: &str = "olm.operatorframework.io/owner-name,!olm.operatorframework.io/owner-kind";
/// Most objects are small.
const PAGE: u32 = 500;
/// A ClusterServiceVersion has up to half a MB.
const LARGE_PAGE: u32 = 50;

/// What was read.
#[derive(Debug, Default)]
pub struct Seen {
    /// The objects.
    pub manifests: Manifests,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// What else has to be known about how it was read.
    pub notes: Vec<String>,
    /// The user that read it, where it matters and is known.
    pub user: Option<String>,
}

/// A kind that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The kind.
    pub kind: &'static str,
    /// Its API group; empty for the core group.
    pub group: &'static str,
    /// The resource, as RBAC names it.
    pub resource: String,
    /// The namespace; none for the whole cluster.
    pub namespace: Option<String>,
    /// Why not.
    pub reason: String,
    /// What is not known without it.
    pub meaning: &'static str,
    /// Whether a right is missing.
    pub is_forbidden: bool,
}

impl Unread {
    fn new(resource: &Resource, namespace: Option<&str>, meaning: &'static str, error: &Unlisted) -> Self {
        let (group, _) = resource.api_version.split_once('/').unwrap_or_default();
        Unread {
            kind: resource.kind,
            group,
            resource: kinds::plural(resource.kind),
            namespace: namespace.map(str::to_owned),
            reason: error.to_string(),
            meaning,
            is_forbidden: matches!(error, Unlisted::Forbidden(_)),
        }
    }

    /// `rolebindings.rbac.authorization.k8s.io`.
    #[must_use]
    pub fn qualified(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.resource, self.group)
    }
}

impl Seen {
    /// Reads a dump. Kinds that every cluster has and the dump does not were forgotten.
    pub fn dump(path: &Path) -> Result<Self, FileError> {
        let manifests = Manifests::load(path)?;
        let has = |resource: &Resource| manifests.list(resource.api_version, resource.kind, None).next().is_some();
        let unread = READ.iter().filter(|(resource, ..)| EVERYWHERE.contains(resource) && !has(resource));
        let unread = unread.map(|(resource, _, meaning)| {
            let plural = kinds::plural(resource.kind);
            let reason =
                format!("there is none in the dump; add them: kubectl get -A -o yaml {plural} > {plural}.yaml");
            Unread::new(resource, None, meaning, &Unlisted::Failed(reason))
        });
        let unread = unread.collect();
        let mut notes = Vec::new();
        if !has(&DEFINITIONS) {
            notes.push(
                "the dump has no CustomResourceDefinitions: whether operators claim what is not theirs was not judged, and OLM \
                 v1 is taken for one that ignores spec.serviceAccount (as from 1.11)"
                    .to_owned(),
            );
        }
        Ok(Seen { manifests, unread, notes, user: None })
    }

    /// Reads a live cluster. Whoever asks about one namespace may be allowed no more than its OperatorGroups and operators.
    #[must_use]
    pub fn live(cluster: &Cluster, namespace: Option<&str>) -> Self {
        let mut reading = Reading { cluster, namespace, seen: Seen::default(), file: Path::new(LIVE).into() };
        for (resource, part, meaning) in READ {
            match resource {
                OPERATORS => reading.operators(meaning),
                _ => reading.kind(resource, part, meaning),
            }
        }
        reading.phase();
        reading.finished()
    }

    /// The releases of OLM v1, in the namespaces of its accounts: only where there is an extension, for Secrets are read.
    pub fn read_releases(&mut self, cluster: &Cluster, namespaces: &BTreeSet<String>) {
        const MEANING: &str =
            "what extensions consist of is not known: what they hold is taken from the RBAC with their labels";
        let (extensions, known) = (self.names(&EXTENSIONS), self.names(&NAMESPACES));
        if extensions.is_empty() {
            return;
        }
        let seen = std::mem::take(self);
        let mut reading = Reading { cluster, namespace: None, seen, file: Path::new(LIVE).into() };
        for namespace in namespaces.iter().filter(|namespace| known.is_empty() || known.contains(*namespace)) {
            for selector in [RELEASES, OBJECT_DATA] {
                let (namespace, selector) = (Some(namespace.as_str()), Some(selector));
                let paged = Paged { resource: SECRETS, namespace, selector, only_metadata: false, size: LARGE_PAGE };
                reading.read(&paged, MEANING);
            }
        }
        *self = reading.finished();
    }

    /// Whether there is such a namespace, as far as that is known.
    #[must_use]
    pub fn may_have(&self, namespace: &str) -> bool {
        self.unread.iter().any(|unread| unread.kind == NAMESPACES.kind) || self.names(&NAMESPACES).contains(namespace)
    }

    fn names(&self, resource: &Resource) -> BTreeSet<String> {
        let objects = self.manifests.list(resource.api_version, resource.kind, None);
        objects.filter_map(|object| object["metadata"]["name"].as_str()).map(str::to_owned).collect()
    }
}

struct Reading<'c> {
    cluster: &'c Cluster,
    /// Where operators are asked for that may not be listed in the whole cluster.
    namespace: Option<&'c str>,
    seen: Seen,
    file: Arc<Path>,
}

impl Reading<'_> {
    fn kind(&mut self, resource: Resource, part: Part, meaning: &'static str) {
        let only_metadata = part == Part::Metadata;
        let size = if only_metadata || resource.api_version.starts_with(RBAC) { PAGE } else { LARGE_PAGE };
        self.read(&Paged { resource, namespace: None, selector: None, only_metadata, size }, meaning);
    }

    fn read(&mut self, paged: &Paged<'_>, meaning: &'static str) {
        let mut read = self.list(paged);
        let is_of_olm_v0 = paged.resource.api_version.starts_with(OLM_V0);
        if let (Err(Unlisted::Forbidden(_)), Some(_), None, true) =
            (&read, self.namespace, paged.namespace, is_of_olm_v0)
        {
            let within = self.list(&Paged { namespace: self.namespace, ..*paged });
            read = within.or(read);
        }
        if let Err(error) = read {
            self.unread(paged, meaning, &error);
        }
    }

    fn list(&mut self, paged: &Paged<'_>) -> Result<(), Unlisted> {
        let manifests = &mut self.seen.manifests;
        let mask = Mask::new(paged.resource.masks.iter().copied());
        let mut failed = None;
        self.cluster.each(paged, &mut |object| {
            let kept = if paged.only_metadata { Ok(object) } else { serde_json::to_value(mask.object(&object)) };
            let added = kept.map_err(|error| error.to_string()).and_then(|mut object| {
                prune(&mut object);
                manifests.add(object, &self.file, paged.resource.kind).map_err(|error| error.to_string())
            });
            failed = failed.take().or(added.err());
        })?;
        failed.map_or(Ok(()), |reason| Err(Unlisted::Failed(reason)))
    }

    /// Operators without their copies, of which there may be one in every namespace: of those only the metadata is read, to find
    /// what only calls itself a copy.
    fn operators(&mut self, meaning: &'static str) {
        let selector = Some(copies::NOT_LABELLED);
        let paged = Paged { resource: OPERATORS, namespace: None, selector, only_metadata: false, size: LARGE_PAGE };
        self.read(&paged, meaning);
        let labelled = Paged { selector: Some(copies::LABELLED), only_metadata: true, size: PAGE, ..paged };
        let mut lone = Vec::new();
        let manifests = &self.seen.manifests;
        let listed = self.cluster.each(&labelled, &mut |copy| {
            if !copies::has_original(manifests, &copy) {
                lone.push(copy);
            }
        });
        // Who may not list them in the whole cluster has been told so already.
        if listed.is_ok() {
            for copy in &lone {
                self.itself(&paged, copy, meaning);
            }
        }
    }

    /// Reads what calls itself a copy of something that is not there.
    fn itself(&mut self, paged: &Paged<'_>, copy: &Value, meaning: &'static str) {
        let text = |pointer: &str| copy.pointer(pointer).and_then(Value::as_str);
        let paged = Paged { namespace: text("/metadata/namespace"), ..*paged };
        match self.cluster.one(&paged, text("/metadata/name").unwrap_or_default()) {
            Ok(Some(mut found)) => {
                prune(&mut found);
                _ = self.seen.manifests.lay_over(found, &self.file);
            }
            Ok(None) => {}
            Err(error) => self.unread(&paged, meaning, &error),
        }
    }

    fn unread(&mut self, paged: &Paged<'_>, meaning: &'static str, error: &Unlisted) {
        let unread = Unread::new(&paged.resource, paged.namespace, meaning, error);
        if *error != Unlisted::NotServed && !self.seen.unread.contains(&unread) {
            self.seen.unread.push(unread);
        }
    }

    fn finished(self) -> Seen {
        let mut seen = self.seen;
        if seen.user.is_none() && seen.unread.iter().any(|unread| unread.is_forbidden) {
            seen.user = self.cluster.user();
        }
        seen
    }

    /// The one definition of which more than the metadata counts: what OLM v1 does with `spec.serviceAccount`.
    fn phase(&mut self) {
        let paged = Paged { resource: DEFINITIONS, namespace: None, selector: None, only_metadata: false, size: 1 };
        // Who may not list them has been told so already.
        if let Ok(Some(found)) = self.cluster.one(&paged, definition::EXTENSIONS) {
            _ = self.seen.manifests.lay_over(found, &self.file);
        }
    }
}

/// Annotations are most of some objects, examples and icons above all; only OLM's count, and ours.
fn prune(object: &mut Value) {
    if object["kind"] == OPERATOR_GROUPS.kind {
        return;
    }
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        let counts = |key: &str| {
            key.starts_with("olm.") || key.starts_with("operator-bounds/") || key.starts_with("operatorframework.io/")
        };
        annotations.retain(|key, _| counts(key));
    }
}
