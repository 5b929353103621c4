//! What the tests on real operators and real requests share: finding the shared data, and a cluster out of objects.

#![forbid(unsafe_code)]
// The keys of a scenario are described where scenarios are written: tests/scenarios/README.md.
#![allow(missing_docs)]
// What is wrong here fails the test or the measurement that asked for it.
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::panic,
    clippy::unwrap_used
)]

pub mod case;
pub mod expected;
pub mod kwctl;
pub mod operators;
pub mod rbac;
pub mod replayed;

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
pub use test_parts::root;

/// A directory of shared data: where the variable says, or beside the project. It is never copied into it.
///
/// When it is not there this says so on both streams: a test that did not run must not look like one that passed.
pub fn shared(name: &str, variable: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from).filter(|directory| directory.is_dir());
    let directory = named.or_else(|| test_parts::shared(name));
    if directory.is_none() {
        not_run(&format!("there is no ../shared/{name}; put it there, or say where it is with {variable}"));
    }
    directory
}

/// Says something past the test harness, which keeps back what a test prints unless it fails.
pub fn say(text: &str) {
    // Nobody can be told that there is nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The unpacked bytes of a `.gz` file.
pub fn unpack(path: &Path) -> impl Read + use<> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    MultiGzDecoder::new(file)
}

/// The lines of a `.jsonl.gz` file.
pub fn lines(path: &Path) -> Vec<String> {
    let lines = BufReader::new(unpack(path)).lines().map(|line| line.unwrap());
    lines.filter(|line| !line.trim().is_empty()).collect()
}

/// The objects as a cluster that can be looked up.
pub fn cluster<'o>(objects: impl IntoIterator<Item = &'o Value>) -> Arc<Manifests> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("cluster.json");
    let items: Vec<&Value> = objects.into_iter().collect();
    std::fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    Arc::new(Manifests::load(&path).unwrap())
}

/// A verdict, and the look-ups that it took.
pub struct Judged {
    pub response: ValidationResponse,
    pub exchanges: Vec<Exchange>,
}

impl Judged {
    pub fn message(&self) -> &str {
        self.response.message.as_deref().unwrap_or_default()
    }

    pub fn fact(&self, name: &str) -> &str {
        self.response.audit_annotations.as_ref().and_then(|facts| facts.get(name)).map_or("", String::as_str)
    }
}

/// Has a request judged. A trap or an answer that cannot be read fails the test.
pub fn judge(policy: &Policy, request: &RawValue, settings: &RawValue, cluster: &Arc<Manifests>) -> Judged {
    let host: Arc<Host> = Arc::new(policy.host(cluster));
    let response = policy.validate(request, settings, &host).unwrap();
    Judged { response, exchanges: host.exchanges() }
}

pub fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

/// A text field of an object, empty where there is none.
pub fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list, none where there is none.
pub fn items<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Kubernetes' own Go code: `tests/oracle`, built for this run.
pub struct Oracle(TempDir);

impl Oracle {
    /// None, said loudly, when Go is not there.
    pub fn build() -> Option<Self> {
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

    pub fn command(&self) -> Command {
        Command::new(self.0.path().join("oracle"))
    }
}
