//! Names in a registry: `registry://host/repository:tag`, with or without the scheme.

use std::net::IpAddr;

use oci_client::Reference;

use crate::Error;

/// What may stand in front of a reference: Kubewarden writes the first, people who mean images the second.
const SCHEMES: [&str; 2] = ["registry://", "oci://"];

/// The name in its parts. The host has to be there: what is pushed must not end up at Docker Hub by mistake.
pub(crate) fn parse(given: &str) -> Result<Reference, Error> {
    let wrong = |reason: &str| Error::Reference { given: given.to_owned(), reason: reason.to_owned() };
    let name = SCHEMES.iter().find_map(|scheme| given.strip_prefix(scheme)).unwrap_or(given);
    if name.contains("://") {
        return Err(wrong("neither registry://… nor oci://… nor a plain reference"));
    }
    let host = name.split_once('/').map_or("", |(host, _)| host);
    if !(host.contains(['.', ':']) || host == "localhost") {
        return Err(wrong("no registry is named: write host/repository:tag (docker.io/… for Docker Hub)"));
    }
    name.parse().map_err(|error: oci_client::ParseError| wrong(&error.to_string()))
}

/// The name that always stands for the same bytes, as Kubewarden writes it.
pub(crate) fn immutable(reference: &Reference, digest: &str) -> String {
    format!("registry://{}/{}@{digest}", reference.registry(), reference.repository())
}

/// Whether the registry is on this machine.
pub(crate) fn is_loopback(reference: &Reference) -> bool {
    let registry = reference.resolve_registry();
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
        _ => registry,
    };
    let address: Result<IpAddr, _> = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_in_front_changes_nothing() {
        for given in ["registry://ghcr.io/a/b:v1", "oci://ghcr.io/a/b:v1", "ghcr.io/a/b:v1"] {
            assert_eq!(parse(given).unwrap().whole(), "ghcr.io/a/b:v1");
        }
    }

    #[test]
    fn without_a_tag_it_is_latest_and_a_digest_is_kept() {
        assert_eq!(parse("ghcr.io/a/b").unwrap().tag(), Some("latest"));
        let digest = format!("sha256:{}", "a".repeat(64));
        assert_eq!(parse(&format!("ghcr.io/a/b@{digest}")).unwrap().digest(), Some(digest.as_str()));
    }

    #[test]
    fn the_host_must_be_named() {
        for given in ["operator-bounds:v1", "policies/operator-bounds:v1", ""] {
            assert!(parse(given).unwrap_err().to_string().contains("no registry is named"), "{given}");
        }
    }

    #[test]
    fn other_schemes_and_broken_names_are_said() {
        assert!(parse("https://ghcr.io/a/b").unwrap_err().to_string().contains("neither registry://"));
        let broken = parse("ghcr.io/A/B:v1").unwrap_err().to_string();
        assert!(broken.starts_with("ghcr.io/A/B:v1: "), "{broken}");
        assert!(parse("ghcr.io/a/b@sha256:12").is_err());
    }

    #[test]
    fn loopback_is_this_machine_and_nothing_that_looks_like_it() {
        for here in ["localhost/a", "localhost:5000/a", "127.0.0.1:5000/a", "127.8.9.1:80/a"] {
            assert!(is_loopback(&parse(here).unwrap()), "{here}");
        }
        for elsewhere in ["localhost.example.com/a", "127.0.0.1.example.com/a", "10.0.0.1:5000/a", "128.0.0.1:5000/a"] {
            assert!(!is_loopback(&parse(elsewhere).unwrap()), "{elsewhere}");
        }
    }
}
