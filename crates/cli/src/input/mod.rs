//! Where the manifests come from: files, directories, archives, standard input, images. Each source becomes a list of files,
//! and nothing that cannot be read goes unnamed.

mod archive;
mod walk;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::documents::{self, FileError};

pub(crate) use walk::{WalkError, walk};

/// What an argument begins with that names an image in a registry.
const OCI: &str = "oci://";

/// Everything that is to be read, found but not read yet.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    sources: Vec<Source>,
}

#[derive(Debug)]
enum Source {
    File(PathBuf),
    /// A tar archive, packed or not. It is read again for each pass, so that its size does not matter.
    Archive(PathBuf),
    /// What can be read only once.
    Memory(PathBuf, Vec<u8>),
}

/// A file that was read, or why it was not.
pub(crate) type FileRead = Result<(PathBuf, Vec<u8>), FileError>;

impl Inputs {
    /// Finds what the arguments name. What cannot be found is added to `problems`.
    pub(crate) fn find(arguments: &[PathBuf], problems: &mut Vec<FileError>) -> Self {
        let mut inputs = Inputs::default();
        for argument in arguments {
            if let Err(error) = inputs.add(argument, problems) {
                problems.push(error);
            }
        }
        inputs
    }

    fn add(&mut self, argument: &Path, problems: &mut Vec<FileError>) -> Result<(), FileError> {
        let fail = |error: io::Error| FileError::new(argument, error);
        if argument.to_string_lossy().starts_with(OCI) {
            return self.pull(argument);
        }
        if argument.as_os_str() == "-" {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map_err(fail)?;
            self.sources.push(Source::Memory("standard input".into(), bytes));
            return Ok(());
        }
        let metadata = fs::metadata(argument).map_err(fail)?;
        if metadata.is_dir() {
            let before = self.sources.len() + problems.len();
            walk(argument, &mut |found| match found {
                Ok(path) => self.sources.push(Source::File(path)),
                Err(error) => problems.push(error.into()),
            });
            if self.sources.len() + problems.len() == before {
                return Err(FileError::new(argument, "contains no YAML or JSON files"));
            }
        } else if is_archive(argument) {
            self.sources.push(Source::Archive(argument.to_owned()));
        } else if metadata.is_file() {
            self.sources.push(Source::File(argument.to_owned()));
        } else {
            // A pipe, as in `check <(kustomize build)`.
            self.sources.push(Source::Memory(argument.to_owned(), fs::read(argument).map_err(fail)?));
        }
        Ok(())
    }

    /// A bundle image in a registry, pulled once.
    fn pull(&mut self, reference: &Path) -> Result<(), FileError> {
        let name = reference.to_string_lossy();
        let files = registry::bundle::pull_blocking(&name, &registry::Options::default())
            .map_err(|error| FileError::new(reference, error))?;
        let manifests = files.into_iter().filter(|(path, _)| documents::is_manifest(Path::new(path)));
        self.sources.extend(manifests.map(|(path, bytes)| Source::Memory(reference.join(path), bytes)));
        Ok(())
    }

    /// Reads everything, file by file, always in the same order.
    pub(crate) fn each(&self, visit: &mut dyn FnMut(FileRead)) {
        for source in &self.sources {
            match source {
                Source::File(path) => visit(documents::read_bytes(path).map(|bytes| (path.clone(), bytes))),
                Source::Memory(path, bytes) => visit(Ok((path.clone(), bytes.clone()))),
                Source::Archive(path) => {
                    if let Err(error) = archive::unpack(path, visit) {
                        visit(Err(error));
                    }
                }
            }
        }
    }
}

fn is_archive(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    [".tar.gz", ".tgz", ".tar"].iter().any(|ending| name.ends_with(ending))
}
