//! Objects in Kubernetes' protobuf encoding: four bytes, then an envelope that contains the object. Every kind has its
//! metadata in the first field.

use std::collections::HashMap;

use bytes::Bytes;
use prost::Message;

use super::{BodyError, Change, HOOK, INDEX, Said, release};
use crate::scope::owner::{OWNER_KIND, OWNER_NAME};

const MAGIC: &[u8] = b"k8s\0";

#[derive(Message)]
pub(super) struct Envelope {
    #[prost(bytes = "bytes", tag = "2")]
    pub raw: Bytes,
    #[prost(string, tag = "3")]
    pub content_encoding: String,
    #[prost(string, tag = "4")]
    pub content_type: String,
}

#[derive(Message)]
pub(super) struct Object {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<Metadata>,
}

#[derive(Message)]
pub(super) struct Metadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(map = "string, string", tag = "11")]
    pub labels: HashMap<String, String>,
    #[prost(map = "string, string", tag = "12")]
    pub annotations: HashMap<String, String>,
}

#[derive(Message)]
pub(super) struct Secret {
    #[prost(map = "string, bytes", tag = "2")]
    pub data: HashMap<String, Vec<u8>>,
    #[prost(string, tag = "3")]
    pub r#type: String,
}

/// A whole object: POST, PUT.
pub(super) fn whole(body: &[u8], is_secret: bool, is_create: bool) -> Result<Said, BodyError> {
    let raw = open(body)?;
    let Metadata { name, mut labels, annotations } = decode::<Object>(&raw)?.metadata.unwrap_or_default();
    let mut owner = |label| labels.remove(label).map_or(Change::Removed, Change::Set);
    let (owner_kind, owner_name) = (owner(OWNER_KIND), owner(OWNER_NAME));
    let is_hook = annotations.contains_key(HOOK);
    let mut said = Said { name, owner_kind, owner_name, is_hook, touches_spec: true, ..Said::default() };
    if is_secret {
        let secret: Secret = decode(&raw)?;
        if is_create && secret.r#type == INDEX {
            let data = |key| secret.data.get(key).map_or(&[][..], Vec::as_slice);
            said.release = Some(release::read(data("chunk"), data("extraChunks")));
        }
        said.secret_type = Some(secret.r#type);
    }
    Ok(said)
}

fn open(body: &[u8]) -> Result<Bytes, BodyError> {
    let broken = |reason: &str| BodyError::Broken("protobuf", reason.to_owned());
    let envelope = body.strip_prefix(MAGIC).ok_or_else(|| broken("it does not begin with k8s"))?;
    let envelope: Envelope = decode(envelope)?;
    if !envelope.content_encoding.is_empty() || !matches!(&*envelope.content_type, "" | super::PROTOBUF) {
        return Err(broken("there is another encoding inside"));
    }
    Ok(envelope.raw)
}

fn decode<T: Message + Default>(bytes: &[u8]) -> Result<T, BodyError> {
    T::decode(bytes).map_err(|error| BodyError::Broken("protobuf", error.to_string()))
}
