//! Publishes the policy. Nothing can be pulled before everything is there: the manifest goes last.

use std::time::Duration;

use oci_client::{Reference, RegistryOperation};

use crate::artifact::{Artifact, CONFIG};
use crate::client::Session;
use crate::{Error, Options, reference};

/// How long to wait before trying again. Some registries fail for a moment when two pushes meet, and connections break.
const PAUSES: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(3)];

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// `registry://host/repository@sha256:…`: from now on the name of exactly these bytes.
    pub reference: String,
    /// The digest in it.
    pub digest: String,
    /// What the tag pointed to before, if that was something else.
    pub replaced: Option<String>,
}

/// Pushes an annotated policy under a tag. Like `kwctl push` it moves an existing tag, unless
/// [`Options::no_overwrite`] is set; blobs that are there already are not sent again.
pub async fn push(wasm: &[u8], name: &str, options: &Options) -> Result<Pushed, Error> {
    let reference = reference::parse(name)?;
    if reference.digest().is_some() {
        let reason = "a digest is computed from the content and cannot be chosen: use a tag".to_owned();
        return Err(Error::Reference { given: name.to_owned(), reason });
    }
    let artifact =
        Artifact::of(wasm).map_err(|reason| Error::Policy { what: "the policy to push".to_owned(), reason })?;
    let mut first = None;
    for pause in PAUSES {
        match attempt(wasm, &reference, &artifact, options).await {
            // What is pushed twice is there once, so trying again does no harm.
            Err(error @ Error::Failed { .. }) => first = first.or(Some(error)),
            ended => return ended,
        }
        tokio::time::sleep(pause).await;
    }
    // The first failure says most: later ones may come of it.
    attempt(wasm, &reference, &artifact, options).await.map_err(|last| first.unwrap_or(last))
}

async fn attempt(wasm: &[u8], reference: &Reference, artifact: &Artifact, options: &Options) -> Result<Pushed, Error> {
    let session = Session::open(reference, RegistryOperation::Push, options).await?;
    let digest = artifact.digest.clone();
    let replaced = session.digest(reference).await?.filter(|existing| *existing != digest);
    if let Some(existing) = replaced.as_ref().filter(|_| options.no_overwrite) {
        return Err(Error::Exists { reference: reference.whole(), existing: existing.clone(), digest });
    }
    session.put_blob(wasm, &artifact.layer_digest, "the policy").await?;
    session.put_blob(CONFIG, &artifact.config_digest, "the configuration").await?;
    session.put_manifest(&artifact.manifest).await?;
    confirm(&session, &digest).await?;
    Ok(Pushed { reference: reference::immutable(reference, &digest), digest, replaced })
}

/// The name that is handed out must work: a registry that stored the manifest in another form has another digest for it.
async fn confirm(session: &Session, digest: &str) -> Result<(), Error> {
    let pushed = session.reference().clone_with_digest(digest.to_owned());
    match session.digest(&pushed).await? {
        Some(found) if found == digest => Ok(()),
        found => {
            let found = found.unwrap_or_else(|| "nothing".to_owned());
            Err(session.corrupted(format!("the registry has {found} where {digest} was pushed")))
        }
    }
}
