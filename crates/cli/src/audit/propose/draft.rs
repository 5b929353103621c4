//! Proposals that are not proven yet.

use std::collections::{BTreeMap, BTreeSet};

use bounds::cluster::{LookupError, OPERATOR_GROUPS, SERVICE_ACCOUNTS};
use bounds::decide::Lookups;
use bounds::rbac::Grant;
use serde_json::{Value, json};

use crate::check::objects::Name;
use crate::derive::need::Needs;
use crate::derive::roles::{self, Role};
use crate::derive::{DeriveError, Whom};

use super::super::admin::{self, Admin, Admins, Right};
use super::super::extension::Extension;
use super::super::grants::Grants;
use super::super::judge::Judge;
use super::super::operator::Operator;
use super::super::{Audited, Verdict, needs, text};
use super::parts::{Parts, applied_name, group_of, label};
use super::{Draft, Members, Outcome};

/// What the account of an OperatorGroup is called.
const ACCOUNT: &str = "operator-installer";
/// How many names are tried until one is free.
const MAX_TRIES: usize = 1_000;
const RESTRICT: &str = "operator-bounds/restrict";

/// Drafts proposals from what was read.
pub(super) struct Drafter<'d> {
    judge: &'d Judge<'d>,
    grants: &'d Grants<'d>,
    admins: &'d Admins,
    drafts: Vec<Draft>,
}

impl<'d> Drafter<'d> {
    pub(super) fn new(judge: &'d Judge<'d>, grants: &'d Grants<'d>, admins: &'d Admins) -> Self {
        Drafter { judge, grants, admins, drafts: Vec::new() }
    }

    pub(super) fn finished(self) -> Vec<Draft> {
        self.drafts
    }

    /// One account for all operators of an OperatorGroup. Where that would be cluster-admin, one for each operator that is
    /// not, by a restriction: the group itself stays as it is.
    pub(super) fn groups(&mut self, operators: &mut [Operator]) {
        let mut by_group: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
        for (number, operator) in operators.iter_mut().enumerate() {
            if operator.audited.verdict != Verdict::Unbounded {
                continue;
            }
            let namespace = operator.audited.name.namespace.clone();
            if let Some(group) = &operator.group {
                by_group.entry((namespace, group.clone())).or_default().push(number);
            } else {
                let why = format!(
                    "OLM does nothing for it without an OperatorGroup in namespace {namespace}: delete it, or create a group \
                     that names an account first"
                );
                operator.audited.proposal = Some(Outcome::Impossible(why));
            }
        }
        for ((namespace, group), members) in by_group {
            if let Err(error) = self.group(&namespace, &group, &members, operators) {
                let outcome = Outcome::Impossible(error.to_string());
                for member in members {
                    operators[member].audited.proposal = Some(outcome.clone());
                }
            }
        }
    }

    fn group(
        &mut self,
        namespace: &str,
        group: &str,
        members: &[usize],
        operators: &mut [Operator],
    ) -> Result<(), DeriveError> {
        let found = self
            .judge
            .manifests()
            .get(OPERATOR_GROUPS.api_version, OPERATOR_GROUPS.kind, Some(namespace), group)
            .cloned();
        let Some(old) = found else {
            let lookup = format!("OperatorGroup {namespace}/{group}");
            return Err(LookupError::new(&lookup, "it was not read").into());
        };
        let is_admin = |member: &&usize| !operators[**member].audited.admin.is_empty();
        let shared = if members.iter().any(|member| is_admin(&member)) {
            None
        } else {
            self.shared(namespace, &old, members, operators)?
        };
        if let Some(draft) = shared {
            self.drafts.push(draft);
            return Ok(());
        }
        let (admins, fitting): (Vec<usize>, Vec<usize>) = members.iter().partition(is_admin);
        for member in admins {
            let why = cluster_admin(&operators[member].audited);
            operators[member].audited.proposal = Some(Outcome::Impossible(why));
        }
        if let Some(draft) = self.restricted(namespace, &old, &fitting, operators) {
            self.drafts.push(draft);
        }
        Ok(())
    }

    /// One account for the whole group; none where that would be cluster-admin.
    fn shared(
        &self,
        namespace: &str,
        old: &Value,
        members: &[usize],
        operators: &[Operator],
    ) -> Result<Option<Draft>, DeriveError> {
        let bounded: Vec<&Operator> = members.iter().map(|member| &operators[*member]).collect();
        let Some(targets) = bounded.first().and_then(|first| first.targets.as_ref()) else { return Ok(None) };
        let host = self.judge.host();
        let needs = needs::of_operators(&Lookups::new(&host), &bounded, namespace, targets)?;
        let whom = self.account(namespace, ACCOUNT);
        let roles = roles::of(&needs, &Grant::default());
        if !self.ways(&whom, &roles).is_empty() {
            return Ok(None);
        }
        let mut group = group_of(old);
        if let Whom::Account { name, .. } = &whom {
            group["spec"]["serviceAccountName"] = name.as_str().into();
        }
        let mut parts = Parts::default();
        parts.grant(&whom, &applied_name(&whom, &bounded), &roles);
        parts.object(group);
        let members = members.iter().map(|member| (*member, label(&whom))).collect();
        Ok(Some(drafted(label(&whom), parts, old, members, operators)))
    }

    /// An account for each operator, to which the policy holds it: nothing changes for OLM.
    fn restricted(&self, namespace: &str, old: &Value, members: &[usize], operators: &[Operator]) -> Option<Draft> {
        let mut restrict: BTreeMap<String, String> =
            serde_json::from_str(&annotation(old, RESTRICT)).unwrap_or_default();
        let mut parts = Parts::default();
        let mut bounded: Vec<(usize, String)> = Vec::new();
        for member in members {
            let operator = &operators[*member];
            let package = package(&operator.audited.name.name);
            let whom = self.account(namespace, &format!("{package}-bounds"));
            parts.grant(
                &whom,
                &applied_name(&whom, &[operator]),
                &roles::of(&needs::of_holdings(operator), &Grant::default()),
            );
            bounded.push((*member, label(&whom)));
            if let Whom::Account { name, .. } = whom {
                restrict.insert(format!("{package}.*"), name);
            }
        }
        if bounded.is_empty() {
            return None;
        }
        let mut group = group_of(old);
        group["metadata"]["annotations"][RESTRICT] = json!(restrict).to_string().into();
        parts.object(group);
        let labels: Vec<&str> = bounded.iter().map(|(_, label)| label.as_str()).collect();
        Some(drafted(labels.join(", "), parts, old, bounded, operators))
    }

    /// An account that is not there, and that nothing is bound to.
    fn account(&self, namespace: &str, name: &str) -> Whom {
        let named = |number: usize| if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        let is_free = |name: &String| {
            let (version, kind) = (SERVICE_ACCOUNTS.api_version, SERVICE_ACCOUNTS.kind);
            let whom = Whom::Account { namespace: namespace.to_owned(), name: name.clone() };
            self.judge.manifests().get(version, kind, Some(namespace), name).is_none()
                && !self.grants.is_named(&whom.identity().itself())
        };
        let free = (1..=MAX_TRIES).map(named).find(is_free).unwrap_or_else(|| name.to_owned());
        Whom::Account { namespace: namespace.to_owned(), name: free }
    }

    pub(super) fn extensions(&mut self, extensions: &mut [Extension]) {
        for (number, extension) in extensions.iter_mut().enumerate() {
            if extension.audited.verdict != Verdict::Unbounded {
                continue;
            }
            match self.extension(number, extension) {
                Ok(draft) => self.drafts.push(draft),
                Err(reason) => extension.audited.proposal = Some(Outcome::Impossible(reason)),
            }
        }
    }

    fn extension(&self, number: usize, extension: &Extension) -> Result<Draft, String> {
        let name = &extension.audited.name.name;
        if !extension.audited.admin.is_empty() {
            return Err(cluster_admin(&extension.audited));
        }
        let host = self.judge.host();
        let needs: Option<Needs> =
            needs::of_extension(&Lookups::new(&host), extension).map_err(|error| error.to_string())?;
        let Some(needs) = needs else {
            let partial = extension.installed.as_ref().and_then(|installed| installed.partial.clone());
            let why = partial.unwrap_or_else(|| "nothing is installed for it yet".to_owned());
            return Err(format!(
                "{why}: derive it from the bundle, with operator-bounds derive BUNDLE --for synthetic {name}"
            ));
        };
        let whom = Whom::Synthetic { extension: name.clone() };
        let roles = roles::of(&needs, &Grant::default());
        if let Some(admin) = self.ways(&whom, &roles).first() {
            return Err(because(&extension.audited, admin));
        }
        let mut parts = Parts::default();
        parts.grant(&whom, &format!("olm-clusterextension-{name}"), &roles);
        Ok(Draft {
            proposal: parts.proposal(
                &format!("clusterextension-{name}"),
                label(&whom),
                vec![extension.audited.name.clone()],
            ),
            group: None,
            members: Members::Extension(number),
        })
    }

    /// Whether an identity with these roles would be cluster-admin in effect.
    fn ways(&self, whom: &Whom, roles: &[Role]) -> Vec<Admin> {
        let rights: Vec<Right> = roles
            .iter()
            .flat_map(|role| {
                role.rules.iter().map(|granted| Right {
                    scope: role.scope.clone(),
                    rule: granted.rule.clone(),
                    from: granted.comments.join("; "),
                    is_asked: true,
                })
            })
            .collect();
        admin::ways(&label(whom), &rights, &BTreeSet::new(), self.admins)
    }
}

/// A proposal for operators of a group.
fn drafted(
    boundary: String,
    parts: Parts,
    old: &Value,
    members: Vec<(usize, String)>,
    operators: &[Operator],
) -> Draft {
    let bounds: Vec<Name> = members.iter().map(|(member, _)| operators[*member].audited.name.clone()).collect();
    let file = format!("operatorgroup-{}-{}", text(old, "/metadata/namespace"), text(old, "/metadata/name"));
    Draft {
        proposal: parts.proposal(&file, boundary, bounds),
        group: Some(old.clone()),
        members: Members::Operators(members),
    }
}

/// The package of an operator, by its name: `etcdoperator` of `etcdoperator.v0.9.4`.
fn package(name: &str) -> &str {
    name.split_once(".v").map_or(name, |(package, _)| package)
}

/// Why something that is cluster-admin gets no boundary.
fn cluster_admin(audited: &Audited) -> String {
    audited.admin.first().map(|admin| because(audited, admin)).unwrap_or_default()
}

fn because(audited: &Audited, admin: &Admin) -> String {
    let rule = admin.rights.first().map(|right| {
        let verb = if right.is_asked { "asks for" } else { "runs as an account that holds" };
        format!("{verb} {} ({})", right.rule, right.from)
    });
    format!("this is cluster-admin, because {} {}: {admin}", audited.name.name, rule.unwrap_or_default())
}

fn annotation(object: &Value, key: &str) -> String {
    object["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned()
}
