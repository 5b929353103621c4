//! The algebra of Kubernetes RBAC: rules, what covers what, and whom a binding names. Nothing here makes a look-up.

pub mod compact;
pub mod covers;
pub mod grant;
pub mod role;
pub mod rule;
pub mod scope;
pub mod subject;

/// The API group of RBAC itself.
pub const RBAC: &str = "rbac.authorization.k8s.io";
