//! Bundle images: the files of a good one, and the words for a bad one.

use std::fs;

use oci_client::manifest;
use registry::bundle::{pull, pull_blocking};
use serde_json::{Value, json};
use tar::EntryType;

use crate::images::{ANNOTATIONS, FILE, Layer, Uploader, archive, bundle, digest};
use crate::policies::{options, policy};
use crate::server::Registry;

fn expected() -> Vec<registry::bundle::File> {
    vec![
        ("manifests/csv.yaml".to_owned(), b"kind: ClusterServiceVersion".to_vec()),
        ("metadata/annotations.yaml".to_owned(), ANNOTATIONS.as_bytes().to_vec()),
    ]
}

fn no_labels() -> Value {
    json!({})
}

/// The words with which an image of these layers is refused.
async fn refusal(layers: &[Layer]) -> String {
    let registry = Registry::start();
    let name = Uploader::to(&registry).image("v1", layers, &no_labels()).await;
    pull(&name, &options()).await.unwrap_err().to_string()
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn the_files_of_a_bundle_are_read_by_tag_and_by_digest() {
    let registry = Registry::start();
    let uploader = Uploader::to(&registry);
    let labels = json!({"operators.operatorframework.io.bundle.manifests.v1": "manifests/"});
    let name = uploader.image("v1", &[bundle()], &labels).await;
    assert_eq!(pull(&name, &options()).await.unwrap(), expected());
    let (_, manifests) = registry.stored("bundles/test");
    let by_digest = format!("oci://{}/bundles/test@sha256:{}", registry.address(), manifests[0]);
    assert_eq!(pull(&by_digest, &options()).await.unwrap(), expected());
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn docker_images_and_plain_archives_are_read_too() {
    let registry = Registry::start();
    let uploader = Uploader::to(&registry);
    let docker = Layer { media_type: manifest::IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE, ..bundle() };
    let (media_type, config_type) = (manifest::IMAGE_MANIFEST_MEDIA_TYPE, manifest::IMAGE_DOCKER_CONFIG_MEDIA_TYPE);
    let image = uploader.manifest(&[docker], &Value::Null, media_type, config_type).await;
    let name = uploader.put("docker", &image).await;
    assert_eq!(pull(&name, &options()).await.unwrap(), expected());

    let bytes = archive(&[("manifests/csv.yaml", FILE, b"csv")]);
    let plain = Layer { bytes, media_type: manifest::IMAGE_LAYER_MEDIA_TYPE, size: None };
    let name = uploader.image("plain", &[plain], &no_labels()).await;
    assert_eq!(pull(&name, &options()).await.unwrap(), [("manifests/csv.yaml".to_owned(), b"csv".to_vec())]);
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn later_layers_replace_and_take_away() {
    let registry = Registry::start();
    let later = Layer::of(&[
        ("manifests/crd.yaml", FILE, b"kind: CustomResourceDefinition"),
        ("manifests/.wh.csv.yaml", FILE, b""),
        ("metadata/.wh..wh..opq", FILE, b""),
        ("metadata/other.yaml", FILE, b"other"),
    ]);
    let name = Uploader::to(&registry).image("v1", &[bundle(), later], &no_labels()).await;
    let expected = [
        ("manifests/crd.yaml".to_owned(), b"kind: CustomResourceDefinition".to_vec()),
        ("metadata/other.yaml".to_owned(), b"other".to_vec()),
    ];
    assert_eq!(pull(&name, &options()).await.unwrap(), expected);
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn an_index_is_read_when_its_platforms_agree() {
    let registry = Registry::start();
    let uploader = Uploader::to(&registry);
    let (media_type, config_type) = (manifest::OCI_IMAGE_MEDIA_TYPE, manifest::IMAGE_CONFIG_MEDIA_TYPE);
    let image = async |layers: &[Layer]| uploader.manifest(layers, &Value::Null, media_type, config_type).await;
    let evil = Layer::of(&[("manifests/csv.yaml", FILE, b"kind: ClusterServiceVersion # evil")]);
    let (good, evil) = (image(&[bundle()]).await, image(&[bundle(), evil]).await);

    let agreeing = [("linux/s390x", &good), ("linux/arm64", &good), ("unknown/unknown", &evil)];
    let name = uploader.index("agreeing", &agreeing).await;
    assert_eq!(pull(&name, &options()).await.unwrap(), expected());

    let name = uploader.index("differing", &[("linux/amd64", &good), ("linux/arm64", &evil)]).await;
    let error = pull(&name, &options()).await.unwrap_err().to_string();
    assert!(error.contains("its platforms have different files"), "{error}");

    let name = uploader.index("empty", &[]).await;
    assert!(pull(&name, &options()).await.unwrap_err().to_string().ends_with("an index without any image in it"));
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn a_blocking_pull_works_even_inside_a_runtime() {
    let registry = Registry::start();
    let name = Uploader::to(&registry).image("v1", &[bundle()], &no_labels()).await;
    assert_eq!(pull_blocking(&name, &options()).unwrap(), expected());
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn an_entry_that_leaves_the_image_is_refused() {
    let error = refusal(&[bundle(), Layer::of(&[("manifests/../../etc/passwd", FILE, b"x")])]).await;
    assert!(error.ends_with("`manifests/../../etc/passwd` points outside of the image"), "{error}");
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn links_are_not_followed() {
    let symbolic = Layer::of(&[("manifests/evil.yaml", EntryType::Symlink, b"/etc/passwd")]);
    let error = refusal(&[bundle(), symbolic]).await;
    assert!(error.ends_with("`manifests/evil.yaml` is a symbolic link: only files are read"), "{error}");

    let hard = Layer::of(&[("manifests/evil.yaml", EntryType::Link, b"metadata/annotations.yaml")]);
    let error = refusal(&[bundle(), hard]).await;
    assert!(error.ends_with("`manifests/evil.yaml` is a hard link: only files are read"), "{error}");

    let through = [
        bundle(),
        Layer::of(&[("x", EntryType::Symlink, b"manifests")]),
        Layer::of(&[("x/evil.yaml", FILE, b"kind: ClusterRoleBinding")]),
    ];
    let error = refusal(&through).await;
    assert!(error.ends_with("`x/evil.yaml` is below `x`, which is a symbolic link"), "{error}");
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn a_layer_that_unpacks_to_more_than_any_bundle_is_refused() {
    let bomb = Layer::of(&[("manifests/csv.yaml", FILE, &vec![b' '; 130 << 20])]);
    assert!(bomb.bytes.len() < 2 << 20, "{}", bomb.bytes.len());
    let error = refusal(&[bomb]).await;
    assert!(
        error.ends_with("it has more than 134217728 bytes when unpacked, which is too large for a bundle"),
        "{error}"
    );
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn a_layer_of_another_size_than_its_manifest_says_is_refused() {
    let huge = Layer { size: Some(1 << 40), ..bundle() };
    let error = refusal(&[huge]).await;
    assert!(error.ends_with("a layer is larger than 67108864 bytes: refused"), "{error}");

    let longer = Layer { size: Some(10), ..bundle() };
    let error = refusal(&[longer]).await;
    assert!(error.contains("a layer is larger than the 10 bytes declared in its manifest"), "{error}");
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn a_layer_that_was_tampered_with_is_refused() {
    let registry = Registry::start();
    let layer = bundle();
    let file = registry.blob(&digest(&layer.bytes));
    let name = Uploader::to(&registry).image("v1", &[layer], &no_labels()).await;
    let mut bytes = fs::read(&file).unwrap();
    bytes[40] ^= 1;
    fs::write(&file, bytes).unwrap();
    let error = pull(&name, &options()).await.unwrap_err();
    assert!(matches!(error, registry::Error::Corrupted { .. }), "{error}");
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn what_cannot_be_read_is_named() {
    let other = Layer { media_type: "application/vnd.oci.image.layer.v1.tar+zstd", ..bundle() };
    let error = refusal(&[other]).await;
    assert!(error.contains("a layer of type application/vnd.oci.image.layer.v1.tar+zstd"), "{error}");

    let broken = Layer { bytes: b"not an archive".to_vec(), ..bundle() };
    let error = refusal(&[broken]).await;
    assert!(error.contains("a layer cannot be unpacked"), "{error}");

    let no_bundle = Layer::of(&[("bin/sh", FILE, b"x")]);
    let error = refusal(&[no_bundle]).await;
    assert!(error.ends_with("`manifests` is empty: not an operator bundle"), "{error}");
}

#[tokio::test]
#[ignore = "needs a registry: make registry-tests"]
async fn a_policy_is_no_bundle_and_a_bundle_is_no_policy() {
    let registry = Registry::start();
    let pushed = registry::push(&policy(1000, 1), &registry.name("policies/test:v1"), &options()).await.unwrap();
    let error = pull(&pushed.reference, &options()).await.unwrap_err().to_string();
    assert!(error.contains("a layer of type application/vnd.wasm.content.layer.v1+wasm"), "{error}");
    let name = Uploader::to(&registry).image("v1", &[bundle()], &no_labels()).await;
    let error = registry::pull(&name, &options()).await.unwrap_err().to_string();
    assert!(error.contains("its configuration is application/vnd.oci.image.config.v1+json"), "{error}");
}
