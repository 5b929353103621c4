//! `/metrics`, `/healthz` and `/readyz`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// Whether this replica does its work, or waits for its turn.
#[derive(Debug, Clone, Default)]
pub struct Ready(Arc<AtomicBool>);

impl Ready {
    /// Whether it does from now on.
    pub fn set(&self, is_ready: bool) {
        self.0.store(is_ready, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Serves until the process ends.
pub async fn serve(address: SocketAddr, metrics: Metrics, ready: Ready) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tracing::info!(address = %listener.local_addr()?, "serving /metrics, /healthz and /readyz");
    loop {
        let (stream, _) = listener.accept().await?;
        let (metrics, ready) = (metrics.clone(), ready.clone());
        tokio::spawn(async move {
            let answer = service_fn(|request: Request<Incoming>| {
                let response = respond(request.uri().path(), &metrics, &ready);
                async { Ok::<_, Infallible>(response) }
            });
            let connection =
                http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), answer);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to /metrics or a probe broke off");
            }
        });
    }
}

fn respond(path: &str, metrics: &Metrics, ready: &Ready) -> Response<Full<Bytes>> {
    let (code, kind, text) = match path {
        "/metrics" => (StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.text()),
        "/healthz" => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" if ready.is_set() => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", "the caches are being filled\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "there are /metrics, /healthz and /readyz\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}
