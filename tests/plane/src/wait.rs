//! Waiting for what is bound to happen, on a machine that has other work to do as well.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep};

/// Tries until it succeeds, and returns how long that took. The last reason is told when it does not.
pub async fn eventually<T>(
    what: &str,
    patience: Duration,
    attempt: impl AsyncFn() -> anyhow::Result<Result<T, String>>,
) -> anyhow::Result<(T, Duration)> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(10);
    loop {
        match attempt().await? {
            Ok(value) => return Ok((value, began.elapsed())),
            Err(why) if began.elapsed() > patience => bail!("{what}: not after {patience:?}: {why}"),
            Err(_) => sleep(pause).await,
        }
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}
