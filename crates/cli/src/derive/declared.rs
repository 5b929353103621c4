//! What a ClusterServiceVersion declares, as it is written: its permissions with their lines, its accounts and Deployments.

use std::collections::BTreeSet;

use bounds::csv::ClusterServiceVersion;
use bounds::rule::Rule;
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

/// The entry that these very rules are in.
pub(super) fn origin(csv: &Object, parsed: &ClusterServiceVersion<'_>, rules: &[Rule<'_>]) -> Entry {
    let strategy = parsed.strategy();
    let lists = [("permissions", &strategy.permissions), ("clusterPermissions", &strategy.cluster_permissions)];
    for (list, entries) in lists {
        let same = |entry: &Vec<Rule<'_>>| entry.as_ptr().cast::<u8>() == rules.as_ptr().cast::<u8>();
        if let Some(position) = entries.iter().position(|entry| same(&entry.rules)) {
            return Entry::new(list, position, &entries[position].service_account_name);
        }
    }
    Entry::new("permissions", 0, csv.name())
}
