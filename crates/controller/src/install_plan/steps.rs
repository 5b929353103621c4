//! From the steps of a plan to the objects that are written: each one understood and checked before the first is written.

use bounds::group::Targets;
use bounds::workload::is_workload;
use serde_json::{Value, json};

use crate::apply::{Kind, is_object_name};
use crate::context::Context;
use crate::csv::lifted;
use crate::error::Error;
use crate::judge::{Installer, Write};
use crate::olm::{self, CrdSummary, InstallPlan, MANAGED_LABEL, Step};

use super::manifest::{Manifests, Trouble};
use super::status::Outcome;

/// Who writes an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// The account of the group.
    Account,
    /// The controller itself: CustomResourceDefinitions and APIServices are always OLM's.
    Own,
}

/// A step that is ready to be carried out.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The step in words: `step 3 (Role reader)`.
    pub place: String,
    /// How the object's kind is served.
    pub kind: Kind,
    /// The object.
    pub object: Value,
    /// Who writes it.
    pub writer: Writer,
}

impl Prepared {
    /// Whether it is of this kind.
    #[must_use]
    pub(super) fn is(&self, group: &str, kind: &str) -> bool {
        self.kind.resource.group == group && self.kind.resource.kind == kind
    }
}

/// Reads and checks every step. The first that is wrong says so.
pub(super) async fn prepare(
    cx: &Context,
    installer: &Installer,
    namespace: &str,
    plan: &InstallPlan,
) -> Result<Result<Vec<Prepared>, Outcome>, Error> {
    let mut manifests = Manifests::default();
    let mut objects = Vec::new();
    for (number, step) in plan.status.plan.iter().enumerate() {
        let place = format!("step {} ({} {:?})", number + 1, step.resource.kind, step.resource.name);
        match manifests.of(cx, namespace, step).await? {
            Ok(object) => objects.push((place, step, object)),
            Err(Trouble::Broken(reason)) => return Ok(Err(Outcome::Broken(format!("{place} {reason}")))),
            Err(Trouble::Later(reason)) => return Ok(Err(Outcome::Retry(format!("{place} {reason}")))),
        }
    }
    let brought: Vec<CrdSummary> = objects.iter().filter_map(|(_, _, object)| definition(object)).collect();
    let mut prepared = Vec::new();
    for (place, step, object) in objects {
        match check(cx, installer, namespace, step, object, &brought).await? {
            Ok((kind, object)) => {
                let writer = if is_own(&kind) { Writer::Own } else { Writer::Account };
                prepared.push(Prepared { place, kind, object, writer });
            }
            Err(reason) => return Ok(Err(Outcome::Broken(format!("{place} {reason}")))),
        }
    }
    Ok(Ok(prepared))
}

/// The definition that a step brings, if it brings one.
fn definition(object: &Value) -> Option<CrdSummary> {
    let is_it = object["apiVersion"] == "apiextensions.k8s.io/v1" && object["kind"] == "CustomResourceDefinition";
    is_it.then(|| serde_json::from_value(object.clone()).ok())?
}

/// What the account has to be able to write.
#[must_use]
pub(super) fn writes(prepared: &[Prepared], targets: &Targets) -> Vec<Write> {
    let mut writes: Vec<Write> = Vec::new();
    for step in prepared.iter().filter(|step| step.writer == Writer::Account) {
        let namespace = step.object["metadata"]["namespace"].as_str().map(str::to_owned);
        let resource = &step.kind.resource;
        if step.is(olm::GROUP, "ClusterServiceVersion") {
            // What it needs to run comes next, by the same account.
            let csv: olm::ClusterServiceVersion = serde_json::from_value(step.object.clone()).unwrap_or_default();
            writes.extend(lifted::writes(&csv, namespace.as_deref().unwrap_or_default(), targets));
        }
        writes.push(Write { namespace, group: resource.group.clone(), resource: resource.plural.clone() });
    }
    writes.sort();
    writes.dedup();
    writes
}

fn is_own(kind: &Kind) -> bool {
    let resource = &kind.resource;
    matches!(
        (resource.group.as_str(), resource.kind.as_str()),
        ("apiextensions.k8s.io", "CustomResourceDefinition") | ("apiregistration.k8s.io", "APIService")
    )
}

/// Everything that can be wrong with one object.
async fn check(
    cx: &Context,
    installer: &Installer,
    namespace: &str,
    step: &Step,
    object: Value,
    brought: &[CrdSummary],
) -> Result<Result<(Kind, Value), String>, Error> {
    let (group, version, kind) = match identity(step, &object) {
        Ok(identity) => identity,
        Err(reason) => return Ok(Err(reason)),
    };
    if let Err(reason) = is_allowed(installer, namespace, &step.resolving, &group, &kind, &object) {
        return Ok(Err(reason));
    }
    let found = cx.kinds.find(&cx.stores, &cx.own.0, &group, &version, &kind, brought).await?;
    let Some(found) = found else {
        return Ok(Err(format!(
            "brings {kind:?} of {group}/{version}, a kind that the API server does not serve and that the plan does not define"
        )));
    };
    Ok(finished(namespace, found, object))
}

/// Group, version and kind, if the object is what the step says it is. The step's words are what was judged and approved.
fn identity(step: &Step, object: &Value) -> Result<(String, String, String), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let name = text(&object["metadata"]["name"]);
    if api_version.is_empty() || kind.is_empty() {
        return Err("has a manifest without apiVersion or kind".to_owned());
    }
    if !is_object_name(&name) {
        return Err(format!("has a manifest whose metadata.name cannot be the name of an object: {name:?}"));
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    // OLM's word for a Secret that a bundle brings.
    let wanted = if step.resource.kind == "BundleSecret" { "Secret" } else { &step.resource.kind };
    if wanted != kind || step.resource.group != group || step.resource.name != name {
        return Err(format!(
            "has a manifest of something else: {kind} {name:?} of group {group:?}. Step and manifest must agree"
        ));
    }
    Ok((group.to_owned(), version.to_owned(), kind))
}

/// Whether a plan of this namespace may bring this at all, whoever writes it.
fn is_allowed(
    installer: &Installer,
    namespace: &str,
    resolving: &str,
    group: &str,
    kind: &str,
    object: &Value,
) -> Result<(), String> {
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if !own.is_empty() && own != namespace {
        return Err(format!(
            "brings an object for namespace {own:?}. A plan of {namespace} installs in {namespace} and nowhere else"
        ));
    }
    if is_workload(group, kind) {
        return Err(format!(
            "brings a {kind}. What runs comes from spec.install of the ClusterServiceVersion, where it is judged"
        ));
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let bounds_it = installer.account.as_ref().is_some_and(|account| account.name == name);
    match (group, kind) {
        (olm::GROUP, "OperatorGroup") => {
            Err("brings an OperatorGroup: a plan does not choose what bounds it".to_owned())
        }
        ("", "ServiceAccount") if bounds_it => {
            Err(format!("brings ServiceAccount {name}, which bounds the plan itself: it is the administrator's"))
        }
        ("", "Secret") if object["type"] == "kubernetes.io/service-account-token" => Err(
            "brings a Secret of type kubernetes.io/service-account-token: it would hold a token that never ends, of any \
             account of the namespace. Mount a projected token instead"
                .to_owned(),
        ),
        (olm::GROUP, "ClusterServiceVersion") if name != resolving => Err(format!(
            "brings ClusterServiceVersion {name:?} for another operator ({resolving:?}): what bounds it goes by its own name"
        )),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => object["subjects"]
            .as_array()
            .into_iter()
            .flatten()
            .try_for_each(|subject| is_own_subject(namespace, subject)),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let webhook = &object["spec"]["conversion"]["webhook"]["clientConfig"];
            serves_from(namespace, webhook, &webhook["service"])?;
            let spec = &object["spec"];
            is_called(name, &[&spec["names"]["plural"], &spec["group"]])
        }
        ("apiregistration.k8s.io", "APIService") => {
            serves_from(namespace, &object["spec"], &object["spec"]["service"])?;
            if object["spec"]["service"].is_null() {
                return Err("brings an APIService without spec.service: those are the API server's own".to_owned());
            }
            is_called(name, &[&object["spec"]["version"], &object["spec"]["group"]])
        }
        _ => Ok(()),
    }
}

/// Some objects must be called by what they hold. One that says less would be merged into whatever has that name.
fn is_called(name: &str, parts: &[&Value]) -> Result<(), String> {
    let parts: Vec<&str> = parts.iter().filter_map(|part| part.as_str()).filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        [first, second] if format!("{first}.{second}") == name => Ok(()),
        _ => Err(format!(
            "has a spec that does not belong to its name {name:?}: they must agree, and nothing may be left out"
        )),
    }
}

/// A binding names accounts of the plan's namespace and people, and no account of anybody else.
fn is_own_subject(namespace: &str, subject: &Value) -> Result<(), String> {
    let text = |key: &str| subject[key].as_str().unwrap_or_default();
    let other = match text("kind") {
        "ServiceAccount" => Some(text("namespace")).filter(|other| *other != namespace),
        "User" => {
            let account = text("name").strip_prefix("system:serviceaccount:");
            account.map(|account| account.split(':').next().unwrap_or_default()).filter(|other| *other != namespace)
        }
        "Group" if text("name") == "system:serviceaccounts" => Some("*"),
        "Group" => text("name").strip_prefix("system:serviceaccounts:").filter(|other| *other != namespace),
        _ => None,
    };
    match other {
        None => Ok(()),
        Some(other) => Err(format!(
            "names {} {:?} of namespace {other:?}. A plan of {namespace} gives rights to accounts of {namespace} only; an \
             administrator can create that binding",
            text("kind"),
            text("name")
        )),
    }
}

/// What the API server calls is a Service of the plan's namespace.
fn serves_from(namespace: &str, config: &Value, service: &Value) -> Result<(), String> {
    if !config["url"].is_null() {
        return Err("makes the API server call a URL: name a Service instead".to_owned());
    }
    match service["namespace"].as_str() {
        Some(other) if other != namespace => {
            Err(format!("makes the API server call a Service of namespace {other:?}, which is not the plan's"))
        }
        None if !service.is_null() => Err("makes the API server call a Service without a namespace".to_owned()),
        _ => Ok(()),
    }
}

/// The object as it is written: in the plan's namespace, labelled, without what only the API server sets.
fn finished(namespace: &str, kind: Kind, mut object: Value) -> Result<(Kind, Value), String> {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return Err("has a manifest without metadata".to_owned());
    };
    let kept = ["name", "labels", "annotations"];
    metadata.retain(|key, _| kept.contains(&key.as_str()));
    if kind.namespaced {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    if !metadata.get("labels").is_some_and(Value::is_object) {
        metadata.insert("labels".to_owned(), json!({}));
    }
    if let Some(labels) = metadata["labels"].as_object_mut() {
        // They say whose an object is, so only the controller writes them.
        labels.retain(|key, _| !key.starts_with("olm."));
        labels.insert(MANAGED_LABEL.to_owned(), json!("true"));
    }
    Ok((kind, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installer() -> Installer {
        let text = r#"{"metadata":{"name":"og","namespace":"team-a"}}"#;
        let group: bounds::group::OperatorGroup<'_> = serde_json::from_str(text).unwrap();
        let account =
            crate::scoped::Account { namespace: "team-a".into(), name: "installer".into(), uid: String::new() };
        Installer { group: group.into(), account: Some(account) }
    }

    fn allowed(object: &Value) -> Result<(), String> {
        let api_version = object["apiVersion"].as_str().unwrap();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        is_allowed(&installer(), "team-a", "op.v1", group, object["kind"].as_str().unwrap(), object)
    }

    #[test]
    fn a_plan_stays_in_its_namespace() {
        let role = |namespace: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                   "metadata": {"name": "r", "namespace": namespace}})
        };
        assert_eq!(allowed(&role("team-a")), Ok(()));
        assert_eq!(allowed(&role("")), Ok(()));
        assert!(allowed(&role("kube-system")).unwrap_err().contains("for namespace \"kube-system\""));
    }

    #[test]
    fn a_binding_names_accounts_of_its_namespace_only() {
        let binding = |subject: Value| {
            allowed(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                           "metadata": {"name": "b"}, "subjects": [subject]}))
        };
        for fine in [
            json!({"kind": "ServiceAccount", "name": "op", "namespace": "team-a"}),
            json!({"kind": "User", "name": "system:serviceaccount:team-a:op"}),
            json!({"kind": "User", "name": "jane"}),
            json!({"kind": "Group", "name": "system:serviceaccounts:team-a"}),
        ] {
            assert_eq!(binding(fine.clone()), Ok(()), "{fine}");
        }
        for other in [
            json!({"kind": "ServiceAccount", "name": "op", "namespace": "team-b"}),
            json!({"kind": "ServiceAccount", "name": "op"}),
            json!({"kind": "User", "name": "system:serviceaccount:team-b:op"}),
            json!({"kind": "Group", "name": "system:serviceaccounts:team-b"}),
            json!({"kind": "Group", "name": "system:serviceaccounts"}),
        ] {
            assert!(binding(other.clone()).is_err(), "{other}");
        }
    }

    #[test]
    fn what_runs_and_what_bounds_does_not_come_as_a_step() {
        for (api_version, kind, name) in [
            ("apps/v1", "Deployment", "x"),
            ("v1", "Pod", "x"),
            ("batch/v1", "CronJob", "x"),
            ("operators.coreos.com/v1", "OperatorGroup", "x"),
            ("v1", "ServiceAccount", "installer"),
        ] {
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
            assert!(allowed(&object).is_err(), "{kind}");
        }
        assert_eq!(allowed(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "op"}})), Ok(()));
    }

    #[test]
    fn the_api_server_is_made_to_call_services_of_the_namespace_only() {
        let service = |namespace: &str| {
            json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.x.io"},
                   "spec": {"group": "x.io", "version": "v1", "service": {"name": "s", "namespace": namespace}}})
        };
        assert_eq!(allowed(&service("team-a")), Ok(()));
        assert!(allowed(&service("team-b")).is_err());
        let crd = |config: Value| {
            allowed(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                           "metadata": {"name": "cs.x.io"},
                           "spec": {"group": "x.io", "names": {"plural": "cs"}, "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": config}}}}))
        };
        assert_eq!(crd(json!({"service": {"name": "s", "namespace": "team-a"}})), Ok(()));
        assert!(crd(json!({"service": {"name": "s", "namespace": "team-b"}})).is_err());
        assert!(crd(json!({"url": "https://169.254.169.254/"})).is_err());
    }

    #[test]
    fn definitions_and_api_services_say_what_they_are_called_by() {
        let service = |name: &str, spec: Value| {
            let mut object = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                                    "metadata": {"name": name}, "spec": spec});
            object["spec"]["service"] = json!({"name": "s", "namespace": "team-a"});
            allowed(&object)
        };
        assert_eq!(service("v1.x.io", json!({"group": "x.io", "version": "v1"})), Ok(()));
        for (name, spec) in [
            ("v1.apps", json!({"version": "v1"})),
            ("v1.apps", json!({"group": "apps"})),
            ("v1.apps", json!({"group": "x.io", "version": "v1"})),
            ("v1.", json!({"group": "", "version": "v1"})),
            ("v1.apps", json!({"group": ["apps"], "version": "v1"})),
        ] {
            assert!(service(name, spec.clone()).unwrap_err().contains("does not belong to its name"), "{name} {spec}");
        }
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                         "metadata": {"name": "as.x.io"}, "spec": {"group": "x.io", "names": {"plural": "bs"}}});
        assert!(allowed(&crd).is_err());
    }

    #[test]
    fn only_a_definition_defines_a_kind() {
        let object = |api_version: &str, kind: &str| {
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"},
                   "spec": {"group": "x.io", "names": {"kind": "X", "plural": "xs"}, "versions": []}})
        };
        assert!(definition(&object("apiextensions.k8s.io/v1", "CustomResourceDefinition")).is_some());
        assert!(definition(&object("x.io/v1", "CustomResourceDefinition")).is_none());
        assert!(definition(&object("apiextensions.k8s.io/v1", "Widget")).is_none());
    }

    #[test]
    fn no_secret_holds_the_token_of_an_account() {
        let secret = |kind: &str| {
            allowed(&json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": "s",
                            "annotations": {"kubernetes.io/service-account.name": "installer"}}}))
        };
        assert!(secret("kubernetes.io/service-account-token").unwrap_err().contains("never ends"));
        assert_eq!(secret("Opaque"), Ok(()));
    }

    #[test]
    fn an_operator_comes_under_its_own_name() {
        let csv = |name: &str| {
            allowed(&json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
                            "metadata": {"name": name}}))
        };
        assert_eq!(csv("op.v1"), Ok(()));
        assert!(csv("other.v1").unwrap_err().contains("for another operator"));
    }

    #[test]
    fn labels_that_say_whose_an_object_is_are_not_the_manifests() {
        let object = json!({"metadata": {"name": "x", "labels": {"olm.owner": "other.v1", "app": "x"}}});
        let resource = kube::api::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let (_, made) = finished("team-a", Kind { resource, namespaced: true }, object).unwrap();
        assert_eq!(made["metadata"]["labels"], json!({"app": "x", "olm.managed": "true"}));
    }

    #[test]
    fn a_step_and_its_manifest_agree() {
        let step = |group: &str, kind: &str, name: &str| Step {
            resource: olm::StepResource {
                group: group.into(),
                kind: kind.into(),
                name: name.into(),
                ..Default::default()
            },
            ..Step::default()
        };
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        assert!(identity(&step("", "BundleSecret", "s"), &secret).is_ok());
        assert!(identity(&step("", "Secret", "s"), &secret).is_ok());
        assert!(identity(&step("", "ConfigMap", "s"), &secret).is_err());
        assert!(identity(&step("", "Secret", "other"), &secret).is_err());
        assert!(identity(&step("apps", "Secret", "s"), &secret).is_err());
        for name in ["", "..", "a/b", "a?b", "a%2fb"] {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
            assert!(identity(&step("", "Secret", name), &secret).is_err(), "{name}");
        }
    }
}
