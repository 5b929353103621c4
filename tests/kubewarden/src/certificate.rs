//! Certificates for what is served on loopback.

use std::fs;
use std::path::Path;

/// A certificate for loopback and its key, into these files; the one that is there already stays. It is its own authority.
pub fn certificate(certificate: &Path, key: &Path) -> anyhow::Result<Vec<u8>> {
    if !certificate.exists() {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        fs::write(key, made.signing_key.serialize_pem())?;
        fs::write(certificate, made.cert.pem())?;
    }
    Ok(fs::read(certificate)?)
}
