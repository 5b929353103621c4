//! Where the manifests come from: files, directories, archives, standard input, images. Each source becomes a list of files,
//! and nothing that cannot be read goes unnamed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::documents::{self, FileError};

/// The largest file that is taken out of an archive: ten times what etcd lets an object be, many times over.
const MAX_UNPACKED: u64 = 64 * 1024 * 1024;
/// As many files as are taken out of an archive.
const MAX_ENTRIES: usize = 100_000;
/// What an argument begins with that names an image in a registry.
const OCI: &str = "oci://";

/// Everything that is to be read, found but not read yet.
#[derive(Debug, Default)]
pub struct Inputs {
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
pub type Read1 = Result<(PathBuf, Vec<u8>), FileError>;

impl Inputs {
    /// Finds what the arguments name. What cannot be found is added to `problems`.
    pub fn find(arguments: &[PathBuf], problems: &mut Vec<FileError>) -> Self {
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
            self.walk(argument, &mut Vec::new(), &mut Vec::new(), problems);
            if self.sources.len() + problems.len() == before {
                return Err(FileError::new(argument, "no YAML or JSON files in it"));
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

    /// The manifests below a directory, by name. Hidden files are left out. `above` is the way down to here, `seen` every
    /// directory that was read: a link back up is a loop, a second way to the same directory brings nothing new.
    fn walk(
        &mut self,
        directory: &Path,
        above: &mut Vec<PathBuf>,
        seen: &mut Vec<PathBuf>,
        problems: &mut Vec<FileError>,
    ) {
        let (real, paths) = match (directory.canonicalize(), entries(directory)) {
            (Ok(real), Ok(paths)) => (real, paths),
            (Err(error), _) | (_, Err(error)) => return problems.push(FileError::new(directory, error)),
        };
        if above.contains(&real) {
            let reason = format!("links back to {}: a loop, which is not followed", real.display());
            return problems.push(FileError::new(directory, reason));
        }
        if seen.contains(&real) {
            return;
        }
        seen.push(real.clone());
        above.push(real);
        for path in paths {
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => self.walk(&path, above, seen, problems),
                _ if !documents::is_manifest(&path) => {}
                Ok(metadata) if metadata.is_file() => self.sources.push(Source::File(path)),
                Ok(_) => problems.push(FileError::new(&path, "not a regular file")),
                Err(error) => problems.push(FileError::new(&path, error)),
            }
        }
        above.pop();
    }

    /// A bundle image in a registry.
    #[allow(clippy::unused_self)]
    fn pull(&mut self, reference: &Path) -> Result<(), FileError> {
        Err(FileError::new(reference, "images are not read yet: unpack it, and name the directory"))
    }

    /// Reads everything, file by file, always in the same order.
    pub fn each(&self, visit: &mut dyn FnMut(Read1)) {
        for source in &self.sources {
            match source {
                Source::File(path) => visit(documents::read_bytes(path).map(|bytes| (path.clone(), bytes))),
                Source::Memory(path, bytes) => visit(Ok((path.clone(), bytes.clone()))),
                Source::Archive(path) => {
                    if let Err(error) = unpack(path, visit) {
                        visit(Err(error));
                    }
                }
            }
        }
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

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

fn is_archive(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    [".tar.gz", ".tgz", ".tar"].iter().any(|ending| name.ends_with(ending))
}

/// Hands over the manifests of an archive. Nothing is written anywhere, so names in it can lead nowhere.
fn unpack(path: &Path, visit: &mut dyn FnMut(Read1)) -> Result<(), FileError> {
    let fail = |error: io::Error| FileError::new(path, format!("cannot be unpacked: {error}"));
    let file = File::open(path).map_err(|error| FileError::new(path, error))?;
    let reader: Box<dyn Read> =
        if documents::has_extension(path, "tar") { Box::new(file) } else { Box::new(MultiGzDecoder::new(file)) };
    let mut archive = tar::Archive::new(reader);
    for (number, entry) in archive.entries().map_err(fail)?.enumerate() {
        let mut entry = entry.map_err(fail)?;
        let inner = entry.path().map_err(fail)?.into_owned();
        if number >= MAX_ENTRIES {
            return Err(FileError::new(path, format!("more than {MAX_ENTRIES} files in it")));
        }
        if is_hidden(&inner) || !documents::is_manifest(&inner) || entry.header().entry_type().is_dir() {
            continue;
        }
        let shown = path.join(
            inner.components().filter(|part| matches!(part, std::path::Component::Normal(_))).collect::<PathBuf>(),
        );
        if !entry.header().entry_type().is_file() {
            visit(Err(FileError::new(&shown, "a link in an archive, which is not followed")));
            continue;
        }
        let mut bytes = Vec::new();
        entry.by_ref().take(MAX_UNPACKED + 1).read_to_end(&mut bytes).map_err(fail)?;
        visit(unpacked(shown, bytes));
    }
    Ok(())
}

fn unpacked(path: PathBuf, bytes: Vec<u8>) -> Read1 {
    if bytes.len() as u64 > MAX_UNPACKED {
        return Err(FileError::new(&path, format!("larger than {MAX_UNPACKED} bytes")));
    }
    if !documents::has_extension(&path, "gz") {
        return Ok((path, bytes));
    }
    let mut inner = Vec::new();
    match MultiGzDecoder::new(bytes.as_slice()).take(MAX_UNPACKED + 1).read_to_end(&mut inner) {
        Ok(size) if size as u64 > MAX_UNPACKED => {
            Err(FileError::new(&path, format!("larger than {MAX_UNPACKED} bytes unpacked")))
        }
        Ok(_) => Ok((path, inner)),
        Err(error) => Err(FileError::new(&path, format!("cannot be unpacked: {error}"))),
    }
}
