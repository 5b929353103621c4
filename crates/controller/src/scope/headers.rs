//! Headers: which are accepted, which are forwarded, and which identity the API server is asked to impersonate.

use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, UPGRADE};

use super::owner::Identity;
use super::refusal::Refusal;

/// Headers that concern a single connection rather than the other end, or that claim an identity.
const OWN: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The credentials in a request. The API server checks them; here they only have to be present.
pub(super) fn check(headers: &HeaderMap) -> Result<&HeaderValue, Refusal> {
    if let Some(name) = headers.keys().find(|name| name.as_str().starts_with("impersonate-")) {
        return Err(Refusal::Impersonates(name.to_string()));
    }
    if headers.contains_key(UPGRADE) {
        return Err(Refusal::Connection);
    }
    if headers.get_all(CONTENT_TYPE).iter().count() > 1 {
        return Err(Refusal::Malformed("it has several content types"));
    }
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(Refusal::Malformed("its body is encoded once more"));
    }
    let is_bearer =
        |value: &HeaderValue| value.as_bytes().get(..7).is_some_and(|it| it.eq_ignore_ascii_case(b"bearer "));
    let mut all = headers.get_all(AUTHORIZATION).iter();
    match (all.next(), all.next()) {
        (Some(token), None) if is_bearer(token) => Ok(token),
        _ => Err(Refusal::NoToken),
    }
}

/// The headers to forward.
pub(super) fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named = headers.get_all("connection").iter().filter_map(|value| value.to_str().ok());
    let named: Vec<&str> = named.flat_map(|value| value.split(',').map(str::trim)).collect();
    let goes_on = |name: &HeaderName| {
        let is_forged = name.as_str().starts_with("x-remote-") || name.as_str().starts_with("x-forwarded-");
        let is_own = OWN.contains(&name.as_str()) || named.iter().any(|own| own.eq_ignore_ascii_case(name.as_str()));
        !is_forged && !is_own
    };
    headers.iter().filter(|(name, _)| goes_on(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Sets the identity that the API server is asked to impersonate.
pub(super) fn impersonate(headers: &mut HeaderMap, identity: &Identity) -> Result<(), Refusal> {
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| Refusal::Malformed("its owner has no plain name"));
    headers.insert("impersonate-user", value(&identity.user)?);
    for group in &identity.groups {
        headers.append("impersonate-group", value(group)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_request_needs_one_bearer_token_and_must_not_say_who_it_is_otherwise() {
        let token = ("authorization", "Bearer abc");
        assert_eq!(check(&headers(&[token])).unwrap(), "Bearer abc");
        for wrong in [&[][..], &[("authorization", "Basic abc")], &[token, token], &[("authorization", "Bearer")]] {
            assert_eq!(check(&headers(wrong)), Err(Refusal::NoToken), "{wrong:?}");
        }
        for name in ["impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-scopes"] {
            let all = headers(&[token, (name, "system:masters")]);
            assert_eq!(check(&all), Err(Refusal::Impersonates(name.to_owned())));
        }
        assert_eq!(check(&headers(&[token, ("upgrade", "SPDY/3.1")])), Err(Refusal::Connection));
        assert!(check(&headers(&[token, ("content-encoding", "gzip")])).is_err());
        assert!(check(&headers(&[token, ("content-type", "a/b"), ("content-type", "c/d")])).is_err());
    }

    #[test]
    fn what_is_for_one_connection_does_not_go_on() {
        let all = headers(&[
            ("accept", "application/json"),
            ("authorization", "Bearer abc"),
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("content-length", "3"),
            ("x-remote-user", "admin"),
            ("x-forwarded-for", "1.2.3.4"),
        ]);
        let expected = headers(&[("accept", "application/json"), ("authorization", "Bearer abc")]);
        assert_eq!(end_to_end(&all), expected);
    }

    #[test]
    fn an_identity_becomes_a_user_and_its_groups() {
        let mut headers = HeaderMap::new();
        impersonate(&mut headers, &Identity::synthetic("hello")).unwrap();
        assert_eq!(headers["impersonate-user"], "olm:clusterextension:hello");
        let groups: Vec<_> = headers.get_all("impersonate-group").iter().collect();
        assert_eq!(groups, ["olm:clusterextensions", "system:authenticated"]);
        impersonate(&mut headers, &Identity::account("ns", "installer")).unwrap();
        assert_eq!(headers["impersonate-user"], "system:serviceaccount:ns:installer");
    }
}
