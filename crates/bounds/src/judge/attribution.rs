//! Which operators a piece of OLM v0's RBAC belongs to. What it says about itself is not trusted: a bundle chooses its
//! own labels. So labels, new and old, only ever add boundaries, and what OLM or the account of a group writes is
//! judged by the accounts it reaches, in every way in which a subject can name an account.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use super::review::Review;
use crate::cluster::LookupError;
use crate::decide::boundary::{self, Bounds, Restriction};
use crate::decide::claims;
use crate::decide::demand::Demand;
use crate::decide::excess::{Judged, bounded, limits};
use crate::decide::groups;
use crate::decide::holders::{self, Bound, Reach, Reached, ReachedIn};
use crate::decide::installed::{Installed, installed};
use crate::decide::verdict::{Admitted, Reason, Refusal};
use crate::olm::group::{Group, OperatorGroup};
use crate::olm::meta::{Labels, Meta};
use crate::rbac::role::RoleKey;
use crate::rbac::scope::Scope;
use crate::rbac::subject::{Accounts, Subject};
use crate::read::order::ordered;

use super::binding::Binding;
use super::olms_own;
use super::role::{Labelled, RoleObject};
use super::{Verdict, describe, read_new};

/// The maximum number of namespaces that one piece of RBAC is judged for: each has a boundary of its own.
const MAX_NAMESPACES: usize = 32;

/// A Role, ClusterRole or binding, as it would be written and as it was.
#[derive(Debug)]
pub(super) enum Piece<'p> {
    /// The new role, and the old one in an UPDATE.
    Role(&'p RoleObject<'p>, Option<&'p RoleObject<'p>>),
    /// The new binding, and the old one in an UPDATE.
    Binding(&'p Binding<'p>, Option<&'p Binding<'p>>),
}

impl<'p> Piece<'p> {
    pub(super) fn metadata(&self) -> &'p Meta<'p> {
        match self {
            Piece::Role(role, _) => &role.metadata,
            Piece::Binding(binding, _) => &binding.metadata,
        }
    }

    /// The labels that say it belongs to an operator, new before old: removing or moving a label is no way out.
    fn labels(&self) -> Vec<&'p Labels<'p>> {
        let old = match self {
            Piece::Role(_, old) => old.map(|old| &old.metadata),
            Piece::Binding(_, old) => old.map(|old| &old.metadata),
        };
        let both = std::iter::once(self.metadata()).chain(old).map(|metadata| &metadata.labels);
        both.filter(|labels| labels.is_operators()).collect()
    }
}

/// Who writes the object.
#[derive(Debug, PartialEq, Eq)]
enum Writer {
    /// OLM itself, with its own rights, for any operator.
    Olm,
    /// The account of an OperatorGroup in this namespace.
    Account(String),
    /// Nobody: this is the background audit.
    Audit,
    /// Anyone else, whom RBAC itself bounds.
    Somebody,
}

fn writer(cx: &Review<'_>) -> Result<Writer, Refusal> {
    let Some(requester) = &cx.requester else { return Ok(Writer::Audit) };
    if cx.settings.is_olm_v0(requester.user()) {
        return Ok(Writer::Olm);
    }
    let Some((namespace, name)) = requester.as_service_account() else { return Ok(Writer::Somebody) };
    if cx.settings.is_olm_v1(requester.user()) {
        return Ok(Writer::Somebody);
    }
    let groups = groups::groups_of(&cx.lookups, namespace)?;
    let is_groups = groups.iter().any(|group| group.uses(name));
    Ok(if is_groups { Writer::Account(namespace.to_owned()) } else { Writer::Somebody })
}

/// Judges a piece of RBAC by the active group of each namespace that it belongs to.
pub(super) fn bound<'r>(
    cx: &Review<'_>,
    piece: &Piece<'_>,
    demands: &dyn Fn(&Scope) -> Result<Vec<Demand<'r>>, Refusal>,
) -> Verdict {
    let writer = writer(cx)?;
    let claimants = if writer == Writer::Olm { claimants(cx, piece)? } else { None };
    let (concerned, reached) = reached(cx, &writer, piece, claimants.as_ref())?;
    let namespaces = namespaces(cx, &writer, piece, &concerned, &reached)?;
    if writer == Writer::Olm && !namespaces.is_empty() && olms_own::is_olms_own(cx, piece)? {
        return Ok(Admitted("not-judged"));
    }
    if namespaces.len() > MAX_NAMESPACES {
        return Err(Refusal::forbidden(
            Reason::OverLimit,
            format!(
                "{} reaches accounts of operators in {} namespaces, and at most {MAX_NAMESPACES} are judged at once: split it \
                 up, or bind fewer of them",
                describe(cx, &piece.metadata().display_name()),
                namespaces.len()
            ),
        ));
    }
    let mut admitted = Admitted(if namespaces.is_empty() { "not-judged" } else { "no-operator-group" });
    for namespace in &namespaces {
        if cx.settings.exempts_namespace(namespace) {
            admitted = Admitted("exempt");
            continue;
        }
        let here = ReachedIn::new(namespace, &reached);
        let whom = Whom { cx, piece, reached: &reached, here, there: OnceCell::new() };
        match boundary::of_namespace(cx, namespace, &|group, restriction| whom.is_held(group, restriction))? {
            Bounds::NoGroup => {}
            Bounds::Unbounded(_) => admitted = Admitted("unbounded"),
            Bounds::Bounded(group, boundaries) => {
                if writer == Writer::Olm {
                    for_accounts_only(cx, piece, namespace)?;
                }
                // What OLM creates for an API takes effect where accounts are bound to the role it is aggregated into;
                // anything else takes effect in its own scope.
                let scopes = match &claimants {
                    Some(_) => ordered(reached.iter().map(|bound| bound.scope().clone())),
                    None => ordered([scope(cx)]),
                };
                let mut demanded = Vec::new();
                for scope in &scopes {
                    demanded.extend(demands(scope)?);
                }
                let judged = Judged {
                    what: describe(cx, &piece.metadata().display_name()),
                    demands: demanded,
                    manifest: "CSV.yaml".to_owned(),
                    notes: Vec::new(),
                };
                let limits = limits(cx, &boundaries, &judged.demands, &group)?;
                bounded(cx, &judged, &limits, cx.settings.operator_groups.escalation)?;
                admitted = Admitted("bounded");
            }
        }
    }
    Ok(admitted)
}

fn scope(cx: &Review<'_>) -> Scope {
    Scope::of(cx.request.in_namespace())
}

/// Whether some operators of a group are held to less than the group allows.
fn restricts(cx: &Review<'_>, namespace: &str, restrict: &str) -> bool {
    !restrict.is_empty() || cx.settings.untrusted.iter().any(|entry| entry.applies_to(namespace))
}

/// The groups concerned, and the accounts that a piece of RBAC reaches: its own subjects, or those already bound to the
/// role. The latter are searched only if an account could be reached for which it matters. OLM writes with its own
/// rights where a group has no account, or had none a moment ago; a group's account is bounded itself, but not
/// restricted.
fn reached(
    cx: &Review<'_>,
    writer: &Writer,
    piece: &Piece<'_>,
    claimants: Option<&BTreeSet<String>>,
) -> Result<(Vec<Group>, Vec<Bound>), Refusal> {
    let restricts =
        |group: &OperatorGroup<'_>| restricts(cx, &group.metadata.namespace, &group.metadata.annotations.restrict);
    let concerned = match writer {
        Writer::Olm => {
            let reaches_nobody = reaches_nobody(cx, piece)?;
            groups::groups(&cx.lookups, &|group| {
                let claims = claimants.is_none_or(|them| them.contains(group.metadata.namespace.as_str()));
                claims && (restricts(group) || (!reaches_nobody && !group.spec.service_account_name.is_empty()))
            })?
        }
        Writer::Account(namespace) => {
            groups::groups(&cx.lookups, &|group| group.metadata.namespace == **namespace && restricts(group))?
        }
        Writer::Audit | Writer::Somebody => Vec::new(),
    };
    if concerned.is_empty() {
        return Ok((concerned, Vec::new()));
    }
    let scope = scope(cx);
    let reached = match piece {
        Piece::Binding(binding, _) => binding.subjects.iter().map(|subject| Bound::new(subject, &scope)).collect(),
        Piece::Role(role, _) => {
            let key = RoleKey { namespace: scope.namespace().map(str::to_owned), name: role.metadata.name.to_string() };
            if key.namespace.is_none() {
                bound_to_cluster_role(cx, &key, &concerned)?
            } else {
                let namespaces = ordered(key.namespace.iter().cloned());
                let bound = holders::bound(&cx.lookups, Reach::Namespaces(&namespaces), &|row, _| *row == key)?;
                bound.into_iter().map(|(_, bound)| bound).collect()
            }
        }
    };
    Ok((concerned, reached))
}

/// Whether a role cannot reach anyone yet: it is new, and is not aggregated into another role.
fn reaches_nobody(cx: &Review<'_>, piece: &Piece<'_>) -> Result<bool, Refusal> {
    if !matches!(piece, Piece::Role(_, None)) {
        return Ok(false);
    }
    Ok(cx.request.in_namespace().is_some() || !read_new::<Labelled<'_>>(cx)?.is_taken_in())
}

/// The namespaces whose operators claim the API that a role is for, if it is such a role: OLM creates it for those
/// only.
fn claimants(cx: &Review<'_>, piece: &Piece<'_>) -> Result<Option<BTreeSet<String>>, Refusal> {
    let (Piece::Role(role, _), None) = (piece, cx.request.in_namespace()) else { return Ok(None) };
    let Some(definition) = olms_own::definition_of(role, &read_new(cx)?) else { return Ok(None) };
    // A role that only looks like one is judged by the accounts it reaches.
    Ok(Some(claims::claimants(&cx.lookups, &definition)?).filter(|claimants| !claimants.is_empty()))
}

/// The accounts that a ClusterRole reaches: those bound to it, and, in the groups concerned, those bound to a role that
/// it is aggregated into.
fn bound_to_cluster_role(cx: &Review<'_>, key: &RoleKey, concerned: &[Group]) -> Result<Vec<Bound>, Refusal> {
    let object: Labelled<'_> = read_new(cx)?;
    let labels = object.with_what_follows();
    let concerned = ordered(concerned.iter().map(|group| group.namespace.as_str()));
    let of_concern = |accounts: Accounts<&str>| {
        accounts == Accounts::All || accounts.namespace().is_some_and(|namespace| concerned.contains(namespace))
    };
    let bound = holders::bound(&cx.lookups, Reach::Everywhere, &|row, accounts| {
        *row == *key || (row.namespace.is_none() && of_concern(accounts))
    })?;
    let mut reached = Vec::new();
    for (row, bound) in bound {
        if row == *key || cx.lookups.takes_in(&row, &labels)? {
            reached.push(bound);
        }
    }
    Ok(reached)
}

/// The namespaces whose active group bounds a piece of RBAC, without duplicates.
fn namespaces(
    cx: &Review<'_>,
    writer: &Writer,
    piece: &Piece<'_>,
    concerned: &[Group],
    reached: &[Bound],
) -> Result<Vec<String>, Refusal> {
    let mut found = Namespaces::default();
    let labels = piece.labels();
    let mut is_copy = false;
    for labels in &labels {
        if matches!(writer, Writer::Olm | Writer::Audit) && is_copy_from(cx, piece, &labels.copied_from)? {
            is_copy = true;
            found.add(&labels.copied_from);
        } else {
            found.add(&labels.owner_namespace);
            found.add(&labels.copied_from);
        }
    }
    match writer {
        Writer::Account(namespace) => found.add(namespace),
        Writer::Olm => {
            // What OLM writes with its own rights takes effect here, whoever requested it.
            if !is_copy {
                found.add(&cx.request.namespace);
            }
            let reached = Reached::of(reached);
            for group in concerned.iter().filter(|group| concerns(cx, group, &reached)) {
                found.add(&group.namespace);
            }
        }
        Writer::Audit | Writer::Somebody => {}
    }
    if found.0.is_empty() && !labels.is_empty() {
        found.add(&cx.request.namespace);
        if let Piece::Binding(binding, _) = piece {
            let named = binding.subjects.iter().filter_map(|subject| subject.account(None));
            named.for_each(|(namespace, _)| found.add(namespace));
        }
    }
    if found.0.is_empty() && !labels.is_empty() { Err(unknown_owner(cx, piece)) } else { Ok(found.0) }
}

/// Whether the accounts reached concern a group. Its account bounds accounts that are named individually, or as all
/// accounts of the namespace; a restriction also covers those reached through a group that includes all accounts. (What
/// is granted to `system:authenticated` is held by everyone.)
fn concerns(cx: &Review<'_>, group: &Group, reached: &Reached) -> bool {
    let namespace = group.namespace.as_str();
    (group.account.is_some() && reached.names(namespace))
        || (reached.reaches(namespace) && restricts(cx, namespace, &group.restrict))
}

#[derive(Debug, Default)]
struct Namespaces(Vec<String>);

impl Namespaces {
    fn add(&mut self, namespace: &str) {
        if !namespace.is_empty() && !self.0.iter().any(|known| known == namespace) {
            self.0.push(namespace.to_owned());
        }
    }
}

/// Whether OLM copies this from another namespace that has a group: the original exists and grants the same. OLM labels
/// copies with the target as their owner, and the author of a bundle can label them with anything.
fn is_copy_from(cx: &Review<'_>, piece: &Piece<'_>, namespace: &str) -> Result<bool, Refusal> {
    let is_elsewhere = !namespace.is_empty() && cx.request.in_namespace().is_some_and(|own| own != namespace);
    if !is_elsewhere || groups::groups_of(&cx.lookups, namespace)?.is_empty() {
        return Ok(false);
    }
    let name = piece.metadata().name.as_str();
    match piece {
        Piece::Role(role, _) => {
            let key = RoleKey { namespace: Some(namespace.to_owned()), name: name.to_owned() };
            Ok(cx.lookups.role(&key)?.is_some_and(|rules| *rules == role.rules[..]))
        }
        Piece::Binding(binding, _) => {
            Ok(holders::is_there(&cx.lookups, namespace, name, &binding.role_ref, &binding.subjects)?)
        }
    }
}

/// OLM lifts and copies bindings that are labelled as an operator's with its own rights: to any other subject they
/// would pass on rights that the subject does not hold there.
fn for_accounts_only(cx: &Review<'_>, piece: &Piece<'_>, namespace: &str) -> Result<(), Refusal> {
    let Piece::Binding(binding, _) = piece else { return Ok(()) };
    let own = cx.request.in_namespace();
    if !piece.labels().iter().any(|labels| own.is_none() || !labels.copied_from.is_empty()) {
        return Ok(());
    }
    let is_account = |subject: &Subject<'_>| subject.account(own).is_some_and(|(of, _)| of == namespace);
    let Some(other) = binding.subjects.iter().find(|subject| !is_account(subject)) else { return Ok(()) };
    Err(Refusal::forbidden(
        Reason::Guard,
        format!(
            "{} names {} {}, which is not a service account of namespace {namespace}: OLM passes on the bindings of operators \
             with its own rights, and only their own accounts may be named there. Remove the label olm.owner.kind from the \
             binding in namespace {namespace}.",
            describe(cx, &piece.metadata().display_name()),
            other.kind,
            other.name
        ),
    ))
}

fn unknown_owner(cx: &Review<'_>, piece: &Piece<'_>) -> Refusal {
    Refusal::forbidden(
        Reason::UnknownOwner,
        format!(
            "{} is labelled olm.owner.kind: ClusterServiceVersion but not olm.owner.namespace, so what bounds it \
             cannot be determined. Add that label, or remove both.",
            describe(cx, &piece.metadata().display_name())
        ),
    )
}

/// Which operators a piece of RBAC affects.
struct Whom<'x> {
    cx: &'x Review<'x>,
    piece: &'x Piece<'x>,
    reached: &'x [Bound],
    /// The accounts reached in the namespace that is being judged.
    here: ReachedIn<'x>,
    /// The operators of that namespace.
    there: OnceCell<There>,
}

/// The operators of a namespace, each parsed once, however many restrictions there are.
struct There {
    operators: Vec<Operator>,
    /// Whether an account is reached that none of these operators uses.
    is_unknown_reached: bool,
}

/// The parts of an operator that determine whether something affects it.
struct Operator {
    name: String,
    replaces: String,
    /// Whether it runs as an account that is reached.
    is_reached: bool,
}

impl There {
    fn new(installed: &[Installed], here: &ReachedIn<'_>) -> Result<Self, LookupError> {
        let mut operators = Vec::new();
        let mut known = BTreeSet::new();
        for operator in installed {
            let csv = operator.csv()?;
            let accounts = csv.accounts();
            operators.push(Operator {
                name: operator.name.clone(),
                replaces: csv.spec.replaces.to_string(),
                is_reached: accounts.iter().any(|account| here.reaches(account)),
            });
            known.extend(accounts.into_iter().filter_map(|account| here.named.get(account).copied()));
        }
        Ok(There { operators, is_unknown_reached: here.all || known.len() < here.named.len() })
    }

    fn any_held(&self, restriction: &Restriction, counts: &dyn Fn(&Operator) -> bool) -> bool {
        let mut operators = self.operators.iter().filter(|operator| counts(operator));
        operators.any(|operator| restriction.holds(&operator.name) || restriction.holds(&operator.replaces))
    }
}

impl Whom<'_> {
    /// Whether a restriction of the group counts: for operators that the labels name, for those that run as an account
    /// that is reached, and for the restricting account itself, which would otherwise grow with the attack. If it
    /// cannot be determined whom the piece affects, every restriction that is in use counts.
    fn is_held(&self, group: &Group, restriction: &Restriction) -> Result<bool, Refusal> {
        if self.piece.labels().iter().any(|labels| restriction.holds(&labels.owner))
            || self.here.reaches(&restriction.account)
        {
            return Ok(true);
        }
        let there = self.there(&group.namespace)?;
        if there.any_held(restriction, &|operator| operator.is_reached) {
            return Ok(true);
        }
        let unknown = self.is_unattributed() || there.is_unknown_reached;
        Ok(unknown && self.is_set_up(group, restriction)?)
    }

    /// Whether the piece itself does not show whom it affects: an existing role that nobody seems to be bound to.
    /// (Lists lag behind; a new role grants nothing until it is bound.)
    fn is_unattributed(&self) -> bool {
        matches!(self.piece, Piece::Role(_, Some(_))) && self.reached.is_empty()
    }

    /// Whether a restriction is in use in the group's namespace: it was set for this namespace, it applies to an
    /// operator that exists there, or its account exists there.
    fn is_set_up(&self, group: &Group, restriction: &Restriction) -> Result<bool, Refusal> {
        if restriction.is_local {
            return Ok(true);
        }
        if self.there(&group.namespace)?.any_held(restriction, &|_| true) {
            return Ok(true);
        }
        Ok(self.cx.lookups.account_exists(&group.namespace, &restriction.account)?)
    }

    fn there(&self, namespace: &str) -> Result<&There, Refusal> {
        if let Some(there) = self.there.get() {
            return Ok(there);
        }
        let there = There::new(&installed(&self.cx.lookups, namespace)?, &self.here)?;
        Ok(self.there.get_or_init(|| there))
    }
}
