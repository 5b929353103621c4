//! What the tests on real operators and real requests share: finding the shared data, and a cluster out of objects.

// Every program that includes this uses a part of it.
#![allow(dead_code)]
// What is wrong here fails the test or the measurement that asked for it.
#![allow(clippy::unwrap_used, clippy::panic)]

pub(crate) mod operators;
pub(crate) mod rbac;

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use operator_bounds::host::{Exchange, Host};
use operator_bounds::manifests::Manifests;
use operator_bounds::policy::{Policy, ValidationResponse};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_parts::not_run;

/// The project's own directory, whichever package of it asks.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|directory| directory.join("Cargo.lock").is_file()).unwrap_or(package)
}

/// A directory of shared data: where the variable says, or beside the project. It is never copied into it.
///
/// When it is not there this says so on both streams: a test that did not run must not look like one that passed.
pub(crate) fn shared(name: &str, variable: &str) -> Option<PathBuf> {
    let beside = root().join("../shared").join(name);
    let directory = env::var_os(variable).map_or(beside, PathBuf::from);
    let directory = directory.is_dir().then_some(directory);
    if directory.is_none() {
        not_run(&format!("there is no ../shared/{name}; put it there, or say where it is with {variable}"));
    }
    directory
}

/// Says something past the test harness, which keeps back what a test prints unless it fails.
pub(crate) fn say(text: &str) {
    // Nobody can be told that there is nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The unpacked bytes of a `.gz` file.
pub(crate) fn unpack(path: &Path) -> impl Read + use<> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    MultiGzDecoder::new(file)
}

/// The lines of a `.jsonl.gz` file.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    let lines = BufReader::new(unpack(path)).lines().map(|line| line.unwrap());
    lines.filter(|line| !line.trim().is_empty()).collect()
}

/// The objects as a cluster that can be looked up.
pub(crate) fn cluster<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Arc<Manifests> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("cluster.json");
    let items: Vec<&Value> = objects.into_iter().collect();
    std::fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    Arc::new(Manifests::load(&path).unwrap())
}

/// A verdict, and the look-ups that it took.
pub(crate) struct Judged {
    pub(crate) response: ValidationResponse,
    pub(crate) exchanges: Vec<Exchange>,
}

impl Judged {
    pub(crate) fn message(&self) -> &str {
        self.response.message.as_deref().unwrap_or_default()
    }

    pub(crate) fn fact(&self, name: &str) -> &str {
        self.response.audit_annotations.as_ref().and_then(|facts| facts.get(name)).map_or("", String::as_str)
    }
}

/// Has a request judged. A trap or an answer that cannot be read fails the test.
pub(crate) fn judge(policy: &Policy, request: &RawValue, settings: &RawValue, cluster: &Arc<Manifests>) -> Judged {
    let host: Arc<Host> = Arc::new(policy.host(cluster));
    let response = policy.validate(request, settings, &host).unwrap();
    Judged { response, exchanges: host.exchanges() }
}

pub(crate) fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

/// A text field of an object, empty where there is none.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list, none where there is none.
pub(crate) fn items<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Kubernetes' own Go code: `tests/oracle`, built for this run.
pub(crate) struct Oracle(TempDir);

impl Oracle {
    /// None, said loudly, when Go is not there.
    pub(crate) fn build() -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let mut go = Command::new("go");
        go.args(["build", "-o"]).arg(directory.path().join("oracle")).arg(".").current_dir(root().join("tests/oracle"));
        let reason = match go.output() {
            Ok(built) if built.status.success() => return Some(Oracle(directory)),
            Ok(built) => String::from_utf8_lossy(&built.stderr).into_owned(),
            Err(error) => format!("go: {error}"),
        };
        not_run(&format!("Kubernetes' own Go code was not asked, tests/oracle cannot be built: {reason}"));
        None
    }

    pub(crate) fn command(&self) -> Command {
        Command::new(self.0.path().join("oracle"))
    }
}
