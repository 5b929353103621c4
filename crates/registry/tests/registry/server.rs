//! A registry of one's own, and what it has stored.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
pub(crate) use test_parts::Setup;

pub(crate) struct Registry(test_parts::Registry);

impl Registry {
    pub(crate) fn start() -> Self {
        Self::with(&Setup::default())
    }

    pub(crate) fn with(setup: &Setup) -> Self {
        Registry(test_parts::Registry::with(setup).unwrap())
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        self.0.address()
    }

    /// A name in it.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("registry://{}/{rest}", self.address())
    }

    /// The file that holds the bytes of a digest.
    pub(crate) fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.strip_prefix("sha256:").unwrap();
        self.0.data().join("blobs/sha256").join(&hex[..2]).join(hex).join("data")
    }

    /// The manifest of a digest, as it is stored.
    pub(crate) fn manifest(&self, digest: &str) -> Value {
        serde_json::from_slice(&fs::read(self.blob(digest)).unwrap()).unwrap()
    }

    /// The tags of a repository and the digests of its manifests, as they are stored.
    pub(crate) fn stored(&self, repository: &str) -> (Vec<String>, Vec<String>) {
        let manifests = self.0.data().join("repositories").join(repository).join("_manifests");
        (names(&manifests.join("tags")), names(&manifests.join("revisions/sha256")))
    }
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
