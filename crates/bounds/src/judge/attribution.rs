//! To whom a piece of OLM v0's RBAC belongs. What it says of itself is not believed: a bundle chooses its labels. So labels,
//! new and old, only ever add boundaries, and what OLM or the account of a group writes is judged by whom it reaches, in every
//! way in which a subject can name an account.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use super::review::Review;
use crate::cluster::LookupError;
use crate::decide::boundary::{self, Bounds, Restriction};
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
use crate::rbac::subject::Accounts;
use crate::read::object::object;
use crate::read::order::ordered;
use crate::read::text::Text;

use super::binding::Binding;
use super::olms_own;
use super::role::RoleObject;
use super::{Verdict, describe, read_new};

/// As many namespaces as one piece of RBAC is judged for: each has a boundary of its own.
const MAX_NAMESPACES: usize = 32;

/// A Role or ClusterRole, or a binding, as it would be written and as it was.
#[derive(Debug)]
pub(super) enum Piece<'p> {
    /// A role.
    Role(&'p RoleObject<'p>, Option<&'p RoleObject<'p>>),
    /// A binding.
    Binding(&'p Binding<'p>, Option<&'p Binding<'p>>),
}

impl<'p> Piece<'p> {
    pub(super) fn metadata(&self) -> &'p Meta<'p> {
        match self {
            Piece::Role(role, _) => &role.metadata,
            Piece::Binding(binding, _) => &binding.metadata,
        }
    }

    /// The labels that say it belongs to an operator, new before old: taking one off, or moving it, is no way out.
    fn labels(&self) -> Vec<&'p Labels<'p>> {
        let old = match self {
            Piece::Role(_, old) => old.map(|old| &old.metadata),
            Piece::Binding(_, old) => old.map(|old| &old.metadata),
        };
        let both = std::iter::once(self.metadata()).chain(old).map(|metadata| &metadata.labels);
        both.filter(|labels| labels.is_operators()).collect()
    }
}

/// Who writes.
#[derive(Debug, PartialEq, Eq)]
enum Writer {
    /// OLM itself, with its own rights, for whomever.
    Olm,
    /// The account of an OperatorGroup of this namespace.
    Account(String),
    /// Nobody: the background audit.
    Audit,
    /// Somebody else, whom RBAC bounds.
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

/// Bounds a piece of RBAC by the active group of each namespace that it belongs to.
pub(super) fn bound<'r>(
    cx: &Review<'_>,
    piece: &Piece<'_>,
    demands: &dyn Fn(&Scope) -> Result<Vec<Demand<'r>>, Refusal>,
) -> Verdict {
    let writer = writer(cx)?;
    let reached = reached(cx, &writer, piece)?;
    let namespaces = namespaces(cx, &writer, piece, &reached)?;
    if namespaces.len() > MAX_NAMESPACES {
        return Err(Refusal::forbidden(
            Reason::OverLimit,
            format!(
                "{} concerns operators in {} namespaces, and at most {MAX_NAMESPACES} are judged at once: split it up",
                describe(cx, &piece.metadata().display_name()),
                namespaces.len()
            ),
        ));
    }
    if writer == Writer::Olm && !namespaces.is_empty() && olms_own::is_olms_own(cx, piece)? {
        return Ok(Admitted("not-judged"));
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
                let judged = Judged {
                    what: describe(cx, &piece.metadata().display_name()),
                    demands: demands(&scope(cx))?,
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
fn restricts(cx: &Review<'_>, group: &OperatorGroup<'_>) -> bool {
    let entries = &cx.settings.untrusted;
    !group.metadata.annotations.restrict.is_empty()
        || entries.iter().any(|entry| entry.applies_to(&group.metadata.namespace))
}

/// Whom a piece of RBAC reaches: its own subjects, or those that are bound to the role already. Looked for only where
/// somebody could be reached whom it matters for. OLM writes with its own rights where a group has no account, or had none a
/// moment ago; an account is bounded itself, but not restricted.
fn reached(cx: &Review<'_>, writer: &Writer, piece: &Piece<'_>) -> Result<Vec<Bound>, Refusal> {
    // Nobody is bound yet to a role that is new, unless it takes the place of another.
    let is_new = matches!(piece, Piece::Role(_, None));
    let concerned = match writer {
        Writer::Olm => groups::groups(&cx.lookups, &|group| {
            restricts(cx, group) || (!is_new && !group.spec.service_account_name.is_empty())
        })?,
        Writer::Account(namespace) => {
            groups::groups(&cx.lookups, &|group| group.metadata.namespace == **namespace && restricts(cx, group))?
        }
        Writer::Audit | Writer::Somebody => Vec::new(),
    };
    if concerned.is_empty() {
        return Ok(Vec::new());
    }
    let scope = scope(cx);
    match piece {
        Piece::Binding(binding, _) => Ok(binding.subjects.iter().map(|subject| Bound::new(subject, &scope)).collect()),
        Piece::Role(role, _) => {
            let key = RoleKey { namespace: scope.namespace().map(str::to_owned), name: role.metadata.name.to_string() };
            if key.namespace.is_none() {
                return bound_to_cluster_role(cx, &key, &concerned);
            }
            let namespaces = ordered(key.namespace.iter().cloned());
            let bound = holders::bound(&cx.lookups, Reach::Namespaces(&namespaces), &|row, _| *row == key)?;
            Ok(bound.into_iter().map(|(_, bound)| bound).collect())
        }
    }
}

/// Whom a ClusterRole reaches: those that are bound to it, and, of the groups that are concerned, those that are bound to a
/// role which takes it in.
fn bound_to_cluster_role(cx: &Review<'_>, key: &RoleKey, concerned: &[Group]) -> Result<Vec<Bound>, Refusal> {
    let object: Labelled<'_> = read_new(cx)?;
    let concerned = ordered(concerned.iter().map(|group| group.namespace.as_str()));
    let of_concern = |accounts: Accounts<&str>| {
        accounts == Accounts::All || accounts.namespace().is_some_and(|namespace| concerned.contains(namespace))
    };
    let bound = holders::bound(&cx.lookups, Reach::Everywhere, &|row, accounts| {
        *row == *key || (row.namespace.is_none() && of_concern(accounts))
    })?;
    let mut reached = Vec::new();
    for (row, bound) in bound {
        if row == *key || cx.lookups.takes_in(&row, &object.metadata.labels)? {
            reached.push(bound);
        }
    }
    Ok(reached)
}

object! {
    #[derive(Debug, Default)]
    struct Labelled<'a> {
        metadata: LabelledMeta<'a> = "metadata",
    }
}

object! {
    #[derive(Debug, Default)]
    struct LabelledMeta<'a> {
        labels: BTreeMap<Text<'a>, Text<'a>> = "labels",
    }
}

/// The namespaces whose active group bounds a piece of RBAC, each once.
fn namespaces(cx: &Review<'_>, writer: &Writer, piece: &Piece<'_>, reached: &[Bound]) -> Result<Vec<String>, Refusal> {
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
            // What OLM writes with its own rights lands here, whoever asked for it.
            if !is_copy {
                found.add(&cx.request.namespace);
            }
            let reached = Reached::of(reached);
            for group in groups::groups(&cx.lookups, &|group| concerns(cx, group, &reached))? {
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

/// Whether what is reached concerns a group: its account bounds whom a subject names, and a restriction also those whom a
/// subject reaches through a group of users. (Who is in `system:authenticated` holds what everybody holds.)
fn concerns(cx: &Review<'_>, group: &OperatorGroup<'_>, reached: &Reached) -> bool {
    let namespace = group.metadata.namespace.as_str();
    let is_bounded = !group.spec.service_account_name.is_empty();
    (is_bounded && reached.names(namespace)) || (reached.reaches(namespace) && restricts(cx, group))
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

/// Whether OLM copies this from another namespace, which has a group: the original is there and gives the same. OLM labels
/// copies with the target as their owner, and whoever writes a bundle can label them with anything.
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

/// Whom a piece of RBAC is for.
struct Whom<'x> {
    cx: &'x Review<'x>,
    piece: &'x Piece<'x>,
    reached: &'x [Bound],
    /// Those of the namespace that is looked at.
    here: ReachedIn<'x>,
    /// The operators of that namespace.
    there: OnceCell<There>,
}

/// The operators of a namespace, each read once however many restrictions there are.
struct There {
    operators: Vec<Operator>,
    /// Whether somebody is reached who is none of their accounts.
    is_unknown_reached: bool,
}

/// What of an operator says whether something is for it.
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
    /// Whether a restriction of the group counts: for the operators that the labels name, for those that run as an account
    /// that is reached, for the restricting account itself, which would otherwise grow with the attack; and whichever it is
    /// where nobody can tell for whom this is.
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

    /// Whether nobody can tell from the piece itself for whom it is: a role that was there before, and that nobody seems to be
    /// bound to. (Lists lag behind; a role that is new gives nobody anything before it is bound.)
    fn is_unattributed(&self) -> bool {
        matches!(self.piece, Piece::Role(_, Some(_))) && self.reached.is_empty()
    }

    /// Whether a restriction is in use in the group's namespace: it was made for it, it holds an operator that is there, or
    /// its account is there.
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
