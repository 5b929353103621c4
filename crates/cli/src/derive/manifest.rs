//! Roles and bindings as manifests: YAML with comments for people, JSON for programs, both ready to apply.

use bounds::decide::SYNTHETIC_USER_PREFIX;
use bounds::rbac::{RBAC, Rule, Scope};
use serde_json::{Value, json};

use super::Whom;
use super::bundle::Bundle;
use super::roles::Role;
use crate::yaml::{needs_escape, scalar};

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// What OLM v0 wants to see on RBAC to watch it: without it a grant is noticed after a minute or two.
const WATCHED: &str = "olm.managed";

/// What is to be applied.
#[derive(Debug)]
pub struct Manifests<'a> {
    /// For whom.
    pub whom: &'a Whom,
    /// The name of the roles and the bindings.
    pub name: String,
    /// Whether the account is made, too.
    pub with_account: bool,
    /// The roles.
    pub roles: &'a [Role],
}

impl Manifests<'_> {
    /// As YAML.
    #[must_use]
    pub fn yaml(&self) -> String {
        let mut documents = Vec::new();
        if let (true, Whom::Account { namespace, name }) = (self.with_account, self.whom) {
            documents.push(format!(
                "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {}\n  namespace: {}\n",
                scalar(name),
                scalar(namespace)
            ));
        }
        documents.extend(self.roles.iter().map(|role| self.role_yaml(role)));
        documents.join("---\n")
    }

    fn role_yaml(&self, role: &Role) -> String {
        let prefix = prefix(&role.scope);
        let name = self.name_in(&role.scope);
        let mut metadata = format!("metadata:\n  name: {}\n", scalar(&name));
        if let Some(namespace) = role.scope.namespace() {
            metadata.push_str(&format!("  namespace: {}\n", scalar(namespace)));
        }
        if self.is_watched() {
            metadata.push_str(&format!("  labels: {{{WATCHED}: \"true\"}}\n"));
        }
        let rules: String = role
            .rules
            .iter()
            .map(|granted| {
                let comments: String = granted.comments.iter().map(|line| format!("# {}\n", harmless(line))).collect();
                format!("{comments}{}", rule_yaml(&granted.rule))
            })
            .collect();
        format!(
            "apiVersion: {API_VERSION}\nkind: {prefix}Role\n{metadata}rules:\n{rules}---\n\
             apiVersion: {API_VERSION}\nkind: {prefix}RoleBinding\n{metadata}\
             roleRef: {{apiGroup: {RBAC}, kind: {prefix}Role, name: {}}}\n\
             subjects:\n- {}\n",
            scalar(&name),
            self.subject_yaml()
        )
    }

    /// What a role and its binding are called. What is cluster-wide is called after the account's namespace too: accounts of one
    /// name in two namespaces must not take each other's place.
    fn name_in(&self, scope: &Scope) -> String {
        match (self.whom, scope) {
            (Whom::Account { namespace, .. }, Scope::Cluster) => format!("{namespace}-{}", self.name),
            _ => self.name.clone(),
        }
    }

    /// Whether OLM is to notice the grant at once: it watches only RBAC that carries this label.
    fn is_watched(&self) -> bool {
        matches!(self.whom, Whom::Account { .. })
    }

    fn subject_yaml(&self) -> String {
        match self.whom {
            Whom::Account { namespace, name } => {
                format!("{{kind: ServiceAccount, name: {}, namespace: {}}}", scalar(name), scalar(namespace))
            }
            Whom::Synthetic { extension } => {
                let user = scalar(&format!("{SYNTHETIC_USER_PREFIX}{extension}"));
                format!("{{apiGroup: {RBAC}, kind: User, name: {user}}}")
            }
        }
    }

    /// As a List in JSON. There are no comments in JSON: where a rule comes from is left out.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut items = Vec::new();
        if let (true, Whom::Account { namespace, name }) = (self.with_account, self.whom) {
            items.push(json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}
            }));
        }
        for role in self.roles {
            let prefix = prefix(&role.scope);
            let name = self.name_in(&role.scope);
            let mut metadata = json!({"name": name});
            if self.is_watched() {
                metadata["labels"] = json!({WATCHED: "true"});
            }
            if let Some(namespace) = role.scope.namespace() {
                metadata["namespace"] = namespace.into();
            }
            let rules: Vec<&Rule<'static>> = role.rules.iter().map(|granted| &granted.rule).collect();
            items.push(json!({
                "apiVersion": API_VERSION, "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules
            }));
            items.push(json!({
                "apiVersion": API_VERSION, "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": format!("{prefix}Role"), "name": name},
                "subjects": [self.subject_json()]
            }));
        }
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    }

    fn subject_json(&self) -> Value {
        match self.whom {
            Whom::Account { namespace, name } => {
                json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
            }
            Whom::Synthetic { extension } => {
                json!({"apiGroup": RBAC, "kind": "User", "name": format!("{SYNTHETIC_USER_PREFIX}{extension}")})
            }
        }
    }
}

/// The name of the roles: `installer-etcdoperator.v0.9.4`; of several operators, after the account.
#[must_use]
pub fn name(whom: &Whom, bundle: &Bundle) -> String {
    match (whom, bundle.csvs.as_slice()) {
        (Whom::Synthetic { extension }, _) => format!("olm-clusterextension-{extension}"),
        (Whom::Account { name, .. }, [csv]) if !csv.name().is_empty() => format!("{name}-{}", csv.name()),
        (Whom::Account { name, .. }, _) => format!("{name}-operators"),
    }
}

fn prefix(scope: &Scope) -> &'static str {
    if *scope == Scope::Cluster { "Cluster" } else { "" }
}

/// A comment that stays a comment, whatever a bundle calls its objects.
pub(super) fn harmless(text: &str) -> String {
    text.chars().map(|character| if needs_escape(character) { ' ' } else { character }).collect()
}

/// A rule as an element of a list.
pub(super) fn rule_yaml(rule: &Rule<'_>) -> String {
    let lists = [
        ("apiGroups", &rule.api_groups),
        ("resources", &rule.resources),
        ("nonResourceURLs", &rule.non_resource_urls),
        ("resourceNames", &rule.resource_names),
        ("verbs", &rule.verbs),
    ];
    let mut text = String::new();
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        let items: Vec<String> = list.iter().map(|item| scalar(item)).collect();
        let lead = if text.is_empty() { "- " } else { "  " };
        text.push_str(&format!("{lead}{key}: [{}]\n", items.join(", ")));
    }
    text
}
