//! `audit`: one look at a cluster. Every operator of OLM v0 and every extension of OLM v1, what bounds it, what it holds, what
//! of that is cluster-admin in effect, and a boundary for each that has none, proven before anybody sees it.
//!
//! Data flow: [`seen`] reads each kind once → [`settings`] that count → an [`Audited`] for each operator and extension, by the
//! published policy → proposals, laid over what was read and judged again → a [`Report`], as a [`table`], [`json`], an [`html`]
//! page, or [`files`].

pub mod admin;
pub mod commands;
mod copies;
mod extension;
pub mod files;
mod grants;
pub mod html;
mod installed;
pub mod json;
mod judge;
mod needs;
mod operator;
mod parallel;
mod propose;
pub mod seen;
pub mod settings;
mod surplus;
pub mod table;

use std::collections::BTreeSet;

use bounds::rbac::{Identity, Rule, Scope};
use serde_json::Value;

use crate::check::objects::Name;
use crate::policy::Policy;

use admin::{Admin, Admins, Right};
use grants::Grants;
use judge::Judge;
pub use propose::{Change, Outcome, Proposal};
use seen::{Seen, Unread};
use settings::Rules;
pub use surplus::Surplus;

/// How it stands with an operator or an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing bounds it.
    Unbounded,
    /// It asks for, or holds, more than what bounds it.
    Exceeds,
    /// The policy would refuse it for another reason.
    Refused,
    /// It could not be determined.
    Unknown,
    /// It stays within what bounds it.
    Bounded,
    /// It is left alone: by the settings, or because it is a part of OLM.
    Exempt,
}

impl Verdict {
    /// All of them, the worst first.
    pub const ALL: [Verdict; 6] =
        [Verdict::Unbounded, Verdict::Exceeds, Verdict::Refused, Verdict::Unknown, Verdict::Bounded, Verdict::Exempt];

    /// The word for it, for people and machines.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Unbounded => "unbounded",
            Verdict::Exceeds => "exceeds",
            Verdict::Refused => "refused",
            Verdict::Unknown => "unknown",
            Verdict::Bounded => "bounded",
            Verdict::Exempt => "exempt",
        }
    }
}

/// An operator or an extension.
#[derive(Debug)]
pub struct Audited {
    /// The ClusterServiceVersion, or the ClusterExtension.
    pub name: Name,
    /// How it stands.
    pub verdict: Verdict,
    /// In a sentence, why.
    pub why: String,
    /// What bounds it: all of these.
    pub bounds: Vec<Bound>,
    /// What it holds.
    pub holds: Vec<Holding>,
    /// What it asks for and its boundaries do not hold.
    pub missing: Vec<Missing>,
    /// In which ways it is cluster-admin in effect.
    pub admin: Vec<Admin>,
    /// Whether everything was read that this takes.
    pub is_admin_known: bool,
    /// What would bound it, or why nothing can; none where something does.
    pub proposal: Option<Outcome>,
    /// What else has to be known.
    pub notes: Vec<String>,
}

impl Audited {
    fn new(name: Name) -> Self {
        Audited {
            name,
            verdict: Verdict::Unknown,
            why: String::new(),
            bounds: Vec::new(),
            holds: Vec::new(),
            missing: Vec::new(),
            admin: Vec::new(),
            is_admin_known: true,
            proposal: None,
            notes: Vec::new(),
        }
    }

    /// Whether it is as strong as cluster-admin, by itself or by what bounds it.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        !self.admin.is_empty() || self.bounds.iter().any(|bound| !bound.admin.is_empty())
    }

    /// Whether somebody should do something about it.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        match self.verdict {
            Verdict::Unbounded | Verdict::Exceeds | Verdict::Refused => true,
            Verdict::Bounded | Verdict::Unknown => self.is_admin(),
            Verdict::Exempt => false,
        }
    }

    /// The worst first: whatever is cluster-admin, then by verdict.
    fn risk(&self) -> (bool, bool, Verdict, &Name) {
        (self.verdict == Verdict::Exempt, !self.is_admin(), self.verdict, &self.name)
    }

    /// How many rules its boundaries lack.
    #[must_use]
    pub fn missing_rules(&self) -> usize {
        self.missing.iter().map(|missing| missing.rules.len()).sum()
    }
}

/// An identity that bounds.
#[derive(Debug)]
pub struct Bound {
    /// `ServiceAccount team-a/installer`.
    pub label: String,
    /// What makes it the boundary: `OperatorGroup team-a/og`.
    pub by: String,
    /// The user name.
    pub user: String,
    /// Everything that it holds.
    pub rights: Vec<Right>,
    /// Whether it is cluster-admin itself, and so bounds nothing.
    pub admin: Vec<Admin>,
}

/// Where a right comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The operator asks for it.
    Declared,
    /// OLM adds it for the operator.
    Implied,
    /// The account that the operator runs as holds it already.
    Borrowed,
}

impl Origin {
    /// The word for it, for people and machines.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Origin::Declared => "declared",
            Origin::Implied => "implied",
            Origin::Borrowed => "borrowed",
        }
    }
}

/// Rules that an operator holds.
#[derive(Debug, Clone)]
pub struct Holding {
    /// Where they come from.
    pub origin: Origin,
    /// The scopes they hold in.
    pub scopes: Vec<Scope>,
    /// The rules.
    pub rules: Vec<Rule<'static>>,
    /// The account that they are for, where they are for one: `team-a/etcd-operator`.
    pub account: Option<String>,
    /// In words: `clusterPermissions of service account etcd-operator`.
    pub why: String,
}

impl Holding {
    /// Each rule in each scope.
    fn rights(&self) -> impl Iterator<Item = Right> {
        self.scopes.iter().flat_map(move |scope| {
            let is_asked = self.origin == Origin::Declared;
            let right = move |rule: &Rule<'static>| Right {
                scope: scope.clone(),
                rule: rule.clone(),
                from: self.why.clone(),
                is_asked,
            };
            self.rules.iter().map(right)
        })
    }
}

/// What a boundary lacks in a scope.
#[derive(Debug)]
pub struct Missing {
    /// The boundary.
    pub label: String,
    /// The scope.
    pub scope: Scope,
    /// The rules.
    pub rules: Vec<Rule<'static>>,
}

/// Everything that an audit has found, the worst first.
#[derive(Debug)]
pub struct Report {
    /// Operators and extensions.
    pub audited: Vec<Audited>,
    /// What would bound those that nothing bounds.
    pub proposals: Vec<Proposal>,
    /// Boundaries that hold more than their operators need.
    pub surplus: Vec<Surplus>,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// The user that could not read it.
    pub user: Option<String>,
    /// What was judged with.
    pub rules: Rules,
    /// What else has to be known.
    pub notes: Vec<String>,
}

impl Report {
    /// How many there are of a verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.audited.iter().filter(|audited| audited.verdict == verdict).count()
    }

    /// Whether everything was read and determined.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unread.is_empty() && self.count(Verdict::Unknown) == 0
    }

    /// Whether anybody should do anything.
    #[must_use]
    pub fn has_findings(&self) -> bool {
        self.audited.iter().any(Audited::is_finding)
    }
}

/// Audits what was read; of one namespace, or of all. The settings are chosen before: they say where OLM v1 keeps its records.
#[must_use]
pub fn run(policy: &Policy, seen: Seen, rules: Rules, namespace: Option<&str>) -> Report {
    let Seen { manifests, unread, mut notes, user } = seen;
    let admins = Admins::of(&manifests);
    let judge = Judge::new(policy, manifests, &unread);
    let (mut operators, mut extensions, surplus) = {
        let grants = Grants::new(judge.manifests(), &unread);
        let view = View { judge: &judge, grants: &grants, admins: &admins };
        let mut operators = operator::all(&view, &rules.v0);
        let mut extensions = extension::all(&view, &rules.v1, &unread);
        operators.retain(|operator| namespace.is_none_or(|namespace| operator.audited.name.namespace == namespace));
        extensions.retain(|extension| namespace.is_none_or(|namespace| extension.namespace == namespace));
        let surplus = surplus::of(&judge, &operators, &extensions, &mut notes);
        (operators, extensions, surplus)
    };
    let proposals = propose::all(judge, &unread, &mut operators, &mut extensions, &rules, &admins);
    let operators = operators.into_iter().map(|operator| operator.audited);
    let mut audited: Vec<Audited> =
        operators.chain(extensions.into_iter().map(|extension| extension.audited)).collect();
    audited.sort_by(|one, other| one.risk().cmp(&other.risk()));
    notes.extend(rules.notes.iter().cloned());
    if audited.is_empty() {
        notes.push("there is no operator of OLM v0 and no extension of OLM v1".to_owned());
    }
    Report { audited, proposals, surplus, unread, user, rules, notes }
}

/// A text in an object; empty if there is none.
fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// What an audit looks at things with.
struct View<'v> {
    judge: &'v Judge<'v>,
    grants: &'v Grants<'v>,
    admins: &'v Admins,
}

impl View<'_> {
    /// The accounts that are cluster-admin in effect: by what is declared for them, and by what they hold.
    fn admins_among(&self, accounts: &BTreeSet<(String, String)>, holds: &[Holding]) -> Vec<Admin> {
        let mut found = Vec::new();
        for (namespace, name) in accounts {
            let account = format!("{namespace}/{name}");
            let is_for = |holding: &&Holding| {
                holding.origin == Origin::Declared && holding.account.as_deref() == Some(account.as_str())
            };
            let declared: Vec<Right> = holds.iter().filter(is_for).flat_map(Holding::rights).collect();
            let identity = Identity::service_account(namespace, name);
            found.extend(self.grants.admin(&format!("ServiceAccount {account}"), &identity, declared, self.admins));
        }
        found
    }

    /// An identity as a boundary.
    fn bound(&self, label: String, by: String, identity: &Identity) -> Bound {
        let rights = grants::rights(&self.grants.of(identity)).collect();
        let admin = self.grants.admin(&label, identity, Vec::new(), self.admins);
        Bound { label, by, user: identity.user().to_owned(), rights, admin }
    }
}
