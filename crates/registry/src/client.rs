//! The way to one repository, opened: protocol chosen, logged in.

use std::time::Duration;

use futures_util::StreamExt;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::errors::{DigestError, OciDistributionError};
use oci_client::manifest::{
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE,
    OciDescriptor, OciImageIndex, OciImageManifest,
};
use oci_client::secrets::RegistryAuth;
use oci_client::{Reference, RegistryOperation};

use crate::credentials::Login;
use crate::error::{Attempt, causes};
use crate::reference::is_loopback;
use crate::{Error, Options};

/// What the distribution specification lets a registry refuse, and so the most that one has to store.
const MANIFEST_LIMIT: u64 = 4 << 20;

/// A manifest of either sort.
pub(crate) enum Manifest {
    Image(Box<OciImageManifest>),
    Index(OciImageIndex),
}

/// An open way to one repository.
pub(crate) struct Session {
    client: Client,
    auth: RegistryAuth,
    login: Login,
    reference: Reference,
}

impl Session {
    /// Finds out how the registry is spoken to and who we are there. Plain HTTP is for loopback, or for those who ask.
    pub(crate) async fn open(
        reference: &Reference,
        operation: RegistryOperation,
        options: &Options,
    ) -> Result<Self, Error> {
        let login = Login::find(reference.resolve_registry(), options.docker_config.as_deref())?;
        if options.plain_http {
            return Self::log_in(&ClientProtocol::Http, reference, login, operation).await;
        }
        match Self::log_in(&ClientProtocol::Https, reference, login.clone(), operation).await {
            Err(Error::Unreachable { .. }) if is_loopback(reference) => {
                Self::log_in(&ClientProtocol::Http, reference, login, operation).await
            }
            session => session,
        }
    }

    async fn log_in(
        protocol: &ClientProtocol,
        reference: &Reference,
        login: Login,
        operation: RegistryOperation,
    ) -> Result<Self, Error> {
        let mut session =
            Session { client: client(protocol)?, auth: login.auth.clone(), login, reference: reference.clone() };
        let token = session.client.auth(reference, &session.auth, operation).await;
        if let Some(token) = token.map_err(|error| session.failed("logging in", error))? {
            // One token for all that follows: some registries know a new repository only to those who may write to it,
            // so a look at what is there must come with the rights of the push. The client keeps the first login that
            // it is given, hence another one.
            session.auth = RegistryAuth::Bearer(token);
            session.client = client(protocol)?;
        }
        session.client.store_auth_if_needed(reference.resolve_registry(), &session.auth).await;
        Ok(session)
    }

    pub(crate) fn reference(&self) -> &Reference {
        &self.reference
    }

    /// The digest that a name stands for, if there is anything of that name.
    pub(crate) async fn digest(&self, reference: &Reference) -> Result<Option<String>, Error> {
        match self.client.fetch_manifest_digest(reference, &self.auth).await {
            Ok(digest) => Ok(Some(digest)),
            Err(error) => match self.failed("looking for the tag", error) {
                Error::NotFound { .. } => Ok(None),
                error => Err(error),
            },
        }
    }

    /// The manifest of that name and its digest, which the bytes have been compared with.
    pub(crate) async fn manifest(&self, reference: &Reference) -> Result<(Manifest, String), Error> {
        let accepted = [
            OCI_IMAGE_MEDIA_TYPE,
            IMAGE_MANIFEST_MEDIA_TYPE,
            OCI_IMAGE_INDEX_MEDIA_TYPE,
            IMAGE_MANIFEST_LIST_MEDIA_TYPE,
        ];
        let answer = self.client.pull_manifest_raw(reference, &self.auth, &accepted).await;
        let (bytes, digest) = answer.map_err(|error| self.failed("pulling the manifest", error))?;
        if bytes.len() as u64 > MANIFEST_LIMIT {
            return Err(self.too_large("the manifest", MANIFEST_LIMIT));
        }
        let manifest = manifest(&bytes).map_err(|reason| self.other("reading the manifest", reason))?;
        Ok((manifest, digest))
    }

    /// A blob of a manifest, with exactly the size and the digest that the manifest declares. Addresses
    /// that it may name besides are not followed.
    pub(crate) async fn blob(&self, descriptor: &OciDescriptor, what: &str, limit: u64) -> Result<Vec<u8>, Error> {
        let size = u64::try_from(descriptor.size).unwrap_or(u64::MAX);
        if size > limit {
            return Err(self.too_large(what, limit));
        }
        let doing = format!("pulling {what}");
        let opened = self.client.pull_blob_stream(&self.reference, descriptor.digest.as_str()).await;
        let mut stream = opened.map_err(|error| self.failed(&doing, error))?;
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.next().await {
            // The last chunk is an error when the digest of all of them is another one.
            let chunk = chunk.map_err(|error| self.broken(&doing, &error))?;
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > size {
                return Err(self.corrupted(format!("{what} is larger than the {size} bytes declared in its manifest")));
            }
        }
        if (bytes.len() as u64) < size {
            return Err(self.corrupted(format!(
                "{what} has {} bytes instead of the {size} declared in its manifest",
                bytes.len()
            )));
        }
        Ok(bytes)
    }

    /// Uploads bytes, unless they are there.
    pub(crate) async fn put_blob(&self, bytes: &[u8], digest: &str, what: &str) -> Result<(), Error> {
        let doing = format!("uploading {what}");
        let failed = |error| self.failed(&doing, error);
        if !self.client.blob_exists(&self.reference, digest).await.map_err(failed)? {
            self.client.push_blob(&self.reference, bytes.to_vec(), digest).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Uploads the manifest under the session's name: from now on it can be pulled.
    pub(crate) async fn put_manifest(&self, bytes: &[u8]) -> Result<(), Error> {
        let media_type = http::HeaderValue::from_static(OCI_IMAGE_MEDIA_TYPE);
        let put = self.client.push_manifest_raw(&self.reference, bytes.to_vec(), media_type).await;
        put.map(drop).map_err(|error| self.failed("uploading the manifest", error))
    }

    pub(crate) fn other(&self, doing: &str, reason: String) -> Error {
        Error::Failed { doing: doing.to_owned(), registry: self.registry().to_owned(), reason }
    }

    pub(crate) fn corrupted(&self, reason: String) -> Error {
        Error::Corrupted { reference: self.reference.whole(), reason }
    }

    fn too_large(&self, what: &str, limit: u64) -> Error {
        Error::TooLarge { reference: self.reference.whole(), what: what.to_owned(), limit }
    }

    fn registry(&self) -> &str {
        self.reference.resolve_registry()
    }

    fn failed(&self, doing: &str, error: OciDistributionError) -> Error {
        let reference = self.reference.whole();
        Attempt { doing, registry: self.registry(), reference: &reference, login: &self.login }.failed(error)
    }

    /// A stream that ended badly: the connection, or the digest.
    fn broken(&self, doing: &str, error: &std::io::Error) -> Error {
        let of_digest = error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<DigestError>);
        if of_digest { self.corrupted(error.to_string()) } else { self.other(doing, causes(error)) }
    }
}

/// A manifest that is an image to one reader and an index to another is neither.
fn manifest(bytes: &[u8]) -> Result<Manifest, String> {
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if value["schemaVersion"] != 2 {
        return Err(format!("schema version {} instead of 2", value["schemaVersion"]));
    }
    let (layers, manifests) = (value.get("layers").is_some(), value.get("manifests").is_some());
    let media_type = value.get("mediaType").and_then(serde_json::Value::as_str);
    let says = |known: [&str; 2]| media_type.is_none_or(|media_type| known.contains(&media_type));
    if layers && !manifests && says([OCI_IMAGE_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE]) {
        return serde_json::from_value(value).map(Manifest::Image).map_err(|error| error.to_string());
    }
    if manifests && !layers && says([OCI_IMAGE_INDEX_MEDIA_TYPE, IMAGE_MANIFEST_LIST_MEDIA_TYPE]) {
        return serde_json::from_value(value).map(Manifest::Index).map_err(|error| error.to_string());
    }
    Err(format!("neither an image nor an index (mediaType {})", media_type.unwrap_or("missing")))
}

fn client(protocol: &ClientProtocol) -> Result<Client, Error> {
    // One provider for the process. Where there is one already it stays, and that is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = ClientConfig {
        protocol: protocol.clone(),
        connect_timeout: Some(Duration::from_secs(10)),
        read_timeout: Some(Duration::from_mins(1)),
        user_agent: concat!("operator-bounds/", env!("CARGO_PKG_VERSION")),
        ..ClientConfig::default()
    };
    Client::try_from(config).map_err(|error| Error::Failed {
        doing: "setting up TLS".to_owned(),
        registry: "any".to_owned(),
        reason: causes(&error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_is_two_things_at_once_is_refused() {
        let both = br#"{"schemaVersion": 2, "layers": [], "manifests": [], "config": {"mediaType": "", "digest": "", "size": 0}}"#;
        assert!(manifest(both).is_err_and(|reason| reason.contains("neither an image nor an index")));
        let disguised = format!(r#"{{"schemaVersion": 2, "mediaType": "{OCI_IMAGE_INDEX_MEDIA_TYPE}", "layers": []}}"#);
        assert!(manifest(disguised.as_bytes()).is_err_and(|reason| reason.contains(OCI_IMAGE_INDEX_MEDIA_TYPE)));
    }

    #[test]
    fn schema_1_is_refused() {
        assert!(manifest(br#"{"schemaVersion": 1}"#).is_err_and(|reason| reason == "schema version 1 instead of 2"));
    }
}
