//! What operator-controller needs to reach the proxy: a certificate for loopback, and a kubeconfig that trusts it.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use time::{Duration, OffsetDateTime};

/// Longer than any pod lives: a client reads the certificate only once.
const LIFETIME: Duration = Duration::days(3650);
/// Allowance for clocks that differ.
const SKEW: Duration = Duration::hours(1);

/// The certificate in `directory`, created unless it already exists: clients that trust it must not have to restart
/// when this process does.
pub(super) fn certificate(directory: &Path) -> anyhow::Result<Arc<ServerConfig>> {
    let (certificate, key) = (directory.join("tls.crt"), directory.join("tls.key"));
    if !certificate.exists() {
        let (certificate_pem, key_pem) = make()?;
        // The key first: a certificate without its key would be kept.
        write(&key, key_pem.as_bytes(), 0o600)?;
        write(&certificate, certificate_pem.as_bytes(), 0o644)?;
    }
    let read = || format!("the certificate and key in {}", directory.display());
    let chain: Vec<_> = CertificateDer::pem_file_iter(&certificate).and_then(Iterator::collect).with_context(read)?;
    let key = PrivateKeyDer::from_pem_file(&key).with_context(read)?;
    let config = ServerConfig::builder_with_provider(ring::default_provider().into());
    let mut config = config
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .with_context(read)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn make() -> anyhow::Result<(String, String)> {
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "operator-bounds scope");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - SKEW, now + LIFETIME);
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Writes the kubeconfig for operator-controller: our address, our certificate, and the token of its own pod.
pub(super) fn kubeconfig(directory: &Path, address: SocketAddr, token_file: &Path) -> anyhow::Result<()> {
    let certificate = fs::read(directory.join("tls.crt")).context("the certificate that was just there")?;
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "scope",
        "clusters": [{"name": "scope", "cluster": {
            "server": format!("https://{address}"), "certificate-authority-data": STANDARD.encode(certificate),
        }}],
        "users": [{"name": "own", "user": {"tokenFile": token_file}}],
        "contexts": [{"name": "scope", "context": {"cluster": "scope", "user": "own"}}],
    });
    write(&directory.join("kubeconfig"), format!("{config:#}\n").as_bytes(), 0o644)
}

/// Writes a file completely or not at all.
fn write(path: &Path, content: &[u8], mode: u32) -> anyhow::Result<()> {
    let written = || format!("cannot write {}", path.display());
    let mut half = path.as_os_str().to_owned();
    half.push(".new");
    // A file left behind by a crash may have a different mode.
    let _ = fs::remove_file(&half);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&half).with_context(written)?;
    file.write_all(content).with_context(written)?;
    fs::rename(&half, path).with_context(written)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn whoever_trusts_the_certificate_goes_on_doing_so_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let read = || fs::read(directory.path().join("tls.crt")).unwrap();
        certificate(directory.path()).unwrap();
        let first = read();
        certificate(directory.path()).unwrap();
        assert_eq!(read(), first);
        let mode = fs::metadata(directory.path().join("tls.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(directory.path().join("tls.key"), "half a k").unwrap();
        let error = certificate(directory.path()).unwrap_err();
        assert!(format!("{error:#}").contains(&directory.path().display().to_string()), "{error:#}");
    }
}
