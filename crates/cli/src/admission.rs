//! Admission requests as they come, and admission responses as kwctl prints them.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::documents::FileError;
use crate::policy::ValidationResponse;

/// An admission request, as the API server sent it.
#[derive(Debug)]
pub struct Request {
    /// The identifier that the response repeats.
    pub uid: String,
    /// The whole request, unchanged.
    pub json: Box<RawValue>,
    object: Option<Value>,
}

/// What is read of a request here; the rest is the policy's business. kwctl, too, insists on these.
#[derive(Deserialize)]
struct Head {
    uid: String,
    #[serde(rename = "operation")]
    _operation: String,
    #[serde(rename = "kind")]
    _kind: BTreeMap<String, String>,
    object: Option<Value>,
}

/// A request alone has an object as its kind; a review around it has a text.
#[derive(Deserialize)]
struct Review {
    kind: Value,
    request: Option<Box<RawValue>>,
}

impl Request {
    /// Reads a bare admission request, or a whole AdmissionReview. The path is for the errors.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, FileError> {
        let review: Review = serde_json::from_slice(bytes).map_err(|error| FileError::json(path, &error))?;
        let json = match review {
            Review { kind, request: Some(request) } if kind == "AdmissionReview" => request,
            Review { kind, request: None } if kind == "AdmissionReview" => {
                return Err(FileError::new(path, "an AdmissionReview without a request"));
            }
            _ => serde_json::from_slice(bytes).map_err(|error| FileError::json(path, &error))?,
        };
        Request::new(json).map_err(|error| FileError::new(path, format!("not an admission request: {error}")))
    }

    /// A bare admission request.
    pub fn new(json: Box<RawValue>) -> Result<Self, serde_json::Error> {
        let head: Head = serde_json::from_str(json.get())?;
        Ok(Request { uid: head.uid, json, object: head.object })
    }
}

/// The answer to the API server. The order of the fields is the order in kwctl's output.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionResponse {
    /// The request's identifier.
    pub uid: String,
    /// Admitted?
    pub allowed: bool,
    /// How the patch is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<&'static str>,
    /// The change to the object, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// The message of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Facts for machines.
    pub audit_annotations: Option<BTreeMap<String, String>>,
    /// What the client prints.
    pub warnings: Option<Vec<String>>,
}

/// The reason of a refusal.
#[derive(Debug, Serialize)]
pub struct Status {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// For clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
}

impl AdmissionResponse {
    /// The response to a request, from the policy's verdict.
    pub fn new(request: &Request, response: ValidationResponse) -> Result<Self, serde_json::Error> {
        let ValidationResponse { accepted, message, code, mutated_object, audit_annotations, warnings } = response;
        let patch = mutated_object.map(|mutated| patch(request.object.as_ref(), &mutated)).transpose()?.flatten();
        let status = (message.is_some() || code.is_some()).then_some(Status { message, code });
        let patch_type = patch.is_some().then_some("JSONPatch");
        let uid = request.uid.clone();
        Ok(AdmissionResponse { uid, allowed: accepted, patch_type, patch, status, audit_annotations, warnings })
    }

    /// The response to a request that the policy could not judge.
    #[must_use]
    pub fn unjudged(request: &Request, message: String) -> Self {
        AdmissionResponse {
            uid: request.uid.clone(),
            allowed: false,
            patch_type: None,
            patch: None,
            status: Some(Status { message: Some(message), code: Some(500) }),
            audit_annotations: None,
            warnings: None,
        }
    }
}

/// The JSON patch from one object to the other, or nothing when they are the same.
fn patch(object: Option<&Value>, mutated: &Value) -> Result<Option<String>, serde_json::Error> {
    let patch = json_patch::diff(object.unwrap_or(&Value::Null), mutated);
    if patch.0.is_empty() {
        return Ok(None);
    }
    Ok(Some(STANDARD.encode(serde_json::to_vec(&patch)?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(request: &Value) -> Result<Request, String> {
        Request::parse(Path::new("request.json"), request.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    fn bare() -> Value {
        let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
        json!({"uid": "42", "kind": kind, "operation": "CREATE", "object": {"spec": {"a": 1, "b": 2}}})
    }

    fn printed(response: &Value) -> Value {
        let request = parse(&bare()).unwrap();
        let response = AdmissionResponse::new(&request, serde_json::from_value(response.clone()).unwrap()).unwrap();
        serde_json::to_value(response).unwrap()
    }

    #[test]
    fn a_review_and_the_request_in_it_are_the_same() {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": bare()});
        for request in [bare(), review] {
            let request = parse(&request).unwrap();
            assert_eq!(request.uid, "42");
            assert_eq!(serde_json::from_str::<Value>(request.json.get()).unwrap(), bare());
        }
    }

    #[test]
    fn what_is_no_request_is_an_error_that_says_why() {
        assert!(
            parse(&json!({"kind": "AdmissionReview"})).unwrap_err().ends_with("an AdmissionReview without a request")
        );
        assert!(parse(&json!({"kind": "Pod", "apiVersion": "v1"})).unwrap_err().contains("not an admission request"));
        assert!(parse(&json!({"kind": {}, "operation": "CREATE"})).unwrap_err().contains("missing field `uid`"));
        let error = Request::parse(Path::new("r.json"), b"{\n oops").unwrap_err().to_string();
        assert!(error.starts_with("r.json:2:2: "), "{error}");
    }

    #[test]
    fn an_admission_is_printed_as_kwctl_prints_it() {
        let request = parse(&bare()).unwrap();
        let response = serde_json::from_value(json!({"accepted": true})).unwrap();
        let printed = serde_json::to_string(&AdmissionResponse::new(&request, response).unwrap()).unwrap();
        assert_eq!(printed, r#"{"uid":"42","allowed":true,"auditAnnotations":null,"warnings":null}"#);
    }

    #[test]
    fn a_refusal_has_a_status() {
        let refused = json!({"accepted": false, "message": "no", "code": 403, "warnings": ["w"], "audit_annotations": {"a": "b"}});
        let status = json!({"message": "no", "code": 403});
        let printed = printed(&refused);
        assert_eq!(
            printed,
            json!({"uid": "42", "allowed": false, "status": status, "warnings": ["w"], "auditAnnotations": {"a": "b"}})
        );
    }

    #[test]
    fn a_mutation_is_a_patch() {
        let printed = printed(&json!({"accepted": true, "mutated_object": {"spec": {"a": 1}}}));
        assert_eq!(printed["patchType"], "JSONPatch");
        let patch = STANDARD.decode(printed["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(patch, json!([{"op": "remove", "path": "/spec/b"}]));
    }

    #[test]
    fn a_mutation_that_changes_nothing_is_none() {
        let printed = printed(&json!({"accepted": true, "mutated_object": {"spec": {"a": 1, "b": 2}}}));
        assert!(printed.get("patch").is_none() && printed.get("patchType").is_none());
    }
}
