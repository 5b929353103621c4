//! The algebra of Kubernetes RBAC: rules, what covers what, and whom a binding names. Nothing here makes a look-up.

pub(crate) mod compact;
pub(crate) mod covers;
pub(crate) mod grant;
pub(crate) mod role;
pub(crate) mod rule;
pub(crate) mod scope;
pub(crate) mod subject;

pub use compact::compact;
pub use covers::Index;
pub use grant::Grant;
pub use role::{RoleKey, Rules};
pub use rule::{Atom, Rule, Target};
pub use scope::Scope;
pub use subject::{Identity, Subject};

/// The API group of RBAC itself.
pub const RBAC: &str = "rbac.authorization.k8s.io";
