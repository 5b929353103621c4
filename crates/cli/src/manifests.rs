//! A cluster on disk: the objects of a directory of manifests, by kind.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::documents::{self, FileError};
use crate::input::{WalkError, walk};

/// The objects that a directory or a file holds: what `kubectl get … -o yaml` prints.
#[derive(Debug, Default)]
pub struct Manifests {
    kinds: BTreeMap<Kind, BTreeMap<Name, Found>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    api_version: String,
    kind: String,
}

/// Cluster-scoped objects have the empty namespace.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    namespace: String,
    name: String,
}

#[derive(Debug)]
struct Found {
    object: Value,
    file: Arc<Path>,
    /// Whether it was put over the cluster.
    laid_over: bool,
}

impl Name {
    /// The object in words: `Role team-a/reader`.
    fn describe(&self, kind: &str) -> String {
        let separator = if self.namespace.is_empty() { "" } else { "/" };
        format!("{kind} {}{separator}{}", self.namespace, self.name)
    }
}

impl Manifests {
    /// Reads a file, or every manifest below a directory, in the order of their names. Hidden files are left out.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let mut manifests = Manifests::default();
        for file in files(path)? {
            let file: Arc<Path> = file.into();
            for (index, document) in documents::read(&file)?.into_iter().enumerate() {
                manifests.add(document, &file, &format!("document {}", index + 1))?;
            }
        }
        Ok(manifests)
    }

    /// The objects of a kind, in one namespace or in all of them, sorted by namespace and name.
    pub fn list<'m>(
        &'m self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = &'m Value> {
        let objects = self.kinds.get(&Kind { api_version: api_version.to_owned(), kind: kind.to_owned() });
        let wanted = namespace.map(str::to_owned);
        let found = objects.into_iter().flatten();
        found
            .filter(move |(name, _)| wanted.as_ref().is_none_or(|namespace| name.namespace == *namespace))
            .map(|(_, found)| &found.object)
    }

    /// One object by name.
    #[must_use]
    pub fn get(&self, api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> Option<&Value> {
        let objects = self.kinds.get(&Kind { api_version: api_version.to_owned(), kind: kind.to_owned() })?;
        let name = Name { namespace: namespace.unwrap_or_default().to_owned(), name: name.to_owned() };
        objects.get(&name).map(|found| &found.object)
    }

    /// Puts an object over what is there, as applying it would: the status stays. The same object from two files is an error
    /// unless both have the same content: it cannot be determined which one is applied last.
    pub fn lay_over(&mut self, mut object: Value, file: &Arc<Path>) -> Result<(), FileError> {
        let field = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = Kind { api_version: field("/apiVersion"), kind: field("/kind") };
        let name = Name { namespace: field("/metadata/namespace"), name: field("/metadata/name") };
        let what = name.describe(&kind.kind);
        match self.kinds.entry(kind).or_default().entry(name) {
            Entry::Vacant(free) => _ = free.insert(Found { object, file: Arc::clone(file), laid_over: true }),
            Entry::Occupied(taken) if taken.get().laid_over && taken.get().object != object => {
                let first = taken.get().file.display();
                let reason =
                    format!("{what} is also in {first}, with different content: check the files one at a time");
                return Err(FileError::new(file, reason));
            }
            Entry::Occupied(mut taken) => {
                if let (Some(status), Some(fields)) = (taken.get_mut().object.get_mut("status"), object.as_object_mut())
                {
                    fields.entry("status").or_insert_with(|| status.take());
                }
                taken.insert(Found { object, file: Arc::clone(file), laid_over: true });
            }
        }
        Ok(())
    }

    /// Every object, kind by kind.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.kinds.values().flat_map(BTreeMap::values).map(|found| &found.object)
    }

    /// Adds the objects of a document; the place is for the errors.
    pub(crate) fn add(&mut self, document: Value, file: &Arc<Path>, place: &str) -> Result<(), FileError> {
        for object in objects(document) {
            let fail = |reason: String| FileError::new(file, format!("{place}: {reason}"));
            let field = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
            let (Some(api_version), Some(kind)) = (field("/apiVersion"), field("/kind")) else {
                return Err(fail("not a Kubernetes object: apiVersion or kind is missing".to_owned()));
            };
            let Some(name) = field("/metadata/name") else {
                return Err(fail(format!("{kind} without metadata.name")));
            };
            let name = Name { namespace: field("/metadata/namespace").unwrap_or_default(), name };
            let what = name.describe(&kind);
            let of_kind = self.kinds.entry(Kind { api_version, kind }).or_default();
            if let Some(first) = of_kind.insert(name, Found { object, file: Arc::clone(file), laid_over: false }) {
                return Err(fail(format!("{what} is already defined in {}: remove one of them", first.file.display())));
            }
        }
        Ok(())
    }
}

/// The objects of a document: itself, or the items of a `List` of any kind.
pub(crate) fn objects(document: Value) -> Vec<Value> {
    let mut found = Vec::new();
    take_apart(document, &mut Vec::new(), &mut |_, object| found.push(object));
    found
}

/// Hands over the objects of a document one by one, each with its way there: the positions in the lists around it.
pub(crate) fn take_apart(document: Value, way: &mut Vec<usize>, found: &mut dyn FnMut(&[usize], Value)) {
    let Some(item_kind) = document["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned)
    else {
        return found(way, document);
    };
    let mut list = match document {
        Value::Object(list) if item_kind.is_empty() || list.contains_key("items") => list,
        other => return found(way, other),
    };
    let api_version = list.remove("apiVersion").unwrap_or_default();
    let Some(Value::Array(items)) = list.remove("items") else { return };
    for (position, mut item) in items.into_iter().enumerate() {
        // The API server leaves apiVersion and kind out of the items of a typed list.
        if let (false, Value::Object(fields)) = (item_kind.is_empty(), &mut item) {
            fields.entry("apiVersion").or_insert_with(|| api_version.clone());
            fields.entry("kind").or_insert_with(|| item_kind.clone().into());
        }
        way.push(position);
        take_apart(item, way, found);
        way.pop();
    }
}

/// The manifests at or below a path, sorted. A link back to a directory that is already being read is not followed.
fn files(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let metadata = fs::metadata(path).map_err(|error| FileError::new(path, error))?;
    if metadata.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    walk(path, &mut |found| match found {
        Ok(file) => files.push(Ok(file)),
        Err(WalkError::Loop(_)) => {}
        Err(error) => files.push(Err(error.into())),
    });
    files.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    fn directory(files: &[(&str, &str)]) -> TempDir {
        let directory = TempDir::new().unwrap();
        for (name, content) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        directory
    }

    fn namespace(name: &str) -> String {
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
    }

    fn names(manifests: &Manifests, api_version: &str, kind: &str, namespace: Option<&str>) -> Vec<String> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        manifests.list(api_version, kind, namespace).map(name).collect()
    }

    #[test]
    fn a_directory_is_read_with_all_that_is_below_it() {
        let directory = directory(&[
            ("b.yaml", &namespace("b")),
            ("deep/er/a.json", r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}"#),
            (".hidden.yaml", &namespace("hidden")),
            ("README.md", "not a manifest"),
        ]);
        let manifests = Manifests::load(directory.path()).unwrap();
        assert_eq!(names(&manifests, "v1", "Namespace", None), ["a", "b"]);
    }

    #[test]
    fn lists_of_every_kind_are_taken_apart() {
        let directory = directory(&[(
            "all.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: plain}}\n---\n\
             apiVersion: v1\nkind: NamespaceList\nitems:\n- metadata: {name: typed}\n---\n\
             apiVersion: v1\nkind: ConfigMapList\nitems: null\n---\n\
             apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: an-object}\n",
        )]);
        let manifests = Manifests::load(directory.path()).unwrap();
        assert_eq!(names(&manifests, "v1", "Namespace", None), ["plain", "typed"]);
        assert_eq!(names(&manifests, "example.com/v1", "AllowList", None), ["an-object"]);
    }

    #[test]
    fn packed_files_are_unpacked() {
        let directory = TempDir::new().unwrap();
        let file = fs::File::create(directory.path().join("all.json.gz")).unwrap();
        let mut encoder = GzEncoder::new(file, flate2::Compression::fast());
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "packed"}}]});
        encoder.write_all(list.to_string().as_bytes()).unwrap();
        encoder.finish().unwrap();
        let manifests = Manifests::load(directory.path()).unwrap();
        assert_eq!(names(&manifests, "v1", "Namespace", None), ["packed"]);
    }

    #[test]
    fn objects_are_found_by_namespace_and_name() {
        let account = |namespace: &str, name: &str| {
            format!("---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
        };
        let directory = directory(&[("a.yaml", &(account("one", "z") + &account("two", "a") + &account("one", "b")))]);
        let manifests = Manifests::load(directory.path()).unwrap();
        assert_eq!(names(&manifests, "v1", "ServiceAccount", Some("one")), ["b", "z"]);
        assert_eq!(names(&manifests, "v1", "ServiceAccount", None), ["b", "z", "a"]);
        assert!(manifests.get("v1", "ServiceAccount", Some("two"), "a").is_some());
        assert!(manifests.get("v1", "ServiceAccount", Some("two"), "b").is_none());
        assert!(manifests.get("v2", "ServiceAccount", Some("two"), "a").is_none());
    }

    #[test]
    fn the_same_object_twice_is_an_error_that_names_both_files() {
        let directory = directory(&[("a.yaml", &namespace("x")), ("b.yaml", &namespace("x"))]);
        let error = Manifests::load(directory.path()).unwrap_err().to_string();
        assert!(error.contains("a.yaml") && error.contains("b.yaml") && error.contains("Namespace x"), "{error}");
    }

    #[test]
    fn what_is_no_object_is_an_error_that_names_the_document() {
        let directory = directory(&[("a.yaml", &(namespace("x") + "---\nhello: world\n"))]);
        let error = Manifests::load(directory.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("a.yaml: document 2: not a Kubernetes object: apiVersion or kind is missing"),
            "{error}"
        );
        let error = Manifests::load(&directory.path().join("missing")).unwrap_err().to_string();
        assert!(error.contains("missing: "), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_a_circle_ends() {
        let directory = directory(&[("deep/a.yaml", &namespace("x"))]);
        std::os::unix::fs::symlink(directory.path(), directory.path().join("deep/up")).unwrap();
        let manifests = Manifests::load(directory.path()).unwrap();
        assert_eq!(names(&manifests, "v1", "Namespace", None), ["x"]);
    }
}
