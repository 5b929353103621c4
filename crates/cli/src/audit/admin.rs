//! What is cluster-admin in effect: everything itself, or a right with which an account takes everything in one step.
//!
//! A way counts if RBAC alone decides it: the account sends one request, or two, and then holds or acts as something that
//! holds everything. Whatever takes more than RBAC (a pod that is scheduled, a Secret that happens to hold a token, a webhook
//! that is called) does not; docs/audit.md lists both.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bounds::rbac::{Identity, Index, RBAC, Rule, Scope, Subject};
use serde::Deserialize as _;
use serde_json::Value;

use crate::manifests::Manifests;

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// The signer whose certificates the API server takes for users.
const USERS_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// One rule that somebody holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// The scope it holds in.
    pub scope: Scope,
    /// The rule.
    pub rule: Rule<'static>,
    /// Where it comes from: `clusterPermissions of service account x`, `ClusterRole x by ClusterRoleBinding x`.
    pub from: String,
    /// Whether somebody asks for it, and does not hold it by a binding alone.
    pub is_asked: bool,
}

/// How somebody gets everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// By holding it.
    Everything,
    /// By writing it into a role of its own.
    Escalate,
    /// By binding itself to a role that holds it.
    Bind,
    /// By acting as somebody who holds it.
    Impersonate,
    /// By a token of somebody who holds it.
    Token,
    /// By a client certificate of somebody who holds it.
    Certificate,
}

impl Way {
    /// The word for it, for machines.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Way::Everything => "everything",
            Way::Escalate => "escalate",
            Way::Bind => "bind",
            Way::Impersonate => "impersonate",
            Way::Token => "token",
            Way::Certificate => "certificate",
        }
    }
}

/// Somebody who is cluster-admin in effect, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// `ServiceAccount operators/flux-operator`.
    pub who: String,
    /// How.
    pub way: Way,
    /// In words: `may do everything`.
    pub how: String,
    /// The rules that make it so.
    pub rights: Vec<Right>,
}

impl fmt::Display for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.who, self.how)
    }
}

/// Who holds everything in a cluster: whom to become, and what to bind to.
#[derive(Debug, Clone)]
pub struct Admins {
    roles: BTreeSet<String>,
    bindings: BTreeSet<String>,
    accounts: BTreeSet<(String, String)>,
    users: BTreeSet<String>,
    groups: BTreeSet<String>,
}

impl Default for Admins {
    /// What every cluster has.
    fn default() -> Self {
        let one = |name: &str| BTreeSet::from([name.to_owned()]);
        Admins {
            roles: one("cluster-admin"),
            bindings: one("cluster-admin"),
            accounts: BTreeSet::from([("kube-system".to_owned(), "clusterrole-aggregation-controller".to_owned())]),
            users: one("system:kube-controller-manager"),
            groups: one("system:masters"),
        }
    }
}

impl Admins {
    /// Those of this cluster besides: every ClusterRole that is cluster-admin in effect, and everybody who is bound to one.
    #[must_use]
    pub fn of(manifests: &Manifests) -> Self {
        let mut admins = Admins::default();
        for role in manifests.list(API_VERSION, "ClusterRole", None) {
            let rights = rules(role).into_iter().map(|rule| Right {
                scope: Scope::Cluster,
                rule,
                from: String::new(),
                is_asked: false,
            });
            let rights: Vec<Right> = rights.collect();
            // By what every cluster has, so that it does not matter which role is looked at first.
            if !ways("", &rights, &BTreeSet::new(), &Admins::default()).is_empty() {
                admins.roles.extend(text(role, "/metadata/name"));
            }
        }
        for binding in manifests.list(API_VERSION, "ClusterRoleBinding", None) {
            if text(binding, "/roleRef/name").is_some_and(|role| admins.roles.contains(&role)) {
                admins.bindings.extend(text(binding, "/metadata/name"));
                admins.add_subjects(binding);
            }
        }
        admins
    }

    fn add_subjects(&mut self, binding: &Value) {
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let Ok(subject) = Subject::deserialize(subject) else { continue };
            match subject.kind.as_str() {
                "ServiceAccount" => {
                    _ = self.accounts.insert((subject.namespace.to_string(), subject.name.to_string()));
                }
                "User" => match Identity::user_in(&subject.name, Vec::new()).as_service_account() {
                    Some((namespace, name)) => _ = self.accounts.insert((namespace.to_owned(), name.to_owned())),
                    None => _ = self.users.insert(subject.name.to_string()),
                },
                _ => _ = self.groups.insert(subject.name.to_string()),
            }
        }
    }

    /// The namespaces with an account that holds everything, by which whoever rules there gets everything.
    fn namespaces(&self) -> BTreeSet<&str> {
        self.accounts.iter().map(|(namespace, _)| namespace.as_str()).collect()
    }
}

fn text(object: &Value, pointer: &str) -> Option<String> {
    object.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

/// The rules of a role; those that cannot be read give nothing, for the API server does not store them.
pub(super) fn rules(role: &Value) -> Vec<Rule<'static>> {
    let rules = role["rules"].as_array().into_iter().flatten();
    rules.filter_map(|rule| Rule::deserialize(rule).ok()).map(Rule::into_owned).collect()
}

/// Every way in which somebody with these rights is cluster-admin in effect; empty if there is none. `roles` are the
/// ClusterRoles that it holds cluster-wide: to widen one of those is to widen itself.
#[must_use]
pub fn ways<'r>(who: &'r str, rights: &'r [Right], roles: &BTreeSet<String>, admins: &'r Admins) -> Vec<Admin> {
    let matters = admins.namespaces();
    let namespaces: BTreeSet<&str> = rights.iter().filter_map(|right| right.scope.namespace()).collect();
    let power = |namespace: &str| Power::new(rights, &Scope::Namespace(namespace.to_owned()));
    let special = namespaces.intersection(&matters).map(|namespace| (*namespace, power(namespace))).collect();
    let look = Look { who, rights, admins, cluster: Power::new(rights, &Scope::Cluster), special };
    if let Some(found) = look.everything() {
        return vec![found];
    }
    [look.escalate(roles), look.bind(), look.impersonate(), look.token(), look.certificate()]
        .into_iter()
        .flatten()
        .collect()
}

/// What is held in one scope, cluster-wide rights included.
struct Power<'r> {
    rights: Vec<&'r Right>,
    index: Index<'r>,
}

impl<'r> Power<'r> {
    fn new(rights: &'r [Right], scope: &Scope) -> Self {
        let holds = |right: &&Right| right.scope == Scope::Cluster || right.scope == *scope;
        let rights: Vec<&Right> = rights.iter().filter(holds).collect();
        Power { index: Index::new(rights.iter().map(|right| &right.rule).collect::<Vec<_>>()), rights }
    }

    fn may(&self, rule: &Rule<'_>) -> bool {
        self.index.covers(std::slice::from_ref(rule))
    }

    /// The rights that allow these, each by the first that does; none unless all are allowed.
    fn all(&self, asked: &[Rule<'_>]) -> Option<Vec<Right>> {
        if !self.index.covers(asked) {
            return None;
        }
        let mut found: Vec<Right> = Vec::new();
        for rule in asked {
            let allows = |right: &&&Right| Index::new([&right.rule]).covers(std::slice::from_ref(rule));
            let right = self.rights.iter().find(allows)?;
            if !found.contains(right) {
                found.push((*right).clone());
            }
        }
        Some(found)
    }
}

fn on(group: &'static str, resource: &'static str, verb: &'static str) -> Rule<'static> {
    Rule::on(&[group], &[resource], &[verb])
}

/// On one object of this name.
fn of<'n>(rule: &Rule<'static>, name: &'n str) -> Rule<'n> {
    rule.clone().named(&[name])
}

struct Look<'r> {
    who: &'r str,
    rights: &'r [Right],
    admins: &'r Admins,
    cluster: Power<'r>,
    /// Where more is held than cluster-wide, of the namespaces that matter.
    special: BTreeMap<&'r str, Power<'r>>,
}

impl<'r> Look<'r> {
    fn admin(&self, way: Way, how: impl Into<String>, rights: Option<Vec<Right>>) -> Option<Admin> {
        Some(Admin { who: self.who.to_owned(), way, how: how.into(), rights: rights? })
    }

    /// What is held in a namespace: mostly nothing besides what is held cluster-wide.
    fn within(&self, namespace: &str) -> &Power<'r> {
        self.special.get(namespace).unwrap_or(&self.cluster)
    }

    /// The roles that hold everything, the one that everybody knows first.
    fn roles(&self) -> impl Iterator<Item = &'r String> {
        let is_known = |role: &&String| *role == "cluster-admin";
        self.admins.roles.iter().filter(is_known).chain(self.admins.roles.iter().filter(move |role| !is_known(role)))
    }

    fn everything(&self) -> Option<Admin> {
        let [all, _] = Rule::everything();
        self.admin(Way::Everything, "may do everything", self.cluster.all(&[all]))
    }

    fn escalate(&self, roles: &BTreeSet<String>) -> Option<Admin> {
        let escalate = on(RBAC, "clusterroles", "escalate");
        ["update", "patch"].into_iter().find_map(|verb| {
            let write = on(RBAC, "clusterroles", verb);
            let any = || {
                let how = format!("may give itself any right: it may escalate and {verb} ClusterRoles");
                self.admin(Way::Escalate, how, self.cluster.all(&[escalate.clone(), write.clone()]))
            };
            let own = |role: &String| {
                let how = format!(
                    "may give itself any right: it may escalate and {verb} ClusterRole {role}, which it is bound to"
                );
                self.admin(Way::Escalate, how, self.cluster.all(&[of(&escalate, role), of(&write, role)]))
            };
            any().or_else(|| roles.iter().find_map(own))
        })
    }

    fn bind(&self) -> Option<Admin> {
        let bind = on(RBAC, "clusterroles", "bind");
        let create = on(RBAC, "clusterrolebindings", "create");
        let changes = |role: &str| {
            let bindings = self.admins.bindings.iter();
            let change = |verb: &'static str| on(RBAC, "clusterrolebindings", verb);
            bindings.flat_map(|name| [of(&change("update"), name), of(&change("patch"), name)]).find_map(|rule| {
                let how = format!(
                    "may bind itself to ClusterRole {role}: it may bind that role and change ClusterRoleBinding {}",
                    rule.resource_names.first().map_or("", |name| name.as_str())
                );
                self.admin(Way::Bind, how, self.cluster.all(&[of(&bind, role), rule.clone()]))
            })
        };
        let wide = self.roles().filter(|role| self.cluster.may(&of(&bind, role))).find_map(|role| {
            let how =
                format!("may bind itself to ClusterRole {role}: it may bind that role and create ClusterRoleBindings");
            let rights = self.cluster.all(&[of(&bind, role), create.clone()]);
            self.admin(Way::Bind, how, rights).or_else(|| changes(role))
        });
        wide.or_else(|| self.bind_within(&bind))
    }

    /// Who rules a namespace gets a token of any account there.
    fn bind_within(&self, bind: &Rule<'static>) -> Option<Admin> {
        let create = on(RBAC, "rolebindings", "create");
        self.admins.namespaces().into_iter().find_map(|namespace| {
            let power = self.within(namespace);
            self.roles().filter(|_| power.may(&create)).find_map(|role| {
                let how = format!(
                    "may bind itself to ClusterRole {role} in namespace {namespace}, where an account is cluster-admin: it may \
                     bind that role and create RoleBindings"
                );
                self.admin(Way::Bind, how, power.all(&[of(bind, role), create.clone()]))
            })
        })
    }

    fn impersonate(&self) -> Option<Admin> {
        let users = on("", "users", "impersonate");
        let accounts = on("", "serviceaccounts", "impersonate");
        let groups = on("", "groups", "impersonate");
        let found = |how: String, rights: Option<Vec<Right>>| self.admin(Way::Impersonate, how, rights);
        found("may impersonate any user".to_owned(), self.cluster.all(std::slice::from_ref(&users)))
            .or_else(|| {
                found(
                    "may impersonate any ServiceAccount".to_owned(),
                    self.cluster.all(std::slice::from_ref(&accounts)),
                )
            })
            .or_else(|| {
                let named = |user: &String| {
                    found(
                        format!("may impersonate User {user}, who is cluster-admin"),
                        self.cluster.all(&[of(&users, user)]),
                    )
                };
                self.admins.users.iter().find_map(named)
            })
            .or_else(|| self.becomes(Way::Impersonate, "may impersonate", &accounts))
            .or_else(|| {
                // Nobody acts as a member of a group without acting as a user.
                let as_somebody = self.somebody()?;
                let named = |group: &String| {
                    let mut rights = self.cluster.all(&[of(&groups, group)])?;
                    rights.push(as_somebody.clone());
                    found(format!("may impersonate a member of Group {group}"), Some(rights))
                };
                self.admins.groups.iter().find_map(named)
            })
    }

    /// A right to act as any user at all.
    fn somebody(&self) -> Option<Right> {
        let has =
            |list: &[bounds::read::Text<'_>], wanted: &[&str]| list.iter().any(|item| wanted.contains(&item.as_str()));
        let acts = |right: &&Right| {
            has(&right.rule.verbs, &["impersonate", "*"])
                && has(&right.rule.api_groups, &["", "*"])
                && has(&right.rule.resources, &["users", "serviceaccounts", "*"])
        };
        self.rights.iter().find(acts).cloned()
    }

    fn token(&self) -> Option<Admin> {
        let create = on("", "serviceaccounts/token", "create");
        let any = self.cluster.all(std::slice::from_ref(&create));
        self.admin(Way::Token, "may get a token of any ServiceAccount", any)
            .or_else(|| self.becomes(Way::Token, "may get a token of", &create))
    }

    /// The first account that is cluster-admin and that this right is held for, by its name.
    fn becomes(&self, way: Way, how: &str, right: &Rule<'static>) -> Option<Admin> {
        self.admins.accounts.iter().find_map(|(namespace, name)| {
            let how = format!("{how} ServiceAccount {namespace}/{name}, which is cluster-admin");
            self.admin(way, how, self.within(namespace).all(&[of(right, name)]))
        })
    }

    fn certificate(&self) -> Option<Admin> {
        const CERTIFICATES: &str = "certificates.k8s.io";
        let approve = on(CERTIFICATES, "signers", "approve");
        ["update", "patch"].into_iter().find_map(|verb| {
            let asked = [
                on(CERTIFICATES, "certificatesigningrequests", "create"),
                on(CERTIFICATES, "certificatesigningrequests/approval", verb),
                of(&approve, USERS_SIGNER),
            ];
            let how = "may issue itself a client certificate of any user";
            self.admin(Way::Certificate, how, self.cluster.all(&asked))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(rules: &[Rule<'static>]) -> Vec<Right> {
        let right = |rule: &Rule<'static>| Right {
            scope: Scope::Cluster,
            rule: rule.clone(),
            from: "x".to_owned(),
            is_asked: true,
        };
        rules.iter().map(right).collect()
    }

    fn within(namespace: &str, rule: Rule<'static>) -> Vec<Right> {
        vec![Right { scope: Scope::Namespace(namespace.to_owned()), rule, from: "x".to_owned(), is_asked: true }]
    }

    fn found(rights: &[Right]) -> Vec<Way> {
        let ways = ways("a", rights, &BTreeSet::from(["own".to_owned()]), &Admins::default());
        ways.into_iter().map(|admin| admin.way).collect()
    }

    #[test]
    fn everything_is_every_verb_on_every_resource_of_every_group() {
        assert_eq!(found(&wide(&[Rule::on(&["*"], &["*"], &["*"])])), [Way::Everything]);
        // `*/*` is the subresource `*` of any resource, and no ordinary resource.
        assert_eq!(found(&wide(&[Rule::on(&["*"], &["*/*"], &["*"])])), []);
        assert_eq!(found(&wide(&[Rule::on(&["apps", "example.com"], &["*"], &["*"])])), []);
        assert_eq!(found(&within("team-a", Rule::on(&["*"], &["*"], &["*"]))), []);
        assert_eq!(found(&wide(&[Rule::on_urls(&["*"], &["*"])])), []);
    }

    #[test]
    fn reading_everything_is_not_everything() {
        assert_eq!(found(&wide(&[Rule::on(&["*"], &["*"], &["get", "list", "watch"])])), []);
    }

    #[test]
    fn escalate_counts_where_a_role_can_be_changed() {
        let on = |verbs: &[&'static str]| Rule::on(&[RBAC], &["clusterroles"], verbs);
        assert_eq!(found(&wide(&[on(&["escalate", "update"])])), [Way::Escalate]);
        assert_eq!(found(&wide(&[on(&["escalate"]), on(&["patch"])])), [Way::Escalate]);
        assert_eq!(found(&wide(&[on(&["escalate", "create", "get"])])), []);
        assert_eq!(found(&wide(&[on(&["escalate", "update"]).named(&["own"])])), [Way::Escalate]);
        assert_eq!(found(&wide(&[on(&["escalate", "update"]).named(&["another"])])), []);
        assert_eq!(found(&within("kube-system", on(&["escalate", "update"]))), []);
    }

    #[test]
    fn bind_counts_for_a_role_that_holds_everything_and_where_a_binding_can_be_written() {
        let bind = Rule::on(&[RBAC], &["clusterroles"], &["bind"]);
        let bindings = Rule::on(&[RBAC], &["clusterrolebindings"], &["create"]);
        assert_eq!(found(&wide(&[bind.clone(), bindings.clone()])), [Way::Bind]);
        assert_eq!(found(&wide(&[bind.clone().named(&["cluster-admin"]), bindings.clone()])), [Way::Bind]);
        assert_eq!(found(&wide(&[bind.clone().named(&["view"]), bindings.clone()])), []);
        assert_eq!(found(&wide(std::slice::from_ref(&bindings))), []);
        assert_eq!(found(&wide(std::slice::from_ref(&bind))), []);
        let change = Rule::on(&[RBAC], &["clusterrolebindings"], &["patch"]).named(&["cluster-admin"]);
        assert_eq!(found(&wide(&[bind.clone(), change])), [Way::Bind]);
        let in_namespaces = Rule::on(&[RBAC], &["rolebindings"], &["create"]);
        assert_eq!(found(&wide(&[bind.clone(), in_namespaces.clone()])), [Way::Bind]);
        let mut there = within("kube-system", bind.clone());
        there.extend(within("kube-system", in_namespaces.clone()));
        assert_eq!(found(&there), [Way::Bind]);
        let mut elsewhere = within("team-a", bind);
        elsewhere.extend(within("team-a", in_namespaces));
        assert_eq!(found(&elsewhere), []);
    }

    #[test]
    fn impersonating_counts_where_somebody_holds_everything() {
        let as_users = Rule::on(&[""], &["users"], &["impersonate"]);
        let groups = Rule::on(&[""], &["groups"], &["impersonate"]);
        assert_eq!(found(&wide(std::slice::from_ref(&as_users))), [Way::Impersonate]);
        assert_eq!(found(&wide(&[as_users.clone().named(&["jane"])])), []);
        assert_eq!(found(&wide(std::slice::from_ref(&groups))), [], "a group alone is nobody");
        assert_eq!(found(&wide(&[groups.clone(), as_users.clone().named(&["jane"])])), [Way::Impersonate]);
        assert_eq!(found(&wide(&[groups.named(&["team"]), as_users.named(&["jane"])])), []);
        let accounts = Rule::on(&[""], &["serviceaccounts"], &["impersonate"]);
        assert_eq!(found(&wide(std::slice::from_ref(&accounts))), [Way::Impersonate]);
        assert_eq!(found(&within("team-a", accounts.clone())), []);
        assert_eq!(found(&within("kube-system", accounts)), [Way::Impersonate]);
    }

    #[test]
    fn tokens_count_where_an_account_holds_everything() {
        let tokens = Rule::on(&[""], &["serviceaccounts/token"], &["create"]);
        assert_eq!(found(&wide(std::slice::from_ref(&tokens))), [Way::Token]);
        assert_eq!(found(&wide(&[Rule::on(&[""], &["*"], &["create"])])), [Way::Token], "`*` has every subresource");
        assert_eq!(found(&wide(&[Rule::on(&[""], &["serviceaccounts"], &["*"])])), [Way::Impersonate]);
        assert_eq!(found(&within("team-a", tokens.clone())), []);
        assert_eq!(found(&within("kube-system", tokens.clone().named(&["default"]))), []);
        assert_eq!(found(&within("kube-system", tokens)), [Way::Token]);
    }

    #[test]
    fn certificates_count_for_the_signer_of_users() {
        let group = "certificates.k8s.io";
        let ask = Rule::on(&[group], &["certificatesigningrequests"], &["create"]);
        let approve = Rule::on(&[group], &["certificatesigningrequests/approval"], &["update"]);
        let sign = |name: &'static str| Rule::on(&[group], &["signers"], &["approve"]).named(&[name]);
        assert_eq!(found(&wide(&[ask.clone(), approve.clone(), sign(USERS_SIGNER)])), [Way::Certificate]);
        assert_eq!(found(&wide(&[ask, approve, sign("issuers.cert-manager.io/*")])), []);
    }

    #[test]
    fn the_rules_that_make_it_so_are_named() {
        let rights = wide(&[
            Rule::on(&[""], &["pods"], &["*"]),
            Rule::on(&[RBAC], &["clusterroles", "clusterrolebindings"], &["create", "bind"]),
        ]);
        let ways = ways("ServiceAccount a/b", &rights, &BTreeSet::new(), &Admins::default());
        assert_eq!(ways.len(), 1);
        assert_eq!(ways[0].rights, rights[1..]);
        assert_eq!(
            ways[0].to_string(),
            "ServiceAccount a/b may bind itself to ClusterRole cluster-admin: it may bind that role and create \
             ClusterRoleBindings"
        );
    }
}
