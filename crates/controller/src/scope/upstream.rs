//! The API server, reached with nothing but its address and the certificates to trust.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use super::refusal::Refusal;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the API server may take to start answering: its own limit is a minute.
const THINK: Duration = Duration::from_secs(70);
/// How long the answer to a look-up may take to arrive, and how large it may be: no object is larger.
const ARRIVE: Duration = Duration::from_secs(30);
const LARGEST: usize = 8 * 1024 * 1024;
/// A peer that disappears silently is detected after about a minute.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long the API server may take to report that it is ready.
const PROBE: Duration = Duration::from_secs(3);

/// A client for the API server.
///
/// HTTP/1.1, so that an answer without an end, such as a watch, has a connection of its own. With HTTP/2 all would
/// share one, which is limited to a hundred streams, and a hundred watches would leave no room for a write.
#[derive(Debug, Clone)]
pub(super) struct Upstream {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    authority: Authority,
}

/// The answer to a look-up.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
    pub headers: hyper::HeaderMap,
}

impl Upstream {
    /// A client for `https://host:port`, which must present a certificate that one in `ca` has signed.
    pub(super) fn new(server: &Uri, ca: &Path) -> anyhow::Result<Self> {
        let (Some("https"), Some(authority), "/") = (server.scheme_str(), server.authority(), server.path()) else {
            bail!("the API server's address must be https://HOST:PORT, and nothing behind it: {server}");
        };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT));
        http.set_keepalive(Some(KEEPALIVE));
        http.set_keepalive_interval(Some(KEEPALIVE));
        http.set_keepalive_retries(Some(3));
        let https = HttpsConnectorBuilder::new().with_tls_config(trust(ca)?).https_only().enable_http1();
        let mut client = Client::builder(TokioExecutor::new());
        client.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(Duration::from_mins(1));
        Ok(Upstream { client: client.build(https.wrap_connector(http)), authority: authority.clone() })
    }

    /// Sends a request, and returns when the answer begins.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        path: PathAndQuery,
    ) -> Result<Response<Incoming>, Refusal> {
        let uri = Uri::builder().scheme(Scheme::HTTPS).authority(self.authority.clone()).path_and_query(path);
        *request.uri_mut() = uri.build().map_err(|_| Refusal::Malformed("its path and query are no address"))?;
        *request.version_mut() = hyper::Version::HTTP_11;
        match timeout(THINK, self.client.request(request)).await {
            Ok(answer) => answer.map_err(|error| Refusal::Unreachable(chain(&error))),
            Err(_) => Err(Refusal::Silent(THINK.as_secs())),
        }
    }

    /// Reads an object with the caller's credentials.
    pub(super) async fn get(
        &self,
        path: &str,
        credentials: &HeaderValue,
        accept: &'static str,
    ) -> Result<Answer, Refusal> {
        let mut request = Request::new(Full::default());
        request.headers_mut().insert(AUTHORIZATION, credentials.clone());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        let path = path.parse().map_err(|_| Refusal::Malformed("its path is no address"))?;
        let (head, body) = self.send(request, path).await?.into_parts();
        let body = timeout(ARRIVE, Limited::new(body, LARGEST).collect()).await;
        let body = body.map_err(|_| Refusal::Silent(ARRIVE.as_secs()))?;
        let body = body.map_err(|error| Refusal::Unreachable(error.to_string()))?.to_bytes();
        Ok(Answer { status: head.status, body, headers: head.headers })
    }

    /// Whether the API server reports that it is ready. Without credentials it may refuse to say; then it is at least
    /// reachable.
    pub(super) async fn ready(&self) -> Result<(), String> {
        let asked = self.send(Request::new(Full::default()), PathAndQuery::from_static("/readyz"));
        match timeout(PROBE, asked).await {
            Err(_) => Err("the API server does not answer".to_owned()),
            Ok(Err(refusal)) => Err(refusal.to_string()),
            Ok(Ok(answer)) if answer.status().is_server_error() => {
                Err(format!("the API server is not ready: {}", answer.status()))
            }
            Ok(Ok(_)) => Ok(()),
        }
    }
}

fn trust(ca: &Path) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let read = || format!("the API server's certificate authority in {}", ca.display());
    for certificate in CertificateDer::pem_file_iter(ca).with_context(read)? {
        roots.add(certificate.with_context(read)?).with_context(read)?;
    }
    if roots.is_empty() {
        bail!("{}: there is no certificate in it", read());
    }
    let config = ClientConfig::builder_with_provider(ring::default_provider().into());
    Ok(config.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth())
}

/// An error with all its causes, down to that of the operating system.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
