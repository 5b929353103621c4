//! Where compiled modules are kept: a directory that nobody but the user can have written to.
//!
//! Compiled code that is read back is run as it is. Whoever can put a file there runs code as the user, so a directory that
//! anybody else could have touched is not used, and the module is compiled every time instead.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory, made if need be; none where there is no private place for one.
pub(crate) fn directory() -> Option<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".cache"));
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home)?;
    private(&base.join("operator-bounds").join("compiled"))
}

/// The directory with its real path, if only the user can write to it and to everything that leads there.
#[cfg(unix)]
fn private(directory: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};

    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    const OTHERS: u32 = 0o077;

    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).ok()?;
    let user = rustix::process::geteuid().as_raw();
    // A link in the place of the directory is somebody's decision that is not looked into.
    let own = fs::symlink_metadata(directory).ok()?;
    if !own.is_dir() || own.uid() != user || own.mode() & OTHERS != 0 {
        return None;
    }
    let real = directory.canonicalize().ok()?;
    for above in real.ancestors().skip(1) {
        let metadata = fs::symlink_metadata(above).ok()?;
        let owned = metadata.uid() == user || metadata.uid() == 0;
        // In a sticky directory such as /tmp nobody can move what belongs to another.
        let writable = metadata.mode() & OTHERS_WRITE != 0 && metadata.mode() & STICKY == 0;
        if !owned || writable {
            return None;
        }
    }
    Some(real)
}

/// On other systems this cannot be determined.
#[cfg(not(unix))]
fn private(_directory: &Path) -> Option<PathBuf> {
    None
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_new_directory_is_for_the_user_alone() {
        let base = tempfile::TempDir::new().unwrap();
        let directory = private(&base.path().join("a/b")).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(private(&directory).is_some());
    }

    #[test]
    fn a_directory_that_others_may_enter_is_not_used() {
        let base = tempfile::TempDir::new().unwrap();
        let directory = base.path().join("cache");
        fs::create_dir(&directory).unwrap();
        for open in [0o777, 0o770, 0o755, 0o702] {
            mode(&directory, open);
            assert_eq!(private(&directory), None, "{open:o}");
        }
        mode(&directory, 0o700);
        assert!(private(&directory).is_some());
    }

    #[test]
    fn a_directory_below_one_that_others_may_write_to_is_not_used() {
        let base = tempfile::TempDir::new().unwrap();
        let above = base.path().join("shared");
        fs::create_dir(&above).unwrap();
        mode(&above, 0o777);
        assert_eq!(private(&above.join("cache")), None);
        mode(&above, 0o1777);
        assert!(private(&above.join("cache")).is_some());
    }

    #[test]
    fn a_link_is_not_used() {
        let base = tempfile::TempDir::new().unwrap();
        let real = private(&base.path().join("real")).unwrap();
        symlink(&real, base.path().join("link")).unwrap();
        assert_eq!(private(&base.path().join("link")), None);
        fs::write(base.path().join("file"), "").unwrap();
        assert_eq!(private(&base.path().join("file")), None);
    }
}
