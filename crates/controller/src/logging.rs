//! Logs on stderr: JSON for machines, or text for people. `RUST_LOG` sets the level.

use tracing_subscriber::EnvFilter;

/// Sets up logging for the whole process.
pub fn start(text: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if text {
        log.init();
    } else {
        log.json().init();
    }
}
