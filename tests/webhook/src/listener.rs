//! The socket: HTTPS on it, until it is told to stop.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use tracing::info;

use crate::http;
use crate::tls::Tls;
use crate::webhook::Webhook;

/// How long running and queued requests may take once it is told to stop: the longest that an API server waits.
const GRACE: Duration = Duration::from_secs(30);

/// A port that is ours. Nobody is answered before [`Listener::serve`].
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Takes a port of loopback that is free.
    pub fn bind() -> io::Result<Self> {
        let socket = TcpListener::bind("127.0.0.1:0")?;
        socket.set_nonblocking(true)?;
        Ok(Listener { address: socket.local_addr()?, socket })
    }

    /// The address, with the port that was found.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is there, and then until the requests that came before are answered.
    pub async fn serve(
        self,
        webhook: Arc<Webhook>,
        body_limit: usize,
        tls: Tls,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let handle = Handle::new();
        let stopping = handle.clone();
        tokio::spawn(async move {
            stop.await;
            info!("stopping: the running requests are answered first");
            stopping.graceful_shutdown(Some(GRACE));
        });
        let router = http::router(webhook, body_limit).into_make_service();
        axum_server::from_tcp_rustls(self.socket, RustlsConfig::from_config(tls.config))?
            .handle(handle)
            .serve(router)
            .await
    }
}
