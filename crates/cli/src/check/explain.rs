//! How the verdict on a ClusterServiceVersion came about: which group, which boundaries, what they hold and through which
//! bindings, what is asked for and where, what covers it and what does not. Every step is the policy's own function.

use std::collections::BTreeMap;

use bounds::admission::AdmissionRequest;
use bounds::decide::{
    Bounds, Context, Demand, Excess, Limit, Lookups, Operator, Origin, Refusal, boundary, groups, weigh,
};
use bounds::olm::{ClusterServiceVersion, Targets};
use bounds::rbac::{Atom, Index, Rule, Rules, Scope, compact};
use bounds::read::is_plain;
use bounds::settings::{Escalation, Settings};

use crate::host::Host;
use crate::syntax::Node;

use super::places::Place;

/// Where the rules of a ClusterServiceVersion are.
const STRATEGY: [&str; 3] = ["spec", "install", "spec"];

/// The way to a verdict.
#[derive(Debug)]
pub struct Explained {
    /// The OperatorGroup: `OperatorGroup team-a/og`.
    pub group: String,
    /// What it targets.
    pub targets: Targets,
    /// What bounds the operator: all of these.
    pub boundaries: Vec<Bound>,
    /// What the operator asks for, in the order of the ClusterServiceVersion.
    pub asked: Vec<Asked>,
}

/// An identity that bounds, and what it holds.
#[derive(Debug)]
pub struct Bound {
    /// The identity as messages show it: `ServiceAccount team-a/installer`.
    pub label: String,
    /// What makes it the boundary.
    pub by: String,
    /// The user name.
    pub user: String,
    /// The groups.
    pub groups: Vec<String>,
    /// What gives it rights where something is asked for.
    pub grants: Vec<Granted>,
}

/// A binding, and the role behind it.
#[derive(Debug)]
pub struct Granted {
    /// Where it holds.
    pub scope: Scope,
    /// `RoleBinding installer`.
    pub binding: String,
    /// `Role team-a/installer`.
    pub role: String,
    /// The rules; none if there is no such role.
    pub rules: Option<Vec<Rule<'static>>>,
}

/// A rule that is asked for in a scope.
#[derive(Debug)]
pub struct Asked {
    /// The scope that it is requested in.
    pub scope: Scope,
    /// Where in the ClusterServiceVersion; nothing for what is implied.
    pub source: Option<Source>,
    /// Where that is in the file.
    pub place: Place,
    /// Why it is asked for, where the object does not say so itself.
    pub why: Option<String>,
    /// The rule.
    pub rule: Rule<'static>,
    /// What becomes of each single permission in it.
    pub atoms: Vec<Weight>,
}

/// A rule of a ClusterServiceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `permissions` or `clusterPermissions`.
    pub section: &'static str,
    /// Which entry.
    pub entry: usize,
    /// Which rule of it.
    pub rule: usize,
    /// For which account.
    pub account: String,
}

/// A single permission on the scale.
#[derive(Debug)]
pub struct Weight {
    /// The permission, as a rule of its own.
    pub rule: Rule<'static>,
    /// For each boundary, what covers it.
    pub covered: Vec<Cover>,
}

/// What covers a permission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cover {
    /// No granted rule covers it.
    Missing,
    /// The rule of this number of the grant of this number.
    By {
        /// The position in [`Bound::grants`].
        grant: usize,
        /// The position of the rule.
        rule: usize,
    },
    /// `escalate` or `bind`, which the settings honour.
    Honored,
    /// The API server allows it.
    Review,
}

impl Weight {
    /// Whether some boundary does not hold it.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.covered.contains(&Cover::Missing)
    }
}

impl Asked {
    /// What of it is missing, compacted.
    #[must_use]
    pub fn missing(&self) -> Vec<Rule<'_>> {
        together(self.atoms.iter().filter(|weight| weight.is_missing()))
    }
}

/// Single permissions as rules again.
pub(super) fn together<'w>(weights: impl Iterator<Item = &'w Weight>) -> Vec<Rule<'w>> {
    compact(weights.flat_map(|weight| atoms(std::slice::from_ref(&weight.rule))))
}

/// The single permissions of rules.
pub(super) fn atoms<'r>(rules: &'r [Rule<'_>]) -> Vec<Atom<'r>> {
    Index::new(&[]).uncovered(rules)
}

impl Source {
    /// `spec.install.spec.permissions[0].rules[2]`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}.{}[{}].rules[{}]", STRATEGY.join("."), self.section, self.entry, self.rule)
    }

    fn way(&self) -> Vec<String> {
        let start = STRATEGY.iter().map(|step| (*step).to_owned());
        let rest = [self.section.to_owned(), self.entry.to_string(), "rules".to_owned(), self.rule.to_string()];
        start.chain(rest).collect()
    }
}

impl Explained {
    /// The same, with the place of each rule in its file.
    #[must_use]
    pub(super) fn with_places(mut self, node: Option<&Node>, object: Place) -> Self {
        for asked in &mut self.asked {
            let found = asked.source.as_ref().and_then(|source| node?.at(&source.way()));
            asked.place = found.map_or(object, Place::of);
        }
        self
    }
}

/// Explains the verdict on a request for a ClusterServiceVersion. Nothing where nothing bounds it, or where the verdict came
/// before its permissions were looked at.
#[must_use]
pub fn csv(request: &str, settings: &str, host: &Host) -> Option<Explained> {
    let request = AdmissionRequest::read(request).ok()?;
    let settings = Settings::read(settings).ok()?;
    let csv: ClusterServiceVersion<'_> = bounds::read::json::read(request.object?.get(), "object").ok()?;
    let cx = Context::new(&settings, Lookups::new(host));
    explain(&cx, &csv, &request.namespace).ok().flatten()
}

fn explain(cx: &Context<'_>, csv: &ClusterServiceVersion<'_>, namespace: &str) -> Result<Option<Explained>, Refusal> {
    let name = csv.metadata.display_name();
    let names = [name.as_str(), &csv.spec.replaces];
    let Bounds::Bounded(group, boundaries) = boundary::of_operator(cx, namespace, &names)? else { return Ok(None) };
    let targets = groups::targets(&group, &cx.lookups)?;
    let may_replace = csv.copied_from(namespace).is_none();
    let operator = Operator { csv, before: None, namespace, targets: &targets, may_replace };
    let weighed = weigh(cx, &operator, &boundaries)?;
    let bounds: Vec<Bound> = weighed.limits.iter().map(|limit| bound(cx, limit)).collect::<Result<_, _>>()?;
    let mut asked = Vec::new();
    for demand in &weighed.demands {
        let missing = missing(cx, demand, &weighed.limits)?;
        for scope in demand.scopes.iter() {
            let lacked = lacked(cx, demand, scope, &weighed.limits, &missing)?;
            for (number, rule) in demand.rules.iter().enumerate() {
                asked.push(Asked {
                    scope: scope.clone(),
                    source: source(csv, demand.origin, number),
                    place: Place::START,
                    why: demand.why.clone(),
                    rule: rule.clone().into_owned(),
                    atoms: weights(scope, rule, &bounds, &lacked),
                });
            }
        }
    }
    Ok(Some(Explained { group: group.to_string(), targets, boundaries: bounds, asked }))
}

fn bound(cx: &Context<'_>, limit: &Limit<'_>) -> Result<Bound, Refusal> {
    let boundary = limit.boundary;
    let mine = limit.held.iter().filter(|held| is_plain(&held.role.name));
    let grants = mine
        .map(|held| {
            let rules: Option<Rules> = cx.lookups.role(&held.role)?;
            Ok(Granted {
                scope: held.scope.clone(),
                binding: format!("{} {}", held.binding_kind(), held.binding.name),
                role: held.role.to_string(),
                rules: rules.map(|rules| rules.to_vec()),
            })
        })
        .collect::<Result<Vec<_>, Refusal>>()?;
    Ok(Bound {
        label: boundary.description.clone(),
        by: boundary.by.clone(),
        user: boundary.identity.user().to_owned(),
        groups: boundary.identity.groups().to_vec(),
        grants,
    })
}

/// The rules of a demand that each boundary lacks, by the policy's own scale, and whether it is honoured as a whole.
struct Lacked {
    missing: Vec<Rule<'static>>,
    honored: bool,
}

/// What each boundary lacks of a demand, by scope.
fn missing<'r>(cx: &Context<'_>, demand: &'r Demand<'r>, limits: &[Limit<'_>]) -> Result<Vec<Excess<'r>>, Refusal> {
    let escalation = cx.settings.operator_groups.escalation;
    let each = limits
        .iter()
        .map(|limit| Ok(limit.authority().shortfall(cx, std::slice::from_ref(demand), escalation)?.excess));
    each.collect()
}

fn lacked(
    cx: &Context<'_>,
    demand: &Demand<'_>,
    scope: &Scope,
    limits: &[Limit<'_>],
    missing: &[Excess<'_>],
) -> Result<Vec<Lacked>, Refusal> {
    let honors = cx.settings.operator_groups.escalation == Escalation::Honor;
    let honored = demand.honored.in_scope(scope);
    let each = limits.iter().zip(missing).map(|(limit, missing)| {
        let honored = honors && !honored.is_empty() && limit.authority().holds(cx, scope, &honored)?;
        let missing = missing.get(scope).into_iter().flat_map(|rules| rules.iter().cloned().map(Rule::into_owned));
        Ok(Lacked { missing: missing.collect(), honored })
    });
    each.collect()
}

/// What becomes of each single permission of a rule.
fn weights(scope: &Scope, rule: &Rule<'_>, bounds: &[Bound], lacked: &[Lacked]) -> Vec<Weight> {
    let scales: Vec<Scale<'_>> =
        bounds.iter().zip(lacked).map(|(bound, lacked)| Scale::new(scope, bound, lacked)).collect();
    atoms(std::slice::from_ref(rule))
        .into_iter()
        .map(|atom| Weight {
            rule: atom.to_rule().into_owned(),
            covered: scales.iter().map(|scale| scale.weigh(&atom)).collect(),
        })
        .collect()
}

/// A boundary's rules in one scope.
struct Scale<'b> {
    /// Where each rule of the index comes from.
    origins: Vec<Cover>,
    index: Index<'b>,
    missing: Index<'b>,
    honored: bool,
}

impl<'b> Scale<'b> {
    fn new(scope: &Scope, bound: &'b Bound, lacked: &'b Lacked) -> Self {
        let holds = |grant: &Granted| grant.scope == Scope::Cluster || grant.scope == *scope;
        let here = bound.grants.iter().enumerate().filter(|(_, grant)| holds(grant));
        let rules: Vec<(Cover, &Rule<'static>)> = here
            .flat_map(|(number, grant)| {
                let rules = grant.rules.iter().flatten().enumerate();
                rules.map(move |(rule, found)| (Cover::By { grant: number, rule }, found))
            })
            .collect();
        Scale {
            index: Index::new(rules.iter().map(|(_, rule)| *rule).collect::<Vec<_>>()),
            origins: rules.into_iter().map(|(origin, _)| origin).collect(),
            missing: Index::new(&lacked.missing),
            honored: lacked.honored,
        }
    }

    fn weigh(&self, atom: &Atom<'_>) -> Cover {
        if self.honored {
            return Cover::Honored;
        }
        let covering = self.index.covering(atom);
        let first = self.origins.iter().enumerate().find(|(number, _)| covering[number / 64] >> (number % 64) & 1 == 1);
        match first {
            Some((_, origin)) => origin.clone(),
            // What is missing is compacted: a `*` in it stands for every verb, those that are held included. So it comes last.
            None if self.missing.covers(&[atom.to_rule()]) => Cover::Missing,
            None => Cover::Review,
        }
    }
}

/// Where a demanded rule stands in the ClusterServiceVersion.
fn source(csv: &ClusterServiceVersion<'_>, origin: Origin, rule: usize) -> Option<Source> {
    let strategy = csv.strategy();
    let (section, permissions, entry) = match origin {
        Origin::Permissions(entry) => ("permissions", &strategy.permissions, entry),
        Origin::ClusterPermissions(entry) => ("clusterPermissions", &strategy.cluster_permissions, entry),
        Origin::Elsewhere => return None,
    };
    let account = permissions.get(entry)?.service_account_name.to_string();
    Some(Source { section, entry, rule, account })
}

/// What is missing where, for reports: one entry for each rule of the ClusterServiceVersion that asks for too much.
#[derive(Debug)]
pub struct Missing {
    /// Where it stands.
    pub place: Place,
    /// In words: where it would hold, and the rules.
    pub text: String,
}

impl Explained {
    /// Everything that is missing, by place.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        let mut by_place: BTreeMap<(Place, Option<&str>), Vec<String>> = BTreeMap::new();
        for asked in &self.asked {
            for rule in asked.missing() {
                let line = format!("{}: {rule}", asked.scope);
                by_place.entry((asked.place, asked.why.as_deref())).or_default().push(line);
            }
        }
        let told = |((place, why), lines): ((Place, Option<&str>), Vec<String>)| Missing {
            place,
            text: why.map(|why| format!("({why})")).into_iter().fold(lines.join("\n"), |text, why| text + "\n" + &why),
        };
        by_place.into_iter().map(told).collect()
    }
}
