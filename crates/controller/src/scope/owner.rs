//! Who owns an object, by the labels that OLM puts on everything it installs, and which identity that is for the API
//! server.

use std::fmt;

use serde::Deserialize;

/// The labels with the kind and the name of the owner.
pub(super) const OWNER_KIND: &str = "olm.operatorframework.io/owner-kind";
pub(super) const OWNER_NAME: &str = "olm.operatorframework.io/owner-name";
/// OLM v1's own API group.
pub(super) const OLM: &str = "olm.operatorframework.io";

/// An owner, as the labels name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    Extension(String),
    /// A set of objects, whose own labels lead to the extension.
    Set(Set),
}

/// A ClusterObjectSet, or a ClusterExtensionRevision, its former name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Set {
    pub resource: &'static str,
    pub name: String,
}

/// What the labels claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Claim {
    Of(Owner),
    Nobody,
    /// A combination that OLM never writes.
    Odd(String),
}

impl Claim {
    /// What these two labels claim.
    pub(super) fn of(kind: Option<&str>, name: Option<&str>) -> Self {
        let (Some(kind), Some(name)) = (kind, name) else { return Claim::Nobody };
        if !is_name(name) {
            return Claim::Odd(format!("its label {OWNER_NAME} is {}, which no extension can be called", quoted(name)));
        }
        let set = |resource| Claim::Of(Owner::Set(Set { resource, name: name.to_owned() }));
        match kind {
            "ClusterExtension" => Claim::Of(Owner::Extension(name.to_owned())),
            "ClusterObjectSet" => set("clusterobjectsets"),
            "ClusterExtensionRevision" => set("clusterextensionrevisions"),
            other => Claim::Odd(format!("its label {OWNER_KIND} is {}, which OLM does not write", quoted(other))),
        }
    }
}

/// Whether this is a valid name for an object, an account or a namespace. It becomes part of a path and of a header.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253
        && name.starts_with(plain)
        && name.ends_with(plain)
        && name.chars().all(|c| plain(c) || c == '-' || c == '.')
        && !name.contains("..")
}

/// The identity that the API server is asked to impersonate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub user: String,
    pub groups: Vec<String>,
}

impl Identity {
    /// The identity that follows from the name of the extension alone.
    pub(super) fn synthetic(extension: &str) -> Self {
        Identity {
            user: format!("olm:clusterextension:{extension}"),
            groups: vec!["olm:clusterextensions".to_owned(), "system:authenticated".to_owned()],
        }
    }

    /// A service account.
    pub(super) fn account(namespace: &str, name: &str) -> Self {
        Identity {
            user: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
        }
    }
}

/// The part of a ClusterExtension that is read.
#[derive(Deserialize)]
pub(super) struct Extension {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    namespace: String,
    #[serde(default)]
    service_account: Option<Account>,
}

#[derive(Deserialize)]
struct Account {
    #[serde(default)]
    name: String,
}

impl Extension {
    /// The account that it names, or the identity that follows from its own name. `None` if the name cannot be that of
    /// an account.
    pub(super) fn identity(&self, extension: &str) -> Option<Identity> {
        match self.spec.service_account.as_ref().map_or("", |account| &account.name) {
            // OLM's reserved name for this, from the time when the field was required.
            "" | "olm.synthetic-user" => Some(Identity::synthetic(extension)),
            name => {
                let both = is_name(name) && is_name(&self.spec.namespace);
                both.then(|| Identity::account(&self.spec.namespace, name))
            }
        }
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{OLM} {}", self.resource, self.name)
    }
}

/// Untrusted text in a message: on one line, and of limited length.
pub(super) fn quoted(text: &str) -> String {
    const LONGEST: usize = 100;
    let mut short: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    format!("\"{short}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_needs_a_kind_that_olm_writes_and_a_name_that_can_be_one() {
        let extension = |name: &str| Claim::Of(Owner::Extension(name.to_owned()));
        let set = |resource, name: &str| Claim::Of(Owner::Set(Set { resource, name: name.to_owned() }));
        for (kind, name, expected) in [
            (Some("ClusterExtension"), Some("hello"), extension("hello")),
            (Some("ClusterObjectSet"), Some("hello-1"), set("clusterobjectsets", "hello-1")),
            (Some("ClusterExtensionRevision"), Some("hello-1"), set("clusterextensionrevisions", "hello-1")),
            (None, Some("hello"), Claim::Nobody),
            (Some("ClusterExtension"), None, Claim::Nobody),
            (None, None, Claim::Nobody),
        ] {
            assert_eq!(Claim::of(kind, name), expected, "{kind:?} {name:?}");
        }
        let long = "a".repeat(1_000_000);
        for (kind, name) in [
            ("ClusterCatalog", "hello"),
            ("clusterextension", "hello"),
            ("", "hello"),
            ("ClusterExtension", ""),
            ("ClusterExtension", "a\r\nImpersonate-User: admin"),
            ("ClusterExtension", "../../api/v1/secrets"),
            ("ClusterExtension", "a/b"),
            ("ClusterExtension", "Hello"),
            ("ClusterExtension", "a..b"),
            ("ClusterExtension", "-a"),
            ("ClusterExtension", long.as_str()),
        ] {
            let Claim::Odd(reason) = Claim::of(Some(kind), Some(name)) else { panic!("{kind} {name}") };
            assert!(reason.len() < 250 && !reason.contains(char::is_control), "{reason}");
        }
    }
}
