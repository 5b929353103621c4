//! The manifests below a directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::documents::{self, FileError};

/// Why something below a directory is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WalkError {
    /// It cannot be.
    #[error(transparent)]
    Unreadable(FileError),
    /// It leads back to where it is reached from.
    #[error(transparent)]
    Loop(FileError),
}

impl From<WalkError> for FileError {
    fn from(error: WalkError) -> Self {
        match error {
            WalkError::Unreadable(error) | WalkError::Loop(error) => error,
        }
    }
}

/// Hands over the manifests at or below a directory, by name. Hidden files are left out. A link back up is a loop; a second way
/// to the same directory brings nothing new.
pub(crate) fn walk(directory: &Path, visit: &mut dyn FnMut(Result<PathBuf, WalkError>)) {
    Walk { above: Vec::new(), seen: Vec::new(), visit }.enter(directory);
}

struct Walk<'v> {
    /// The way down to where it is.
    above: Vec<PathBuf>,
    /// Every directory that was read.
    seen: Vec<PathBuf>,
    visit: &'v mut dyn FnMut(Result<PathBuf, WalkError>),
}

impl Walk<'_> {
    fn enter(&mut self, directory: &Path) {
        let (real, paths) = match (directory.canonicalize(), entries(directory)) {
            (Ok(real), Ok(paths)) => (real, paths),
            (Err(error), _) | (_, Err(error)) => return self.fail(directory, error),
        };
        if self.above.contains(&real) {
            let reason = format!("links back to {}: loops are not followed", real.display());
            return (self.visit)(Err(WalkError::Loop(FileError::new(directory, reason))));
        }
        if self.seen.contains(&real) {
            return;
        }
        self.seen.push(real.clone());
        self.above.push(real);
        for path in paths {
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => self.enter(&path),
                _ if !documents::is_manifest(&path) => {}
                Ok(metadata) if metadata.is_file() => (self.visit)(Ok(path)),
                Ok(_) => self.fail(&path, "not a regular file"),
                Err(error) => self.fail(&path, error),
            }
        }
        self.above.pop();
    }

    fn fail(&mut self, path: &Path, reason: impl std::fmt::Display) {
        (self.visit)(Err(WalkError::Unreadable(FileError::new(path, reason))));
    }
}

/// What is in a directory, by name, hidden files aside.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<Result<Vec<_>, _>>()?;
    paths.retain(|path| !is_hidden(path));
    paths.sort();
    Ok(paths)
}

pub(super) fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}
