//! Manifests in a repository: what can be read of them, and what cannot.

use std::path::PathBuf;

use crate::documents::{self, FileError};
use crate::input::Inputs;

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
    const WORD: &[u8] = b"ClusterExtension";
    let mut found = Vec::new();
    let mut problems = Vec::new();
    for root in arguments {
        let inputs = Inputs::find(std::slice::from_ref(root), &mut problems);
        inputs.each(&mut |read| match read {
            Ok((_, bytes)) if !bytes.windows(WORD.len()).any(|window| window == WORD) => {}
            Ok((path, bytes)) => match documents::text(&path, &bytes) {
                Ok(text) => found.push(Manifest { text: text.to_owned(), root: root.clone(), path }),
                Err(error) => problems.push(error),
            },
            Err(error) => problems.push(error),
        });
    }
    (found, problems)
}
