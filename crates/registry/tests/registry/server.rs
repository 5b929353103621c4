//! A registry of one's own: on loopback, on a port that was free, with its files in a directory that goes with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Registry {
    process: Child,
    directory: TempDir,
    address: String,
}

/// What a registry may ask of those who come.
#[derive(Default)]
pub(crate) struct Setup {
    /// Lines of an htpasswd file.
    pub(crate) logins: Option<String>,
    /// A certificate and its key.
    pub(crate) tls: Option<(String, String)>,
}

impl Registry {
    pub(crate) fn start() -> Self {
        Self::with(&Setup::default())
    }

    pub(crate) fn with(setup: &Setup) -> Self {
        let directory = tempfile::Builder::new().prefix("operator-bounds-registry-").tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut http = json!({"addr": "127.0.0.1:0"});
        if let Some((certificate, key)) = &setup.tls {
            fs::write(path("tls.crt"), certificate).unwrap();
            fs::write(path("tls.key"), key).unwrap();
            http["tls"] = json!({"certificate": path("tls.crt"), "key": path("tls.key")});
        }
        let mut config = json!({
            "version": "0.1",
            "log": {"level": "info", "formatter": "json"},
            "storage": {"filesystem": {"rootdirectory": path("data")}},
            "http": http,
        });
        if let Some(logins) = &setup.logins {
            fs::write(path("logins"), logins).unwrap();
            config["auth"] = json!({"htpasswd": {"realm": "tests", "path": path("logins")}});
        }
        // JSON is YAML.
        fs::write(path("config.yml"), config.to_string()).unwrap();
        let log = fs::File::create(path("log")).unwrap();
        let process = Command::new(program())
            .arg("serve")
            .arg(path("config.yml"))
            .env_clear()
            // Nobody collects traces here, and looking for a collector takes time.
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut registry = Registry { process, directory, address: String::new() };
        registry.address = registry.wait();
        registry
    }

    /// Waits until it says where it listens.
    fn wait(&mut self) -> String {
        let began = Instant::now();
        loop {
            let log = fs::read_to_string(self.directory.path().join("log")).unwrap();
            if let Some((_, rest)) = log.split_once("listening on ") {
                let end = rest.find([',', '"']).unwrap();
                return rest[..end].to_owned();
            }
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none() && began.elapsed() < Duration::from_mins(1), "no registry ({ended:?}):\n{log}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A name in it.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("registry://{}/{rest}", self.address)
    }

    /// The file that holds the bytes of a digest.
    pub(crate) fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.strip_prefix("sha256:").unwrap();
        let blobs = self.directory.path().join("data/docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(hex).join("data")
    }

    /// The manifest of a digest, as it is stored.
    pub(crate) fn manifest(&self, digest: &str) -> Value {
        serde_json::from_slice(&fs::read(self.blob(digest)).unwrap()).unwrap()
    }

    /// The tags of a repository and the digests of its manifests, as they are stored.
    pub(crate) fn stored(&self, repository: &str) -> (Vec<String>, Vec<String>) {
        let repositories = self.directory.path().join("data/docker/registry/v2/repositories");
        let manifests = repositories.join(repository).join("_manifests");
        (names(&manifests.join("tags")), names(&manifests.join("revisions/sha256")))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The registry's program, built where it is not there yet.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/registry/build.sh");
        let built = Command::new(&build).stderr(Stdio::inherit()).output().unwrap();
        assert!(built.status.success(), "tests/registry/build.sh failed");
        PathBuf::from(String::from_utf8(built.stdout).unwrap().trim())
    })
}
