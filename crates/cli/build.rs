//! Builds the policy for WebAssembly and annotates it, so that the command line embeds the very module that is published.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// What the module is made of: nothing else makes it be built again.
const INPUTS: [&str; 7] = [
    "src",
    "crates/bounds/src",
    "crates/bounds/Cargo.toml",
    "Cargo.toml",
    "Cargo.lock",
    "policy-metadata/metadata.yml",
    USAGE,
];

/// The usage text that goes along, as `make annotated-policy.wasm` has it.
const USAGE: &str = "README.md";

fn main() -> Result<(), Box<dyn Error>> {
    let root = fs::canonicalize(Path::new(&variable("CARGO_MANIFEST_DIR")?).join("../.."))?;
    let out = PathBuf::from(variable("OUT_DIR")?);
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let target_dir = target_dir(&out);
    let wasm = policy_module::build(&root, &target_dir)?;
    let read = |path: &str| fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"));
    let metadata = policy_module::Metadata::from_yaml(&read("policy-metadata/metadata.yml")?)
        .map_err(|error| format!("policy-metadata/metadata.yml: {error}"))?;
    let annotated = policy_module::annotate(&wasm, &metadata.with_usage(read(USAGE)?))?;
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
