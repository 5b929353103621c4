//! Objects and merge patches in JSON. Only what is needed is parsed; a duplicate key is an error.

use std::collections::HashMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::release::{self, INDEX, Release};
use super::{BodyError, Change, HOOK, Said};
use crate::scope::owner::{Claim, OWNER_KIND, OWNER_NAME};

/// The keys of a JSON object, with their values unparsed.
#[derive(Debug, Default)]
pub(super) struct Keys<'a>(HashMap<String, &'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Keys<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = Keys<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys<'de>, A::Error> {
                let mut keys = HashMap::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if keys.insert(key, value).is_some() {
                        return Err(A::Error::custom("a key comes twice"));
                    }
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(Once)
    }
}

impl<'a> Keys<'a> {
    fn get<T: Deserialize<'a>>(&self, key: &str) -> Result<Change<T>, BodyError> {
        self.0.get(key).map_or(Ok(Change::Untouched), |value| unfold(value))
    }

    fn text(&self, key: &str) -> Result<Option<String>, BodyError> {
        Ok(if let Change::Set(text) = self.get(key)? { Some(text) } else { None })
    }

    /// Whether a strategic merge patch says what happens to keys that it does not mention.
    fn has_directive(&self) -> bool {
        self.0.contains_key("$patch") || self.0.contains_key("$retainKeys")
    }
}

/// `null` removes the existing value.
pub(super) fn unfold<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Result<Change<T>, BodyError> {
    Ok(parse::<Option<T>>(value.get().as_bytes())?.map_or(Change::Removed, Change::Set))
}

pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, BodyError> {
    serde_json::from_slice(body).map_err(|error| BodyError::Broken("JSON", error.to_string()))
}

impl<'a> Change<Keys<'a>> {
    fn below<T: Deserialize<'a>>(&self, key: &str) -> Result<Change<T>, BodyError> {
        match self {
            Change::Untouched => Ok(Change::Untouched),
            Change::Removed => Ok(Change::Removed),
            Change::Set(keys) => keys.get(key),
        }
    }

    /// The change to the owner labels, if these are the labels.
    pub(super) fn owner(&self) -> Result<(Change<String>, Change<String>), BodyError> {
        Ok((self.below(OWNER_KIND)?, self.below(OWNER_NAME)?))
    }

    /// Whether there is a hook among them, if these are the annotations.
    pub(super) fn has_hook(&self) -> Result<bool, BodyError> {
        Ok(self.below::<&RawValue>(HOOK)?.is_set())
    }
}

/// A whole object: POST, PUT.
pub(super) fn whole(body: &[u8], is_secret: bool, is_create: bool) -> Result<Said, BodyError> {
    let object: Keys<'_> = parse(body)?;
    let mut said = object.said()?;
    said.owner_kind = said.owner_kind.in_whole();
    said.owner_name = said.owner_name.in_whole();
    if is_secret {
        said.secret_type = object.text("type")?;
        if is_create && said.secret_type.as_deref() == Some(INDEX) {
            said.release = Some(object.get("data")?.release()?);
        }
    }
    Ok(said)
}

/// Part of an object: a merge patch of either kind, or server-side apply.
pub(super) fn partial(body: &[u8]) -> Result<Said, BodyError> {
    let object: Keys<'_> = parse(body)?;
    let metadata: Change<Keys<'_>> = object.get("metadata")?;
    let inner: [Change<Keys<'_>>; 2] = [metadata.below("labels")?, metadata.below("annotations")?];
    let directed = |level: &Change<Keys<'_>>| matches!(level, Change::Set(keys) if keys.has_directive());
    if object.has_directive() || directed(&metadata) || inner.iter().any(directed) {
        return Err(BodyError::Unclear("it replaces or keeps whole parts by $patch or $retainKeys".to_owned()));
    }
    object.said()
}

impl Keys<'_> {
    fn said(&self) -> Result<Said, BodyError> {
        let metadata: Change<Keys<'_>> = self.get("metadata")?;
        let (owner_kind, owner_name) = metadata.below("labels")?.owner()?;
        let is_hook = metadata.below("annotations")?.has_hook()?;
        let name = if let Change::Set(metadata) = &metadata { metadata.text("name")? } else { None };
        let ours = ["apiVersion", "kind", "metadata", "status"];
        let touches_spec = self.0.keys().any(|key| !ours.contains(&key.as_str()));
        let name = name.unwrap_or_default();
        Ok(Said { name, owner_kind, owner_name, is_hook, touches_spec, ..Said::default() })
    }
}

impl Change<Keys<'_>> {
    /// The release, if this is the data of its Secret.
    fn release(&self) -> Result<Release, BodyError> {
        let text = |key| if let Change::Set(data) = self { data.text(key) } else { Ok(None) };
        let decode = |text: Option<String>| STANDARD.decode(text.unwrap_or_default());
        Ok(match (decode(text("chunk")?), decode(text("extraChunks")?)) {
            (Ok(chunk), Ok(extra)) => release::read(&chunk, &extra),
            _ => Release::Unreadable("it is not base64".to_owned()),
        })
    }
}

/// What an object says about itself, as stored in the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::scope) struct Stored {
    pub owner_kind: Option<String>,
    pub owner_name: Option<String>,
    pub is_hook: bool,
}

impl Stored {
    pub(in crate::scope) fn read(body: &[u8]) -> Result<Self, BodyError> {
        let Said { owner_kind, owner_name, is_hook, .. } = parse::<Keys<'_>>(body)?.said()?;
        let text = |change| if let Change::Set(text) = change { Some(text) } else { None };
        Ok(Stored { owner_kind: text(owner_kind), owner_name: text(owner_name), is_hook })
    }

    pub(in crate::scope) fn owner(&self) -> Claim {
        Claim::of(self.owner_kind.as_deref(), self.owner_name.as_deref())
    }
}
