//! Builds the policy for WebAssembly and annotates it, so that the command line embeds the very module that is published.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

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
    let wasm = build_policy::build(&root, &target_dir)?;
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
