//! `push-policy`: publishes an annotated policy in an OCI registry, where `kwctl` is not at hand.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Publish a policy in an OCI registry and bring it back, the way kwctl does.
///
/// Logins are those of `docker login` (`~/.docker/config.json`, or in the directory `$DOCKER_CONFIG`). A registry on
/// loopback may speak plain HTTP. A certificate authority of your own goes into the file that `$SSL_CERT_FILE` names.
#[derive(Parser)]
#[command(name = "push-policy", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Push an annotated policy, and print the name of exactly what was pushed: `registry://…@sha256:…`
    Push {
        /// The annotated module.
        policy: PathBuf,
        /// Where to: `registry.example.com/policies/operator-bounds:v0.1.0`, with or without `registry://` in front.
        reference: String,
        /// Refuse to move a tag that already stands for something else.
        #[arg(long)]
        no_overwrite: bool,
        #[command(flatten)]
        connection: Connection,
    },
    /// Pull a policy by tag or digest, and print the name of exactly what was pulled.
    Pull {
        /// What: `registry.example.com/policies/operator-bounds:v0.1.0`, or `…@sha256:…`.
        reference: String,
        /// The file to write.
        #[arg(long, short, default_value = "policy.wasm")]
        output: PathBuf,
        #[command(flatten)]
        connection: Connection,
    },
}

#[derive(Args)]
struct Connection {
    /// Speak HTTP without TLS to a registry that is not on loopback. Passwords and policies travel in the open.
    #[arg(long)]
    plain_http: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse().command).await {
        Ok(reference) => {
            println!("{reference}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

async fn run(command: Command) -> Result<String, String> {
    match command {
        Command::Push { policy, reference, no_overwrite, connection } => {
            let wasm = fs::read(&policy).map_err(|error| format!("{}: {error}", policy.display()))?;
            let options =
                registry::Options { plain_http: connection.plain_http, no_overwrite, ..registry::Options::default() };
            let pushed = registry::push(&wasm, &reference, &options).await.map_err(|error| match error {
                registry::Error::Policy { reason, .. } => format!("{}: {reason}", policy.display()),
                error => error.to_string(),
            })?;
            if let Some(replaced) = pushed.replaced {
                eprintln!("{reference} previously pointed to {replaced}");
            }
            Ok(pushed.reference)
        }
        Command::Pull { reference, output, connection } => {
            let options = registry::Options { plain_http: connection.plain_http, ..registry::Options::default() };
            let pulled = registry::pull(&reference, &options).await.map_err(|error| error.to_string())?;
            fs::write(&output, pulled.wasm).map_err(|error| format!("{}: {error}", output.display()))?;
            Ok(pulled.reference)
        }
    }
}
