//! The release that OLM v1 stores in a Secret before it writes any of its objects: gzipped JSON, in Helm's format.

use std::collections::BTreeMap;

use crate::read::gzip;
use crate::read::object::{Failed, FromJson, Value, object};
use crate::read::text::Text;

/// A Secret holds at most 1 MiB; this is the limit for its decompressed content. Anything larger is taken for a
/// decompression bomb.
const MAX_UNPACKED: usize = 16 * 1024 * 1024;
/// The maximum number of hooks named in a refusal.
const MAX_NAMED: usize = 10;

object! {
    #[derive(Debug, Default)]
    struct Data<'a> {
        chunk: Text<'a> = "chunk",
        extra_chunks: Text<'a> = "extraChunks",
    }
}

object! {
    #[derive(Debug, Default)]
    struct Written<'a> {
        name: Text<'a> = "name",
        namespace: Text<'a> = "namespace",
        labels: Bundle<'a> = "labels",
        manifest: Text<'a> = "manifest",
        hooks: Hooks = "hooks",
    }
}

object! {
    #[derive(Debug, Default)]
    struct Bundle<'a> {
        name: Text<'a> = "olm.operatorframework.io/bundle-name",
    }
}

object! {
    #[derive(Debug, Default)]
    struct WrittenHook<'a> {
        name: Text<'a> = "name",
        kind: Text<'a> = "kind",
    }
}

/// The hooks of a release: the first few by kind and name, and the total number. A release may have millions.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    named: Vec<String>,
    count: usize,
}

impl<'de> FromJson<'de> for Hooks {
    fn from_json(value: &mut dyn Value<'de>) -> Result<Self, Failed> {
        let mut hooks = Hooks::default();
        value.list(&mut |value: &mut dyn Value<'de>| {
            hooks.count += 1;
            if hooks.named.len() < MAX_NAMED {
                let hook = WrittenHook::from_json(value)?;
                hooks.named.push(format!("{} {}", hook.kind, hook.name));
            }
            Ok(())
        })?;
        Ok(hooks)
    }
}

/// A release, as far as it can be read from one Secret.
#[derive(Debug)]
pub(crate) enum Release {
    /// The Secret contains all of it.
    Whole(Content),
    /// Part of it is in other Secrets, so that none of it can be read.
    InChunks,
}

/// The part of a release that affects a verdict.
#[derive(Debug)]
pub(crate) struct Content {
    /// The name of the bundle, or of the release.
    pub(crate) bundle: String,
    /// The namespace that it is installed in.
    pub(crate) namespace: String,
    /// All objects as JSON, one after the other.
    pub(crate) manifest: String,
    hooks: Hooks,
}

impl Content {
    /// Whether Helm would run any hooks.
    #[must_use]
    pub(crate) fn has_hooks(&self) -> bool {
        self.hooks.count > 0
    }

    /// The message that refuses a release with hooks.
    #[must_use]
    pub(crate) fn refusal(&self) -> String {
        let named = self.hooks.named.join(", ");
        let more = self.hooks.count - self.hooks.named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!(
            "would install bundle {}, which brings Helm hooks: {named}{more}. OLM writes hooks with its own rights \
             and without its labels, and deletes whatever has their names first, so nothing would bound them. Nothing \
             of the bundle was written. Ask its author to remove the annotation helm.sh/hook.",
            self.bundle
        )
    }
}

/// Reads `data` of a release's Secret. The error says why it is not a release.
pub(crate) fn read(data: &str) -> Result<Release, String> {
    let data: Data<'_> = serde_json::from_str(data).map_err(|error| error.to_string())?;
    let extra = gzip::from_base64(&data.extra_chunks)?;
    // A list of names; OLM writes an empty one if there are none.
    if !matches!(extra.trim_ascii(), b"" | b"[]" | b"null") {
        return Ok(Release::InChunks);
    }
    let text = gzip::unpack(&gzip::from_base64(&data.chunk)?, &mut MAX_UNPACKED.clone())?;
    let written: Written<'_> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let bundle = if written.labels.name.is_empty() { &written.name } else { &written.labels.name };
    Ok(Release::Whole(Content {
        bundle: bundle.to_string(),
        namespace: written.namespace.to_string(),
        manifest: written.manifest.to_string(),
        hooks: written.hooks,
    }))
}

/// The objects in `data` of a Secret that stores those of a ClusterObjectSet, each as JSON. The error says why they
/// cannot be read.
pub(crate) fn read_objects(data: &str) -> Result<Vec<String>, String> {
    let data: BTreeMap<Text<'_>, Text<'_>> = serde_json::from_str(data).map_err(|error| error.to_string())?;
    let mut budget = MAX_UNPACKED;
    data.values()
        .map(|value| {
            let bytes = gzip::from_base64(value)?;
            if bytes.starts_with(&[0x1f, 0x8b]) {
                return gzip::unpack(&bytes, &mut budget);
            }
            String::from_utf8(bytes).map_err(|error| error.to_string())
        })
        .collect()
}
