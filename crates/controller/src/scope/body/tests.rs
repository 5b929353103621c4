//! Bodies in every encoding, including ones that no client should send.

use std::collections::HashMap;
use std::io::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use serde_json::{Value, json};

use super::protobuf::{Envelope, Metadata, Object, Secret};
use super::*;
use crate::scope::owner::{OWNER_KIND, OWNER_NAME, Owner};
use crate::scope::path::{self, Place};

const PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn target(path: &str) -> Target {
    let Ok(Place::Object(target)) = path::read(path) else { panic!("{path}") };
    target
}

fn role(verb: Verb, media_type: &str, body: &[u8]) -> Result<Said, BodyError> {
    read(verb, &target("/apis/rbac.authorization.k8s.io/v1/clusterroles/r"), media_type, body)
}

fn release_of(media_type: &str, body: &[u8]) -> Result<Release, BodyError> {
    let said = read(Verb::Create, &target("/api/v1/namespaces/olmv1-system/secrets"), media_type, body)?;
    assert_eq!(said.secret_type.as_deref(), Some(INDEX));
    Ok(said.release.expect("a release"))
}

fn hello() -> Claim {
    Claim::Of(Owner::Extension("hello".to_owned()))
}

fn labels() -> HashMap<String, String> {
    [(OWNER_KIND, "ClusterExtension"), (OWNER_NAME, "hello")].map(|(key, value)| (key.into(), value.into())).into()
}

fn packed(content: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(content).unwrap();
    gzip.finish().unwrap()
}

/// Wraps a message in the four bytes and the envelope.
fn sealed(message: &impl Message) -> Vec<u8> {
    enveloped(&Envelope { raw: message.encode_to_vec().into(), ..Envelope::default() })
}

fn enveloped(envelope: &Envelope) -> Vec<u8> {
    [b"k8s\0", envelope.encode_to_vec().as_slice()].concat()
}

#[test]
fn the_owner_is_the_same_in_every_encoding() {
    let object = json!({"metadata": {"name": "r", "labels": labels()}, "rules": [{"verbs": ["get"]}]}).to_string();
    let metadata = Some(Metadata { name: "r".to_owned(), labels: labels(), ..Metadata::default() });
    let protobuf = sealed(&Object { metadata });
    let operations = json!([{"op": "add", "path": "/metadata/labels", "value": labels()}]).to_string();
    for (verb, media_type, body) in [
        (Verb::Create, JSON, object.as_bytes()),
        (Verb::Update, JSON, object.as_bytes()),
        (Verb::Create, PROTOBUF, &protobuf),
        (Verb::Update, PROTOBUF, &protobuf),
        (Verb::Patch, MERGE, object.as_bytes()),
        (Verb::Patch, STRATEGIC, object.as_bytes()),
        (Verb::Apply, APPLY, object.as_bytes()),
        (Verb::Patch, PATCH, operations.as_bytes()),
    ] {
        let said = role(verb, media_type, body).unwrap();
        assert_eq!(said.owner_after(None, None), hello(), "{verb:?} {media_type}");
        assert!(!said.is_hook);
        assert_eq!(said.name, if media_type == PATCH { "" } else { "r" });
    }
}

#[test]
fn a_hook_is_seen_in_every_encoding() {
    let annotations: HashMap<String, String> = [(HOOK.to_owned(), String::new())].into();
    let object = json!({"metadata": {"annotations": annotations}}).to_string();
    let metadata = Some(Metadata { annotations: annotations.clone(), ..Metadata::default() });
    let protobuf = sealed(&Object { metadata });
    let all = json!([{"op": "replace", "path": "/metadata/annotations", "value": annotations}]).to_string();
    let one = json!([{"op": "add", "path": "/metadata/annotations/helm.sh~1hook", "value": "x"}]).to_string();
    for (verb, media_type, body) in [
        (Verb::Create, JSON, object.as_bytes()),
        (Verb::Create, PROTOBUF, &protobuf),
        (Verb::Patch, MERGE, object.as_bytes()),
        (Verb::Patch, STRATEGIC, object.as_bytes()),
        (Verb::Apply, APPLY, object.as_bytes()),
        (Verb::Patch, PATCH, all.as_bytes()),
        (Verb::Patch, PATCH, one.as_bytes()),
    ] {
        assert!(role(verb, media_type, body).unwrap().is_hook, "{verb:?} {media_type}");
    }
    let removed = json!({"metadata": {"annotations": {HOOK: null}}}).to_string();
    assert!(!role(Verb::Patch, MERGE, removed.as_bytes()).unwrap().is_hook);
}

#[test]
fn other_encodings_are_told_to_be_json() {
    for (verb, media_type) in [
        (Verb::Create, "application/yaml"),
        (Verb::Create, "application/cbor"),
        (Verb::Create, MERGE),
        (Verb::Apply, "application/apply-patch+cbor"),
        (Verb::Patch, "application/apply-patch+cbor"),
        (Verb::Patch, PROTOBUF),
        (Verb::Patch, JSON),
        (Verb::Update, "text/plain"),
    ] {
        let refused = role(verb, media_type, b"{}").unwrap_err();
        assert!(matches!(refused, BodyError::Encoding(_)), "{media_type}: {refused}");
    }
    let header = hyper::header::HeaderValue::from_static("Application/JSON; charset=utf-8");
    assert_eq!((media_type(Some(&header)).as_str(), media_type(None).as_str()), (JSON, JSON));
}

#[test]
fn what_could_be_read_in_two_ways_is_not_read() {
    let twice = format!(r#"{{"metadata":{{"labels":{{"{OWNER_NAME}":"a","{OWNER_NAME}":"b"}}}}}}"#);
    let metadata_twice = r#"{"metadata":{},"metadata":{"labels":{}}}"#;
    let escaped_twice = r#"{"metadata":{},"met\u0061data":{"labels":{}}}"#;
    for (verb, media_type, body) in [
        (Verb::Create, JSON, twice.as_str()),
        (Verb::Create, JSON, metadata_twice),
        (Verb::Create, JSON, escaped_twice),
        (Verb::Create, JSON, "metadata:\n  name: yaml\n"),
        (Verb::Apply, APPLY, "metadata: &a {labels: {x: y}}\n"),
        (Verb::Create, JSON, "{} {}"),
        (Verb::Create, JSON, ""),
        (Verb::Create, JSON, "[]"),
        (Verb::Create, JSON, r#"{"metadata": []}"#),
        (Verb::Create, JSON, r#"{"metadata": {"labels": "x"}}"#),
        (Verb::Create, JSON, "k8s\0"),
        (Verb::Patch, PATCH, "{}"),
    ] {
        let refused = role(verb, media_type, body.as_bytes()).unwrap_err();
        assert!(matches!(refused, BodyError::Broken(..)), "{body}: {refused}");
    }
    for patch in [
        json!({"$patch": "replace"}),
        json!({"metadata": {"$patch": "replace"}}),
        json!({"metadata": {"labels": {"$patch": "replace"}}}),
        json!({"metadata": {"labels": {"$retainKeys": ["a"]}}}),
        json!({"metadata": {"annotations": {"$patch": "delete"}}}),
        json!({"metadata": {"$retainKeys": []}}),
    ] {
        let refused = role(Verb::Patch, STRATEGIC, patch.to_string().as_bytes()).unwrap_err();
        assert!(matches!(refused, BodyError::Unclear(_)), "{patch}: {refused}");
    }
    for operation in [
        json!({"op": "replace", "path": "", "value": {}}),
        json!({"op": "replace", "path": "/metadata", "value": {}}),
        json!({"op": "add", "path": "x/metadata/labels", "value": {}}),
        json!({"op": "move", "from": "/metadata/labels", "path": "/spec/x"}),
        json!({"op": "copy", "from": "/spec/x", "path": "/metadata/labels"}),
        json!({"op": "move", "from": "", "path": "/spec"}),
        json!({"op": "copy", "path": "/spec"}),
        json!({"op": "frobnicate", "path": "/spec"}),
    ] {
        let refused = role(Verb::Patch, PATCH, json!([operation]).to_string().as_bytes()).unwrap_err();
        assert!(matches!(refused, BodyError::Unclear(_)), "{operation}: {refused}");
    }
}

#[test]
fn hostile_protobuf_is_an_error_and_no_crash() {
    let other = Envelope { content_encoding: "gzip".to_owned(), ..Envelope::default() };
    let json = Envelope { content_type: JSON.to_owned(), raw: "{}".into(), ..Envelope::default() };
    let bodies: [&[u8]; 7] = [
        b"",
        b"k8s",
        b"{}",
        b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"k8s\0\x12\xff\xff\xff\xff\x0f",
        &enveloped(&other),
        &enveloped(&json),
    ];
    for body in bodies {
        let refused = role(Verb::Create, PROTOBUF, body).unwrap_err();
        assert!(matches!(refused, BodyError::Broken("protobuf", _)), "{body:?}: {refused}");
    }
    // Not labels at all: a message in which every field is something else.
    let odd = sealed(&Secret { data: [("a".repeat(1000), vec![0xff; 1000])].into(), r#type: "x".to_owned() });
    assert_eq!(role(Verb::Create, PROTOBUF, &odd).unwrap().owner_after(None, None), Claim::Nobody);
}

#[test]
fn deep_and_large_json_is_read_without_unfolding_it() {
    let deep = format!(r#"{{"metadata":{{"labels":{{}}}},"spec":{}{}}}"#, "[".repeat(100), "]".repeat(100));
    assert_eq!(role(Verb::Create, JSON, deep.as_bytes()).unwrap().owner_after(None, None), Claim::Nobody);
    let endless = "[".repeat(1_000_000);
    assert!(role(Verb::Create, JSON, format!(r#"{{"spec":{endless}"#).as_bytes()).is_err());
    let large = json!({"metadata": {"labels": {OWNER_KIND: "ClusterExtension", OWNER_NAME: "a".repeat(1_000_000)}}});
    let said = role(Verb::Create, JSON, large.to_string().as_bytes()).unwrap();
    assert!(matches!(said.owner_after(None, None), Claim::Odd(reason) if reason.len() < 250));
}

fn record(hooks: &Value) -> Vec<u8> {
    packed(
        json!({"name": "hooky", "chart": {"templates": []}, "manifest": "---", "hooks": hooks}).to_string().as_bytes(),
    )
}

/// The Secret of a release, as JSON and as protobuf.
fn index(chunk: &[u8], extra: &str) -> [(&'static str, Vec<u8>); 2] {
    let json = json!({"metadata": {"name": "s"}, "type": INDEX, "data": {
        "chunk": STANDARD.encode(chunk), "extraChunks": STANDARD.encode(extra),
    }});
    let data = [("chunk".to_owned(), chunk.to_vec()), ("extraChunks".to_owned(), extra.as_bytes().to_vec())].into();
    [(JSON, json.to_string().into_bytes()), (PROTOBUF, sealed(&Secret { data, r#type: INDEX.to_owned() }))]
}

#[test]
fn a_release_is_read_out_of_its_secret() {
    let hook = json!({"name": "a\nb", "kind": "Job", "manifest": "…", "events": ["pre-install"]});
    let many: Vec<Value> = (0..25).map(|n| json!({"name": format!("h{n}"), "kind": "Job"})).collect();
    for (chunk, extra, expected) in [
        (record(&Value::Null), "[]", Release::Plain),
        (record(&json!([])), "null", Release::Plain),
        (record(&json!([hook])), "[]", Release::Hooks("hooky".to_owned(), r#""Job" "a\nb""#.to_owned())),
        (record(&json!([])), r#"["sh.helm.release.v1.big.v1-abc"]"#, Release::Large),
    ] {
        for (media_type, body) in index(&chunk, extra) {
            assert_eq!(release_of(media_type, &body).unwrap(), expected, "{media_type}");
        }
    }
    let [(_, body), _] = index(&record(&json!(many)), "[]");
    let Ok(Release::Hooks(_, names)) = release_of(JSON, &body) else { panic!() };
    assert!(names.contains("\"h9\"") && names.ends_with("and 15 more"), "{names}");
}

#[test]
fn a_release_that_cannot_be_read_is_no_plain_one() {
    let bomb = packed(&vec![b' '; 65 * 1024 * 1024]);
    for (chunk, extra, words) in [
        (Vec::new(), "[]", ""),
        (b"certainly not compressed".to_vec(), "[]", "gzip"),
        (packed(b"no json"), "[]", "expected"),
        (packed(br#"{"hooks": "x"}"#), "[]", "invalid type"),
        (packed(br#"{"hooks": [], "hooks": [{}]}"#), "[]", "duplicate field"),
        (record(&json!([]))[..40].to_vec(), "[]", ""),
        (record(&json!([])), "no list", "the list of its parts is broken"),
        (record(&json!([])), "", "the list of its parts is broken"),
        (bomb, "[]", "unpacks to more than"),
    ] {
        for (media_type, body) in index(&chunk, extra) {
            let read = release_of(media_type, &body).unwrap();
            assert!(matches!(&read, Release::Unreadable(reason) if reason.contains(words)), "{words}: {read:?}");
        }
    }
    let body = json!({"type": INDEX, "data": {"chunk": "*", "extraChunks": "W10="}}).to_string();
    assert_eq!(release_of(JSON, body.as_bytes()).unwrap(), Release::Unreadable("it is not base64".to_owned()));
    let no_data = json!({"type": INDEX}).to_string();
    assert!(matches!(release_of(JSON, no_data.as_bytes()).unwrap(), Release::Unreadable(_)));
}
