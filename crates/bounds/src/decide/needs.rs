//! What OLM v0 needs of an account to install anything.

use crate::rbac::RBAC;
use crate::rbac::rule::Rule;

const WRITE: &[&str] = &["get", "create", "update", "patch"];
const RUN: &[&str] = &["list", "watch", "get", "create", "update", "patch", "delete"];

/// In the namespace of the OperatorGroup, for any operator.
#[must_use]
pub(crate) fn in_namespace() -> [Rule<'static>; 5] {
    [
        Rule::on(&["operators.coreos.com"], &["subscriptions", "clusterserviceversions"], WRITE),
        Rule::on(&[""], &["services", "serviceaccounts"], WRITE),
        Rule::on(&[RBAC], &["roles", "rolebindings"], WRITE),
        Rule::on(&["apps"], &["deployments"], RUN),
        Rule::on(&[""], &["pods"], RUN),
    ]
}
