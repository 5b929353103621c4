//! Writing a file so that it is either the old one or the new one, never half of either.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::documents::FileError;

/// Replaces the content of a file that still is what it was when it was read. Its permissions stay; a link stays a link to
/// the file that is replaced, unless that leads out of `root`.
pub fn replace(path: &Path, before: &[u8], after: &[u8], root: &Path) -> Result<(), FileError> {
    let fail = |error: std::io::Error| FileError::new(path, error);
    if !path.is_file() {
        return Err(FileError::new(path, "is inside an archive: unpack it to change it"));
    }
    let real = path.canonicalize().map_err(fail)?;
    let root = root.canonicalize().map_err(fail)?;
    let inside = if root.is_dir() { &root } else { root.parent().unwrap_or(&root) };
    if !real.starts_with(inside) {
        let reason =
            format!("links to {}, outside of the given paths: pass that file itself to change it", real.display());
        return Err(FileError::new(path, reason));
    }
    if fs::read(&real).map_err(fail)? != before {
        return Err(FileError::new(path, "was modified in the meantime: nothing was written, run the command again"));
    }
    let permissions = fs::metadata(&real).map_err(fail)?.permissions();
    if permissions.readonly() {
        return Err(FileError::new(path, "is read-only"));
    }
    let directory = real.parent().unwrap_or(inside);
    let mut file = tempfile::Builder::new().prefix(".operator-bounds-").tempfile_in(directory).map_err(fail)?;
    file.write_all(after).map_err(fail)?;
    file.as_file().set_permissions(permissions).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    file.persist(&real).map_err(|error| fail(error.error))?;
    Ok(())
}
