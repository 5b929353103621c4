//! Kubewarden's host capabilities, answered from a [`Source`]: a directory of manifests or a live cluster.
//!
//! The policy calls them through waPC ([`Host::call`]); run natively it makes the same look-ups through
//! [`bounds::cluster::Cluster`]. Both go through the same allow-lists and are recorded alike.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bounds::cluster::{Cluster, Get, List, LookupError, Question};
use policy_module::Metadata;
use serde::{Deserialize, Serialize};

use crate::manifests::Manifests;
use crate::rbac::Decision;
use crate::source::Source;

/// The kind under which [`Host::fail_on`] knows access reviews.
pub const ACCESS_REVIEW: &str = "SubjectAccessReview";

/// Answers the look-ups of one evaluation, and remembers them.
#[derive(Debug)]
pub struct Host {
    source: Arc<dyn Source>,
    metadata: Arc<Metadata>,
    failures: BTreeMap<String, String>,
    exchanges: Mutex<Vec<Exchange>>,
}

/// One look-up and what it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// What was asked.
    pub request: Request,
    /// The JSON that was answered, or why there is none.
    pub response: Result<Vec<u8>, String>,
}

/// A look-up, in the words of Kubewarden's SDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Objects of a kind.
    List(ListResources),
    /// One object.
    Get(GetResource),
    /// A SubjectAccessReview.
    CanI(CanI),
}

/// Objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ListResources {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The kind, in the singular.
    pub kind: String,
    /// In one namespace, or in all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Only objects with these labels. The policy never sends one, so that a tenant cannot open watches at will; a command may.
    pub label_selector: Option<String>,
    /// Always null.
    #[serde(default)]
    pub field_selector: (),
    /// The fields that are wanted.
    pub field_masks: Option<BTreeSet<String>>,
}

impl From<&List<'_>> for ListResources {
    fn from(list: &List<'_>) -> Self {
        ListResources {
            api_version: list.resource.api_version.to_owned(),
            kind: list.resource.kind.to_owned(),
            namespace: list.namespace.map(str::to_owned),
            label_selector: None,
            field_selector: (),
            field_masks: Some(masks(list.resource.masks)),
        }
    }
}

/// One object by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GetResource {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The kind, in the singular.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The object's namespace; none for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Whether an answer of the last five seconds is not good enough.
    pub disable_cache: bool,
    /// The fields that are wanted.
    pub field_masks: Option<BTreeSet<String>>,
}

impl From<&Get<'_>> for GetResource {
    fn from(get: &Get<'_>) -> Self {
        GetResource {
            api_version: get.resource.api_version.to_owned(),
            kind: get.resource.kind.to_owned(),
            name: get.name.to_owned(),
            namespace: get.namespace.map(str::to_owned),
            disable_cache: !get.resource.may_be_cached(),
            field_masks: Some(masks(get.resource.masks)),
        }
    }
}

/// A question to the API server's authorizer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CanI {
    /// The question.
    #[serde(rename(deserialize = "subject_access_review"))]
    pub request: SubjectAccessReview,
    /// Whether an answer of the last five seconds is not good enough.
    pub disable_cache: bool,
}

/// Who wants to do what.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubjectAccessReview {
    /// The groups that the user is in.
    pub groups: Option<Vec<String>>,
    /// What is to be done.
    pub resource_attributes: ResourceAttributes,
    /// The user.
    pub user: String,
}

/// What is to be done to what. An empty text is as good as none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceAttributes {
    /// The API group.
    pub group: Option<String>,
    /// One object, or all of them.
    pub name: Option<String>,
    /// One namespace, or the whole cluster.
    pub namespace: Option<String>,
    /// The resource, in the plural.
    pub resource: String,
    /// The subresource.
    pub subresource: Option<String>,
    /// The verb.
    pub verb: String,
    /// The API version, which RBAC does not look at.
    pub version: Option<String>,
}

/// Why a look-up was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The metadata does not declare it, so Kubewarden would not even look.
    #[error("{0}")]
    Refused(String),
    /// There is no such object.
    #[error("Callback evaluation failure: {0}")]
    NotFound(String),
    /// It failed.
    #[error("Callback evaluation failure: {0}")]
    Failed(String),
}

impl Host {
    /// A host for one evaluation: it serves these objects, as far as the policy's metadata declares them.
    #[must_use]
    pub fn new(manifests: Arc<Manifests>, metadata: Arc<Metadata>) -> Self {
        Host::on(manifests, metadata)
    }

    /// A host for one evaluation that asks any source, as far as the policy's metadata allows it.
    #[must_use]
    pub fn on(source: Arc<dyn Source>, metadata: Arc<Metadata>) -> Self {
        Host { source, metadata, failures: BTreeMap::new(), exchanges: Mutex::default() }
    }

    /// Makes every look-up of a kind fail with this message; access reviews are of the kind [`ACCESS_REVIEW`].
    #[must_use]
    pub fn fail_on(mut self, kind: &str, message: &str) -> Self {
        self.failures.insert(kind.to_owned(), message.to_owned());
        self
    }

    /// The look-ups that were made, in order. What the metadata does not allow never became one.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the policy calls through waPC. An error reaches the policy as the words that Kubewarden would use.
    pub fn call(&self, binding: &str, namespace: &str, operation: &str, payload: &[u8]) -> Result<Vec<u8>, HostError> {
        if binding != "kubewarden" {
            return Err(HostError::Refused(format!("unknown binding: {binding}")));
        }
        match (namespace, operation) {
            ("tracing", "log") => Ok(Vec::new()),
            ("kubernetes", "list_resources_all") => {
                self.answer(Request::List(ListResources { namespace: None, ..read(payload)? }))
            }
            ("kubernetes", "list_resources_by_namespace") => match read(payload)? {
                ListResources { namespace: None, .. } => {
                    Err(HostError::Refused("missing field `namespace`".to_owned()))
                }
                list => self.answer(Request::List(list)),
            },
            ("kubernetes", "get_resource") => self.answer(Request::Get(read(payload)?)),
            ("kubernetes", "can_i") => self.answer(Request::CanI(read(payload)?)),
            ("kubernetes" | "tracing", _) => Err(HostError::Refused(format!("unknown operation: {operation}"))),
            _ => Err(HostError::Refused(format!("unknown namespace: {namespace}"))),
        }
    }

    fn answer(&self, request: Request) -> Result<Vec<u8>, HostError> {
        self.check_allowed(&request)?;
        let answer = match self.failures.get(request.kind()) {
            Some(message) => Err(HostError::Failed(message.clone())),
            None => self.look_up(&request),
        };
        let response = match &answer {
            Ok(json) => Ok(json.clone()),
            Err(HostError::Refused(reason) | HostError::NotFound(reason) | HostError::Failed(reason)) => {
                Err(reason.clone())
            }
        };
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).push(Exchange { request, response });
        answer
    }

    fn check_allowed(&self, request: &Request) -> Result<(), HostError> {
        let capability = request.capability();
        if !self.metadata.may_call(capability) {
            return Err(HostError::Refused(format!(
                "Policy has not been granted access to the '{capability}' host capability. The violation has been reported."
            )));
        }
        match request.resource() {
            Some((api_version, kind)) if !self.metadata.may_look_up(api_version, kind) => {
                Err(HostError::Refused(format!(
                    "Policy has not been granted access to Kubernetes {api_version}/{kind} resources. The violation has been reported."
                )))
            }
            _ => Ok(()),
        }
    }

    fn look_up(&self, request: &Request) -> Result<Vec<u8>, HostError> {
        match request {
            Request::List(list) => self.source.list(list),
            Request::Get(get) => self.source.get(get),
            Request::CanI(can_i) => self.source.can_i(can_i),
        }
    }
}

fn read<'p, T: Deserialize<'p>>(payload: &'p [u8]) -> Result<T, HostError> {
    serde_json::from_slice(payload).map_err(|error| HostError::Refused(error.to_string()))
}

impl fmt::Display for Request {
    /// In words, as the policy's messages say it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::List(list) => match &list.namespace {
                Some(namespace) => write!(f, "list of {}s in namespace {namespace}", list.kind),
                None => write!(f, "list of {}s", list.kind),
            },
            Request::Get(get) => match &get.namespace {
                Some(namespace) => write!(f, "{} {namespace}/{}", get.kind, get.name),
                None => write!(f, "{} {}", get.kind, get.name),
            },
            Request::CanI(can_i) => {
                let asked = &can_i.request.resource_attributes;
                write!(f, "whether {} may {} {}", can_i.request.user, asked.verb, asked.resource)
            }
        }
    }
}

impl Request {
    fn capability(&self) -> &'static str {
        match self {
            Request::List(ListResources { namespace: None, .. }) => "kubernetes/list_resources_all",
            Request::List(_) => "kubernetes/list_resources_by_namespace",
            Request::Get(_) => "kubernetes/get_resource",
            Request::CanI(_) => "kubernetes/can_i",
        }
    }

    fn resource(&self) -> Option<(&str, &str)> {
        match self {
            Request::List(list) => Some((&list.api_version, &list.kind)),
            Request::Get(get) => Some((&get.api_version, &get.kind)),
            Request::CanI(_) => None,
        }
    }

    fn kind(&self) -> &str {
        self.resource().map_or(ACCESS_REVIEW, |(_, kind)| kind)
    }
}

impl Cluster for Host {
    fn list(&self, list: &List<'_>) -> Result<Vec<u8>, LookupError> {
        self.answer(Request::List(list.into())).map_err(|error| unanswered(list, &error))
    }

    fn get(&self, get: &Get<'_>) -> Result<Option<Vec<u8>>, LookupError> {
        match self.answer(Request::Get(get.into())) {
            Ok(object) => Ok(Some(object)),
            Err(HostError::NotFound(_)) => Ok(None),
            Err(error) => Err(unanswered(get, &error)),
        }
    }

    fn can(&self, question: &Question<'_>) -> Result<bool, LookupError> {
        let resource_attributes = ResourceAttributes {
            group: Some(question.group.to_owned()),
            name: question.name.map(str::to_owned),
            namespace: question.namespace.map(str::to_owned),
            resource: question.resource.to_owned(),
            subresource: question.subresource.map(str::to_owned),
            verb: question.verb.to_owned(),
            version: None,
        };
        let groups = Some(question.identity.groups().to_vec());
        let request = SubjectAccessReview { groups, resource_attributes, user: question.identity.user().to_owned() };
        let answer = self.answer(Request::CanI(CanI { request, disable_cache: true }));
        let decision = answer.and_then(|json| read::<Decision>(&json));
        decision.map(|decision| decision.allowed && !decision.denied).map_err(|error| unanswered(question, &error))
    }
}

fn masks(masks: &[&str]) -> BTreeSet<String> {
    masks.iter().map(|&mask| mask.to_owned()).collect()
}

/// The error as it reaches the policy: inside the module, wapc-guest puts its own words in front.
fn unanswered(lookup: &dyn fmt::Display, error: &HostError) -> LookupError {
    LookupError::new(lookup, error.to_string())
}

#[cfg(test)]
mod tests {
    use bounds::cluster;
    use serde_json::{Value, json};

    use super::*;

    const METADATA: &str = "
rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
mutating: false
contextAwareResources: [{apiVersion: v1, kind: Namespace}, {apiVersion: v1, kind: ServiceAccount}]
hostCapabilities: [kubernetes/get_resource, kubernetes/list_resources_all, kubernetes/list_resources_by_namespace]
";
    const CLUSTER: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {team: x}}, spec: {finalizers: [kubernetes]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: b}, status: {phase: Active}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: a}, secrets: [{name: s}]}
";

    fn host() -> Host {
        let directory = tempfile::TempDir::new().unwrap();
        std::fs::write(directory.path().join("cluster.yaml"), CLUSTER).unwrap();
        let manifests = Manifests::load(directory.path()).unwrap();
        Host::new(manifests.into(), Metadata::from_yaml(METADATA).unwrap().into())
    }

    fn call(host: &Host, operation: &str, payload: &Value) -> Result<Value, String> {
        let answer = host.call("kubewarden", "kubernetes", operation, payload.to_string().as_bytes());
        answer.map(|json| serde_json::from_slice(&json).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_has_the_shape_of_the_api_servers() {
        let payload = json!({"api_version": "v1", "kind": "Namespace", "field_masks": ["status"]});
        let answer = call(&host(), "list_resources_all", &payload).unwrap();
        let labelled =
            json!({"metadata": {"name": "a", "labels": {"team": "x"}, "annotations": {}, "managedFields": []}});
        let active =
            json!({"metadata": {"name": "b", "annotations": {}, "managedFields": []}, "status": {"phase": "Active"}});
        let items = [labelled, active];
        assert_eq!(answer, json!({"apiVersion": "v1", "kind": "NamespaceList", "metadata": {}, "items": items}));
    }

    #[test]
    fn a_selector_is_refused_and_not_ignored() {
        let payload = json!({"api_version": "v1", "kind": "Namespace", "label_selector": "team=x"});
        let refused = call(&host(), "list_resources_all", &payload).unwrap_err();
        assert!(refused.contains("label selector"), "{refused}");
    }

    #[test]
    fn a_list_by_namespace_has_the_objects_of_that_namespace() {
        let in_namespace = |namespace: &str| {
            let payload = json!({"api_version": "v1", "kind": "ServiceAccount", "namespace": namespace});
            call(&host(), "list_resources_by_namespace", &payload).unwrap()["items"].as_array().unwrap().len()
        };
        assert_eq!((in_namespace("a"), in_namespace("b")), (1, 0));
        let error =
            call(&host(), "list_resources_by_namespace", &json!({"api_version": "v1", "kind": "ServiceAccount"}));
        assert_eq!(error.unwrap_err(), "missing field `namespace`");
    }

    #[test]
    fn a_get_has_type_and_metadata_and_what_the_mask_names() {
        let payload = json!({"api_version": "v1", "kind": "ServiceAccount", "name": "robot", "namespace": "a",
                             "disable_cache": true, "field_masks": ["metadata.name"]});
        let answer = call(&host(), "get_resource", &payload).unwrap();
        assert_eq!(
            answer,
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "a"}})
        );
    }

    #[test]
    fn what_is_not_there_is_an_error_in_kubewardens_words() {
        let host = host();
        let payload = json!({"api_version": "v1", "kind": "ServiceAccount", "name": "x", "namespace": "a", "disable_cache": true});
        let words = r#"Cannot find v1/ServiceAccount named 'x' inside of namespace 'Some("a")'"#;
        assert_eq!(call(&host, "get_resource", &payload).unwrap_err(), format!("Callback evaluation failure: {words}"));
        assert_eq!(host.exchanges()[0].response, Err(words.to_owned()));
    }

    #[test]
    fn a_kind_that_has_no_objects_lists_as_empty() {
        let host = Host::new(Arc::default(), Metadata::from_yaml(METADATA).unwrap().into());
        let answer = call(&host, "list_resources_all", &json!({"api_version": "v1", "kind": "Namespace"})).unwrap();
        assert_eq!(answer["items"], json!([]));
    }

    #[test]
    fn what_the_metadata_does_not_declare_is_refused_and_is_no_exchange() {
        let host = host();
        let secrets = call(&host, "list_resources_all", &json!({"api_version": "v1", "kind": "Secret"})).unwrap_err();
        assert!(
            secrets.starts_with("Policy has not been granted access to Kubernetes v1/Secret resources"),
            "{secrets}"
        );
        let version =
            call(&host, "list_resources_all", &json!({"api_version": "v2", "kind": "Namespace"})).unwrap_err();
        assert!(version.contains("v2/Namespace"), "{version}");
        let review = json!({"user": "u", "resource_attributes": {"verb": "get", "resource": "pods"}});
        let review = json!({"subject_access_review": review, "disable_cache": true});
        assert!(call(&host, "can_i", &review).unwrap_err().contains("'kubernetes/can_i' host capability"));
        assert_eq!(host.exchanges(), []);
    }

    #[test]
    fn calls_that_kubewarden_does_not_have_are_refused() {
        let host = host();
        assert_eq!(call(&host, "delete_resource", &json!({})).unwrap_err(), "unknown operation: delete_resource");
        assert_eq!(host.call("kubewarden", "shell", "run", b"").unwrap_err().to_string(), "unknown namespace: shell");
        assert_eq!(host.call("other", "kubernetes", "can_i", b"").unwrap_err().to_string(), "unknown binding: other");
        assert_eq!(host.call("kubewarden", "tracing", "log", b"{}"), Ok(Vec::new()));
    }

    #[test]
    fn a_look_up_can_be_made_to_fail() {
        let host = host().fail_on("Namespace", "etcd is away");
        let error = call(&host, "list_resources_all", &json!({"api_version": "v1", "kind": "Namespace"})).unwrap_err();
        assert_eq!(error, "Callback evaluation failure: etcd is away");
        assert_eq!(host.exchanges()[0].response, Err("etcd is away".to_owned()));
    }

    #[test]
    fn a_native_look_up_is_answered_and_recorded_like_one_from_the_module() {
        let (native, module) = (host(), host());
        let answer = native.list(&List { resource: cluster::NAMESPACES, namespace: None }).unwrap();
        let payload = json!({"api_version": "v1", "kind": "Namespace", "field_masks": ["metadata.labels"]});
        assert_eq!(
            serde_json::from_slice::<Value>(&answer).unwrap(),
            call(&module, "list_resources_all", &payload).unwrap()
        );
        let get = Get { resource: cluster::SERVICE_ACCOUNTS, namespace: Some("a"), name: "gone" };
        assert_eq!(native.get(&get).unwrap(), None);
        let payload = json!({"api_version": "v1", "kind": "ServiceAccount", "name": "gone", "namespace": "a",
                             "disable_cache": true, "field_masks": ["metadata.name"]});
        call(&module, "get_resource", &payload).unwrap_err();
        assert_eq!(native.exchanges(), module.exchanges());
    }

    #[test]
    fn a_native_look_up_that_fails_says_which_it_was() {
        let error = host().list(&List { resource: cluster::ROLE_BINDINGS, namespace: Some("a") }).unwrap_err();
        assert!(error.to_string().starts_with("list of RoleBindings in namespace a: Policy has"), "{error}");
    }
}
