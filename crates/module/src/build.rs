//! The one way to build the policy's module: the command line embeds what comes out of it, and releases publish it.
//!
//! The bytes depend on the sources, the lock file and the toolchain, and on nothing else: flags, wrappers and profiles of
//! whoever calls are kept out, and so are the paths of the machine. `make reproducible` proves it.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-wasip1";
const PACKAGE: &str = "operator-bounds-policy";
const MODULE: &str = "operator_bounds_policy.wasm";

/// Why there is no module.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file or a program that is needed cannot be used.
    #[error("{0}: {1}")]
    Io(String, io::Error),
    /// There is nothing to keep paths out of the module by.
    #[error("neither CARGO_HOME nor a home directory is set: the module would contain paths of this machine")]
    NoCargoHome,
    /// The target is not installed.
    #[error("the target is missing: run `rustup target add {TARGET}`\n{0}")]
    NoTarget(String),
    /// The compiler refused.
    #[error("building {PACKAGE} for {TARGET} failed:\n{0}")]
    Failed(String),
}

/// Builds the module of the workspace at `root`, and gives its bytes. What is compiled stays in `target_dir`.
pub fn build(root: &Path, target_dir: &Path) -> Result<Vec<u8>, BuildError> {
    let at = |path: &Path| {
        let path = path.display().to_string();
        |error| BuildError::Io(path, error)
    };
    let root = fs::canonicalize(root).map_err(at(root))?;
    let target_dir = &std::path::absolute(target_dir).map_err(at(target_dir))?;
    let program = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut cargo = Command::new(&program);
    cargo.current_dir(&root).env_clear().envs(env::vars_os().filter(|(name, _)| is_kept(&name.to_string_lossy())));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", remap(&root)?.join("\x1f"));
    cargo.args(["build", "--locked", "--profile", "wasm", "--target", TARGET, "-p", PACKAGE, "--target-dir"]);
    let built = cargo.arg(target_dir).output().map_err(at(&program))?;
    if !built.status.success() {
        let log = String::from_utf8_lossy(&built.stderr).into_owned();
        let missing = log.contains("target may not be installed");
        return Err(if missing { BuildError::NoTarget(log) } else { BuildError::Failed(log) });
    }
    let module = target_dir.join(TARGET).join("wasm").join(MODULE);
    fs::read(&module).map_err(at(&module))
}

/// Flags, wrappers and profiles of an outer build must not change the module: only what finds and fetches crates stays.
fn is_kept(name: &str) -> bool {
    const KEPT: [&str; 8] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_MAKEFLAGS",
        "CARGO_NET_",
        "CARGO_REGISTRIES_",
        "CARGO_REGISTRY_",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
    ];
    let is_cargos = ["CARGO", "RUST", "DEP_", "__CARGO"].iter().any(|prefix| name.starts_with(prefix));
    !is_cargos || KEPT.iter().any(|kept| name.starts_with(kept))
}

/// Paths of this machine must not end up in the module, so that it is the same wherever it is built.
fn remap(root: &Path) -> Result<Vec<String>, BuildError> {
    let cargo_home = match env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => env::home_dir().ok_or(BuildError::NoCargoHome)?.join(".cargo"),
    };
    Ok(vec![
        format!("--remap-path-prefix={}=/operator-bounds", root.display()),
        format!("--remap-path-prefix={}=/registry", cargo_home.join("registry/src").display()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outer_builds_flags_are_kept_out_and_its_crates_are_not() {
        for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "CARGO_PROFILE_WASM_OPT_LEVEL", "DEP_X"] {
            assert!(!is_kept(name), "{name}");
        }
        for name in ["PATH", "HOME", "CARGO_HOME", "CARGO_REGISTRIES_MIRROR_INDEX", "RUSTUP_TOOLCHAIN"] {
            assert!(is_kept(name), "{name}");
        }
    }
}
