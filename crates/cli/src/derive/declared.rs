//! What a ClusterServiceVersion declares, as it is written: its permissions with their lines, its accounts and Deployments.

use std::collections::BTreeSet;

use bounds::decide::demand;
use bounds::olm::ClusterServiceVersion;
use serde_json::Value;

use super::bundle::Object;
use super::need::Origin;

const STRATEGY: &str = "/spec/install/spec";

/// A list in an object; nothing where there is none.
pub(super) fn list<'v>(object: &'v Value, path: &str) -> &'v [Value] {
    object.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The entries of `permissions` or `clusterPermissions`.
pub(super) fn permissions<'v>(csv: &'v Value, list: &str) -> &'v [Value] {
    self::list(csv, &format!("{STRATEGY}/{list}"))
}

/// The accounts that permissions are for.
pub(super) fn accounts(csv: &Value) -> BTreeSet<String> {
    let entries = permissions(csv, "permissions").iter().chain(permissions(csv, "clusterPermissions"));
    let names = entries.filter_map(|entry| entry["serviceAccountName"].as_str());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The names of the Deployments.
pub(super) fn deployments(csv: &Value) -> Vec<&str> {
    let names = permissions(csv, "deployments").iter().filter_map(|deployment| deployment["name"].as_str());
    names.filter(|name| !name.is_empty()).collect()
}

/// An entry of `permissions` or `clusterPermissions`: its list, its position, and whose it is.
#[derive(Debug)]
pub(super) struct Entry {
    list: &'static str,
    position: usize,
    account: String,
}

impl Entry {
    pub(super) fn new(list: &'static str, position: usize, account: &str) -> Self {
        let account = if account.is_empty() { "default" } else { account };
        Entry { list, position, account: account.to_owned() }
    }

    /// Where a rule of this entry comes from.
    pub(super) fn of_rule(&self, csv: &Object, rule: usize) -> Origin {
        let way = ["spec", "install", "spec", self.list, &self.position.to_string(), "rules", &rule.to_string()];
        Origin {
            what: format!("CSV {} of service account {}", self.list, self.account),
            line: csv.line(&way).map(|line| (None, line)),
        }
    }
}

/// The entry that a demand comes from; nothing where it comes from no entry.
pub(super) fn entry(csv: &ClusterServiceVersion<'_>, origin: demand::Origin) -> Option<Entry> {
    let strategy = csv.strategy();
    let (list, entries, position) = match origin {
        demand::Origin::Permissions(position) => ("permissions", &strategy.permissions, position),
        demand::Origin::ClusterPermissions(position) => ("clusterPermissions", &strategy.cluster_permissions, position),
        demand::Origin::Elsewhere => return None,
    };
    Some(Entry::new(list, position, &entries.get(position)?.service_account_name))
}
