//! An API server, seen by one account: the real one, or its rules on paper. The same installer runs against both.

use std::collections::BTreeMap;

use bounds::rbac::{Index, Rule, Scope};
use serde_json::Value;

/// Where an object is, or a collection of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl Path {
    pub(crate) fn new(group: &str, version: &str, resource: &str, namespace: Option<&str>, name: &str) -> Self {
        Path {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }
}

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is one already.
    Exists,
    /// There is none.
    Missing,
    /// The account may not: the request, and what the server said.
    Forbidden(String, String),
    /// Anything else: the test itself is wrong.
    Other(String),
}

/// What an installer asks for.
pub(crate) trait Server {
    fn create(&mut self, path: &Path, object: &Value) -> Result<(), Refused>;
    fn get(&mut self, path: &Path) -> Result<Value, Refused>;
    /// The objects beside this one.
    fn list(&mut self, path: &Path) -> Result<Vec<Value>, Refused>;
    /// A merge patch of what is there.
    fn patch(&mut self, path: &Path, object: &Value) -> Result<(), Refused>;
    fn update(&mut self, path: &Path, object: &Value) -> Result<(), Refused>;
    /// Server-side apply.
    fn apply(&mut self, path: &Path, object: &Value) -> Result<(), Refused>;
}

pub(crate) fn said(verb: &str, path: &Path) -> String {
    let Path { resource, namespace, name, .. } = path;
    let place = namespace.as_deref().map(|namespace| format!(" in {namespace}")).unwrap_or_default();
    let name = if verb == "create" || verb == "list" { "" } else { name };
    format!("{verb} {resource} {name}{place}")
}

/// What an account holds, by scope.
pub(crate) type Held = BTreeMap<Scope, Vec<Rule<'static>>>;

/// RBAC as Kubernetes defines it: authorization, and no escalation through roles and bindings.
pub(crate) struct Paper<'h> {
    held: &'h Held,
    pub(crate) objects: BTreeMap<Path, Value>,
}

impl<'h> Paper<'h> {
    pub(crate) fn new(held: &'h Held, objects: BTreeMap<Path, Value>) -> Self {
        Paper { held, objects }
    }

    fn covers(&self, namespace: Option<&str>, rules: &[Rule<'_>]) -> bool {
        let own = namespace.map(|namespace| Scope::Namespace(namespace.to_owned()));
        let scopes = [Some(Scope::Cluster), own];
        let held: Vec<&Rule<'static>> =
            scopes.iter().flatten().filter_map(|scope| self.held.get(scope)).flatten().collect();
        Index::new(held).covers(rules)
    }

    fn may(&self, verb: &str, path: &Path) -> Result<(), Refused> {
        let rule = Rule::on(&[&path.group], &[&path.resource], &[verb]);
        let named = !matches!(verb, "create" | "list");
        let rule = if named { rule.named(&[&path.name]) } else { rule };
        if self.covers(path.namespace.as_deref(), &[rule]) {
            return Ok(());
        }
        Err(Refused::Forbidden(said(verb, path), "not granted".to_owned()))
    }

    fn escalates(&self, verb: &str, path: &Path, object: &Value) -> Result<(), Refused> {
        // Who holds `escalate` on roles, or `bind` on the role that is bound, may.
        let (pass, on) = match path.resource.as_str() {
            "roles" | "clusterroles" => {
                (Rule::on(&[&path.group], &[&path.resource], &["escalate"]), path.name.as_str())
            }
            _ => {
                let resource = if object["roleRef"]["kind"] == "Role" { "roles" } else { "clusterroles" };
                let name = object["roleRef"]["name"].as_str().unwrap_or_default();
                (Rule::on(&[&path.group], &[resource], &["bind"]), name)
            }
        };
        // There is no name to grant by before a role is created.
        let is_new = verb == "create" && pass.verbs.iter().any(|verb| *verb == *"escalate");
        let pass = if is_new { pass } else { pass.named(&[on]) };
        if path.group == "rbac.authorization.k8s.io" && self.covers(path.namespace.as_deref(), &[pass]) {
            return Ok(());
        }
        let rules = match path.resource.as_str() {
            "roles" | "clusterroles" => rules(object),
            "rolebindings" | "clusterrolebindings" => {
                let is_role = object["roleRef"]["kind"] == "Role";
                let resource = if is_role { "roles" } else { "clusterroles" };
                let namespace = path.namespace.as_deref().filter(|_| is_role);
                let name = object["roleRef"]["name"].as_str().unwrap();
                let role = Path::new(&path.group, &path.version, resource, namespace, name);
                rules(self.objects.get(&role).ok_or_else(|| Refused::Other(format!("{role:?} is not there")))?)
            }
            _ => return Ok(()),
        };
        if self.covers(path.namespace.as_deref(), &rules) {
            return Ok(());
        }
        Err(Refused::Forbidden(said(verb, path), "escalates".to_owned()))
    }

    fn there(&self, path: &Path) -> Result<(), Refused> {
        if self.objects.contains_key(path) { Ok(()) } else { Err(Refused::Missing) }
    }
}

pub(crate) fn rules(role: &Value) -> Vec<Rule<'static>> {
    let text = role["rules"].to_string();
    let rules: Option<Vec<Rule<'_>>> = bounds::read::json::read(&text, "rules").unwrap();
    rules.into_iter().flatten().map(Rule::into_owned).collect()
}

impl Server for Paper<'_> {
    fn create(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        self.may("create", path)?;
        self.escalates("create", path, object)?;
        if self.objects.contains_key(path) {
            return Err(Refused::Exists);
        }
        self.objects.insert(path.clone(), object.clone());
        Ok(())
    }

    fn get(&mut self, path: &Path) -> Result<Value, Refused> {
        self.may("get", path)?;
        self.objects.get(path).cloned().ok_or(Refused::Missing)
    }

    fn list(&mut self, path: &Path) -> Result<Vec<Value>, Refused> {
        self.may("list", path)?;
        let beside = self.objects.iter().filter(|(other, _)| other.resource == path.resource);
        Ok(beside.map(|(_, object)| object.clone()).collect())
    }

    fn patch(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        self.may("patch", path)?;
        self.there(path)?;
        self.escalates("patch", path, object)
    }

    fn update(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        self.may("update", path)?;
        self.there(path)?;
        self.escalates("update", path, object)
    }

    fn apply(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        self.may("patch", path)?;
        if !self.objects.contains_key(path) {
            self.may("create", path)?;
        }
        self.escalates("patch", path, object)?;
        self.objects.insert(path.clone(), object.clone());
        Ok(())
    }
}
