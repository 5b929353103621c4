//! Whether an identity holds what is demanded: by RBAC, or by the API server's own word.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cluster::Question;
use crate::compact::compact;
use crate::context::Context;
use crate::covers::Index;
use crate::demand::Demand;
use crate::grant::Grant;
use crate::lookups::Rules;
use crate::message::Excess;
use crate::order::ordered;
use crate::rule::{Atom, Rule, Target};
use crate::scope::Scope;
use crate::settings::{AuthorizerSetting, Escalation};
use crate::subject::Identity;
use crate::verdict::Refusal;

/// Ten times what the largest real operator asks for; a product of long lists is an attack on the clock.
const MAX_ATOMS: usize = 30_000;
/// The same for all scopes together.
const MAX_ATOMS_IN_SCOPES: usize = 1_000_000;
/// More questions than the API server answers before the policy server gives up.
const MAX_QUESTIONS: usize = 1_000;

/// An identity and what it holds.
#[derive(Debug)]
pub struct Authority<'x> {
    /// Who.
    pub identity: &'x Identity,
    /// What RBAC gives it.
    pub grant: &'x Grant,
}

/// What is missing, and why it was asked for where the object does not say so itself.
#[derive(Debug, Default)]
pub struct Shortfall<'r> {
    /// What is missing.
    pub excess: Excess<'r>,
    /// Why, for the parts that are implied.
    pub notes: Vec<String>,
}

/// A scope that was weighed, and what was missing there.
struct Weighed<'r> {
    held: Vec<Rules>,
    demands: Vec<&'r Demand<'r>>,
    missing: Vec<Rule<'r>>,
}

impl Weighed<'_> {
    /// Whether another scope has the very same roles in it and asks for the very same rules.
    fn is_like(&self, held: &[Rules], demands: &[&Demand<'_>]) -> bool {
        self.held.len() == held.len()
            && self.demands.len() == demands.len()
            && self.held.iter().zip(held).all(|(one, other)| Rc::ptr_eq(one, other))
            && self.demands.iter().zip(demands).all(|(one, other)| {
                std::ptr::eq(one.rules.as_ptr().cast::<u8>(), other.rules.as_ptr().cast::<u8>())
                    && one.rules.len() == other.rules.len()
                    && one.honored == other.honored
            })
    }
}

impl Authority<'_> {
    /// What of the demands this identity does not hold.
    pub fn shortfall<'r>(
        &self,
        cx: &Context<'_>,
        demands: &'r [Demand<'r>],
        escalation: Escalation,
    ) -> Result<Shortfall<'r>, Refusal> {
        within_limits(demands)?;
        let mut by_scope: BTreeMap<&Scope, Vec<&'r Demand<'r>>> = BTreeMap::new();
        for demand in demands {
            by_scope.entry(&demand.scope).or_default().push(demand);
        }
        let mut shortfall = Shortfall::default();
        // Targets of one group mostly hold the same: what was weighed for one scope is not weighed again for the next.
        let mut weighed: Vec<Weighed<'r>> = Vec::new();
        for (scope, demands) in by_scope {
            let held: Vec<Rules> = self.grant.in_scope(scope).cloned().collect();
            let known = weighed.iter().find(|known| known.is_like(&held, &demands));
            let missing = if let Some(known) = known.filter(|_| cx.settings.authorizer == AuthorizerSetting::Rbac) {
                known.missing.clone()
            } else {
                let missing = self.missing(cx, scope, &demands, escalation, &mut shortfall.notes)?;
                weighed.push(Weighed { held, demands, missing: missing.clone() });
                missing
            };
            if !missing.is_empty() {
                shortfall.excess.insert(scope.clone(), missing);
            }
        }
        Ok(shortfall)
    }

    /// What of the demands of one scope is missing there.
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
            if escalation == Escalation::Honor && !demand.honored.is_empty() && scale.holds(&demand.honored)? {
                continue;
            }
            let atoms = scale.uncovered(&demand.rules)?;
            if let (false, Some(why)) = (atoms.is_empty(), &demand.why)
                && !notes.contains(why)
            {
                notes.push(why.clone());
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

/// The grant of one scope, ready to weigh rules.
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
}

/// Asks the API server.
struct Review<'s> {
    cx: &'s Context<'s>,
    identity: &'s Identity,
    scope: &'s Scope,
    /// The answer to the first question: if it holds everything, nothing more is asked.
    everything: bool,
}

impl Review<'_> {
    /// Access reviews know no URLs through Kubewarden's host capabilities: those are RBAC's to answer.
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
        "too-many-questions",
        format!(
            "more than {MAX_QUESTIONS} access reviews would be needed to judge this, which takes longer than the policy \
             server waits. Use `authorizer: rbac`, or ask for less."
        ),
    )
}

fn within_limits(demands: &[Demand<'_>]) -> Result<(), Refusal> {
    let mut total: usize = 0;
    for demand in demands {
        let atoms = demand.rules.iter().fold(0, |sum: usize, rule| sum.saturating_add(rule.atom_count()));
        if atoms > MAX_ATOMS {
            return Err(too_many(atoms, MAX_ATOMS));
        }
        total = total.saturating_add(atoms);
    }
    if total > MAX_ATOMS_IN_SCOPES { Err(too_many(total, MAX_ATOMS_IN_SCOPES)) } else { Ok(()) }
}

fn too_many(atoms: usize, limit: usize) -> Refusal {
    Refusal::forbidden(
        "over-limit",
        format!(
            "the rules multiply out to {atoms} single permissions, over the limit of {limit}: \
             ask for fewer, or with wildcards where everything is meant"
        ),
    )
}
