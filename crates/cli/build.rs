//! Builds the policy for WebAssembly and annotates it, so that the command line embeds the very module that is published.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-wasip1";
const PACKAGE: &str = "operator-bounds-policy";
const MODULE: &str = "operator_bounds_policy.wasm";

/// What the module is made of: nothing else makes it be built again.
const INPUTS: [&str; 6] = [
    "src",
    "crates/bounds/src",
    "crates/bounds/Cargo.toml",
    "Cargo.toml",
    "Cargo.lock",
    "policy-metadata/metadata.yml",
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = fs::canonicalize(Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../.."))?;
    let out = PathBuf::from(variable("OUT_DIR")?);
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let target_dir = target_dir(&out);
    let wasm = build_policy(&root, &target_dir)?;
    let metadata_path = root.join("policy-metadata/metadata.yml");
    let yaml = fs::read_to_string(&metadata_path).map_err(|error| format!("{}: {error}", metadata_path.display()))?;
    let metadata =
        annotate::Metadata::from_yaml(&yaml).map_err(|error| format!("{}: {error}", metadata_path.display()))?;
    let annotated = annotate::annotate(&wasm, &metadata)?;
    // One for this crate to embed, and one at a place that is always the same, to publish.
    for directory in [&out, &target_dir] {
        fs::write(directory.join("annotated-policy.wasm"), &annotated)?;
    }
    Ok(())
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

/// A directory beside the profile's own: cargo holds a lock on the one it builds this crate in.
fn target_dir(out: &Path) -> PathBuf {
    let build = out.ancestors().find(|directory| directory.file_name().is_some_and(|name| name == "build"));
    let target = build.and_then(Path::parent).and_then(Path::parent);
    target.unwrap_or(out).join("policy")
}

fn build_policy(root: &Path, target_dir: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut cargo = Command::new(variable("CARGO")?);
    cargo.current_dir(root).env_clear().envs(env::vars_os().filter(|(name, _)| is_kept(&name.to_string_lossy())));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", remap(root)?.join("\x1f"));
    cargo.args(["build", "--locked", "--profile", "wasm", "--target", TARGET, "-p", PACKAGE, "--target-dir"]);
    let built = cargo.arg(target_dir).output()?;
    if !built.status.success() {
        let log = String::from_utf8_lossy(&built.stderr).into_owned();
        let advice = if log.contains("target may not be installed") {
            format!("the target is missing: run `rustup target add {TARGET}`\n")
        } else {
            String::new()
        };
        return Err(format!("{advice}building {PACKAGE} for {TARGET} failed:\n{log}").into());
    }
    let module = target_dir.join(TARGET).join("wasm").join(MODULE);
    fs::read(&module).map_err(|error| format!("{}: {error}", module.display()).into())
}

/// Flags, wrappers and profiles of the outer build must not change the module: only what finds and fetches crates stays.
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
fn remap(root: &Path) -> Result<Vec<String>, String> {
    let cargo_home = match env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => env::home_dir().ok_or("neither CARGO_HOME nor a home directory")?.join(".cargo"),
    };
    Ok(vec![
        format!("--remap-path-prefix={}=/operator-bounds", root.display()),
        format!("--remap-path-prefix={}=/registry", cargo_home.join("registry/src").display()),
    ])
}
