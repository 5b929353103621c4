//! The certificate, made on the fly.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::{Duration, OffsetDateTime};

/// A certificate made on the fly is for a session of development, and not for longer.
const LIFETIME: Duration = Duration::days(30);
/// Clocks differ.
const SKEW: Duration = Duration::hours(1);

/// How the webhook proves who it is.
#[derive(Debug)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    /// The CA to trust, as PEM.
    pub ca: String,
}

/// What is wrong with a certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// None can be made.
    #[error("no certificate can be made: {0}")]
    Make(#[from] rcgen::Error),
    /// rustls cannot work with it.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
}

impl Tls {
    /// A CA, and a certificate of it for this machine.
    pub fn generate() -> Result<Self, TlsError> {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let (ca_key, server_key) = (KeyPair::generate()?, KeyPair::generate()?);
        let mut ca = params(Vec::new(), "operator-bounds test CA")?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca_certificate = ca.self_signed(&ca_key)?;
        let mut server = params(names, "operator-bounds test webhook")?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let certificate = server.signed_by(&server_key, &Issuer::new(ca, ca_key))?;
        let key = PrivateKeyDer::try_from(server_key.serialize_der())
            .map_err(|error| rustls::Error::General(error.to_owned()))?;
        let config = config(vec![certificate.der().clone()], key)?;
        Ok(Tls { config, ca: ca_certificate.pem() })
    }
}

fn params(names: Vec<String>, common_name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, common_name);
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - SKEW, now + LIFETIME);
    Ok(params)
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config.into())
}
