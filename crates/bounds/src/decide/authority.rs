//! Whether an identity holds what is demanded, according to RBAC or to the API server's own access reviews.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cluster::Question;
use crate::decide::context::Context;
use crate::decide::demand::Demand;
use crate::decide::excess::Excess;
use crate::decide::verdict::{Reason, Refusal};
use crate::rbac::compact::compact;
use crate::rbac::covers::Index;
use crate::rbac::grant::Grant;
use crate::rbac::role::Rules;
use crate::rbac::rule::{Atom, Rule, Target, atom_count};
use crate::rbac::scope::Scope;
use crate::rbac::subject::Identity;
use crate::read::order::ordered;
use crate::settings::{AuthorizerSetting, Escalation};

/// The maximum number of individual permissions judged in one scope: three times what the largest real operator
/// requests. Without a limit, the product of a few long lists would use up the time allowed for a verdict.
const MAX_PERMISSIONS: usize = 10_000;
/// The maximum number evaluated for one verdict, where scopes differ in what is held or requested there.
const MAX_WEIGHED: usize = 3 * MAX_PERMISSIONS;
/// The maximum number across all scopes, however similar they are.
const MAX_IN_SCOPES: usize = 100 * MAX_PERMISSIONS;
/// The maximum total size: ten times what the largest real operator requests. They are all sorted and compared.
const MAX_BYTES: usize = 2 * 1024 * 1024;
/// The longest entry allowed in a rule. Object names have at most 253 characters.
const MAX_ENTRY: usize = 1_024;
/// The maximum number of notes in one refusal.
const MAX_NOTES: usize = 30;
/// How many of the most recently evaluated scopes the next one is compared with.
const COMPARED: usize = 16;
/// More access reviews than this take longer than the policy server waits.
const MAX_QUESTIONS: usize = 1_000;

/// An identity and what it holds.
#[derive(Debug)]
pub struct Authority<'x> {
    /// The identity whose permissions are checked.
    pub(crate) identity: &'x Identity,
    /// What RBAC grants to it.
    pub(crate) grant: &'x Grant,
}

/// What is missing, and why it was requested where the object does not say so itself.
#[derive(Debug, Default)]
pub struct Shortfall<'r> {
    /// The missing rules, by scope.
    pub excess: Excess<'r>,
    /// The reasons for those parts that are implied rather than declared.
    pub(crate) notes: Vec<String>,
}

/// A scope that has been evaluated, and what was missing there.
struct Weighed<'r> {
    held: Vec<Rules>,
    demands: Vec<&'r Demand<'r>>,
    missing: Rc<[Rule<'r>]>,
}

impl Weighed<'_> {
    /// Whether another scope holds the same rules and has the same demands.
    fn is_like(&self, held: &[Rules], demands: &[&Demand<'_>]) -> bool {
        self.demands.len() == demands.len()
            && self.held.len() == held.len()
            && self.held.iter().zip(held).all(|(one, other)| Rc::ptr_eq(one, other) || one == other)
            && self.demands.iter().zip(demands).all(|(one, other)| one.asks_like(other))
    }
}

impl Authority<'_> {
    /// The part of the demands that this identity does not hold.
    pub fn shortfall<'r>(
        &self,
        cx: &Context<'_>,
        demands: &'r [Demand<'r>],
        escalation: Escalation,
    ) -> Result<Shortfall<'r>, Refusal> {
        let mut shortfall = Shortfall::default();
        // The targets of a group mostly hold the same rules, so the result for one scope is reused for the next.
        let mut weighed: Vec<Weighed<'r>> = Vec::new();
        let mut total = 0;
        for (scope, asked) in by_scope(demands)? {
            let held: Vec<Rules> = self.grant.in_scope(scope).cloned().collect();
            let here: Vec<&'r Demand<'r>> = asked.demands.iter().map(|number| &demands[*number]).collect();
            let known = weighed.iter().rev().take(COMPARED).find(|known| known.is_like(&held, &here));
            let missing = if let Some(known) = known.filter(|_| cx.settings.authorizer == AuthorizerSetting::Rbac) {
                if !known.missing.is_empty() {
                    here.iter()
                        .filter_map(|demand| demand.why.as_ref())
                        .for_each(|why| note(&mut shortfall.notes, why));
                }
                Rc::clone(&known.missing)
            } else {
                total += asked.permissions;
                within(total, MAX_WEIGHED)?;
                let missing: Rc<[Rule<'r>]> = self.missing(cx, scope, &here, escalation, &mut shortfall.notes)?.into();
                weighed.push(Weighed { held, demands: here, missing: Rc::clone(&missing) });
                missing
            };
            if !missing.is_empty() {
                shortfall.excess.insert(scope.clone(), missing);
            }
        }
        Ok(shortfall)
    }

    /// The part of the demands in one scope that is missing there.
    fn missing<'r>(
        &self,
        cx: &Context<'_>,
        scope: &Scope,
        demands: &[&'r Demand<'r>],
        escalation: Escalation,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Rule<'r>>, Refusal> {
        let scale = self.scale(cx, scope)?;
        let mut missing = Vec::new();
        for demand in demands {
            if escalation == Escalation::Honor && scale.honors(&demand.honored.in_scope(scope))? {
                continue;
            }
            let atoms = scale.uncovered(&demand.rules)?;
            if let (false, Some(why)) = (atoms.is_empty(), &demand.why) {
                note(notes, why);
            }
            missing.extend(atoms);
        }
        Ok(compact(missing))
    }

    /// Whether all of these rules are held in a scope.
    pub fn holds(&self, cx: &Context<'_>, scope: &Scope, rules: &[Rule<'_>]) -> Result<bool, Refusal> {
        self.scale(cx, scope)?.holds(rules)
    }

    fn scale<'s>(&'s self, cx: &'s Context<'_>, scope: &'s Scope) -> Result<Scale<'s>, Refusal> {
        let index = self.grant.index(scope);
        match cx.settings.authorizer {
            AuthorizerSetting::Rbac => Ok(Scale { index, review: None }),
            AuthorizerSetting::AccessReview => {
                let mut review = Review { cx, identity: self.identity, scope, everything: false };
                let [all, _] = Rule::everything();
                review.everything = review.ask(&Index::new(&[]).uncovered(std::slice::from_ref(&all))[0])?;
                Ok(Scale { index, review: Some(review) })
            }
        }
    }
}

/// The grant of one scope, indexed for checking rules.
struct Scale<'s> {
    index: Index<'s>,
    review: Option<Review<'s>>,
}

impl Scale<'_> {
    fn uncovered<'r>(&self, rules: &'r [Rule<'_>]) -> Result<Vec<Atom<'r>>, Refusal> {
        match &self.review {
            None => Ok(self.index.uncovered(rules)),
            Some(review) => review.uncovered(&self.index, rules),
        }
    }

    fn holds(&self, rules: &[Rule<'_>]) -> Result<bool, Refusal> {
        Ok(self.uncovered(rules)?.is_empty())
    }

    /// Whether it holds the rights that let it pass the API server's escalation check. An empty list means there are
    /// none.
    fn honors(&self, rules: &[Rule<'_>]) -> Result<bool, Refusal> {
        Ok(!rules.is_empty() && self.holds(rules)?)
    }
}

/// Asks the API server by access review.
struct Review<'s> {
    cx: &'s Context<'s>,
    identity: &'s Identity,
    scope: &'s Scope,
    /// The answer to the first question. If the identity holds everything, no further question is asked.
    everything: bool,
}

impl Review<'_> {
    /// Kubewarden's host capabilities have no access reviews for non-resource URLs, so those are answered from RBAC.
    fn uncovered<'r>(&self, rbac: &Index<'_>, rules: &'r [Rule<'_>]) -> Result<Vec<Atom<'r>>, Refusal> {
        let atoms = ordered(Index::new(&[]).uncovered(rules));
        if !self.everything && self.cx.lookups.made() + atoms.len() > MAX_QUESTIONS {
            return Err(too_many_questions());
        }
        let mut missing = Vec::new();
        for atom in atoms {
            let held = match atom.target {
                Target::Url(_) => rbac.covering(&atom).iter().any(|word| *word != 0),
                Target::Resource { .. } => self.everything || self.ask(&atom)?,
            };
            if !held {
                missing.push(atom);
            }
        }
        Ok(missing)
    }

    fn ask(&self, atom: &Atom<'_>) -> Result<bool, Refusal> {
        let Target::Resource { group, resource, name } = atom.target else { return Ok(false) };
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (resource, None),
        };
        let question = Question {
            identity: self.identity,
            verb: atom.verb,
            group,
            resource,
            subresource,
            name,
            namespace: self.scope.namespace(),
        };
        Ok(self.cx.lookups.can(&question)?)
    }
}

fn too_many_questions() -> Refusal {
    Refusal::forbidden(
        Reason::TooManyQuestions,
        format!(
            "more than {MAX_QUESTIONS} access reviews would be needed to judge this, which takes longer than the policy \
             server waits. Use `authorizer: rbac`, or ask for less."
        ),
    )
}

/// Adds a note unless it has already been added or there is no room left.
fn note(notes: &mut Vec<String>, why: &str) {
    if notes.len() < MAX_NOTES && !notes.iter().any(|known| known == why) {
        notes.push(why.to_owned());
    }
}

/// What is requested in one scope.
#[derive(Default)]
struct Asked {
    /// Indices into the list of demands.
    demands: Vec<usize>,
    /// The number of individual permissions in them.
    permissions: usize,
}

/// Groups the demands by scope. They are counted here, before any of them is expanded.
fn by_scope<'r>(demands: &'r [Demand<'r>]) -> Result<BTreeMap<&'r Scope, Asked>, Refusal> {
    let mut scopes: BTreeMap<&'r Scope, Asked> = BTreeMap::new();
    let mut total: usize = 0;
    for (number, demand) in demands.iter().enumerate() {
        let permissions = expandable(&demand.rules)?;
        if permissions == 0 {
            continue;
        }
        total = total.saturating_add(permissions.saturating_mul(demand.scopes.len()));
        within(total, MAX_IN_SCOPES)?;
        for scope in demand.scopes.iter() {
            let asked = scopes.entry(scope).or_default();
            asked.permissions += permissions;
            within(asked.permissions, MAX_PERMISSIONS)?;
            asked.demands.push(number);
        }
    }
    Ok(scopes)
}

/// The number of individual permissions in these rules, if expanding them is allowed at all. Each entry is compared
/// thousands of times, so their length counts too.
pub(crate) fn expandable(rules: &[Rule<'_>]) -> Result<usize, Refusal> {
    let permissions = atom_count(rules);
    if permissions == 0 {
        return Ok(0);
    }
    within(permissions, MAX_PERMISSIONS)?;
    let longest = rules.iter().flat_map(Rule::entries).map(|entry| entry.len()).max().unwrap_or_default();
    if longest > MAX_ENTRY {
        return Err(too_long(&format!("the rules have an entry of {longest} bytes, over the limit of {MAX_ENTRY}")));
    }
    let bytes = rules.iter().fold(0, |sum: usize, rule| sum.saturating_add(rule.atom_bytes()));
    if bytes > MAX_BYTES {
        return Err(too_long(&format!(
            "the rules expand to {permissions} permissions of {bytes} bytes in total, over the limit of {MAX_BYTES}: ask for \
             fewer, or use wildcards where everything is meant"
        )));
    }
    Ok(permissions)
}

fn too_long(why: &str) -> Refusal {
    Refusal::forbidden(Reason::OverLimit, why)
}

/// Refuses more individual permissions than the limit.
fn within(permissions: usize, limit: usize) -> Result<(), Refusal> {
    if permissions > limit { Err(too_many(permissions, limit)) } else { Ok(()) }
}

fn too_many(atoms: usize, limit: usize) -> Refusal {
    Refusal::forbidden(
        Reason::OverLimit,
        format!(
            "the rules expand to {atoms} permissions, over the limit of {limit}: ask for fewer, or use wildcards \
             where everything is meant"
        ),
    )
}
