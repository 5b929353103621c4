//! Registries with TLS.

use rcgen::{CertifiedKey, generate_simple_self_signed};

use crate::policies::{Saved, policy, program, run};
use crate::server::{Registry, Setup};

#[test]
#[ignore = "needs a registry: make registry-tests"]
fn a_certificate_is_trusted_when_its_authority_is() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let tls = Some((cert.pem(), signing_key.serialize_pem()));
    let registry = Registry::with(&Setup { tls, ..Setup::default() });
    let saved = Saved::new(&policy(1000, 1));
    let authority = saved.path().with_file_name("authority.pem");
    std::fs::write(&authority, cert.pem()).unwrap();

    let mut push = program(None);
    push.arg("push").arg(saved.path()).arg(registry.name("policies/test:v1")).env("SSL_CERT_FILE", &authority);
    let pushed = run(push).unwrap();
    assert!(pushed.starts_with(&registry.name("policies/test@sha256:")), "{pushed}");
}

#[test]
#[ignore = "needs a registry: make registry-tests"]
fn a_certificate_that_nobody_vouches_for_is_refused_and_not_gone_around() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let tls = Some((cert.pem(), signing_key.serialize_pem()));
    let registry = Registry::with(&Setup { tls, ..Setup::default() });
    let other = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap().cert.pem();
    let saved = Saved::new(&policy(1000, 1));
    let authority = saved.path().with_file_name("authority.pem");
    std::fs::write(&authority, other).unwrap();

    let mut push = program(None);
    push.arg("push").arg(saved.path()).arg(registry.name("policies/test:v1")).env("SSL_CERT_FILE", &authority);
    let error = run(push).unwrap_err();
    assert!(error.contains("is not trusted: invalid peer certificate"), "{error}");
    assert!(error.contains("SSL_CERT_FILE"), "{error}");
}
