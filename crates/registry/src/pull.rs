//! Brings a policy back.

use oci_client::RegistryOperation;
use oci_client::manifest::{OciDescriptor, OciImageManifest, WASM_CONFIG_MEDIA_TYPE, WASM_LAYER_MEDIA_TYPE};
use policy_module::Metadata;

use crate::client::{Manifest, Session};
use crate::{Error, Options, artifact, reference};

/// A hundred times the size of this policy.
const POLICY_LIMIT: u64 = 64 << 20;

/// What was pulled. Its bytes are those of the digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// `registry://host/repository@sha256:…`.
    pub reference: String,
    /// The digest in it.
    pub digest: String,
    /// The module.
    pub wasm: Vec<u8>,
    /// What the module says about itself.
    pub metadata: Metadata,
}

/// Pulls a policy by tag or by digest.
pub async fn pull(name: &str, options: &Options) -> Result<Pulled, Error> {
    let reference = reference::parse(name)?;
    let not_a_policy = |reason: String| Error::Policy { what: reference.whole(), reason };
    let session = Session::open(&reference, RegistryOperation::Pull, options).await?;
    let (manifest, digest) = session.manifest(&reference).await?;
    let layer = match &manifest {
        Manifest::Image(image) => layer(image).map_err(not_a_policy)?,
        Manifest::Index(_) => return Err(not_a_policy("an image index instead of a policy".to_owned())),
    };
    let wasm = session.blob(layer, "the policy", POLICY_LIMIT).await?;
    let metadata = artifact::metadata(&wasm).map_err(not_a_policy)?;
    Ok(Pulled { reference: reference::immutable(&reference, &digest), digest, wasm, metadata })
}

/// The one layer of an artifact with Kubewarden's media types.
fn layer(image: &OciImageManifest) -> Result<&OciDescriptor, String> {
    if image.config.media_type != WASM_CONFIG_MEDIA_TYPE {
        return Err(format!("its configuration is {} and not {WASM_CONFIG_MEDIA_TYPE}", image.config.media_type));
    }
    match image.layers.as_slice() {
        [layer] if layer.media_type == WASM_LAYER_MEDIA_TYPE => Ok(layer),
        [layer] => Err(format!("its layer is {} and not {WASM_LAYER_MEDIA_TYPE}", layer.media_type)),
        layers => Err(format!("it has {} layers, but a policy has one", layers.len())),
    }
}
