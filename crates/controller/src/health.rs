//! `/metrics`, `/healthz` and `/readyz`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// The maximum number of concurrent connections: anyone in the cluster can connect here.
const CONNECTIONS: usize = 64;
/// How long a connection may stay open. A probe takes milliseconds.
const LONGEST: Duration = Duration::from_secs(30);

/// Whether this process can do its work, and if not, why. Clones share the state.
#[derive(Debug, Clone)]
pub struct Ready(Arc<Mutex<Result<(), String>>>);

impl Ready {
    /// Not ready yet, for this reason.
    #[must_use]
    pub fn not_yet(reason: &str) -> Self {
        Ready(Arc::new(Mutex::new(Err(reason.to_owned()))))
    }

    /// Sets the new state. Returns whether it has changed.
    pub fn set(&self, state: Result<(), String>) -> bool {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *now != state;
        *now = state;
        is_news
    }

    fn get(&self) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Binds the port, and serves in the background until the process ends.
pub async fn serve(address: SocketAddr, registry: Registry, ready: Ready) -> anyhow::Result<()> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} for probes"))?;
    tracing::info!(address = %listener.local_addr()?, "serving /metrics, /healthz and /readyz");
    let registry = Arc::new(registry);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    tokio::spawn(async move {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // Too many open files: accepting may succeed a little later.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (registry, ready) = (Arc::clone(&registry), ready.clone());
            tokio::spawn(async move {
                let answer = service_fn(|request: Request<Incoming>| {
                    let response = respond(request.uri().path(), &registry, &ready);
                    async { Ok::<_, Infallible>(response) }
                });
                let connection =
                    http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), answer);
                // If a prober hangs up early, there is nothing to do about it.
                let _ = tokio::time::timeout(LONGEST, connection).await;
                drop(place);
            });
        }
    });
    Ok(())
}

fn respond(path: &str, registry: &Registry, ready: &Ready) -> Response<Full<Bytes>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let (code, kind, text) = match path {
        "/metrics" => (StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", metrics(registry)),
        "/healthz" => (StatusCode::OK, TEXT, "ok\n".to_owned()),
        "/readyz" => match ready.get() {
            Ok(()) => (StatusCode::OK, TEXT, "ok\n".to_owned()),
            Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{reason}\n")),
        },
        _ => (StatusCode::NOT_FOUND, TEXT, "there are /metrics, /healthz and /readyz\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn metrics(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = encode(&mut text, registry);
    text
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn readyz_says_why_not() {
        let ready = Ready::not_yet("nothing was asked yet");
        let readyz = |ready: &Ready| respond("/readyz", &Registry::default(), ready);
        let answer = readyz(&ready);
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "nothing was asked yet\n");
        assert!(ready.set(Ok(())), "that is news");
        assert!(!ready.set(Ok(())), "that is not");
        assert_eq!(readyz(&ready).status(), StatusCode::OK);
    }
}
