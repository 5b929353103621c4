//! Role and ClusterRole that belong to an operator: their rules are bounded where they land. This closes the lifting and
//! copying past the account, and `escalate` in RBAC that a bundle brings along.

use serde_json::value::RawValue;

use crate::admission::Operation;
use crate::boundary::{self, Bounds};
use crate::context::Context;
use crate::demand::{self, Demand, RBAC};
use crate::excess::{Judged, bounded, grants};
use crate::group::{self, Group};
use crate::installed::installed;
use crate::meta::Meta;
use crate::object::object;
use crate::rule::Rule;
use crate::scope::Scope;
use crate::subject::{Identity, Subject};
use crate::verdict::{Admitted, Refusal};

use super::{Verdict, read_new, read_old, said};

object! {
    /// A Role or a ClusterRole.
    #[derive(Debug, Default)]
    pub(super) struct RoleObject<'a> {
        pub(super) metadata: Meta<'a> = "metadata",
        pub(super) rules: Vec<Rule<'a>> = "rules",
        aggregation_rule: Option<&'a RawValue> = "aggregationRule",
    }
}

impl RoleObject<'_> {
    /// Whether both give the same rights, now and later.
    pub(super) fn gives_the_same(&self, other: &RoleObject<'_>) -> bool {
        self.rules == other.rules
            && self.aggregation_rule.map(RawValue::get) == other.aggregation_rule.map(RawValue::get)
    }
}

pub(super) fn judge(cx: &Context<'_>) -> Verdict {
    let role: RoleObject<'_> = read_new(cx)?;
    let old: Option<RoleObject<'_>> = read_old(cx)?;
    if old.as_ref().is_some_and(|old| old.gives_the_same(&role)) {
        return Ok(Admitted("unchanged"));
    }
    let Some(owner) = owner(cx, &role.metadata, old.as_ref().map(|old| &old.metadata))? else {
        return Ok(Admitted("not-judged"));
    };
    let everything = Rule::everything();
    let demands = |scope: &Scope| Ok(demands(cx, &role, scope, &everything));
    // A role alone gives nobody anything: whom it is bound to is the binding's to say.
    bound_by(cx, &owner, &role.metadata, &[], &demands)
}

/// What a role asks for.
pub(super) fn demands<'r>(
    cx: &Context<'_>,
    role: &'r RoleObject<'r>,
    scope: &Scope,
    everything: &'r [Rule<'r>],
) -> Vec<Demand<'r>> {
    demand::of_role(scope, &role.rules, role.aggregation_rule.is_some(), &escalate(cx), everything)
}

/// The right that makes the API server skip its own escalation check. There is no name yet when an object is created.
fn escalate(cx: &Context<'_>) -> Rule<'static> {
    let resource = if cx.request.kind.kind == "Role" { "roles" } else { "clusterroles" };
    let rule = Rule::on(&[RBAC], &[resource], &["escalate"]);
    match cx.request.operation {
        Operation::Update => Rule { resource_names: vec![cx.request.name.to_string().into()], ..rule },
        _ => rule,
    }
}

/// The operator that a piece of RBAC belongs to.
#[derive(Debug, Default)]
pub(super) struct Owner {
    /// The namespaces whose active group bounds it: the one that the labels say, and that of the account that writes.
    /// A label can only narrow: a bundle may put any label on what it brings.
    namespaces: Vec<String>,
    /// The name of the ClusterServiceVersion, if it is known.
    operator: String,
}

/// Whom a binding belongs to that OLM itself writes without any label, as it does for bundles of groups without an account:
/// the namespaces of the accounts that it names, where something is restricted there. (With an account, the account
/// writes them.)
pub(super) fn owner_by_subjects(cx: &Context<'_>, subjects: &[Subject<'_>]) -> Result<Option<Owner>, Refusal> {
    if !cx.is_olm_v0() {
        return Ok(None);
    }
    let restricted = group::groups(&cx.lookups, &|group| {
        let restricts = !group.metadata.annotations.restrict.is_empty() || !cx.settings.untrusted.is_empty();
        restricts && group.spec.service_account_name.is_empty()
    })?;
    let named = |group: &Group| {
        subjects.iter().any(|subject| {
            let own = if subject.namespace.is_empty() { &cx.request.namespace } else { &subject.namespace };
            subject.kind == "ServiceAccount" && *own == *group.namespace
        })
    };
    let mut namespaces: Vec<String> = Vec::new();
    for group in restricted.iter().filter(|group| named(group) && boundary::restricts(cx, group)) {
        if !namespaces.contains(&group.namespace) {
            namespaces.push(group.namespace.clone());
        }
    }
    let owner = Owner { namespaces, operator: String::new() };
    Ok(if owner.namespaces.is_empty() { None } else { Some(owner) })
}

/// Whom a Role, ClusterRole or binding belongs to; nobody if it has nothing to do with OLM v0.
pub(super) fn owner(cx: &Context<'_>, new: &Meta<'_>, old: Option<&Meta<'_>>) -> Result<Option<Owner>, Refusal> {
    let labelled = std::iter::once(new).chain(old).find(|metadata| metadata.labels.is_operators());
    let mut owner = Owner::default();
    let writer = writing_group(cx)?;
    if let Some(metadata) = labelled {
        let labels = &metadata.labels;
        owner.operator = labels.owner.to_string();
        // OLM copies Roles and overwrites this label, but lifts them to ClusterRoles with whatever labels they have.
        let is_copy = cx.is_olm_v0() && !cx.request.namespace.is_empty() && !labels.copied_from.is_empty();
        let namespace = if is_copy {
            labels.copied_from.to_string()
        } else if !labels.owner_namespace.is_empty() {
            labels.owner_namespace.to_string()
        } else if let Some(writer) = &writer {
            writer.clone()
        } else if !cx.request.namespace.is_empty() {
            cx.request.namespace.to_string()
        } else {
            return Err(Refusal::forbidden(
                "unknown-owner",
                format!(
                    "{} is labelled olm.owner.kind: ClusterServiceVersion but not olm.owner.namespace, so nobody can \
                     tell what bounds it. Add that label, or remove both.",
                    said(cx, &new.said_name())
                ),
            ));
        };
        owner.namespaces.push(namespace);
    }
    if let Some(writer) = writer
        && !owner.namespaces.contains(&writer)
    {
        owner.namespaces.push(writer);
    }
    Ok(if owner.namespaces.is_empty() { None } else { Some(owner) })
}

/// The namespace of the requester, if it is the account of an OperatorGroup there.
fn writing_group(cx: &Context<'_>) -> Result<Option<String>, Refusal> {
    let Some(requester) = cx.requester() else { return Ok(None) };
    let Some((namespace, name)) = requester.as_service_account() else { return Ok(None) };
    // OLM's own accounts write for everybody; the labels say for whom.
    if cx.is_olm_v0() || cx.is_olm_v1() {
        return Ok(None);
    }
    let groups = group::groups_of(&cx.lookups, namespace)?;
    Ok(groups.iter().any(|group| group.uses(name)).then(|| namespace.to_owned()))
}

/// The operators that a piece of RBAC is for: the one that its label says, and every one that runs as a subject of the
/// binding. A bundle chooses its labels, and must not choose its way out of a restriction by them.
fn operators(
    cx: &Context<'_>,
    group: &Group,
    labelled: &str,
    subjects: &[Subject<'_>],
) -> Result<Vec<String>, Refusal> {
    let mut operators = vec![labelled.to_owned()];
    if subjects.is_empty() || !boundary::restricts(cx, group) {
        return Ok(operators);
    }
    let binding = cx.request.in_namespace();
    for operator in installed(cx, &group.namespace)? {
        let csv = operator.csv()?;
        let runs_as_subject = csv.accounts().into_iter().any(|account| {
            let identity = Identity::service_account(&group.namespace, account);
            subjects.iter().any(|subject| identity.named_by(subject, binding))
        });
        if runs_as_subject && operator.name != labelled {
            operators.push(operator.name.clone());
        }
    }
    Ok(operators)
}

/// Bounds a piece of RBAC by the active group of each namespace it belongs to.
pub(super) fn bound_by<'r>(
    cx: &Context<'_>,
    owner: &Owner,
    metadata: &Meta<'_>,
    subjects: &[Subject<'_>],
    demands: &dyn Fn(&Scope) -> Result<Vec<Demand<'r>>, Refusal>,
) -> Verdict {
    let mut admitted = Admitted("no-operator-group");
    for namespace in &owner.namespaces {
        if cx.settings.exempts_namespace(namespace) {
            admitted = Admitted("exempt");
            continue;
        }
        let operators = |group: &Group| operators(cx, group, &owner.operator, subjects);
        match boundary::of_operators(cx, namespace, &operators)? {
            Bounds::NoGroup => {}
            Bounds::Unbounded(_) => admitted = Admitted("unbounded"),
            Bounds::Bounded(group, boundaries) => {
                let scope = Scope::of(cx.request.in_namespace());
                let judged = Judged {
                    what: said(cx, &metadata.said_name()),
                    demands: demands(&scope)?,
                    manifest: "CSV.yaml".to_owned(),
                    notes: Vec::new(),
                };
                let grants = grants(cx, &boundaries, &judged.demands, &group)?;
                bounded(cx, &judged, &boundaries, &grants, cx.settings.operator_groups.escalation)?;
                admitted = Admitted("bounded");
            }
        }
    }
    Ok(admitted)
}
