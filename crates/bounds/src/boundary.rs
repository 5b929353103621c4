//! Boundaries: the identities that an operator must stay within.

use crate::context::Context;
use crate::glob;
use crate::group::{self, Group};
use crate::message::shell;
use crate::subject::Identity;
use crate::verdict::Refusal;

/// What the user name of a synthetic identity begins with; the name of the ClusterExtension follows.
pub const SYNTHETIC_USER_PREFIX: &str = "olm:clusterextension:";
/// The group that all synthetic identities are in.
pub const SYNTHETIC_GROUP: &str = "olm:clusterextensions";

/// An identity that bounds, and why it does.
#[derive(Debug, Clone)]
pub struct Boundary {
    /// Who.
    pub identity: Identity,
    /// The same for a person: `ServiceAccount team-a/installer`.
    pub said: String,
    /// What makes it the boundary: `OperatorGroup team-a/og`.
    pub by: String,
    /// Whether it bounds an extension of OLM v1, and not an operator of OLM v0.
    pub of_extension: bool,
}

impl Boundary {
    /// A service account that bounds.
    #[must_use]
    pub fn account(namespace: &str, name: &str, by: String) -> Self {
        Boundary {
            identity: Identity::service_account(namespace, name),
            said: format!("ServiceAccount {namespace}/{name}"),
            by,
            of_extension: false,
        }
    }

    /// The synthetic identity of a ClusterExtension that names no account.
    #[must_use]
    pub fn synthetic(extension: &str, by: String) -> Self {
        let user = format!("{SYNTHETIC_USER_PREFIX}{extension}");
        Boundary {
            identity: Identity::user_in(&user, vec![SYNTHETIC_GROUP.to_owned(), "system:authenticated".to_owned()]),
            said: format!("User {user}"),
            by,
            of_extension: true,
        }
    }

    /// The `--for` argument of the command line.
    #[must_use]
    pub fn for_argument(&self) -> String {
        if let Some((namespace, name)) = self.identity.as_service_account() {
            let olm = if self.of_extension { " --olm v1" } else { "" };
            return format!("serviceaccount {}{olm}", shell(&format!("{namespace}/{name}")));
        }
        let user = self.identity.user();
        format!("synthetic {}", shell(user.strip_prefix(SYNTHETIC_USER_PREFIX).unwrap_or(user)))
    }
}

/// What bounds an operator of a namespace.
#[derive(Debug)]
pub enum Bounds {
    /// There is no OperatorGroup: OLM itself refuses to install.
    NoGroup,
    /// The group names no account and nothing else holds the operator back.
    Unbounded(Group),
    /// All of these, at least one.
    Bounded(Group, Vec<Boundary>),
}

/// The boundaries of the operator of this name (empty when it is not known) in this namespace.
pub fn of_operator(cx: &Context<'_>, namespace: &str, operator: &str) -> Result<Bounds, Refusal> {
    of_operators(cx, namespace, &|_| Ok(vec![operator.to_owned()]))
}

/// The boundaries of several operators at once: the active group's account, and the accounts that each of them is held to
/// where it is untrusted. A group's account that does not exist is a refusal. `operators` is asked for their names only
/// once the group is known.
pub fn of_operators(
    cx: &Context<'_>,
    namespace: &str,
    operators: &dyn Fn(&Group) -> Result<Vec<String>, Refusal>,
) -> Result<Bounds, Refusal> {
    let Some(group) = group::active(&cx.lookups, namespace)? else { return Ok(Bounds::NoGroup) };
    cx.fact("operatorGroup", format!("{}/{}", group.namespace, group.name));
    let mut boundaries = Vec::new();
    if let Some(account) = &group.account {
        if !cx.lookups.account_exists(namespace, account)? {
            return Err(missing_account(&group, account));
        }
        boundaries.push(Boundary::account(namespace, account, group.to_string()));
    }
    for operator in operators(&group)? {
        for (account, by) in untrusted(cx, &group, &operator)? {
            let boundary = Boundary::account(namespace, &account, by);
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

/// Whether anything in this group could be held to less than the group allows.
#[must_use]
pub fn restricts(cx: &Context<'_>, group: &Group) -> bool {
    let here = |pattern: &String| glob::matches(pattern, &group.namespace);
    !group.restrict.is_empty() || cx.settings.untrusted.iter().any(|entry| entry.namespace.as_ref().is_none_or(here))
}

/// The second accounts of an untrusted operator. They can only narrow: the first one stays.
fn untrusted(cx: &Context<'_>, group: &Group, operator: &str) -> Result<Vec<(String, String)>, Refusal> {
    let mut accounts = Vec::new();
    if operator.is_empty() {
        return Ok(accounts);
    }
    for entry in &cx.settings.untrusted {
        let here = entry.namespace.as_deref().is_none_or(|pattern| glob::matches(pattern, &group.namespace));
        if here && glob::matches(&entry.operator, operator) {
            let by = format!("untrusted operator {:?} in the policy's settings", entry.operator);
            accounts.push((entry.service_account_name.clone(), by));
        }
    }
    for account in group.restricted_to(operator)? {
        accounts.push((account, format!("operator-bounds/restrict on {group}")));
    }
    Ok(accounts)
}

fn missing_account(group: &Group, account: &str) -> Refusal {
    let namespace = &group.namespace;
    Refusal::forbidden(
        "account-missing",
        format!(
            "ServiceAccount {namespace}/{account}, which bounds everything in {group}, does not exist, so nothing new \
             is admitted under it. Create it with: kubectl create serviceaccount --namespace {namespace} {}",
            shell(account)
        ),
    )
}
