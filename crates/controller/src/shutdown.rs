//! Graceful shutdown.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Signals every holder of a clone when the process should stop.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Stops on SIGTERM and SIGINT.
    pub fn on_signals() -> std::io::Result<Self> {
        let (sender, receiver) = watch::channel(false);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("stopping: what is being done is finished first");
            let _ = sender.send(true);
            // Keeps the sender alive, so that clones of the receiver can wait for as long as the process lives.
            sender.closed().await;
        });
        Ok(Stop(receiver))
    }

    /// Waits until it is time to stop.
    pub async fn told(mut self) {
        // If the sender is gone, that means stop as well.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}
