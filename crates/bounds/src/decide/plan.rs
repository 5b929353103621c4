//! An InstallPlan judged as a whole: everything it requests, operator by operator.

use crate::decide::borrowed::{self, Operator};
use crate::decide::boundary::{self, Boundary, Bounds};
use crate::decide::context::Context;
use crate::decide::demand::{self, Demand, DemandedRules};
use crate::decide::excess::{Judged, bounded, limits};
use crate::decide::groups;
use crate::decide::holders::{Holder, Reach, find};
use crate::decide::message;
use crate::decide::pieces::{Brought, Piece};
use crate::decide::verdict::{Admitted, Reason, Refusal, Refused};
use crate::decide::weigh::weigh;
use crate::olm::csv::ClusterServiceVersion;
use crate::olm::group::Group;
use crate::olm::plan::Manifest;
use crate::rbac::RBAC;
use crate::rbac::role::RoleKey;
use crate::rbac::rule::Rule;
use crate::rbac::scope::Scope;
use crate::rbac::subject::Identity;

/// The maximum number of operators judged in one approval: each is evaluated separately.
const MAX_OPERATORS: usize = 32;

/// Additional demands for one operator and its ClusterServiceVersions.
pub(crate) type Besides<'x> = dyn Fn(&str, &[ClusterServiceVersion<'_>]) -> Vec<Demand<'static>> + 'x;

/// Refuses a plan that brings more than the boundaries of its operators allow. `what` is the plan as shown to a person;
/// `admitted` is the verdict on a plan that brings nothing to judge.
pub fn within_bounds(
    cx: &Context<'_>,
    what: &str,
    namespace: &str,
    brought: &Brought,
    mut admitted: Admitted,
    besides: &Besides<'_>,
) -> Result<Admitted, Refusal> {
    let manifests = brought.read(what)?;
    let plan = Plan { what, namespace, pieces: &brought.pieces, manifests: &manifests };
    let mut messages = Vec::new();
    let mut lines = Vec::new();
    let mut is_prepared = false;
    for operator in plan.operators()? {
        let csvs = plan.csvs(operator)?;
        let mut names = vec![operator];
        names.extend(csvs.iter().flat_map(|csv| [csv.metadata.name.as_str(), &csv.spec.replaces]));
        let Bounds::Bounded(group, boundaries) = boundary::of_operator(cx, namespace, &names)? else { continue };
        admitted = Admitted("bounded");
        if !csvs.is_empty() && !is_prepared {
            plan.prepare(cx, &group)?;
            is_prepared = true;
        }
        match plan.judge(cx, operator, &csvs, &group, &boundaries, besides) {
            Ok(()) => {}
            Err(refusal) => match refusal.why() {
                Refused::Exceeds { message, lines: more } => {
                    messages.push(message);
                    lines.extend(more);
                }
                other => return Err(other.into()),
            },
        }
    }
    if messages.is_empty() {
        return Ok(admitted);
    }
    Err(Refused::Exceeds { message: message::join(messages), lines }.into())
}

/// A plan with everything it brings.
pub(crate) struct Plan<'p> {
    pub(crate) what: &'p str,
    pub(crate) namespace: &'p str,
    pub(crate) pieces: &'p [Piece],
    /// The parsed pieces, in the same order.
    pub(crate) manifests: &'p [Manifest<'p>],
}

impl<'p> Plan<'p> {
    /// The operators that it installs, without duplicates, in the order of the plan.
    pub(crate) fn operators(&self) -> Result<Vec<&'p str>, Refusal> {
        let mut operators = Vec::new();
        for piece in self.pieces {
            if !operators.contains(&piece.operator.as_str()) {
                operators.push(piece.operator.as_str());
            }
        }
        if operators.len() > MAX_OPERATORS {
            return Err(Refusal::forbidden(
                Reason::OverLimit,
                format!(
                    "{} brings {} operators, and one approval is judged for {MAX_OPERATORS} at most",
                    self.what,
                    operators.len()
                ),
            ));
        }
        Ok(operators)
    }

    /// What the plan brings for one operator.
    fn of(&self, operator: &str) -> impl Iterator<Item = (&'p Piece, &'p Manifest<'p>)> {
        self.pieces.iter().zip(self.manifests).filter(move |(piece, _)| piece.operator == operator)
    }

    /// The ClusterServiceVersions among these.
    pub(crate) fn csvs(&self, operator: &str) -> Result<Vec<ClusterServiceVersion<'p>>, Refusal> {
        let csvs = self.of(operator).filter(|(piece, _)| piece.kind == "ClusterServiceVersion");
        csvs.map(|(piece, _)| piece.read_csv(self.what)).collect()
    }

    /// Finds what is held by every account that may bound an operator of the plan or that one of them runs as: in one
    /// pass over the bindings, however many operators there are.
    fn prepare(&self, cx: &Context<'_>, group: &Group) -> Result<(), Refusal> {
        let restrictions = boundary::restrictions(cx, group)?;
        let bounding = group.account.iter().chain(restrictions.iter().map(|restriction| &restriction.account));
        let bounding = bounding.map(|account| Identity::service_account(self.namespace, account));
        let mut holders: Vec<Holder> = bounding.map(Holder::new).collect();
        for piece in self.pieces.iter().filter(|piece| piece.kind == "ClusterServiceVersion") {
            // One that cannot be read is refused when it is judged.
            let Ok(csv) = piece.read_csv(self.what) else { continue };
            holders.extend(borrowed::accounts(&csv, self.namespace).into_iter().map(Holder::new));
        }
        Ok(find(&cx.lookups, &mut holders, Reach::Everywhere)?)
    }

    /// Judges everything that comes for one operator as one request.
    fn judge(
        &self,
        cx: &Context<'_>,
        operator: &str,
        csvs: &[ClusterServiceVersion<'_>],
        group: &Group,
        boundaries: &[Boundary],
        besides: &Besides<'_>,
    ) -> Result<(), Refusal> {
        let targets = groups::targets(group, &cx.lookups)?;
        let everything = Rule::everything();
        let (mut demands, dangling) = self.rbac(cx, operator, &everything)?;
        for csv in csvs {
            let namespace = self.namespace;
            let operator = Operator { csv, before: None, namespace, targets: &targets, may_replace: true };
            demands.extend(weigh(cx, &operator, boundaries)?.demands);
        }
        demands.extend(besides(operator, csvs));
        let names: Vec<String> = csvs.iter().map(|csv| csv.metadata.display_name()).collect();
        let brings = if names.is_empty() { String::new() } else { format!(" (brings {})", names.join(", ")) };
        let judged = Judged {
            what: format!("{}{brings}", self.what),
            demands,
            manifest: format!("CSV.yaml{}", groups::arguments(&targets, self.namespace)),
            notes: dangling.clone(),
        };
        let limits = limits(cx, boundaries, &judged.demands, group)?;
        let verdict = bounded(cx, &judged, &limits, cx.settings.operator_groups.escalation);
        with_dangling(verdict, dangling)
    }

    /// What the roles and bindings for one operator request, and descriptions of bindings to missing roles.
    pub(crate) fn rbac<'r>(
        &'r self,
        cx: &Context<'_>,
        operator: &str,
        everything: &'r [Rule<'r>],
    ) -> Result<(Vec<Demand<'r>>, Vec<String>), Refusal> {
        let mut demands = Vec::new();
        let mut dangling = Vec::new();
        for (piece, manifest) in self.of(operator) {
            match self.of_rbac(cx, piece, manifest, everything)? {
                Asked::Rules(more) => demands.extend(more),
                Asked::MissingRole(text) => dangling.push(text),
            }
        }
        Ok((demands, dangling))
    }

    /// What a role or binding of the plan requests.
    fn of_rbac<'r>(
        &self,
        cx: &Context<'_>,
        piece: &Piece,
        manifest: &'r Manifest<'r>,
        everything: &'r [Rule<'r>],
    ) -> Result<Asked<'r>, Refusal>
    where
        'p: 'r,
    {
        let scope = match piece.kind.as_str() {
            // OLM puts them into the plan's namespace, whatever the manifest says.
            "Role" | "RoleBinding" => Scope::Namespace(self.namespace.to_owned()),
            "ClusterRole" | "ClusterRoleBinding" => Scope::Cluster,
            _ => return Ok(Asked::Rules(Vec::new())),
        };
        if let Some(key) = self.role_key(piece, manifest) {
            let escalate = Rule::on(&[RBAC], &[key.resource()], &["escalate"]);
            let is_aggregated = manifest.aggregation_rule.is_some();
            return Ok(Asked::Rules(demand::of_role(&scope, &manifest.rules, is_aggregated, &escalate, everything)));
        }
        let own = |key: &RoleKey| -> Option<&'r [Rule<'r>]> { self.own_role(key) };
        Ok(match of_binding(cx, &piece.kind, manifest, scope, &own)? {
            Some(demand) => Asked::Rules(vec![demand]),
            None => Asked::MissingRole(message::clean(&format!(
                "{} brings {} {}, which refers to {} {}: that does not exist and is not in the plan, so what it would \
                 grant cannot be determined",
                self.what, piece.kind, manifest.metadata.name, manifest.role_ref.kind, manifest.role_ref.name
            ))),
        })
    }

    /// A role of the plan, whichever operator brings it.
    fn own_role(&self, key: &RoleKey) -> Option<&'p [Rule<'p>]> {
        let mut own = self.pieces.iter().zip(self.manifests);
        let found = own.find(|(piece, manifest)| self.role_key(piece, manifest).as_ref() == Some(key));
        found.map(|(_, manifest)| &manifest.rules[..])
    }

    fn role_key(&self, piece: &Piece, manifest: &Manifest<'_>) -> Option<RoleKey> {
        let name = manifest.metadata.name.to_string();
        match piece.kind.as_str() {
            "ClusterRole" => Some(RoleKey { namespace: None, name }),
            "Role" => Some(RoleKey { namespace: Some(self.namespace.to_owned()), name }),
            _ => None,
        }
    }
}

/// What a binding requests that comes with other objects: the rules of its role, which may be among them or already in
/// the cluster. (What the boundary holds is never read from these objects.) `None` if there is no such role.
pub(crate) fn of_binding<'r>(
    cx: &Context<'_>,
    kind: &str,
    binding: &Manifest<'_>,
    scope: Scope,
    own: &dyn Fn(&RoleKey) -> Option<&'r [Rule<'r>]>,
) -> Result<Option<Demand<'r>>, Refusal> {
    let Some(key) = binding.role_ref.key(scope.namespace()) else { return Ok(None) };
    let rules = match own(&key) {
        Some(rules) => DemandedRules::Declared(rules),
        None => match cx.lookups.role(&key)? {
            Some(rules) => DemandedRules::Shared(rules),
            None => return Ok(None),
        },
    };
    let why = Some(format!("{kind} {} binds {key}", binding.metadata.name));
    Ok(Some(Demand { honored: demand::bind(&key), why, ..Demand::plain(scope, rules) }))
}

/// What a piece of RBAC requests.
enum Asked<'r> {
    Rules(Vec<Demand<'r>>),
    /// A binding to a role that does not exist, as shown to a person.
    MissingRole(String),
}

/// Bindings to missing roles are refused even where nothing else exceeds the boundary.
pub(crate) fn with_dangling(verdict: Result<(), Refusal>, dangling: Vec<String>) -> Result<(), Refusal> {
    let refused = match verdict {
        Ok(()) if dangling.is_empty() => return Ok(()),
        Ok(()) => Refused::Exceeds { message: dangling.join("\n"), lines: dangling },
        Err(refusal) => match refusal.why() {
            Refused::Exceeds { message, mut lines } => {
                lines.extend(dangling);
                Refused::Exceeds { message, lines }
            }
            other => other,
        },
    };
    Err(refused.into())
}
