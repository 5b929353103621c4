//! One verdict for each object: the admission request that would bring it, put to the published policy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bounds::rbac::Identity;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::derive::v0::Group;
use crate::derive::{self, Whom};
use crate::host::Host;
use crate::manifests::Manifests;
use crate::policy::{Policy, PolicyError, ValidationResponse};
use crate::syntax::Node;

use super::explain::{self, Explained};
use super::objects::{Judged, Name, Object, is_candidate, text};
use super::places::{Place, Places};

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// The policy refuses it.
    Refused,
    /// It could not be determined.
    Unknown,
    /// The policy admits it and has something to say.
    Warned,
    /// The policy admits it, and nothing bounds it.
    Unbounded,
    /// It stays within its boundary.
    Bounded,
    /// The policy admits it.
    Admitted,
    /// It has nothing to do with operators.
    NotJudged,
}

impl Status {
    /// All of them, the worst first.
    pub const ALL: [Status; 7] = [
        Status::Refused,
        Status::Unknown,
        Status::Warned,
        Status::Unbounded,
        Status::Bounded,
        Status::Admitted,
        Status::NotJudged,
    ];

    /// The word for it, for people and machines.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Status::Refused => "refused",
            Status::Unknown => "unknown",
            Status::Warned => "warned",
            Status::Unbounded => "unbounded",
            Status::Bounded => "bounded",
            Status::Admitted => "admitted",
            Status::NotJudged => "not judged",
        }
    }
}

/// The verdict on one object, and where the object is.
#[derive(Debug)]
pub struct Finding {
    /// Which object.
    pub name: Name,
    /// The file.
    pub file: PathBuf,
    /// Where in the file.
    pub place: Place,
    /// How it went.
    pub status: Status,
    /// The policy's word for why.
    pub reason: String,
    /// The HTTP code of a refusal.
    pub code: Option<u16>,
    /// The message of a refusal.
    pub message: Option<String>,
    /// What the client would print.
    pub warnings: Vec<String>,
    /// Facts for machines.
    pub facts: BTreeMap<String, String>,
    /// The way to the verdict, where it was asked for.
    pub explained: Option<Explained>,
    /// The RBAC that is missing, ready to apply, where it was asked for.
    pub rbac: Option<String>,
    /// The look-ups that it took.
    pub lookups: Vec<String>,
}

/// How much is wanted besides the verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Only the verdicts.
    Verdict,
    /// Where the rules stand that are missing.
    Missing,
    /// A full explanation of every verdict.
    Everything,
}

/// The user who creates the objects. Without one they are judged as in the background audit, which skips the guard.
#[derive(Debug, Default, Clone)]
pub struct Sender {
    /// The user.
    pub user: Option<String>,
    /// The user's groups.
    pub groups: Vec<String>,
}

/// Everything that a verdict needs besides the object.
pub struct Judge<'p> {
    /// The policy.
    pub policy: &'p Policy,
    /// Its settings.
    pub settings: &'p RawValue,
    /// The cluster.
    pub cluster: Arc<Manifests>,
    /// Who sends the objects.
    pub sender: Sender,
    /// The namespace for objects without one.
    pub namespace: String,
    /// Whether it was chosen explicitly; then operators go there whatever their manifest says, as in OLM.
    pub told: bool,
    /// How much is wanted.
    pub detail: Detail,
}

/// An object that is about to be judged.
#[derive(Debug)]
pub struct Candidate<'c> {
    /// The object.
    pub object: Object,
    /// Its kind.
    pub judged: &'static Judged,
    /// What it is called, the namespace included that it goes to.
    pub name: Name,
    /// Its file.
    pub file: &'c Path,
    /// Where everything is in the file.
    pub places: &'c Places<'c>,
}

impl Judge<'_> {
    /// The verdict on an object.
    #[must_use]
    pub fn judge(&self, candidate: Candidate<'_>) -> Finding {
        let Candidate { mut object, judged, name, file, places } = candidate;
        let mut finding = Finding {
            name,
            file: file.to_owned(),
            place: places.of(&object),
            status: Status::Unknown,
            reason: String::new(),
            code: None,
            message: None,
            warnings: Vec::new(),
            facts: BTreeMap::new(),
            explained: None,
            rbac: None,
            lookups: Vec::new(),
        };
        let host = Arc::new(self.policy.host(&self.cluster));
        let answer = self.request(&mut object.value, judged, &finding.name).and_then(|request| {
            let response = self.policy.validate(&request, self.settings, &host)?;
            finding.take(response);
            Ok(request)
        });
        match answer {
            Err(error) => finding.message = Some(error.to_string()),
            Ok(request) => self.add_detail(&mut finding, &request, &host, &|| places.node(&object)),
        }
        finding
    }

    fn add_detail<'n>(
        &self,
        finding: &mut Finding,
        request: &RawValue,
        host: &Arc<Host>,
        node: &dyn Fn() -> Option<&'n Node>,
    ) {
        let wanted = match self.detail {
            Detail::Verdict => false,
            Detail::Missing => finding.exceeds(),
            Detail::Everything => true,
        };
        if !wanted {
            return;
        }
        finding.lookups = host.exchanges().iter().map(|exchange| exchange.request.to_string()).collect();
        if finding.name.kind != "ClusterServiceVersion" || !(finding.exceeds() || finding.status == Status::Bounded) {
            return;
        }
        let explained = explain::csv(request.get(), self.settings.get(), host);
        finding.explained = explained.map(|explained| explained.with_places(node(), finding.place));
        if self.detail == Detail::Everything && finding.exceeds() {
            finding.rbac = finding.explained.as_ref().and_then(|explained| paste(request, explained, host));
        }
    }

    /// The request that would bring the object. An InstallPlan is judged as its approval: that is the moment when somebody
    /// decides, and before it has no steps.
    fn request(&self, object: &mut Value, judged: &Judged, name: &Name) -> Result<Box<RawValue>, PolicyError> {
        if is_candidate(object) {
            object["apiVersion"] = "operators.coreos.com/v1alpha1".into();
        }
        if judged.namespaced {
            object["metadata"]["namespace"] = name.namespace.as_str().into();
        }
        let (_, version) = text(object, "/apiVersion").split_once('/').unwrap_or_default();
        let mut request = json!({
            "uid": "check",
            "kind": {"group": judged.group, "version": version, "kind": judged.kind},
            "resource": {"group": judged.group, "version": version, "resource": judged.resource},
            "name": text(object, "/metadata/name"),
            "namespace": name.namespace,
            "operation": "CREATE",
        });
        if let Some(user) = &self.sender.user {
            request["userInfo"] = json!({"username": user, "groups": self.sender.groups});
        }
        if judged.kind == "InstallPlan" {
            let mut old = object.clone();
            old["spec"]["approved"] = false.into();
            object["spec"]["approved"] = true.into();
            request["operation"] = "UPDATE".into();
            request["oldObject"] = old;
        }
        request["object"] = object.take();
        Ok(serde_json::value::to_raw_value(&request)?)
    }
}

/// The RBAC that is missing, ready to apply: for the first boundary, which is the group's own.
fn paste(request: &RawValue, explained: &Explained, host: &Arc<Host>) -> Option<String> {
    let request: Value = serde_json::from_str(request.get()).ok()?;
    let account = Identity::user_in(&explained.boundaries.first()?.user, Vec::new());
    let (namespace, account) = account.as_service_account()?;
    let whom = Whom::Account { namespace: namespace.to_owned(), name: account.to_owned() };
    let group = Group { namespace: namespace.to_owned(), targets: explained.targets.clone() };
    derive::lacking(request["object"].clone(), &whom, &group, host.as_ref()).ok().filter(|rbac| !rbac.is_empty())
}

impl Finding {
    /// Whether something is missing, be it refused or only warned about.
    #[must_use]
    pub fn exceeds(&self) -> bool {
        self.facts.contains_key("excess")
    }

    fn take(&mut self, response: ValidationResponse) {
        self.facts = response.audit_annotations.unwrap_or_default();
        self.reason = self.facts.get("reason").cloned().unwrap_or_default();
        self.warnings = response.warnings.unwrap_or_default();
        self.message = response.message;
        self.code = response.code;
        self.status = match (response.accepted, self.reason.as_str()) {
            (false, "lookup-failed") => Status::Unknown,
            (false, _) => Status::Refused,
            (true, _) if !self.warnings.is_empty() => Status::Warned,
            (true, "unbounded" | "no-operator-group") => Status::Unbounded,
            (true, "bounded") => Status::Bounded,
            (true, "not-judged" | "nothing-to-judge") => Status::NotJudged,
            (true, _) => Status::Admitted,
        };
    }

    /// In one sentence what an admitted object's status means, where it does not say so itself.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let fact = |key: &str| self.facts.get(key).map(String::as_str);
        match (self.status, self.reason.as_str()) {
            (Status::Unbounded, "no-operator-group") => Some(format!(
                "no OperatorGroup in namespace {}: nothing bounds it, and OLM v0 would not install it",
                self.name.namespace
            )),
            (Status::Unbounded, _) => Some(match fact("operatorGroup") {
                Some(group) => format!("OperatorGroup {group} names no service account: nothing bounds it"),
                None => "nothing bounds it".to_owned(),
            }),
            (Status::Bounded, _) => fact("boundary").map(|boundary| format!("within {boundary}")),
            _ => None,
        }
    }
}
