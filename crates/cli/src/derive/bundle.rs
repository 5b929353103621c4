//! What RBAC is derived from: ClusterServiceVersions, the other objects of their bundle, and the ClusterExtension that
//! installs it.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use bounds::read::json;
use serde::Deserialize;
use serde_json::Value;

use crate::documents::{self, FileError};
use crate::input::{FileRead, Inputs};
use crate::manifests;
use crate::syntax::{self, Node};

/// Everything that was given.
#[derive(Debug, Default)]
pub struct Bundle {
    /// The ClusterServiceVersions.
    pub csvs: Vec<Object>,
    /// Everything else that comes with them.
    pub others: Vec<Object>,
    /// The ClusterExtension that installs them.
    pub extension: Option<Object>,
    /// Whether they say that they need other operators.
    pub has_dependencies: bool,
}

/// An object, and where it is written.
#[derive(Debug)]
pub struct Object {
    /// The object.
    pub value: Value,
    /// Its file.
    pub file: PathBuf,
    /// Its document, and the way to it in there.
    written: Option<(Rc<Node>, Vec<String>)>,
}

impl Object {
    /// An object that is in no file.
    #[must_use]
    pub fn unwritten(value: Value) -> Self {
        Object { value, file: PathBuf::new(), written: None }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The line of something in it, where it is known.
    #[must_use]
    pub fn line(&self, way: &[&str]) -> Option<usize> {
        self.node(way).map(|node| node.line)
    }

    fn node(&self, way: &[&str]) -> Option<&Node> {
        let (document, to) = self.written.as_ref()?;
        let way: Vec<&str> = to.iter().map(String::as_str).chain(way.iter().copied()).collect();
        document.at(&way)
    }

    /// Reads a part of it, as text; an error names the file, the line and the column.
    pub(super) fn read<'t, T: Deserialize<'t>>(&self, text: &'t str, root: &str) -> Result<T, FileError> {
        json::read(text, root).map_err(|error| {
            let path = error.path.replace('[', ".").replace(']', "");
            let mut way: Vec<&str> = path.split('.').collect();
            // Of something that is missing, the place where it should be.
            while self.node(&way).is_none() && way.pop().is_some() {}
            let place = self.node(&way).map(|node| (node.line as u64, node.column as u64));
            FileError { place, ..FileError::new(&self.file, error) }
        })
    }
}

impl Bundle {
    /// Reads files, directories and archives, and sorts what is in them.
    pub fn read(paths: &[PathBuf]) -> Result<Self, FileError> {
        let mut bundle = Bundle::default();
        for path in paths {
            for (file, bytes) in files(path)? {
                bundle.add_file(&file, &bytes)?;
            }
        }
        let Some(first) = paths.first() else { return Ok(bundle) };
        if !bundle.csvs.is_empty() {
            return Ok(bundle);
        }
        Err(FileError::new(
            first,
            match &bundle.extension {
                Some(extension) => format!(
                    "ClusterExtension {} installs {} from a catalog: also pass the bundle of that package, as a directory or an \
                     archive",
                    extension.name(),
                    package(&extension.value)
                ),
                None => "contains no ClusterServiceVersion".to_owned(),
            },
        ))
    }

    fn add_file(&mut self, file: &Path, bytes: &[u8]) -> Result<(), FileError> {
        let documents = documents::parse(file, bytes)?;
        // A text that only one of the parsers reads (several JSON objects in a row) has no lines.
        let nodes = std::str::from_utf8(bytes).ok().and_then(|text| syntax::parse(text).ok()).unwrap_or_default();
        let mut nodes: Vec<Option<Rc<Node>>> = nodes.into_iter().map(|node| Some(Rc::new(node))).collect();
        if nodes.len() != documents.len() {
            nodes = vec![None; documents.len()];
        }
        for (document, node) in documents.into_iter().zip(nodes) {
            let is_list = document["items"].is_array();
            for (index, value) in manifests::objects(document).into_iter().enumerate() {
                let way = if is_list { vec!["items".to_owned(), index.to_string()] } else { Vec::new() };
                let written = node.clone().map(|node| (node, way));
                self.add(Object { value, file: file.to_owned(), written })?;
            }
        }
        Ok(())
    }

    fn add(&mut self, object: Object) -> Result<(), FileError> {
        match object.kind() {
            "ClusterServiceVersion" => self.csvs.push(object),
            "ClusterExtension" => {
                if let Some(first) = &self.extension {
                    let reason = format!(
                        "ClusterExtension {} and ClusterExtension {}: pass only one of them",
                        object.name(),
                        first.name()
                    );
                    return Err(FileError::new(&object.file, reason));
                }
                self.extension = Some(object);
            }
            "" if object.value["dependencies"].is_array() => self.has_dependencies = true,
            "" => {}
            _ => self.others.push(object),
        }
        Ok(())
    }
}

fn package(extension: &Value) -> String {
    let named = ["/spec/source/catalog/packageName", "/spec/packageName"].iter();
    let name = named.filter_map(|path| extension.pointer(path)).find_map(Value::as_str);
    name.map_or_else(|| "a package".to_owned(), |name| format!("package {name}"))
}

/// The files of a bundle: those in `manifests/`, and what it says about dependencies; where there is no `manifests/`, all.
fn files(path: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, FileError> {
    let mut problems = Vec::new();
    let inputs = Inputs::find(&[path.to_owned()], &mut problems);
    let mut files: Vec<FileRead> = problems.into_iter().map(Err).collect();
    inputs.each(&mut |read| files.push(read));
    let of = |read: &FileRead| match read {
        Ok((file, _)) => file.clone(),
        Err(error) => error.path.clone(),
    };
    let is_in = |file: &Path, directory: &str| file.parent().is_some_and(|parent| parent.ends_with(directory));
    if files.iter().any(|read| is_in(&of(read), "manifests")) {
        files.retain(|read| is_in(&of(read), "manifests") || of(read).ends_with("metadata/dependencies.yaml"));
    }
    files.into_iter().collect()
}
