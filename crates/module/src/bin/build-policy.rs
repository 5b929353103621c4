//! `build-policy`: builds the policy's module.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Build the policy for WebAssembly: the same bytes wherever it is built.
#[derive(Parser)]
#[command(name = "build-policy", version)]
struct Arguments {
    /// The module to write, without metadata.
    output: PathBuf,
    /// The directory of the sources.
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// The directory for what is compiled.
    #[arg(long, default_value = "target/policy")]
    target_dir: PathBuf,
}

fn main() -> ExitCode {
    let Arguments { output, root, target_dir } = Arguments::parse();
    let written = policy_module::build(&root, &target_dir)
        .map_err(|error| error.to_string())
        .and_then(|module| fs::write(&output, module).map_err(|error| format!("{}: {error}", output.display())));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}
