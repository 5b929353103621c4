//! Bundle and catalog images, in a registry on loopback.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use oci_client::Reference;
use oci_client::client::{Client, ClientConfig, ClientProtocol, Config, ImageLayer};
use oci_client::manifest::IMAGE_CONFIG_MEDIA_TYPE;
use oci_client::secrets::RegistryAuth;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use test_parts::Registry;

use crate::bundle::Bundle;
use crate::catalog::Package;

/// What the labels of a bundle begin with.
const LABEL: &str = "operators.operatorframework.io.bundle";

/// A registry with a catalog and its bundles. It ends when this is dropped.
pub struct Images {
    registry: Registry,
    client: Client,
}

impl Images {
    /// Pushes each bundle, and a catalog of all of them.
    pub async fn publish(packages: &[Package]) -> anyhow::Result<Self> {
        // Another one may have been chosen already; both are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = ClientConfig { protocol: ClientProtocol::Http, ..ClientConfig::default() };
        let images = Images { registry: Registry::start()?, client: Client::try_from(config)? };
        let mut documents = String::new();
        for package in packages {
            for bundle in package.versions() {
                images.push(&images.of(package, bundle), &files(package, bundle), &labels(package)).await?;
            }
            let image = |bundle: &Bundle| json!({"image": images.of(package, bundle), "properties": [package.identity(bundle)]});
            documents.extend(package.documents(image).iter().map(|document| format!("{document}\n")));
        }
        let files = [("configs/catalog.json".to_owned(), documents.into_bytes())];
        let label = json!({"operators.operatorframework.io.index.configs.v1": "/configs"});
        images.push(&images.catalog(), &files, &label).await?;
        Ok(images)
    }

    /// The image of the catalog.
    #[must_use]
    pub fn catalog(&self) -> String {
        format!("{}/catalog:latest", self.registry.address())
    }

    fn of(&self, package: &Package, bundle: &Bundle) -> String {
        format!("{}/bundles/{}:v{}", self.registry.address(), package.name(), bundle.version().replace('+', "-"))
    }

    /// A configuration in which the registry may be spoken to in plain HTTP.
    pub(crate) fn configuration(&self, directory: &Path) -> anyhow::Result<PathBuf> {
        let path = directory.join("registries.conf");
        let text = format!("[[registry]]\nlocation = \"{}\"\ninsecure = true\n", self.registry.address());
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    async fn push(&self, name: &str, files: &[(String, Vec<u8>)], labels: &Value) -> anyhow::Result<()> {
        let archive = archive(files)?;
        let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
        zipped.write_all(&archive)?;
        let content: String = Sha256::digest(&archive).iter().map(|byte| format!("{byte:02x}")).collect();
        let described = json!({"architecture": "amd64", "os": "linux", "config": {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{content}")]}});
        let layer = ImageLayer::oci_v1_gzip(zipped.finish()?, None);
        let config = Config::new(described.to_string().into_bytes(), IMAGE_CONFIG_MEDIA_TYPE.to_owned(), None);
        let reference: Reference = name.parse()?;
        let pushed = self.client.push(&reference, &[layer], config, &RegistryAuth::Anonymous, None).await;
        pushed.map(drop).with_context(|| format!("pushing {name}"))
    }
}

fn archive(files: &[(String, Vec<u8>)]) -> anyhow::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, content.as_slice())?;
    }
    Ok(builder.into_inner()?)
}

fn labels(package: &Package) -> Value {
    let values = [
        ("mediatype.v1", "registry+v1"),
        ("manifests.v1", "manifests/"),
        ("metadata.v1", "metadata/"),
        ("package.v1", package.name()),
        ("channels.v1", "c1"),
        ("channel.default.v1", "c1"),
    ];
    values.into_iter().map(|(name, value)| (format!("{LABEL}.{name}"), json!(value))).collect()
}

fn files(package: &Package, bundle: &Bundle) -> Vec<(String, Vec<u8>)> {
    let manifests = bundle.objects().enumerate();
    let mut files: Vec<(String, Vec<u8>)> = manifests
        .map(|(number, object)| (format!("manifests/{number:02}.json"), object.to_string().into_bytes()))
        .collect();
    // JSON is YAML.
    let annotations = json!({"annotations": labels(package)}).to_string();
    files.push(("metadata/annotations.yaml".to_owned(), annotations.into_bytes()));
    files
}
