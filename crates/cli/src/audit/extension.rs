//! Extensions of OLM v1: every ClusterExtension.

use std::collections::{BTreeMap, BTreeSet};

use bounds::cluster::CLUSTER_EXTENSIONS;
use bounds::decide::Lookups;
use bounds::rbac::{Identity, RoleKey, Rule, Scope};
use serde_json::Value;

use crate::check::objects::Name;
use crate::derive::live;

use super::admin;
use super::installed::{self, Installed, Record};
use super::judge::{Answer, Judge, Written};
use super::parallel::in_parallel;
use super::seen::{SECRETS, Unread};
use super::settings::Chosen;
use super::{Audited, Bound, Holding, Missing, Origin, Verdict, View, text};

const KIND: &str = "ClusterExtension";

/// An extension, and what a proposal needs to know about it.
pub(super) struct Extension {
    pub(super) audited: Audited,
    /// Where it installs.
    pub(super) namespace: String,
    /// What is installed; nothing where nothing is known.
    pub(super) installed: Option<Installed>,
    /// Whether OLM itself acts as the account that it names.
    pub(super) is_account_used: bool,
}

/// Every extension that was read.
pub(super) fn all(view: &View<'_>, settings: &Chosen, unread: &[Unread]) -> Vec<Extension> {
    let may_read_releases = !unread.iter().any(|unread| unread.kind == SECRETS.kind);
    let extensions: Vec<&Value> = view.judge.manifests().list(CLUSTER_EXTENSIONS.api_version, KIND, None).collect();
    in_parallel(&extensions, |object| Look { view, settings, object, may_read_releases }.extension())
}

struct Look<'l> {
    view: &'l View<'l>,
    settings: &'l Chosen,
    object: &'l Value,
    may_read_releases: bool,
}

impl Look<'_> {
    fn extension(&self) -> Extension {
        let name = text(self.object, "/metadata/name");
        let mut audited = Audited::new(Name { kind: KIND.to_owned(), namespace: String::new(), name: name.to_owned() });
        let namespace = text(self.object, "/spec/namespace").to_owned();
        let installed = installed::of(self.view.judge.manifests(), name, self.may_read_releases);
        if let Some(installed) = &installed {
            self.look_inside(installed, &namespace, &mut audited);
        }
        let written = Written { object: self.object, old: None, resource: "clusterextensions", user: None };
        let answer = self.view.judge.judge(&written, self.settings);
        let is_account_used = answer.facts.get("phase").is_some_and(|phase| phase == "required" || phase == "optional");
        (audited.verdict, audited.why) = self.verdict(&answer, installed.as_ref(), is_account_used, &mut audited);
        Extension { audited, namespace, installed, is_account_used }
    }

    /// What it holds, and what of that is cluster-admin.
    fn look_inside(&self, installed: &Installed, namespace: &str, audited: &mut Audited) {
        let host = self.view.judge.host();
        let lookups = Lookups::new(&host);
        let rbac = Rbac::of(&installed.objects, namespace);
        audited.holds = rbac.holds(&lookups);
        let mut accounts = run_as(&installed.objects, namespace);
        audited.holds.extend(self.borrowed(&accounts, &rbac));
        audited.holds.retain(|holding| !holding.rules.is_empty());
        let bound = audited.holds.iter().filter_map(|holding| holding.account.as_deref()?.split_once('/'));
        accounts.extend(bound.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())));
        audited.admin = self.view.admins_among(&accounts, &audited.holds);
        audited.is_admin_known = self.view.grants.is_complete();
        if let Some(why) = &installed.partial {
            audited.notes.push(format!("{why}: what it holds is taken from the RBAC that carries its labels"));
        }
    }

    /// What the accounts of its pods hold by bindings that are not its own.
    fn borrowed(&self, accounts: &BTreeSet<(String, String)>, own: &Rbac<'_>) -> Vec<Holding> {
        let mut found = Vec::new();
        for (namespace, name) in accounts {
            let held = self.view.grants.of(&Identity::service_account(namespace, name).itself());
            for held in held.into_iter().filter(|held| !own.has(&held.kind, &held.scope, &held.binding)) {
                found.push(Holding {
                    origin: Origin::Borrowed,
                    account: Some(format!("{namespace}/{name}")),
                    scopes: vec![held.scope.clone()],
                    why: format!(
                        "ServiceAccount {namespace}/{name}, which its pods run as, already holds {}",
                        held.describe()
                    ),
                    rules: held.rules,
                });
            }
        }
        found
    }

    fn verdict(
        &self,
        answer: &Answer,
        installed: Option<&Installed>,
        is_account_used: bool,
        audited: &mut Audited,
    ) -> (Verdict, String) {
        let Some(user) = answer.facts.get("boundary").filter(|_| answer.accepted) else {
            return match (answer.accepted, answer.reason.as_str()) {
                (true, _) => (Verdict::Unbounded, self.unbounded()),
                (false, _) if answer.is_unknown() => (Verdict::Unknown, answer.sentence().to_owned()),
                (false, _) => (Verdict::Refused, answer.message.clone()),
            };
        };
        audited.bounds.push(self.bound(user));
        let is_installed = !self.object["status"]["install"].is_null();
        match installed {
            None if !is_installed => (Verdict::Bounded, "nothing is installed for it yet".to_owned()),
            Some(Installed { records, .. }) if !records.is_empty() => self.judged(records, is_account_used, audited),
            _ => {
                let why = "what it consists of could not be read, so whether it stays within its boundary is not known";
                (Verdict::Unknown, why.to_owned())
            }
        }
    }

    fn unbounded(&self) -> String {
        let named = text(self.object, "/spec/serviceAccount/name");
        let ignored = if named.is_empty() {
            String::new()
        } else {
            format!(" (OLM ignores spec.serviceAccount, which names {named})")
        };
        format!("OLM installs it with its own rights: nothing bounds it{ignored}")
    }

    fn bound(&self, user: &str) -> Bound {
        let account = Identity::user_in(user, Vec::new());
        let (label, identity) = match account.as_service_account() {
            Some((namespace, name)) => {
                (format!("ServiceAccount {namespace}/{name}"), Identity::service_account(namespace, name))
            }
            None => (format!("User {user}"), synthetic(user)),
        };
        let by = format!("ClusterExtension {}", text(self.object, "/metadata/name"));
        self.view.bound(label, by, &identity)
    }

    /// Has the policy judge the records as if they came now.
    fn judged(&self, records: &[Record], is_account_used: bool, audited: &mut Audited) -> (Verdict, String) {
        let bounding;
        let settings = if is_account_used && !self.settings.bounds_extensions() {
            match self.settings.with("clusterExtensions", "bound", "serviceAccount") {
                Ok(settings) => bounding = settings,
                Err(error) => return (Verdict::Unknown, error),
            }
            &bounding
        } else {
            self.settings
        };
        let name = text(self.object, "/metadata/name");
        let answers: Vec<Answer> = records.iter().map(|record| judge(self.view.judge, record, settings)).collect();
        let mut verdict = (Verdict::Bounded, String::new());
        for answer in answers.iter().filter(|answer| !answer.accepted) {
            verdict = match answer.reason.as_str() {
                "exceeds" => (Verdict::Exceeds, String::new()),
                _ if answer.is_unknown() => (Verdict::Unknown, answer.sentence().to_owned()),
                _ => (Verdict::Refused, answer.message.clone()),
            };
            match live::of_refusal(&answer.message, name) {
                Ok(Some(refused)) => audited.missing.extend(missing(&refused, &audited.bounds)),
                Ok(None) => {}
                Err(_) => audited.notes.push("it lacks more than a refusal has room for: see its bundle".to_owned()),
            }
        }
        verdict
    }
}

/// The identity of an extension that names no account.
fn synthetic(user: &str) -> Identity {
    Identity::user_in(user, vec![bounds::decide::SYNTHETIC_GROUP.to_owned(), "system:authenticated".to_owned()])
}

/// The policy's word on a record as OLM v1 writes it.
pub(super) fn judge(judge: &Judge<'_>, record: &Record, settings: &Chosen) -> Answer {
    let users = &settings.read.olm.v1_users;
    let namespace = text(&record.object, "/metadata/namespace");
    let own = users.iter().find(|user| user.split(':').nth(2) == Some(namespace));
    let user = own.or(users.first()).map(String::as_str);
    judge.judge(&Written { object: &record.object, old: None, resource: record.resource, user }, settings)
}

/// What a refusal lists, by scope.
fn missing(refused: &live::Missing, bounds: &[Bound]) -> Vec<Missing> {
    let mut scopes: BTreeMap<&Scope, Vec<Rule<'static>>> = BTreeMap::new();
    for need in &refused.needs.0 {
        scopes.entry(&need.scope).or_default().push(need.rule.clone());
    }
    let label = bounds.first().map(|bound| bound.label.clone()).unwrap_or_default();
    let missing = |(scope, rules): (&Scope, _)| Missing { label: label.clone(), scope: scope.clone(), rules };
    scopes.into_iter().map(missing).collect()
}

/// The accounts that pods among the objects run as.
fn run_as(objects: &[Value], namespace: &str) -> BTreeSet<(String, String)> {
    let account = |object: &Value| {
        let pod = match text(object, "/kind") {
            "Pod" => "/spec",
            "CronJob" => "/spec/jobTemplate/spec/template/spec",
            "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" => "/spec/template/spec",
            _ => return None,
        };
        let name = ["serviceAccountName", "serviceAccount"].map(|key| text(object, &format!("{pod}/{key}")));
        let name = name.into_iter().find(|name| !name.is_empty()).unwrap_or("default");
        Some((namespace_of(object, namespace).to_owned(), name.to_owned()))
    };
    objects.iter().filter_map(account).collect()
}

fn namespace_of<'o>(object: &'o Value, otherwise: &'o str) -> &'o str {
    Some(text(object, "/metadata/namespace")).filter(|namespace| !namespace.is_empty()).unwrap_or(otherwise)
}

/// The roles and bindings of an extension.
struct Rbac<'o> {
    objects: &'o [Value],
    namespace: &'o str,
}

impl<'o> Rbac<'o> {
    fn of(objects: &'o [Value], namespace: &'o str) -> Self {
        Rbac { objects, namespace }
    }

    fn scope(&self, object: &Value) -> Scope {
        let is_wide = text(object, "/kind").starts_with("Cluster");
        Scope::of((!is_wide).then(|| namespace_of(object, self.namespace)))
    }

    /// Whether this binding is one of them.
    fn has(&self, kind: &str, scope: &Scope, name: &str) -> bool {
        self.objects.iter().any(|object| {
            text(object, "/kind") == kind && text(object, "/metadata/name") == name && self.scope(object) == *scope
        })
    }

    /// What each binding gives to each account.
    fn holds(&self, lookups: &Lookups<'_>) -> Vec<Holding> {
        let bindings = self.objects.iter().filter(|object| text(object, "/kind").ends_with("RoleBinding"));
        bindings.flat_map(|binding| self.given(binding, lookups)).collect()
    }

    fn given(&self, binding: &Value, lookups: &Lookups<'_>) -> Vec<Holding> {
        let (kind, role) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let scope = self.scope(binding);
        let rules = self.rules(kind, role, &scope, lookups);
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        let accounts = subjects.filter(|subject| text(subject, "/kind") == "ServiceAccount").map(|subject| {
            let namespace = Some(text(subject, "/namespace")).filter(|namespace| !namespace.is_empty());
            format!("{}/{}", namespace.unwrap_or_else(|| namespace_of(binding, self.namespace)), text(subject, "/name"))
        });
        let holding = |account: String| Holding {
            origin: Origin::Declared,
            account: Some(account),
            scopes: vec![scope.clone()],
            rules: rules.clone(),
            why: format!("{kind} {role} by {} {}", text(binding, "/kind"), text(binding, "/metadata/name")),
        };
        accounts.map(holding).collect()
    }

    /// The rules of a role: its own, or the cluster's.
    fn rules(&self, kind: &str, name: &str, scope: &Scope, lookups: &Lookups<'_>) -> Vec<Rule<'static>> {
        let namespace = scope.namespace().filter(|_| kind == "Role");
        let own = self.objects.iter().find(|object| {
            text(object, "/kind") == kind
                && text(object, "/metadata/name") == name
                && self.scope(object).namespace() == namespace
        });
        if let Some(role) = own {
            return admin::rules(role);
        }
        let key = RoleKey { namespace: namespace.map(str::to_owned), name: name.to_owned() };
        lookups.role(&key).ok().flatten().map(|rules| rules.to_vec()).unwrap_or_default()
    }
}
