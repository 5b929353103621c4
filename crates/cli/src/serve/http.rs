//! The paths of the webhook.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::Serialize;
use tracing::{error, warn};

use super::review::{self, ResponseReview};
use super::webhook::{Origin, Webhook};

#[derive(Clone)]
struct Served {
    webhook: Arc<Webhook>,
    body_limit: usize,
}

/// An error of HTTP, in the form of policy-server's.
#[derive(Serialize)]
struct Failure {
    message: String,
    status: u16,
}

pub(super) fn router(webhook: Arc<Webhook>, body_limit: usize) -> Router {
    Router::new()
        .route("/validate/{id}", post(validate))
        .route("/audit/{id}", post(audit))
        .route("/readiness", get(readiness))
        .route("/caches", get(caches))
        .layer(DefaultBodyLimit::max(body_limit))
        .with_state(Served { webhook, body_limit })
}

type Body = Result<Bytes, BytesRejection>;

async fn validate(State(served): State<Served>, Path(id): Path<String>, body: Body) -> Response {
    served.respond(&id, body, Origin::Validate).await.unwrap_or_else(|failure| failure)
}

async fn audit(State(served): State<Served>, Path(id): Path<String>, body: Body) -> Response {
    served.respond(&id, body, Origin::Audit).await.unwrap_or_else(|failure| failure)
}

async fn readiness(State(served): State<Served>) -> Response {
    match served.webhook.check().await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(reason) => fail(StatusCode::SERVICE_UNAVAILABLE, format!("the API server does not answer: {reason}")),
    }
}

/// policy-server has no such path: tests wait with it until the watches have seen what they wrote.
async fn caches(State(served): State<Served>) -> Response {
    Json(served.webhook.caches()).into_response()
}

impl Served {
    async fn respond(&self, id: &str, body: Body, origin: Origin) -> Result<Response, Response> {
        let policies = self.webhook.policies();
        if policies.get(id).is_none() {
            let message = format!("there is no policy `{id}`; there is: {}", policies.ids().join(", "));
            return Err((StatusCode::NOT_FOUND, message).into_response());
        }
        let body = body.map_err(|rejection| self.unread(&rejection))?;
        let request = review::parse(&body).map_err(|reason| fail(StatusCode::BAD_REQUEST, reason))?;
        let response = self.webhook.respond(id, request, origin).await;
        let response = response.map_err(|reason| {
            error!(policy = id, reason, "no response");
            fail(StatusCode::INTERNAL_SERVER_ERROR, reason)
        })?;
        Ok(Json(ResponseReview::new(response)).into_response())
    }

    fn unread(&self, rejection: &BytesRejection) -> Response {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                let message = format!("the body is larger than {} bytes: see --body-limit", self.body_limit);
                fail(StatusCode::PAYLOAD_TOO_LARGE, message)
            }
            status => fail(status, rejection.body_text()),
        }
    }
}

fn fail(status: StatusCode, message: String) -> Response {
    warn!(status = status.as_u16(), message, "not answered");
    (status, Json(Failure { message, status: status.as_u16() })).into_response()
}
