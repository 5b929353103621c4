//! The real parts that tests run beside the policy, found, started and ended.
//!
//! [`find`] looks for one as `tests/parts/find.sh` says: on PATH, in the shared directory, built from Go modules.
//! A [`Process`] ends with the test that has started it, also when the test is killed.

#![forbid(unsafe_code)]

mod not_run;
mod process;
mod registry;
mod watchdog;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

pub use not_run::not_run;
pub use process::Process;
pub use registry::{Registry, Setup};
pub use watchdog::Watchdog;

/// The path of a real part, or `None` where there is none: why is said on standard error by then.
pub fn find(part: &str) -> anyhow::Result<Option<PathBuf>> {
    let script = root().join("tests/parts/find.sh");
    let found = Command::new(&script).arg(part).stderr(Stdio::inherit()).output();
    let found = found.with_context(|| script.display().to_string())?;
    match found.status.code() {
        Some(0) => Ok(Some(PathBuf::from(String::from_utf8(found.stdout)?.trim()))),
        Some(3) => Ok(None),
        _ => bail!("{} {part} failed", script.display()),
    }
}

/// The project's own directory.
#[must_use]
pub fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|directory| directory.join("Cargo.lock").is_file()).unwrap_or(package)
}

/// A directory of shared data (`corpus`, `recordings`), if it is there.
#[must_use]
pub fn shared(name: &str) -> Option<PathBuf> {
    let beside = std::env::var_os("OPERATOR_BOUNDS_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    Some(beside.join(name)).filter(|directory| directory.is_dir())
}

/// A policy that is made for tests (`tests/NAME`), built as the policy itself is, without metadata.
pub fn policy(name: &str) -> anyhow::Result<Vec<u8>> {
    let target = root().join("target/policy");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(root()).args(["build", "--locked", "--quiet", "--profile", "wasm", "--target", "wasm32-wasip1"]);
    let status = build.args(["-p", name, "--target-dir"]).arg(&target).status().context("cargo")?;
    if !status.success() {
        bail!("building tests/{name}: {status}");
    }
    let module = target.join("wasm32-wasip1/wasm").join(format!("{}.wasm", name.replace('-', "_")));
    std::fs::read(&module).with_context(|| module.display().to_string())
}

/// A port of loopback that nobody uses at this moment. Whoever takes it should be ready to be told that somebody was faster.
pub fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("a free port")?;
    Ok(listener.local_addr()?.port())
}
