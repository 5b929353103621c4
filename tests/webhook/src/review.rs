//! The AdmissionReview around requests and responses.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use operator_bounds::admission::{AdmissionResponse, Request};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestReview {
    api_version: Option<String>,
    kind: Option<String>,
    request: Option<Box<RawValue>>,
}

/// The answer to a review.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResponseReview {
    api_version: &'static str,
    kind: &'static str,
    response: AdmissionResponse,
}

/// The request of a review, or what is wrong with it.
pub(crate) fn parse(body: &[u8]) -> Result<Request, String> {
    let review: RequestReview =
        serde_json::from_slice(body).map_err(|error| format!("the body is not an {KIND}: {error}"))?;
    let (api_version, kind) = (review.api_version.unwrap_or_default(), review.kind.unwrap_or_default());
    if kind != KIND {
        return Err(format!("the body has the kind `{kind}`, and must be an {KIND}"));
    }
    if api_version != API_VERSION {
        return Err(format!("the {KIND} has the apiVersion `{api_version}`: only {API_VERSION} is spoken here"));
    }
    let request = review.request.ok_or_else(|| format!("the {KIND} has no request"))?;
    Request::new(request).map_err(|error| format!("the {KIND}'s request cannot be read: {error}"))
}

impl ResponseReview {
    pub(crate) fn new(response: AdmissionResponse) -> Self {
        ResponseReview { api_version: API_VERSION, kind: KIND, response }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_with_a_review_is_said() {
        let request = json!({"uid": "1", "operation": "CREATE", "kind": {"kind": "Pod"}});
        let review = |api_version: &str, kind: &str, request: &serde_json::Value| {
            json!({"apiVersion": api_version, "kind": kind, "request": request}).to_string()
        };
        assert_eq!(parse(review(API_VERSION, KIND, &request).as_bytes()).unwrap().uid, "1");
        for (body, words) in [
            ("{oops".to_owned(), "key must be a string at line 1 column 2"),
            ("[]".to_owned(), "not an AdmissionReview"),
            (request.to_string(), "not an AdmissionReview: invalid type: map, expected a string"),
            (review(API_VERSION, "Pod", &request), "the kind `Pod`"),
            (
                review("admission.k8s.io/v1beta1", KIND, &request),
                "apiVersion `admission.k8s.io/v1beta1`: only admission.k8s.io/v1",
            ),
            (review(API_VERSION, KIND, &json!(null)), "no request"),
            (review(API_VERSION, KIND, &json!({"operation": "CREATE"})), "missing field `uid`"),
        ] {
            let error = parse(body.as_bytes()).unwrap_err();
            assert!(error.contains(words), "{body}: {error}");
        }
    }
}
