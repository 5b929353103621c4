//! The session file that `kwctl run --replay-host-capabilities-interactions` reads.
//!
//! A YAML list of exchanges. Each request is a string that holds a YAML document of its own, with a tag that names
//! the look-up. kwctl compares the requests with what the policy really asks, in strict order.

use serde::Serialize;
use serde_json::Value;

use crate::host::{Exchange, ListResources, Request};
use crate::yaml::scalar;

/// The session as YAML.
pub fn session(exchanges: &[Exchange]) -> Result<String, serde_json::Error> {
    if exchanges.is_empty() {
        return Ok("[]\n".to_owned());
    }
    exchanges.iter().map(exchange).collect()
}

fn exchange(exchange: &Exchange) -> Result<String, serde_json::Error> {
    let mut out = String::from("- type: Exchange\n  request: |\n");
    for line in request(&exchange.request)?.lines() {
        out.push_str("    ");
        out.push_str(line);
        out.push('\n');
    }
    let (kind, field, text) = match &exchange.response {
        Ok(json) => ("Success", "payload", String::from_utf8_lossy(json)),
        Err(message) => ("Error", "message", message.as_str().into()),
    };
    out.push_str("  response:\n    type: ");
    out.push_str(kind);
    out.push_str("\n    ");
    out.push_str(field);
    out.push_str(": ");
    out.push_str(&scalar(&text));
    out.push('\n');
    Ok(out)
}

/// The document inside: the tag that kwctl knows the look-up by, and its fields.
fn request(request: &Request) -> Result<String, serde_json::Error> {
    let (tag, fields) = match request {
        Request::List(list @ ListResources { namespace: None, .. }) => ("KubernetesListResourceAll", value(list)?),
        Request::List(list) => ("KubernetesListResourceNamespace", value(list)?),
        Request::Get(get) => ("KubernetesGetResource", value(get)?),
        Request::CanI(can_i) => ("KubernetesCanI", value(can_i)?),
    };
    let mut out = format!("!{tag}\n");
    block(&fields, 0, &mut out);
    Ok(out)
}

fn value(fields: &impl Serialize) -> Result<Value, serde_json::Error> {
    serde_json::to_value(fields)
}

/// A mapping or a list in block style, below the line that introduces it.
fn block(value: &Value, indent: usize, out: &mut String) {
    let mut entry = |head: String, value: &Value| {
        out.push_str(&" ".repeat(indent));
        out.push_str(&head);
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                out.push('\n');
                block(value, indent + 2, out);
            }
            Value::Array(elements) if !elements.is_empty() => {
                out.push('\n');
                block(value, indent, out);
            }
            Value::String(text) => {
                out.push(' ');
                out.push_str(&scalar(text));
                out.push('\n');
            }
            // Empty collections, numbers, booleans and null are written in YAML as in JSON.
            other => {
                out.push(' ');
                out.push_str(&other.to_string());
                out.push('\n');
            }
        }
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| entry(format!("{key}:"), value)),
        Value::Array(elements) => elements.iter().for_each(|value| entry("-".to_owned(), value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::documents;
    use crate::host::{CanI, GetResource, ResourceAttributes, SubjectAccessReview};

    fn list(namespace: Option<&str>) -> Request {
        Request::List(ListResources {
            api_version: "rbac.authorization.k8s.io/v1".to_owned(),
            kind: "RoleBinding".to_owned(),
            namespace: namespace.map(str::to_owned),
            label_selector: None,
            field_selector: (),
            field_masks: Some(["subjects".to_owned(), "roleRef".to_owned()].into()),
        })
    }

    fn answered(request: Request, payload: &str) -> Exchange {
        Exchange { request, response: Ok(payload.as_bytes().to_vec()) }
    }

    #[test]
    fn a_session_looks_like_the_one_that_kwctl_records() {
        let get = Request::Get(GetResource {
            api_version: "v1".to_owned(),
            kind: "ServiceAccount".to_owned(),
            name: "robot".to_owned(),
            namespace: Some("a".to_owned()),
            disable_cache: true,
            field_masks: None,
        });
        let missing = Exchange { request: get, response: Err("Cannot find 'it'".to_owned()) };
        let yaml = session(&[answered(list(Some("off")), r#"{"items":[]}"#), missing]).unwrap();
        assert_eq!(
            yaml,
            "\
- type: Exchange
  request: |
    !KubernetesListResourceNamespace
    api_version: rbac.authorization.k8s.io/v1
    field_masks:
    - roleRef
    - subjects
    field_selector: null
    kind: RoleBinding
    label_selector: null
    namespace: 'off'
  response:
    type: Success
    payload: '{\"items\":[]}'
- type: Exchange
  request: |
    !KubernetesGetResource
    api_version: v1
    disable_cache: true
    field_masks: null
    kind: ServiceAccount
    name: robot
    namespace: a
  response:
    type: Error
    message: 'Cannot find ''it'''
"
        );
    }

    #[test]
    fn a_list_of_all_namespaces_names_none() {
        let yaml = session(&[answered(list(None), "{}")]).unwrap();
        assert!(yaml.contains("!KubernetesListResourceAll\n") && !yaml.contains("namespace"), "{yaml}");
    }

    #[test]
    fn an_access_review_is_nested() {
        let attributes =
            ResourceAttributes { verb: "*".to_owned(), resource: "pods".to_owned(), ..ResourceAttributes::default() };
        let review = SubjectAccessReview {
            groups: Some(vec!["system:masters".to_owned()]),
            resource_attributes: attributes,
            user: "system:serviceaccount:a:b".to_owned(),
        };
        let exchange = answered(Request::CanI(CanI { request: review, disable_cache: false }), "{}");
        let yaml = request(&exchange.request).unwrap();
        let inner =
            documents::parse(Path::new("request"), yaml.trim_start_matches("!KubernetesCanI").as_bytes()).unwrap();
        let attributes = json!({"group": null, "name": null, "namespace": null, "resource": "pods", "subresource": null, "verb": "*", "version": null});
        let review = json!({"groups": ["system:masters"], "resource_attributes": attributes, "user": "system:serviceaccount:a:b"});
        assert_eq!(inner, [json!({"request": review, "disable_cache": false})]);
    }

    #[test]
    fn every_text_is_read_back_as_it_was() {
        let texts = [
            "it's",
            "a: b",
            "",
            "-",
            "no",
            "1.5",
            "tab\there",
            "line\nbreak",
            "\u{2028}\u{85}\u{7f}\\\"",
            "# x",
            "é😀",
            "~",
            "a b ",
        ];
        for text in texts {
            let yaml = session(&[answered(list(None), text)]).unwrap();
            let documents = documents::parse(Path::new("session"), yaml.as_bytes()).unwrap();
            assert_eq!(documents[0][0]["response"]["payload"], *text, "{yaml}");
        }
    }

    #[test]
    fn no_look_up_is_an_empty_list() {
        assert_eq!(session(&[]).unwrap(), "[]\n");
    }
}
