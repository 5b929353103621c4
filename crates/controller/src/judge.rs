//! Asks `bounds`: who installs in a namespace, and whether what is asked for stays within that account.

use bounds::admission::AdmissionRequest;
use bounds::boundary::{self, Boundary, Bounds};
use bounds::cluster::LookupError;
use bounds::context::Context;
use bounds::demand::{Demand, DemandedRules};
use bounds::excess::{Judged, bounded, grants};
use bounds::group::{Group, Targets};
use bounds::lookups::Lookups;
use bounds::message;
use bounds::rule::Rule;
use bounds::scope::Scope;
use bounds::settings::Settings;
use bounds::verdict::Refusal;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::cluster::Cached;
use crate::olm::{self, unreadable};
use crate::scoped::Account;
use crate::stores::Stores;

/// Who carries out the installs of a namespace.
#[derive(Debug, Clone)]
pub struct Installer {
    /// The group that says so.
    pub group: Group,
    /// The account; none where the group names none: then it is the controller itself, as today.
    pub account: Option<Account>,
}

/// What writing objects takes of the account, in one scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Write {
    /// One namespace, or none for kinds that have none.
    pub namespace: Option<String>,
    /// The API group.
    pub group: String,
    /// The resource, as URLs name it.
    pub resource: String,
}

/// Who installs in this namespace. No group, several, or an account that does not exist are refusals.
pub fn installer(stores: &Stores, namespace: &str) -> Result<Installer, Refusal> {
    // A group that cannot be read may name any account.
    let is_hidden =
        |group: &olm::OperatorGroup| group.namespace().as_deref() == Some(namespace) && unreadable(group).is_some();
    if let Some(group) = stores.groups.store.find(is_hidden) {
        let lookup = format!("OperatorGroup {namespace}/{}", group.name_any());
        let reason = unreadable(&*group).unwrap_or_default().to_owned();
        return Err(Refusal::Lookup(LookupError { lookup, reason }));
    }
    let request = request("InstallPlan", namespace, "", &Value::Null, None);
    ask(stores, &request, |cx| {
        let group = match boundary::of_operator(cx, namespace, "")? {
            Bounds::NoGroup => return Err(no_group(namespace)),
            Bounds::Unbounded(group) | Bounds::Bounded(group, _) => group,
        };
        let Some(name) = group.account.clone() else { return Ok(Installer { group, account: None }) };
        // It was there a moment ago; if it is gone by now, the next look finds that.
        let uid = stores.account(namespace, &name).and_then(|account| account.uid()).unwrap_or_default();
        Ok(Installer { group, account: Some(Account { namespace: namespace.to_owned(), name, uid }) })
    })
}

/// What a group reaches, by its spec and by the status that lags behind.
pub fn targets(stores: &Stores, group: &Group) -> Result<Targets, Refusal> {
    let cluster = Cached(stores);
    group.targets(&Lookups::new(&cluster))
}

/// Whether everything a plan brings stays within the boundaries of its operators, and whether the account can carry it
/// out. The refusal is the whole excess.
pub fn plan(stores: &Stores, installer: &Installer, plan: &Value, writes: &[Write]) -> Result<(), Refusal> {
    let (namespace, name) = (text(plan, "namespace"), text(plan, "name"));
    let mut before = plan.clone();
    before["spec"]["approved"] = json!(false);
    let request = request("InstallPlan", &namespace, &name, plan, Some(&before));
    ask(stores, &request, |cx| {
        let asked = bounds::judge::judge(cx).map(drop);
        let what = format!("carrying out InstallPlan {namespace}/{name}");
        together(asked, able(cx, installer, &what, writes))
    })
}

/// The same for a ClusterServiceVersion that is about to be installed.
pub fn csv(
    stores: &Stores,
    installer: &Installer,
    csv: &olm::ClusterServiceVersion,
    writes: &[Write],
) -> Result<(), Refusal> {
    let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let object = serde_json::to_value(csv).unwrap_or_default();
    let request = request("ClusterServiceVersion", &namespace, &name, &object, None);
    ask(stores, &request, |cx| {
        let asked = bounds::judge::judge(cx).map(drop);
        let what = format!("installing ClusterServiceVersion {namespace}/{name}");
        together(asked, able(cx, installer, &what, writes))
    })
}

/// What of these rules an account of a namespace does not hold there (or in the whole cluster), a line each.
pub fn lacking(
    stores: &Stores,
    namespace: &str,
    account: &str,
    scope: &Scope,
    rules: &Value,
) -> Result<Vec<String>, Refusal> {
    let request = request("ClusterServiceVersion", namespace, "", &Value::Null, None);
    let text = rules.to_string();
    let rules: Vec<Rule<'_>> = bounds::json::read(&text, "rules").map_err(|error| Refusal::Unreadable {
        what: format!("permissions of ServiceAccount {namespace}/{account}"),
        error,
    })?;
    ask(stores, &request, |cx| {
        let identity = bounds::subject::Identity::service_account(namespace, account);
        let held = bounds::grant::held(&cx.lookups, std::slice::from_ref(&identity), bounds::grant::Reach::Everywhere)?;
        let grant = bounds::grant::Grant::of(&cx.lookups, &held, 0)?;
        let missing = grant.index(scope).uncovered(&rules);
        Ok(bounds::compact::compact(missing).iter().map(ToString::to_string).collect())
    })
}

/// Whether the group's account may write what has to be written.
fn able(cx: &Context<'_>, installer: &Installer, what: &str, writes: &[Write]) -> Result<(), Refusal> {
    let Some(account) = &installer.account else { return Ok(()) };
    let boundary = Boundary::account(&account.namespace, &account.name, installer.group.to_string());
    let demands = writes.iter().map(|write| Demand {
        scope: Scope::of(write.namespace.as_deref()),
        rules: DemandedRules::Shared(
            [Rule::on(&[write.group.as_str()], &[write.resource.as_str()], &["create", "patch"]).into_owned()].into(),
        ),
        honored: Vec::new(),
        why: None,
    });
    let judged = Judged {
        what: what.to_owned(),
        demands: demands.collect(),
        manifest: "CSV.yaml".to_owned(),
        notes: Vec::new(),
    };
    let boundaries = [boundary];
    let grants = grants(cx, &boundaries, &judged.demands, &installer.group)?;
    bounded(cx, &judged, &boundaries, &grants, cx.settings.operator_groups.escalation)
}

/// Both excesses at once: nobody should grant one only to hear of the other.
fn together(asked: Result<(), Refusal>, able: Result<(), Refusal>) -> Result<(), Refusal> {
    match (asked, able) {
        (Err(Refusal::Exceeds { message, mut lines }), Err(Refusal::Exceeds { message: more, lines: more_lines })) => {
            lines.extend(more_lines);
            Err(Refusal::Exceeds { message: message::join(vec![message, more]), lines })
        }
        (Ok(()), able) => able,
        (asked, _) => asked,
    }
}

fn no_group(namespace: &str) -> Refusal {
    Refusal::forbidden(
        "no-operator-group",
        format!(
            "there is no OperatorGroup in namespace {namespace}, so nobody can tell what bounds its operators. Create one, \
             with spec.serviceAccountName."
        ),
    )
}

/// The request that would change the object. `system:masters` stands for the controller: it chooses nothing.
fn request(kind: &str, namespace: &str, name: &str, object: &Value, old: Option<&Value>) -> Value {
    json!({
        "kind": {"group": olm::GROUP, "version": "v1alpha1", "kind": kind},
        "resource": {"group": olm::GROUP, "version": "v1alpha1", "resource": format!("{}s", kind.to_lowercase())},
        "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
        "namespace": namespace,
        "name": name,
        "userInfo": {"username": crate::NAME, "groups": ["system:masters"]},
        "object": object,
        "oldObject": old,
    })
}

fn ask<T>(
    stores: &Stores,
    request: &Value,
    question: impl FnOnce(&Context<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let text = request.to_string();
    let request = AdmissionRequest::read(&text)
        .map_err(|error| Refusal::Unreadable { what: "the question to bounds".to_owned(), error })?;
    let settings = Settings::default();
    let cluster = Cached(stores);
    question(&Context::new(&request, &settings, Lookups::new(&cluster)))
}

fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}
