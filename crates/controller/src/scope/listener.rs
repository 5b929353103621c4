//! The socket: HTTPS on loopback, until the process is told to stop.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::proxy::Proxy;
use crate::shutdown::Stop;

/// The maximum number of concurrent connections. operator-controller has a handful.
const CONNECTIONS: usize = 512;
/// How long a client may take for the handshake, and to send its headers; how often a silent one is checked for being
/// alive.
const GREETING: Duration = Duration::from_secs(10);
const PING: Duration = Duration::from_secs(30);
/// The maximum total size of the headers of a request.
const HEADERS: u32 = 64 * 1024;
/// How long requests in progress may take once the process is told to stop: a little less than a pod is given by
/// default.
const FINISH: Duration = Duration::from_secs(25);

/// Serves until it is told to stop, and then until the requests in progress are answered.
pub(super) async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, proxy: Arc<Proxy>, stop: Stop) {
    let acceptor = TlsAcceptor::from(tls);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let graceful = GracefulShutdown::new();
    let accepting = async {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // Too many open files: accepting may succeed a little later.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (acceptor, proxy, watcher) = (acceptor.clone(), Arc::clone(&proxy), graceful.watcher());
            tokio::spawn(async move {
                match greet(&acceptor, stream).await {
                    Ok(stream) => speak(stream, proxy, watcher).await,
                    Err(error) => tracing::debug!(%error, "somebody does not speak TLS"),
                }
                drop(place);
            });
        }
    };
    tokio::select! {
        () = accepting => {}
        () = stop.told() => {}
    }
    drop(listener);
    if timeout(FINISH, graceful.shutdown()).await.is_err() {
        tracing::warn!("stopping in the middle of requests that do not end");
    }
}

async fn greet(acceptor: &TlsAcceptor, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
    stream.set_nodelay(true)?;
    timeout(GREETING, acceptor.accept(stream)).await?
}

async fn speak(stream: TlsStream<TcpStream>, proxy: Arc<Proxy>, watcher: Watcher) {
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request: Request<Incoming>| {
        let proxy = Arc::clone(&proxy);
        async move { Ok::<_, Infallible>(proxy.answer(request).await) }
    });
    let stream = TokioIo::new(stream);
    let ended = if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_header_list_size(HEADERS);
        builder.keep_alive_interval(PING).keep_alive_timeout(PING);
        watcher.watch(builder.serve_connection(stream, service)).await
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(GREETING).max_buf_size(HEADERS as usize);
        watcher.watch(builder.serve_connection(stream, service)).await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}
