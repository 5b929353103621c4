//! InstallPlan: the person who approves it is told what it exceeds, not a log file.
//!
//! Only an UPDATE that approves is judged. On CREATE the steps are not there yet, and a refused `/status` would leave a
//! plan that OLM skips for ever.

use crate::borrowed::Operator;
use crate::boundary::{self, Boundary, Bounds};
use crate::context::Context;
use crate::csv::ClusterServiceVersion;
use crate::demand::{self, Demand, DemandedRules, RBAC};
use crate::excess::{Judged, bounded, grants};
use crate::group::{self, Group};
use crate::lookups::{RoleKey, Rules};
use crate::message;
use crate::meta::Meta;
use crate::object::object;
use crate::plan::{self, Manifest, Piece, Step};
use crate::rule::Rule;
use crate::scope::Scope;
use crate::verdict::{Admitted, Refusal};
use crate::weigh::weigh;

use super::{Verdict, namespace_of, read_new, read_old, said, subscription};

object! {
    #[derive(Debug, Default)]
    struct InstallPlan<'a> {
        metadata: Meta<'a> = "metadata",
        spec: Spec = "spec",
        status: Status<'a> = "status",
    }
}

object! {
    #[derive(Default, Debug)]
    struct Spec {
        approved: bool = "approved",
    }
}

object! {
    #[derive(Default, Debug)]
    struct Status<'a> {
        plan: Vec<Step<'a>> = "plan",
    }
}

pub(super) fn judge(cx: &Context<'_>) -> Verdict {
    let plan: InstallPlan<'_> = read_new(cx)?;
    let Some(old) = read_old::<InstallPlan<'_>>(cx)? else { return Ok(Admitted("not-judged")) };
    if old.spec.approved || !plan.spec.approved {
        return Ok(Admitted("unchanged"));
    }
    let namespace = namespace_of(cx, &plan.metadata);
    if cx.settings.exempts_namespace(namespace) {
        return Ok(Admitted("exempt"));
    }
    let what = said(cx, &plan.metadata.said_name());
    let Some(group) = group::active(&cx.lookups, namespace)? else { return Ok(Admitted("no-operator-group")) };
    subscription::check_guard(cx, &format!("approve {what}"), &group)?;
    // An account that does not exist is told whatever the steps are.
    let mut admitted = match boundary::of_operator(cx, namespace, "")? {
        Bounds::NoGroup | Bounds::Unbounded(_) => Admitted("unbounded"),
        Bounds::Bounded(..) => Admitted("nothing-to-judge"),
    };
    let pieces = plan::pieces(cx, &what, &plan.status.plan);
    let manifests = pieces.iter().map(|piece| piece.read(&what)).collect::<Result<Vec<_>, _>>()?;
    let plan = Plan { what: &what, namespace, pieces: &pieces, manifests: &manifests };

    let mut messages = Vec::new();
    let mut lines = Vec::new();
    for operator in plan.operators() {
        let Bounds::Bounded(group, boundaries) = boundary::of_operator(cx, namespace, operator)? else { continue };
        admitted = Admitted("bounded");
        match plan.judge(cx, operator, &group, &boundaries) {
            Ok(()) => {}
            Err(Refusal::Exceeds { message, lines: more }) => {
                messages.push(message);
                lines.extend(more);
            }
            Err(other) => return Err(other),
        }
    }
    if messages.is_empty() { Ok(admitted) } else { Err(Refusal::Exceeds { message: message::join(messages), lines }) }
}

/// A plan with everything it brings.
struct Plan<'p> {
    what: &'p str,
    namespace: &'p str,
    pieces: &'p [Piece],
    /// The pieces, read, in the same order.
    manifests: &'p [Manifest<'p>],
}

impl<'p> Plan<'p> {
    /// The operators that it installs, each once, in the order of the plan.
    fn operators(&self) -> Vec<&'p str> {
        let mut operators = Vec::new();
        for piece in self.pieces {
            if !operators.contains(&piece.operator.as_str()) {
                operators.push(piece.operator.as_str());
            }
        }
        operators
    }

    /// Judges everything that comes for one operator as one request.
    fn judge(&self, cx: &Context<'_>, operator: &str, group: &Group, boundaries: &[Boundary]) -> Result<(), Refusal> {
        let targets = group.targets(&cx.lookups)?;
        let mine = || self.pieces.iter().zip(self.manifests).filter(|(piece, _)| piece.operator == operator);
        let csvs = mine()
            .filter(|(piece, _)| piece.kind == "ClusterServiceVersion")
            .map(|(piece, _)| piece.read_csv(self.what))
            .collect::<Result<Vec<ClusterServiceVersion<'_>>, _>>()?;
        let everything = Rule::everything();
        let mut demands = Vec::new();
        let mut dangling = Vec::new();
        for (piece, manifest) in mine() {
            match self.of_rbac(cx, piece, manifest, &everything)? {
                Asked::Rules(more) => demands.extend(more),
                Asked::MissingRole(text) => dangling.push(text),
            }
        }
        for csv in &csvs {
            let namespace = self.namespace;
            let operator = Operator { csv, before: None, namespace, targets: &targets, may_replace: true };
            demands.extend(weigh(cx, &operator, boundaries)?.demands);
        }
        let names: Vec<String> = csvs.iter().map(|csv| csv.metadata.said_name()).collect();
        let brings = if names.is_empty() { String::new() } else { format!(" (brings {})", names.join(", ")) };
        let judged = Judged {
            what: format!("{}{brings}", self.what),
            demands,
            manifest: format!("CSV.yaml{}", targets.arguments(self.namespace)),
            notes: dangling.clone(),
        };
        let grants = grants(cx, boundaries, &judged.demands, group)?;
        let verdict = bounded(cx, &judged, boundaries, &grants, cx.settings.operator_groups.escalation);
        with_dangling(verdict, dangling)
    }

    /// What a role or binding of the plan asks for.
    fn of_rbac<'r>(
        &self,
        cx: &Context<'_>,
        piece: &Piece,
        manifest: &'r Manifest<'r>,
        everything: &'r [Rule<'r>],
    ) -> Result<Asked<'r>, Refusal> {
        let scope = match piece.kind.as_str() {
            "Role" | "RoleBinding" => Scope::Namespace(self.namespace_of(manifest)),
            "ClusterRole" | "ClusterRoleBinding" => Scope::Cluster,
            _ => return Ok(Asked::Rules(Vec::new())),
        };
        if let Some(key) = self.role_key(piece, manifest) {
            let escalate = Rule::on(&[RBAC], &[key.resource()], &["escalate"]);
            let is_aggregated = manifest.aggregation_rule.is_some();
            return Ok(Asked::Rules(demand::of_role(&scope, &manifest.rules, is_aggregated, &escalate, everything)));
        }
        let key = manifest.role_ref.key(scope.namespace());
        let rules = key.as_ref().map(|key| self.role(cx, key)).transpose()?.flatten();
        let (Some(key), Some(rules)) = (key, rules) else {
            return Ok(Asked::MissingRole(format!(
                "{} brings {} {}, which refers to {} {}: that does not exist and is not in the plan, so nobody can tell \
                 what it would give",
                self.what, piece.kind, manifest.metadata.name, manifest.role_ref.kind, manifest.role_ref.name
            )));
        };
        let why = Some(format!("{} {} binds {key}", piece.kind, manifest.metadata.name));
        let honored = demand::bind(&key);
        Ok(Asked::Rules(vec![Demand { scope, rules: DemandedRules::Shared(rules), honored, why }]))
    }

    /// A role for a binding of the plan: the plan's own, whichever operator brings it, else the cluster's. What the
    /// boundary holds is never read from the plan.
    fn role(&self, cx: &Context<'_>, key: &RoleKey) -> Result<Option<Rules>, Refusal> {
        let mut own = self.pieces.iter().zip(self.manifests);
        match own.find(|(piece, manifest)| self.role_key(piece, manifest).as_ref() == Some(key)) {
            Some((_, manifest)) => Ok(Some(manifest.rules.iter().cloned().map(Rule::into_owned).collect())),
            None => Ok(cx.lookups.role(key)?),
        }
    }

    fn role_key(&self, piece: &Piece, manifest: &Manifest<'_>) -> Option<RoleKey> {
        let name = manifest.metadata.name.to_string();
        match piece.kind.as_str() {
            "ClusterRole" => Some(RoleKey { namespace: None, name }),
            "Role" => Some(RoleKey { namespace: Some(self.namespace_of(manifest)), name }),
            _ => None,
        }
    }

    fn namespace_of(&self, manifest: &Manifest<'_>) -> String {
        let own = &manifest.metadata.namespace;
        if own.is_empty() { self.namespace.to_owned() } else { own.to_string() }
    }
}

/// What a piece of RBAC asks for.
enum Asked<'r> {
    Rules(Vec<Demand<'r>>),
    /// A binding to nothing, in words.
    MissingRole(String),
}

/// Bindings to nothing are refused even where nothing else exceeds the boundary.
fn with_dangling(verdict: Result<(), Refusal>, dangling: Vec<String>) -> Result<(), Refusal> {
    match verdict {
        Ok(()) if !dangling.is_empty() => Err(Refusal::Exceeds { message: dangling.join("\n"), lines: dangling }),
        Err(Refusal::Exceeds { message, mut lines }) => {
            lines.extend(dangling);
            Err(Refusal::Exceeds { message, lines })
        }
        verdict => verdict,
    }
}
