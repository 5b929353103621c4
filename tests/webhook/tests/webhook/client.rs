//! A client that says what came back: it tries nothing twice, and speaks the protocol it is told to.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, header};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// It trusts nobody but one CA.
pub(crate) struct Client {
    address: SocketAddr,
    roots: Arc<RootCertStore>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// What came back, whatever it is.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Client {
    pub(crate) fn new(address: &str, ca: &[u8]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca).unwrap()).unwrap();
        let address: SocketAddr = address.strip_prefix("https://").unwrap().parse().unwrap();
        Client { address: (Ipv4Addr::LOCALHOST, address.port()).into(), roots: Arc::new(roots) }
    }

    /// Sends a request, on a connection of its own.
    pub(crate) async fn send(&self, protocol: Protocol, method: &str, path: &str, body: Vec<u8>) -> Answer {
        let response = match protocol {
            Protocol::Http1 => self.send_http1(method, path, body).await,
            Protocol::Http2 => self.send_http2(method, path, body).await,
        };
        let response = response.unwrap_or_else(|error| panic!("{protocol:?} {method} {path}: {error:?}"));
        let status = response.status().as_u16();
        let body = to_bytes(Body::new(response.into_body()), usize::MAX).await.unwrap();
        Answer { status, text: String::from_utf8(body.to_vec()).unwrap() }
    }

    async fn send_http1(&self, method: &str, path: &str, body: Vec<u8>) -> hyper::Result<Response<Incoming>> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(self.connect(b"http/1.1").await)).await?;
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header(header::HOST, self.address.to_string());
        sender.send_request(request.body(Body::from(body)).unwrap()).await
    }

    async fn send_http2(&self, method: &str, path: &str, body: Vec<u8>) -> hyper::Result<Response<Incoming>> {
        let io = TokioIo::new(self.connect(b"h2").await);
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(format!("https://{}{path}", self.address));
        sender.send_request(request.body(Body::from(body)).unwrap()).await
    }

    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        let mut config = ClientConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(Arc::clone(&self.roots))
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(self.address.ip().into(), stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol));
        stream
    }
}
