//! `operator-bounds-controller`.

use clap::Parser;
use controller::options::{Command, Options};
use tracing_subscriber::EnvFilter;

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some(Command::Rbac) = options.command {
        print!("{}", controller::rbac::manifest("operator-bounds"));
        return Ok(());
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if options.log_text {
        log.init();
    } else {
        log.json().init();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(controller::manager::run(options))
}
