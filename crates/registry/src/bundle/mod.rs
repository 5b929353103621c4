//! OLM bundle images (registry+v1): the manifests of an operator and their annotations.
//!
//! A bundle is judged before OLM reads it, so it must not look different to OLM. Whatever OLM v0, OLM v1 or the kubelet
//! might read in another way is refused and not guessed at: links, entries that leave the image, platforms that differ,
//! more than one idea of where the manifests are.

mod directories;
mod layer;
mod tree;

use oci_client::manifest::{
    IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE, IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE, IMAGE_LAYER_GZIP_MEDIA_TYPE,
    IMAGE_LAYER_MEDIA_TYPE, ImageIndexEntry, OciDescriptor, OciImageManifest,
};
use oci_client::{Reference, RegistryOperation};

use crate::client::{Manifest, Session};
use crate::{Error, Options, reference};
use directories::{Directories, Labels};
use layer::{Budget, Compression};
use tree::Tree;

/// A file of the bundle: its path, below `manifests/` or `metadata/`, and its content.
pub type File = (String, Vec<u8>);

const CONFIG_LIMIT: u64 = 4 << 20;
const LAYER_LIMIT: u64 = 64 << 20;
/// Docker's own limit.
const LAYERS: usize = 127;
const PLATFORMS: usize = 16;

/// The files of a bundle image, sorted by path. Wherever the image keeps them, their paths start with `manifests/` and
/// `metadata/`.
///
/// ```no_run
/// # async fn example() -> Result<(), registry::Error> {
/// let options = registry::Options::default();
/// for (path, content) in registry::bundle::pull("oci://quay.io/operatorhubio/etcd:v0.9.4", &options).await? {
///     println!("{path}: {} bytes", content.len());
/// }
/// # Ok(()) }
/// ```
pub async fn pull(name: &str, options: &Options) -> Result<Vec<File>, Error> {
    let reference = reference::parse(name)?;
    let session = Session::open(&reference, RegistryOperation::Pull, options).await?;
    let refused = |reason: String| Error::Bundle { reference: reference.whole(), reason };
    let (manifest, _) = session.manifest(&reference).await?;
    let index = match manifest {
        Manifest::Image(image) => return files(&session, &image).await,
        Manifest::Index(index) => index,
    };
    let platforms: Vec<_> = index.manifests.iter().filter(|entry| is_platform(entry)).collect();
    if platforms.len() > PLATFORMS {
        return Err(refused(format!("{} platforms, but at most {PLATFORMS} are supported", platforms.len())));
    }
    let mut found: Option<Vec<File>> = None;
    for entry in platforms {
        let image = image(&session, &reference, entry).await?;
        let files = files(&session, &image).await?;
        // Which one OLM takes depends on the node that it runs on.
        if found.as_ref().is_some_and(|others| *others != files) {
            return Err(refused(
                "its platforms have different files, so it cannot be determined which ones OLM will use".to_owned(),
            ));
        }
        found = Some(files);
    }
    found.ok_or_else(|| refused("an index without any image in it".to_owned()))
}

/// [`pull`] for those who do not wait for anything else. May be called from anywhere, an asynchronous function included.
pub fn pull_blocking(name: &str, options: &Options) -> Result<Vec<File>, Error> {
    let failed =
        |reason: String| Error::Failed { doing: "starting a runtime".to_owned(), registry: name.to_owned(), reason };
    // A thread of its own, because a runtime cannot be started inside another.
    std::thread::scope(|scope| {
        let puller = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| failed(error.to_string()))?.block_on(pull(name, options))
        });
        puller.join().unwrap_or_else(|_| Err(failed("the thread that pulls has panicked".to_owned())))
    })
}

/// Builders put their attestations into the index too, for a platform `unknown`.
fn is_platform(entry: &ImageIndexEntry) -> bool {
    entry.platform.as_ref().is_none_or(|platform| platform.os.to_string() != "unknown")
}

async fn image(session: &Session, index: &Reference, entry: &ImageIndexEntry) -> Result<Box<OciImageManifest>, Error> {
    let (manifest, _) = session.manifest(&index.clone_with_digest(entry.digest.clone())).await?;
    match manifest {
        Manifest::Image(image) => Ok(image),
        Manifest::Index(_) => {
            let reason = "an index inside an index".to_owned();
            Err(Error::Bundle { reference: index.whole(), reason })
        }
    }
}

/// The bundle's files in one image: the layers one over the other, then the directories that are asked for.
async fn files(session: &Session, image: &OciImageManifest) -> Result<Vec<File>, Error> {
    let refused = |reason: String| Error::Bundle { reference: session.reference().whole(), reason };
    if image.layers.len() > LAYERS {
        return Err(refused(format!("{} layers, but at most {LAYERS} are supported", image.layers.len())));
    }
    let layers = image.layers.iter().map(|layer| Ok((layer, compression(layer)?)));
    let layers = layers.collect::<Result<Vec<_>, String>>().map_err(refused)?;
    let config = session.blob(&image.config, "the image's configuration", CONFIG_LIMIT).await?;
    let labels = Labels::of_image(&config).map_err(refused)?;
    let mut budget = Budget::default();
    let mut tree = Tree::default();
    for (descriptor, compression) in layers {
        let bytes = session.blob(descriptor, "a layer", LAYER_LIMIT).await?;
        let layer = layer::read(&bytes, compression, &mut budget).map_err(refused)?;
        tree.apply(layer).map_err(refused)?;
    }
    Directories::find(&labels, &tree).and_then(|directories| directories.files(&mut tree)).map_err(refused)
}

fn compression(layer: &OciDescriptor) -> Result<Compression, String> {
    match layer.media_type.as_str() {
        IMAGE_LAYER_GZIP_MEDIA_TYPE | IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE => Ok(Compression::Gzip),
        IMAGE_LAYER_MEDIA_TYPE | IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE => Ok(Compression::None),
        other => Err(format!("a layer of type {other}, but only tar and tar+gzip are supported")),
    }
}
