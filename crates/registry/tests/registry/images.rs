//! Bundle images to pull, made by hand so that they can be malicious.

use std::io::Write;

use flate2::write::GzEncoder;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_client::{Reference, manifest};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::EntryType;

use crate::server::Registry;

pub(crate) const FILE: EntryType = EntryType::Regular;

/// A tar archive with these entries, their names as they are. The content of a link is what it points to.
pub(crate) fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, kind, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        let mut content = *content;
        if matches!(kind, EntryType::Symlink | EntryType::Link) {
            header.set_link_name_literal(content).unwrap();
            content = b"";
        }
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A layer as it is uploaded, and what its manifest says about it.
pub(crate) struct Layer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) media_type: &'static str,
    pub(crate) size: Option<usize>,
}

impl Layer {
    pub(crate) fn of(entries: &[(&str, EntryType, &[u8])]) -> Self {
        let media_type = manifest::IMAGE_LAYER_GZIP_MEDIA_TYPE;
        Layer { bytes: gzip(&archive(entries)), media_type, size: None }
    }
}

/// The layer of a proper bundle.
pub(crate) fn bundle() -> Layer {
    Layer::of(&[
        ("manifests/", EntryType::Directory, b""),
        ("manifests/csv.yaml", FILE, b"kind: ClusterServiceVersion"),
        ("metadata/annotations.yaml", FILE, ANNOTATIONS.as_bytes()),
        ("tests/scorecard/config.yaml", FILE, b"kind: Configuration"),
    ])
}

pub(crate) const ANNOTATIONS: &str = "annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
";

/// Somebody who uploads whatever they like.
pub(crate) struct Uploader<'a> {
    registry: &'a Registry,
    client: Client,
}

impl<'a> Uploader<'a> {
    pub(crate) fn to(registry: &'a Registry) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = ClientConfig { protocol: ClientProtocol::Http, ..ClientConfig::default() };
        Uploader { registry, client: Client::try_from(config).unwrap() }
    }

    fn reference(&self, tag: &str) -> Reference {
        format!("{}/bundles/test:{tag}", self.registry.address()).parse().unwrap()
    }

    /// Uploads an OCI image, and gives the name to pull it by.
    pub(crate) async fn image(&self, tag: &str, layers: &[Layer], labels: &Value) -> String {
        let manifest = self.manifest(layers, labels, manifest::OCI_IMAGE_MEDIA_TYPE, manifest::IMAGE_CONFIG_MEDIA_TYPE);
        self.put(tag, &manifest.await).await
    }

    /// Uploads the blobs of an image, and gives its manifest.
    pub(crate) async fn manifest(
        &self,
        layers: &[Layer],
        labels: &Value,
        media_type: &str,
        config_type: &str,
    ) -> Value {
        let config = json!({"architecture": "amd64", "os": "linux", "config": {"Labels": labels}, "rootfs": {"type": "layers", "diff_ids": []}});
        let config = self.blob(config.to_string().as_bytes(), config_type, None).await;
        let mut described = Vec::new();
        for layer in layers {
            described.push(self.blob(&layer.bytes, layer.media_type, layer.size).await);
        }
        json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": described})
    }

    async fn blob(&self, bytes: &[u8], media_type: &str, size: Option<usize>) -> Value {
        let digest = digest(bytes);
        let reference = self.reference("any");
        self.client.store_auth_if_needed(reference.resolve_registry(), &RegistryAuth::Anonymous).await;
        self.client.push_blob(&reference, bytes.to_vec(), &digest).await.unwrap();
        json!({"mediaType": media_type, "digest": digest, "size": size.unwrap_or(bytes.len())})
    }

    /// Uploads a manifest, and gives the name to pull it by.
    pub(crate) async fn put(&self, tag: &str, manifest: &Value) -> String {
        let media_type = manifest["mediaType"].as_str().unwrap().parse().unwrap();
        let body = manifest.to_string().into_bytes();
        self.client.push_manifest_raw(&self.reference(tag), body, media_type).await.unwrap();
        format!("oci://{}", self.reference(tag).whole())
    }

    /// Uploads an index of these images, each for a platform.
    pub(crate) async fn index(&self, tag: &str, images: &[(&str, &Value)]) -> String {
        let mut manifests = Vec::new();
        for (number, (platform, image)) in images.iter().enumerate() {
            self.put(&format!("{tag}-{number}"), image).await;
            let body = image.to_string();
            let (os, architecture) = platform.split_once('/').unwrap();
            manifests.push(json!({
                "mediaType": image["mediaType"],
                "digest": digest(body.as_bytes()),
                "size": body.len(),
                "platform": {"os": os, "architecture": architecture},
            }));
        }
        let media_type = manifest::OCI_IMAGE_INDEX_MEDIA_TYPE;
        self.put(tag, &json!({"schemaVersion": 2, "mediaType": media_type, "manifests": manifests})).await
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
