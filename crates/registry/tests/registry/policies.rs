//! Policies to push, and the program that pushes them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const METADATA: &str = r#"
mutating: false
rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
annotations:
  io.kubewarden.policy.title: registry-test
  io.kubewarden.policy.source: https://example.com/sources
  io.kubewarden.policy.usage: "one line\nand another"
"#;

/// An annotated module of about that many bytes. Another seed makes another module.
pub(crate) fn policy(size: usize, seed: u8) -> Vec<u8> {
    policy_module::annotate(&module(size, seed), &policy_module::Metadata::from_yaml(METADATA).unwrap()).unwrap()
}

/// The same without metadata: a custom section with noise, and nothing else.
pub(crate) fn module(size: usize, seed: u8) -> Vec<u8> {
    let noise = (0..size).map(|at| (at % 251).to_le_bytes()[0] ^ seed);
    let body: Vec<u8> = b"\x05noise".iter().copied().chain(noise).collect();
    let mut module = b"\0asm\x01\0\0\0\0".to_vec();
    let mut length = body.len();
    while length >= 0x80 {
        module.push((length & 0x7f).to_le_bytes()[0] | 0x80);
        length >>= 7;
    }
    module.push(length.to_le_bytes()[0]);
    module.extend(body);
    module
}

/// A file with that content, in a directory that goes with it.
pub(crate) struct Saved {
    directory: TempDir,
}

impl Saved {
    pub(crate) fn new(content: &[u8]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("policy.wasm"), content).unwrap();
        Saved { directory }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("policy.wasm")
    }
}

/// `push-policy`, with logins from nowhere but the given directory.
pub(crate) fn program(docker_config: Option<&Path>) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_push-policy"));
    program.env_clear().env("DOCKER_CONFIG", docker_config.unwrap_or(Path::new("/nonexistent")));
    program
}

/// Runs it, and gives what it printed when it succeeded, or what it complained about.
pub(crate) fn run(mut program: Command) -> Result<String, String> {
    let Output { status, stdout, stderr } = program.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    match status.code() {
        Some(0) => Ok(stdout.trim_end().to_owned()),
        Some(2) => Err(stderr),
        other => panic!("ended with {other:?}: {stderr}"),
    }
}

/// Options without the logins of whoever runs the tests.
pub(crate) fn options() -> registry::Options {
    registry::Options { docker_config: Some("/nonexistent".into()), ..registry::Options::default() }
}
