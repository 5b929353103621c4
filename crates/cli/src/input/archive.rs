//! Tar archives, packed or not.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::FileRead;
use super::walk::is_hidden;
use crate::documents::{self, FileError};

/// The largest file that is taken out of an archive: many times what etcd lets an object be.
const MAX_UNPACKED: u64 = 64 * 1024 * 1024;
/// As many files as are taken out of an archive.
const MAX_ENTRIES: usize = 100_000;

/// Hands over the manifests of an archive. Nothing is written anywhere, so names in it can lead nowhere.
pub(super) fn unpack(path: &Path, visit: &mut dyn FnMut(FileRead)) -> Result<(), FileError> {
    let fail = |error: io::Error| FileError::new(path, format!("cannot be unpacked: {error}"));
    let file = File::open(path).map_err(|error| FileError::new(path, error))?;
    let reader: Box<dyn Read> =
        if documents::has_extension(path, "tar") { Box::new(file) } else { Box::new(MultiGzDecoder::new(file)) };
    let mut archive = tar::Archive::new(reader);
    for (number, entry) in archive.entries().map_err(fail)?.enumerate() {
        let mut entry = entry.map_err(fail)?;
        let inner = entry.path().map_err(fail)?.into_owned();
        if number >= MAX_ENTRIES {
            return Err(FileError::new(path, format!("contains more than {MAX_ENTRIES} files")));
        }
        if is_hidden(&inner) || !documents::is_manifest(&inner) || entry.header().entry_type().is_dir() {
            continue;
        }
        let normal = inner.components().filter(|part| matches!(part, Component::Normal(_)));
        let shown = path.join(normal.collect::<PathBuf>());
        if !entry.header().entry_type().is_file() {
            visit(Err(FileError::new(&shown, "is a link; links in archives are not followed")));
            continue;
        }
        let mut bytes = Vec::new();
        entry.by_ref().take(MAX_UNPACKED + 1).read_to_end(&mut bytes).map_err(fail)?;
        visit(unpacked(shown, bytes));
    }
    Ok(())
}

fn unpacked(path: PathBuf, bytes: Vec<u8>) -> FileRead {
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
