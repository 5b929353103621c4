//! The release that OLM v1 keeps in a Secret before it writes anything of it: gzip of JSON, as Helm has it.

use std::fmt;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

use crate::read::gzip;
use crate::read::object::{FromJson, object};
use crate::read::text::Text;

/// A Secret holds at most 1 MiB; unpacked a release is allowed to be this much. More is a bomb.
const MAX_UNPACKED: usize = 16 * 1024 * 1024;
/// As many hooks as a refusal names.
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
        labels: Bundle<'a> = "labels",
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

/// The hooks of a release: the first few by kind and name, and how many there are. A release may have millions.
#[derive(Debug, Default)]
pub(crate) struct Hooks {
    named: Vec<String>,
    count: usize,
}

impl<'de> FromJson<'de> for Hooks {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HooksVisitor;

        impl<'de> Visitor<'de> for HooksVisitor {
            type Value = Hooks;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of hooks")
            }

            fn visit_none<E>(self) -> Result<Hooks, E> {
                Ok(Hooks::default())
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Hooks, D::Error> {
                deserializer.deserialize_seq(self)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Hooks, A::Error> {
                let mut hooks = Hooks::default();
                while hooks.named.len() < MAX_NAMED {
                    let Some(hook) = seq.next_element::<WrittenHook<'de>>()? else { break };
                    hooks.named.push(format!("{} {}", hook.kind, hook.name));
                }
                hooks.count = hooks.named.len();
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    hooks.count += 1;
                }
                Ok(hooks)
            }
        }

        deserializer.deserialize_option(HooksVisitor)
    }
}

/// A release.
#[derive(Debug)]
pub(crate) enum Release {
    /// All of it is in the Secret.
    Whole(Content),
    /// A part of it is in other Secrets, so that nothing can be read of it.
    InChunks,
}

/// What counts of a release.
#[derive(Debug)]
pub(crate) struct Content {
    /// The name of the bundle, or of the release.
    bundle: String,
    hooks: Hooks,
}

impl Content {
    /// Whether Helm would run any hooks.
    #[must_use]
    pub(crate) fn has_hooks(&self) -> bool {
        self.hooks.count > 0
    }

    /// Why a release with hooks is refused.
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

/// Reads `data` of a release's Secret. The error says why it is none.
pub(crate) fn read(data: &str) -> Result<Release, String> {
    let data: Data<'_> = serde_json::from_str(data).map_err(|error| error.to_string())?;
    let extra = gzip::from_base64(&data.extra_chunks)?;
    // A list of names; OLM writes an empty one where there are none.
    if !matches!(extra.trim_ascii(), b"" | b"[]" | b"null") {
        return Ok(Release::InChunks);
    }
    let text = gzip::unpack(&gzip::from_base64(&data.chunk)?, &mut MAX_UNPACKED.clone())?;
    let written: Written<'_> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let bundle = if written.labels.name.is_empty() { &written.name } else { &written.labels.name };
    Ok(Release::Whole(Content { bundle: bundle.to_string(), hooks: written.hooks }))
}
