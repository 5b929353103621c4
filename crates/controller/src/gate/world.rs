//! What the gate knows about the cluster without asking: which namespaces it serves, their groups, and the bindings of
//! service accounts. Everything else is read when it is needed, and not kept.

use std::collections::{BTreeSet, HashMap, HashSet};

use k8s_openapi::api::rbac::v1::Subject;
use serde_json::{Value, json};

/// The label on a Namespace that turns the gate on.
pub(super) const LABEL: &str = "operator-bounds/approve";

/// The value of the label on a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Plans within the boundary of their group are approved.
    WithinBounds,
    /// Upgrades that ask for nothing new are approved.
    NoWider,
    /// Any other value.
    Unknown,
}

impl Mode {
    pub(super) fn of(value: &str) -> Self {
        match value {
            "within-bounds" => Mode::WithinBounds,
            "no-wider" => Mode::NoWider,
            _ => Mode::Unknown,
        }
    }
}

/// Whose rights a binding changes: those of the service accounts of one namespace, or of all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Touch {
    Everyone,
    Namespace(String),
}

/// A binding, by its namespace (empty for a ClusterRoleBinding) and its name.
pub(super) type Key = (String, String);

#[derive(Debug, Default)]
pub(super) struct World {
    /// Every Namespace, as JSON, for the selectors of groups.
    namespaces: HashMap<String, Box<str>>,
    gated: HashMap<String, Mode>,
    groups: HashMap<Key, Box<str>>,
    bindings: HashMap<Key, (Box<str>, Vec<Touch>)>,
    touched: HashMap<Touch, HashSet<Key>>,
    /// The namespaces whose last verdict depended on a role.
    depending: HashMap<RoleName, BTreeSet<String>>,
    roles_of: HashMap<String, Vec<RoleName>>,
}

/// A role, by its namespace (empty for a ClusterRole) and its name.
pub(super) type RoleName = (String, String);

impl World {
    pub(super) fn mode(&self, namespace: &str) -> Option<Mode> {
        self.gated.get(namespace).copied()
    }

    pub(super) fn gated(&self) -> Vec<String> {
        self.gated.keys().cloned().collect()
    }

    /// Records the new state of a Namespace, or that it is gone. Returns the namespaces that have to be examined again.
    pub(super) fn namespace(&mut self, name: &str, labels: Option<Value>) -> Vec<String> {
        let Some(labels) = labels else {
            self.namespaces.remove(name);
            self.gated.remove(name);
            return self.selecting();
        };
        let mode = labels[LABEL].as_str().map(Mode::of);
        match mode {
            Some(mode) => self.gated.insert(name.to_owned(), mode),
            None => self.gated.remove(name),
        };
        let json = json!({"metadata": {"name": name, "labels": labels}}).to_string().into_boxed_str();
        let is_news = self.namespaces.get(name) != Some(&json);
        self.namespaces.insert(name.to_owned(), json);
        let mut again = if is_news { self.selecting() } else { Vec::new() };
        again.extend(mode.map(|_| name.to_owned()));
        again
    }

    /// The gated namespaces whose group selects its targets by label.
    fn selecting(&self) -> Vec<String> {
        let selects = |json: &str| json.contains("\"selector\":{");
        let groups = self.groups.iter().filter(|(_, json)| selects(json)).map(|((namespace, _), _)| namespace);
        groups.filter(|namespace| self.gated.contains_key(*namespace)).cloned().collect()
    }

    /// Records the new state of an OperatorGroup, or that it is gone.
    pub(super) fn group(&mut self, key: Key, json: Option<Box<str>>) -> Vec<String> {
        let namespace = key.0.clone();
        match json {
            Some(json) => self.groups.insert(key, json),
            None => self.groups.remove(&key),
        };
        self.if_gated(&namespace)
    }

    /// Records the new state of a binding, or that it is gone.
    pub(super) fn binding(&mut self, key: &Key, now: Option<(Box<str>, &[Subject])>) -> Vec<String> {
        let mut changed: Vec<Touch> = Vec::new();
        if let Some((_, touches)) = self.bindings.remove(key) {
            for touch in &touches {
                if let Some(keys) = self.touched.get_mut(touch) {
                    keys.remove(key);
                }
            }
            changed.extend(touches);
        }
        if let Some((json, subjects)) = now {
            let touches: HashSet<Touch> = subjects.iter().filter_map(|subject| touch(subject, &key.0)).collect();
            let touches: Vec<Touch> = touches.into_iter().collect();
            for touch in &touches {
                self.touched.entry(touch.clone()).or_default().insert(key.clone());
            }
            changed.extend(touches.iter().cloned());
            // A binding that names no service account cannot change a verdict.
            if !touches.is_empty() {
                self.bindings.insert(key.clone(), (json, touches));
            }
        }
        if changed.contains(&Touch::Everyone) {
            return self.gated();
        }
        let namespaces = changed.iter().filter_map(|touch| match touch {
            Touch::Namespace(namespace) => Some(namespace),
            Touch::Everyone => None,
        });
        namespaces.flat_map(|namespace| self.if_gated(namespace)).collect()
    }

    /// The namespaces to examine again because a role has changed.
    pub(super) fn role(&self, role: &RoleName) -> Vec<String> {
        self.depending.get(role).map(|namespaces| namespaces.iter().cloned().collect()).unwrap_or_default()
    }

    /// Records that the verdict for this namespace depends on exactly these roles.
    pub(super) fn depends(&mut self, namespace: &str, roles: Vec<RoleName>) {
        for role in self.roles_of.remove(namespace).unwrap_or_default() {
            if let Some(namespaces) = self.depending.get_mut(&role) {
                namespaces.remove(namespace);
                if namespaces.is_empty() {
                    self.depending.remove(&role);
                }
            }
        }
        for role in &roles {
            self.depending.entry(role.clone()).or_default().insert(namespace.to_owned());
        }
        if !roles.is_empty() {
            self.roles_of.insert(namespace.to_owned(), roles);
        }
    }

    pub(super) fn if_gated(&self, namespace: &str) -> Vec<String> {
        if self.gated.contains_key(namespace) { vec![namespace.to_owned()] } else { Vec::new() }
    }

    /// The known keys of a kind: after a new list, those that are not in it are gone.
    pub(super) fn known_namespaces(&self) -> HashSet<Key> {
        self.namespaces.keys().map(|name| (String::new(), name.clone())).collect()
    }

    pub(super) fn known_groups(&self) -> HashSet<Key> {
        self.groups.keys().cloned().collect()
    }

    pub(super) fn known_bindings(&self, of_cluster: bool) -> HashSet<Key> {
        self.bindings.keys().filter(|(namespace, _)| namespace.is_empty() == of_cluster).cloned().collect()
    }

    /// The OperatorGroups of a namespace, as JSON.
    pub(super) fn groups_of<'w>(&'w self, namespace: &'w str) -> impl Iterator<Item = &'w str> {
        self.groups.iter().filter(move |((of, _), _)| of == namespace).map(|(_, json)| &**json)
    }

    /// Every Namespace, as JSON.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.values().map(|json| &**json)
    }

    /// The bindings that grant something to a service account of this namespace, as JSON.
    pub(super) fn bindings_of(&self, namespace: &str, of_cluster: bool) -> impl Iterator<Item = &str> {
        let mut keys: BTreeSet<&Key> = BTreeSet::new();
        for touch in [Touch::Everyone, Touch::Namespace(namespace.to_owned())] {
            keys.extend(self.touched.get(&touch).into_iter().flatten());
        }
        let found = keys.into_iter().filter(move |(namespace, _)| namespace.is_empty() == of_cluster);
        found.filter_map(|key| self.bindings.get(key)).map(|(json, _)| &**json)
    }
}

/// Whose rights a subject changes, covering every way in which a service account can be named.
fn touch(subject: &Subject, binding_namespace: &str) -> Option<Touch> {
    let namespace = |name: &str| Some(Touch::Namespace(name.to_owned()));
    match (subject.kind.as_str(), subject.name.as_str()) {
        ("ServiceAccount", _) => {
            namespace(subject.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(binding_namespace))
        }
        ("User", name) => namespace(name.strip_prefix("system:serviceaccount:")?.split_once(':')?.0),
        ("Group", "system:serviceaccounts" | "system:authenticated") => Some(Touch::Everyone),
        ("Group", name) => namespace(name.strip_prefix("system:serviceaccounts:")?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(kind: &str, name: &str, namespace: Option<&str>) -> Subject {
        Subject {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            ..Subject::default()
        }
    }

    fn world() -> World {
        let mut world = World::default();
        for name in ["a", "b", "c"] {
            world.namespace(name, Some(json!({LABEL: "within-bounds"})));
        }
        world.namespace("d", Some(json!({})));
        world
    }

    fn key(namespace: &str, name: &str) -> Key {
        (namespace.to_owned(), name.to_owned())
    }

    fn sorted(mut all: Vec<String>) -> Vec<String> {
        all.sort();
        all
    }

    #[test]
    fn a_binding_concerns_the_namespaces_whose_accounts_it_names_before_and_after() {
        let mut world = world();
        let of = |subjects: &[Subject], world: &mut World| {
            sorted(world.binding(&key("c", "x"), Some(("{}".into(), subjects))))
        };
        assert_eq!(of(&[subject("ServiceAccount", "x", Some("a"))], &mut world), ["a"]);
        assert_eq!(of(&[subject("User", "system:serviceaccount:b:x", None)], &mut world), ["a", "b"]);
        assert_eq!(of(&[subject("Group", "system:serviceaccounts:a", None)], &mut world), ["a", "b"]);
        assert_eq!(of(&[subject("ServiceAccount", "x", None)], &mut world), ["a", "c"]);
        assert_eq!(of(&[subject("Group", "system:authenticated", None)], &mut world), ["a", "b", "c"]);
        assert_eq!(
            of(&[subject("User", "jane", None), subject("ServiceAccount", "x", Some("d"))], &mut world),
            ["a", "b", "c"]
        );
        assert_eq!(world.binding(&key("c", "x"), None), Vec::<String>::new(), "nobody who is served");
        assert!(world.bindings.is_empty());
    }

    #[test]
    fn a_verdict_sees_the_bindings_of_its_own_accounts_and_no_others() {
        let mut world = world();
        for (name, subject) in [
            ("one", subject("ServiceAccount", "x", Some("a"))),
            ("all", subject("Group", "system:serviceaccounts", None)),
            ("other", subject("ServiceAccount", "x", Some("b"))),
        ] {
            world.binding(&key("", name), Some((name.into(), &[subject])));
        }
        assert_eq!(world.bindings_of("a", true).collect::<Vec<_>>(), ["all", "one"]);
        assert_eq!(world.bindings_of("a", false).count(), 0);
        assert_eq!(world.bindings_of("d", true).collect::<Vec<_>>(), ["all"]);
    }

    #[test]
    fn a_role_concerns_those_whose_last_verdict_read_it() {
        let mut world = world();
        world.depends("a", vec![key("", "admin"), key("a", "r")]);
        world.depends("b", vec![key("", "admin")]);
        assert_eq!(world.role(&key("", "admin")), ["a", "b"]);
        world.depends("a", Vec::new());
        assert_eq!(world.role(&key("", "admin")), ["b"]);
        assert!(world.role(&key("a", "r")).is_empty());
    }

    #[test]
    fn a_namespace_concerns_itself_and_groups_that_choose_by_label() {
        let mut world = world();
        world.group(key("b", "og"), Some(r#"{"spec":{"selector":{"matchLabels":{}}}}"#.into()));
        assert_eq!(world.namespace("d", Some(json!({"x": "y"}))), ["b"]);
        assert_eq!(world.namespace("d", Some(json!({"x": "y"}))), Vec::<String>::new());
        assert_eq!(sorted(world.namespace("a", Some(json!({LABEL: "no-wider"})))), ["a", "b"]);
        assert_eq!(world.mode("a"), Some(Mode::NoWider));
        world.namespace("a", None);
        assert_eq!(world.mode("a"), None);
    }
}
