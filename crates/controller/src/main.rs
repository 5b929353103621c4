//! `operator-bounds-controller`.

use clap::{Parser, Subcommand};
use controller::{gate, logging, rights, scope, shutdown::Stop};

/// The companion of the operator-bounds policy, beside an unmodified OLM.
#[derive(Debug, Parser)]
#[command(name = controller::NAME, version)]
struct Options {
    /// Logs for people instead of JSON
    #[arg(long, global = true)]
    log_text: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Gate(gate::Options),
    Scope(scope::Options),
    Rbac(rights::Options),
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    logging::start(options.log_text);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let stop = Stop::on_signals()?;
        match options.command {
            Command::Gate(options) => gate::run(options, stop).await,
            Command::Scope(options) => scope::run(options, stop).await,
            Command::Rbac(options) => Ok(print!("{}", rights::manifest(&options))),
        }
    })
}
