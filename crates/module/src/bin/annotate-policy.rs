//! `annotate-policy`: writes `metadata.yml` into a policy's wasm module.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

/// Write a policy's metadata into its wasm module, the way `kwctl annotate` does.
#[derive(Parser)]
#[command(name = "annotate-policy", version)]
struct Arguments {
    /// The module to read.
    input: PathBuf,
    /// The metadata, as YAML.
    metadata: PathBuf,
    /// The annotated module to write.
    output: PathBuf,
    /// A text that says how to use the policy.
    #[arg(long, value_name = "FILE")]
    usage: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let wasm = fs::read(&arguments.input).map_err(at(&arguments.input))?;
    let yaml = fs::read_to_string(&arguments.metadata).map_err(at(&arguments.metadata))?;
    let mut metadata = policy_module::Metadata::from_yaml(&yaml).map_err(at(&arguments.metadata))?;
    if let Some(path) = &arguments.usage {
        metadata = metadata.with_usage(fs::read_to_string(path).map_err(at(path))?);
    }
    let annotated = policy_module::annotate(&wasm, &metadata).map_err(at(&arguments.input))?;
    fs::write(&arguments.output, annotated).map_err(at(&arguments.output))
}

/// Every error names the file it is about.
fn at<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> String {
    move |error| format!("{}: {error}", path.display())
}
