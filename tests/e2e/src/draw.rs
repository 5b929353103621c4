//! What an account is given of what an operator asks for, and how: drawn, and the same again for the same seed.

use std::fmt;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::support::rbac::Rule;

const RBAC: &str = "rbac.authorization.k8s.io";
const RBAC_V1: &str = "rbac.authorization.k8s.io/v1";

/// How much of it.
#[derive(Debug, Clone, Copy)]
enum Share {
    All,
    Nothing,
    AllButOneAtom,
    Half,
    /// Half, and the rest behind wildcards that cover it, or do not.
    Wildcards,
    /// All, some of it only for some names.
    Names,
    /// All, but what is asked for cluster-wide only in the namespace.
    Misplaced,
}

const SHARES: [Share; 7] =
    [Share::All, Share::Nothing, Share::AllButOneAtom, Share::Half, Share::Wildcards, Share::Names, Share::Misplaced];

/// A rule, and whether it is asked for in the whole cluster.
pub(crate) type Asked = (bool, Rule);

/// Roles and bindings for an account.
pub(crate) struct Grant {
    share: Share,
    parts: Vec<Part>,
}

/// One role and the binding that gives it.
struct Part {
    rules: Vec<Rule>,
    in_cluster_role: bool,
    cluster_wide: bool,
    subject: usize,
}

/// Draws for one operator.
pub(crate) struct Draw(Rng);

impl Draw {
    pub(crate) fn new(seed: u64, number: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        (0..number).for_each(|_| drop(rng.fork()));
        Draw(rng.fork())
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.0.bool()
    }

    /// A grant of a part of these rules.
    pub(crate) fn grant(&mut self, asked: &[Asked]) -> Grant {
        let share = self.0.choice(SHARES).unwrap_or(Share::All);
        let asked: Vec<Asked> = asked.iter().flat_map(|(wide, rule)| valid(rule).map(|rule| (*wide, rule))).collect();
        let given = self.share(share, asked);
        let mut parts: Vec<Part> = Vec::new();
        for (wide, rule) in given {
            let url = !rule.urls.is_empty();
            // URLs are nobody's but the cluster's.
            let cluster_wide = url || (wide && !matches!(share, Share::Misplaced)) || (!wide && self.0.u8(..10) == 0);
            let fits = |part: &&mut Part| part.cluster_wide == cluster_wide && part.rules.len() < 40;
            match parts.iter_mut().filter(|_| self.0.u8(..4) > 0).find(fits) {
                Some(part) => part.rules.push(rule),
                None => parts.push(Part {
                    rules: vec![rule],
                    in_cluster_role: cluster_wide || self.0.bool(),
                    cluster_wide,
                    subject: self.0.usize(..3),
                }),
            }
        }
        Grant { share, parts }
    }

    fn share(&mut self, share: Share, mut asked: Vec<Asked>) -> Vec<Asked> {
        match share {
            Share::All | Share::Misplaced => asked,
            Share::Nothing => Vec::new(),
            Share::Half => asked.into_iter().filter(|_| self.0.bool()).collect(),
            Share::AllButOneAtom => {
                let atoms: Vec<_> =
                    asked.iter().flat_map(|(wide, rule)| rule.atoms().into_iter().map(|a| (*wide, a))).collect();
                let Some((wide, atom)) = self.0.choice(atoms) else { return asked };
                let without = |(other, rule): Asked| {
                    let has = other == wide && rule.atoms().contains(&atom);
                    let left = if has { rule.without(&atom) } else { vec![rule] };
                    left.into_iter().map(move |rule| (other, rule))
                };
                asked.into_iter().flat_map(without).collect()
            }
            Share::Wildcards => {
                for (_, rule) in &mut asked {
                    if self.0.bool() {
                        self.widen(rule);
                    }
                }
                asked
            }
            Share::Names => {
                for (_, rule) in asked.iter_mut().filter(|(_, rule)| rule.urls.is_empty()) {
                    if self.0.u8(..4) == 0 {
                        rule.names.push("some".to_owned());
                    }
                }
                asked
            }
        }
    }

    fn widen(&mut self, rule: &mut Rule) {
        let any = vec!["*".to_owned()];
        match (self.0.u8(..4), rule.urls.first()) {
            (0, Some(url)) => rule.urls = vec![format!("{}*", url.trim_end_matches('*'))],
            (_, Some(_)) | (0, None) => rule.verbs = any,
            (1, None) => rule.resources = any,
            (2, None) => rule.groups = any,
            _ => {
                let sub = |resource: &String| match resource.split_once('/') {
                    Some((_, sub)) => format!("*/{sub}"),
                    None => resource.clone(),
                };
                rule.resources = rule.resources.iter().map(sub).collect();
            }
        }
    }
}

/// What of a rule the API server takes in a role: resources and URLs apart, and nothing without verbs.
fn valid(rule: &Rule) -> impl Iterator<Item = Rule> + use<> {
    let resources = Rule { urls: Vec::new(), ..rule.clone() };
    let urls = Rule { verbs: rule.verbs.clone(), urls: rule.urls.clone(), ..Rule::default() };
    let resources = (!rule.groups.is_empty() && !rule.resources.is_empty()).then_some(resources);
    let urls = (!rule.urls.is_empty()).then_some(urls);
    let has_verbs = !rule.verbs.is_empty();
    resources.into_iter().chain(urls).filter(move |_| has_verbs)
}

impl Grant {
    /// How many roles it is in.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Roles and bindings for the account `installer` of the namespace. Each role has a rule on a resource of its own in
    /// the marker's group.
    pub(crate) fn objects(&self, namespace: &str, marker: &str) -> Vec<Value> {
        let subjects = [
            json!({"kind": "ServiceAccount", "name": "installer", "namespace": namespace}),
            json!({"kind": "User", "apiGroup": RBAC, "name": format!("system:serviceaccount:{namespace}:installer")}),
            json!({"kind": "Group", "apiGroup": RBAC, "name": format!("system:serviceaccounts:{namespace}")}),
        ];
        let mut objects = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            let role_kind = if part.in_cluster_role { "ClusterRole" } else { "Role" };
            let binding_kind = if part.cluster_wide { "ClusterRoleBinding" } else { "RoleBinding" };
            let name = format!("{namespace}-held-{number}");
            let metadata = |wide: bool| {
                if wide { json!({"name": name}) } else { json!({"name": name, "namespace": namespace}) }
            };
            let mut rules: Vec<Value> = part.rules.iter().map(Rule::json).collect();
            rules.push(Rule::on(marker, &format!("part-{number}"), &["get"]).json());
            objects.push(json!({"apiVersion": RBAC_V1, "kind": role_kind,
                "metadata": metadata(part.in_cluster_role), "rules": rules}));
            objects.push(json!({"apiVersion": RBAC_V1, "kind": binding_kind, "metadata": metadata(part.cluster_wide),
                "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": name}, "subjects": [subjects[part.subject]]}));
        }
        objects
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an account that was given {:?} in {} roles", self.share, self.parts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same() {
        let asked = [(true, Rule::on("", "pods", &["get", "list"])), (false, Rule::on("apps", "deployments", &["*"]))];
        let drawn = |number| Draw::new(7, number).grant(&asked).objects("a", "m");
        assert_eq!(drawn(3), drawn(3));
        assert!((0..20).any(|number| drawn(number) != drawn(3)));
    }

    #[test]
    fn a_role_never_has_urls_beside_resources() {
        let rule = Rule { urls: vec!["/metrics".to_owned()], ..Rule::on("", "pods", &["get"]) };
        assert!(valid(&rule).all(|rule| rule.urls.is_empty() || rule.resources.is_empty()));
        assert_eq!(valid(&rule).count(), 2);
        assert_eq!(valid(&Rule::on("", "pods", &[])).count(), 0);
    }
}
