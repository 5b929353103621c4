//! What OLM v0 needs of an account to install anything (specification 3.1).

use crate::csv::ClusterServiceVersion;
use crate::demand::RBAC;
use crate::rule::Rule;

const WRITE: &[&str] = &["get", "create", "update", "patch"];
const RUN: &[&str] = &["list", "watch", "get", "create", "update", "patch", "delete"];

/// In the namespace of the OperatorGroup, for any operator.
#[must_use]
pub fn in_namespace() -> [Rule<'static>; 5] {
    [
        Rule::on(&["operators.coreos.com"], &["subscriptions", "clusterserviceversions"], WRITE),
        Rule::on(&[""], &["services", "serviceaccounts"], WRITE),
        Rule::on(&[RBAC], &["roles", "rolebindings"], WRITE),
        Rule::on(&["apps"], &["deployments"], RUN),
        Rule::on(&[""], &["pods"], RUN),
    ]
}

/// In the whole cluster, for this operator.
#[must_use]
pub fn cluster_wide(csv: &ClusterServiceVersion<'_>) -> Vec<Rule<'static>> {
    if csv.strategy().cluster_permissions.is_empty() {
        return Vec::new();
    }
    vec![Rule::on(&[RBAC], &["clusterroles", "clusterrolebindings"], WRITE)]
}
