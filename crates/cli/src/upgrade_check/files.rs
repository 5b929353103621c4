//! Manifests in a repository: what can be read of them, and what cannot.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::documents::{self, FileError};

/// A file that may hold ClusterExtensions.
#[derive(Debug)]
pub struct Manifest {
    /// The file.
    pub path: PathBuf,
    /// The argument that led to it.
    pub root: PathBuf,
    /// What is in it.
    pub text: String,
}

/// The files of the arguments that speak of ClusterExtensions, in order, and what could not be read. A file that does not
/// contain the word holds none: templates of everything else in a repository need not be YAML.
#[must_use]
pub fn find(arguments: &[PathBuf]) -> (Vec<Manifest>, Vec<FileError>) {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for root in arguments {
        match fs::metadata(root) {
            Ok(metadata) if metadata.is_dir() => walk(root, root, &mut seen, &mut found, &mut problems),
            Ok(_) => read(root, root, &mut found, &mut problems),
            Err(error) => problems.push(FileError::new(root, error)),
        }
    }
    (found, problems)
}

fn walk(
    directory: &Path,
    root: &Path,
    seen: &mut BTreeSet<PathBuf>,
    found: &mut Vec<Manifest>,
    problems: &mut Vec<FileError>,
) {
    let real = match directory.canonicalize() {
        Ok(real) => real,
        Err(error) => return problems.push(FileError::new(directory, error)),
    };
    if !seen.insert(real) {
        return;
    }
    let entries =
        fs::read_dir(directory).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    let mut paths: Vec<PathBuf> = match entries {
        Ok(paths) => paths,
        Err(error) => return problems.push(FileError::new(directory, error)),
    };
    paths.retain(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')));
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(&path, root, seen, found, problems);
        } else if documents::is_manifest(&path) || is_template(&path) {
            read(&path, root, found, problems);
        }
    }
}

/// Templates that become manifests.
fn is_template(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| ["tpl", "tmpl", "j2"].iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

fn read(path: &Path, root: &Path, found: &mut Vec<Manifest>, problems: &mut Vec<FileError>) {
    let bytes = match documents::read_bytes(path) {
        Ok(bytes) => bytes,
        Err(error) => return problems.push(error),
    };
    let word = b"ClusterExtension";
    if !bytes.windows(word.len()).any(|window| window == word) {
        return;
    }
    match String::from_utf8(bytes) {
        Ok(text) => found.push(Manifest { path: path.to_owned(), root: root.to_owned(), text }),
        Err(_) => problems.push(FileError::new(path, "is not text in UTF-8, and speaks of ClusterExtensions")),
    }
}
