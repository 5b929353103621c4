//! Boundaries: the identities that an operator must stay within.

use std::cell::OnceCell;

use crate::decide::context::Context;
use crate::decide::groups;
use crate::decide::installed::installed;
use crate::decide::lookups::Lookups;
use crate::decide::message::shell;
use crate::decide::verdict::{Reason, Refusal};
use crate::olm::extension::{ClusterExtension, SYNTHETIC_ACCOUNT};
use crate::olm::group::Group;
use crate::rbac::subject::Identity;
use crate::read::glob;
use crate::read::json::Unreadable;
use crate::read::order::ordered;
use crate::settings::Bound;
use crate::settings::Phase;
use crate::settings::Settings;

/// The prefix of a synthetic identity's user name; the name of the ClusterExtension follows.
pub const SYNTHETIC_USER_PREFIX: &str = "olm:clusterextension:";
/// The group that all synthetic identities belong to.
pub const SYNTHETIC_GROUP: &str = "olm:clusterextensions";

/// An identity that acts as a boundary, and why it does.
#[derive(Debug, Clone)]
pub struct Boundary {
    /// The identity whose rights are the limit.
    pub identity: Identity,
    /// The identity as shown to a person: `ServiceAccount team-a/installer`.
    pub description: String,
    /// The object that makes it the boundary: `OperatorGroup team-a/og`.
    pub by: String,
    /// Whether it bounds an extension of OLM v1 rather than an operator of OLM v0.
    pub(crate) of_extension: bool,
}

impl Boundary {
    /// A service account as the boundary.
    #[must_use]
    pub(crate) fn account(namespace: &str, name: &str, by: String) -> Self {
        Boundary {
            identity: Identity::service_account(namespace, name),
            description: format!("ServiceAccount {namespace}/{name}"),
            by,
            of_extension: false,
        }
    }

    /// The synthetic identity of a ClusterExtension that names no account.
    #[must_use]
    pub(crate) fn synthetic(extension: &str, by: String) -> Self {
        let user = format!("{SYNTHETIC_USER_PREFIX}{extension}");
        Boundary {
            identity: Identity::user_in(&user, vec![SYNTHETIC_GROUP.to_owned(), "system:authenticated".to_owned()]),
            description: format!("User {user}"),
            by,
            of_extension: true,
        }
    }

    /// The value of the command line's `--for` argument.
    #[must_use]
    pub(crate) fn for_argument(&self) -> String {
        if let Some((namespace, name)) = self.identity.as_service_account() {
            let olm = if self.of_extension { " --olm v1" } else { "" };
            return format!("serviceaccount {}{olm}", shell(&format!("{namespace}/{name}")));
        }
        let user = self.identity.user();
        format!("synthetic {}", shell(user.strip_prefix(SYNTHETIC_USER_PREFIX).unwrap_or(user)))
    }
}

/// What bounds an extension: the setting `bound`, or OLM itself in the phases where it does. `None` means there is no
/// boundary: OLM's controller is cluster-admin.
pub(crate) fn of_extension(
    extension: &ClusterExtension<'_>,
    settings: &Settings,
    phase: Phase,
) -> Result<Option<Boundary>, Unreadable> {
    let field_counts = match (settings.cluster_extensions.bound, phase) {
        // In these phases OLM itself uses the account's token, whatever else the policy bounds.
        (_, Phase::Required | Phase::Optional) | (Bound::ServiceAccount, _) => true,
        (Bound::Synthetic | Bound::Off, Phase::Deprecated | Phase::Removed) => false,
    };
    if field_counts && let Some(named) = named_by(extension)? {
        return Ok(Some(named));
    }
    let synthetic = settings.cluster_extensions.bound != Bound::Off || phase == Phase::Optional;
    Ok(synthetic.then(|| synthetic_of(extension)))
}

/// What an extension names: an account, or, by one reserved name, its synthetic identity.
pub(crate) fn named_by(extension: &ClusterExtension<'_>) -> Result<Option<Boundary>, Unreadable> {
    Ok(extension.account()?.map(|account| match account.as_str() {
        SYNTHETIC_ACCOUNT => synthetic_of(extension),
        account => account_of(extension, account),
    }))
}

/// The account of this name in the extension's install namespace.
pub(crate) fn account_of(extension: &ClusterExtension<'_>, account: &str) -> Boundary {
    let boundary = Boundary::account(extension.namespace(), account, by(extension));
    Boundary { of_extension: true, ..boundary }
}

fn synthetic_of(extension: &ClusterExtension<'_>) -> Boundary {
    Boundary::synthetic(&extension.metadata.name, by(extension))
}

fn by(extension: &ClusterExtension<'_>) -> String {
    format!("ClusterExtension {}", extension.metadata.name)
}

/// What bounds an operator in a namespace.
#[derive(Debug)]
pub enum Bounds {
    /// There is no OperatorGroup: OLM itself refuses to install.
    NoGroup,
    /// The group names no account and no restriction applies to the operator.
    Unbounded(Group),
    /// All of these boundaries apply; there is at least one.
    Bounded(Group, Vec<Boundary>),
}

/// The boundaries of an operator in this namespace. It goes by several names: its own, that of the version it replaces,
/// and that of the one before it while that still exists. Otherwise an untrusted operator could escape by renaming
/// itself.
pub fn of_operator(cx: &Context<'_>, namespace: &str, names: &[&str]) -> Result<Bounds, Refusal> {
    let before = OnceCell::new();
    of_namespace(cx, namespace, &|_, restriction| {
        if names.iter().any(|name| restriction.holds(name)) {
            return Ok(true);
        }
        if before.get().is_none() {
            let _ = before.set(replaced_by(&cx.lookups, namespace, names)?);
        }
        Ok(before.get().into_iter().flatten().any(|name: &String| restriction.holds(name)))
    })
}

/// What the operators of these names, where they exist, say that they replaced.
fn replaced_by(lookups: &Lookups<'_>, namespace: &str, names: &[&str]) -> Result<Vec<String>, Refusal> {
    let mut found = Vec::new();
    // An operator that replaces nothing has only one name and no predecessor.
    if ordered(names.iter().filter(|name| !name.is_empty())).len() < 2 {
        return Ok(found);
    }
    for operator in installed(lookups, namespace)? {
        if names.contains(&operator.name.as_str()) {
            found.push(operator.csv()?.spec.replaces.to_string());
        }
    }
    Ok(found)
}

/// What bounds in a namespace: the account of its active group, and the accounts of the restrictions that `counts`
/// selects. A group whose account does not exist leads to a refusal.
pub(crate) fn of_namespace(
    cx: &Context<'_>,
    namespace: &str,
    counts: &dyn Fn(&Group, &Restriction) -> Result<bool, Refusal>,
) -> Result<Bounds, Refusal> {
    let Some(group) = groups::active(&cx.lookups, namespace)? else { return Ok(Bounds::NoGroup) };
    cx.fact("operatorGroup", format!("{}/{}", group.namespace, group.name));
    let mut boundaries = Vec::new();
    if let Some(account) = &group.account {
        if !cx.lookups.account_exists(namespace, account)? {
            return Err(missing_account(&group, account));
        }
        boundaries.push(Boundary::account(namespace, account, group.to_string()));
    }
    for restriction in restrictions(cx, &group)? {
        if counts(&group, &restriction)? {
            let boundary = Boundary::account(namespace, &restriction.account, restriction.by);
            if !boundaries.iter().any(|known| known.identity == boundary.identity) {
                boundaries.push(boundary);
            }
        }
    }
    if boundaries.is_empty() {
        return Ok(Bounds::Unbounded(group));
    }
    let names: Vec<&str> = boundaries.iter().map(|boundary| boundary.identity.user()).collect();
    cx.fact("boundary", names.join(","));
    Ok(Bounds::Bounded(group, boundaries))
}

/// Holds some operators of a namespace to a second account. It can only narrow: the group's account still applies.
#[derive(Debug)]
pub(crate) struct Restriction {
    /// The operators it applies to: a glob on the name.
    operators: String,
    /// The account's name, in the same namespace.
    pub(crate) account: String,
    /// Whether it was set for this particular namespace rather than for all of them.
    pub(crate) is_local: bool,
    by: String,
}

impl Restriction {
    /// Whether it applies to the operator of this name.
    #[must_use]
    pub(crate) fn holds(&self, operator: &str) -> bool {
        !operator.is_empty() && glob::matches(&self.operators, operator)
    }
}

/// The restrictions that apply to the operators of a group.
pub(crate) fn restrictions(cx: &Context<'_>, group: &Group) -> Result<Vec<Restriction>, Refusal> {
    let mut found = Vec::new();
    for entry in &cx.settings.untrusted {
        if entry.applies_to(&group.namespace) {
            found.push(Restriction {
                operators: entry.operator.clone(),
                account: entry.service_account_name.clone(),
                is_local: entry.namespace.as_deref().is_some_and(|pattern| pattern != "*"),
                by: format!("untrusted operator {:?} in the policy's settings", entry.operator),
            });
        }
    }
    for (operators, account) in groups::read_restrict(group)? {
        found.push(Restriction {
            operators: operators.to_string(),
            account: account.to_string(),
            is_local: true,
            by: format!("operator-bounds/restrict on {group}"),
        });
    }
    Ok(found)
}

fn missing_account(group: &Group, account: &str) -> Refusal {
    let namespace = &group.namespace;
    Refusal::forbidden(
        Reason::AccountMissing,
        format!(
            "ServiceAccount {namespace}/{account}, which bounds everything in {group}, does not exist, so nothing new \
             is admitted under it. Create it with: kubectl create serviceaccount --namespace {namespace} {}",
            shell(account)
        ),
    )
}
