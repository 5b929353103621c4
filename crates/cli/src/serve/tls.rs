//! The certificate: made on the fly, or read from files.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::{Duration, OffsetDateTime};

/// A certificate made on the fly is for a session of development, and not for longer.
const LIFETIME: Duration = Duration::days(30);
/// Clocks differ.
const SKEW: Duration = Duration::hours(1);

/// How the webhook proves who it is.
#[derive(Debug)]
pub struct Tls {
    pub(super) config: Arc<ServerConfig>,
    /// The CA to trust, as PEM, when it was made on the fly.
    pub ca: Option<String>,
}

/// What is wrong with a certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used.
    #[error("{}: {reason}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// None can be made.
    #[error("no certificate can be made: {0}")]
    Make(#[from] rcgen::Error),
    /// rustls cannot work with it.
    #[error("TLS: {0}")]
    Rustls(#[from] rustls::Error),
}

impl Tls {
    /// A CA, and a certificate of it for this machine and the address that is listened on.
    pub fn generate(address: IpAddr) -> Result<Self, TlsError> {
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        if !address.is_loopback() && !address.is_unspecified() {
            names.push(address.to_string());
        }
        let (ca_key, server_key) = (KeyPair::generate()?, KeyPair::generate()?);
        let mut ca = params(Vec::new(), "operator-bounds serve CA")?;
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca_certificate = ca.self_signed(&ca_key)?;
        let mut server = params(names, "operator-bounds serve")?;
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let certificate = server.signed_by(&server_key, &Issuer::new(ca, ca_key))?;
        let key = PrivateKeyDer::try_from(server_key.serialize_der())
            .map_err(|error| rustls::Error::General(error.to_owned()))?;
        let config = config(vec![certificate.der().clone()], key)?;
        Ok(Tls { config, ca: Some(ca_certificate.pem()) })
    }

    /// A certificate that is given. One that is not valid now is refused.
    pub fn load(cert_file: &Path, key_file: &Path) -> Result<Self, TlsError> {
        let fail = |file: &Path, reason: String| TlsError::File { file: file.to_owned(), reason };
        let chain = fs::read(cert_file).map_err(|error| fail(cert_file, error.to_string()))?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain)
            .collect::<Result<_, _>>()
            .map_err(|error| fail(cert_file, format!("not PEM: {error}")))?;
        if chain.is_empty() {
            return Err(fail(cert_file, "there is no certificate in it".to_owned()));
        }
        for certificate in &chain {
            check_dates(certificate).map_err(|reason| fail(cert_file, reason))?;
        }
        let key = fs::read(key_file).map_err(|error| fail(key_file, error.to_string()))?;
        let key =
            PrivateKeyDer::from_pem_slice(&key).map_err(|error| fail(key_file, format!("no private key: {error}")))?;
        let mismatch = |error| match error {
            rustls::Error::InconsistentKeys(_) => {
                fail(key_file, format!("not the key of the certificate in {}", cert_file.display()))
            }
            other => fail(cert_file, other.to_string()),
        };
        Ok(Tls { config: config(chain, key).map_err(mismatch)?, ca: None })
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

fn check_dates(certificate: &CertificateDer<'_>) -> Result<(), String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|error| format!("a certificate in it cannot be read: {error}"))?;
    let (subject, validity) = (certificate.subject(), certificate.validity());
    let now = OffsetDateTime::now_utc();
    let (start, end) = (validity.not_before.to_datetime(), validity.not_after.to_datetime());
    if now > end {
        return Err(format!("the certificate of `{subject}` expired on {}", end.date()));
    }
    if now < start {
        return Err(format!("the certificate of `{subject}` is not valid before {}", start.date()));
    }
    Ok(())
}
