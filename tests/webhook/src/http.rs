//! The paths of the webhook.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use futures::StreamExt;
use serde::Serialize;
use tracing::{error, warn};

use crate::review::{self, ResponseReview};
use crate::webhook::{Origin, Webhook};

/// Bytes that are read beyond the limit and thrown away. More than the largest review that an API server sends.
const DRAIN: usize = 16 * 1024 * 1024;

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

pub(crate) fn router(webhook: Arc<Webhook>, body_limit: usize) -> Router {
    Router::new()
        .route("/validate/{id}", post(validate))
        .route("/audit/{id}", post(audit))
        .route("/readiness", get(readiness))
        .route("/caches", get(caches))
        .with_state(Served { webhook, body_limit })
}

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

async fn caches(State(served): State<Served>) -> Response {
    Json(served.webhook.caches()).into_response()
}

impl Served {
    async fn respond(&self, id: &str, body: Body, origin: Origin) -> Result<Response, Response> {
        let body = self.read(body).await?;
        let policies = self.webhook.policies();
        if policies.get(id).is_none() {
            let message = format!("there is no policy `{id}`; there is: {}", policies.ids().join(", "));
            return Err((StatusCode::NOT_FOUND, message).into_response());
        }
        let request = review::parse(&body).map_err(|reason| fail(StatusCode::BAD_REQUEST, reason))?;
        let response = self.webhook.respond(id, request, origin).await;
        let response = response.map_err(|reason| {
            error!(policy = id, reason, "no response");
            fail(StatusCode::INTERNAL_SERVER_ERROR, reason)
        })?;
        Ok(Json(ResponseReview::new(response)).into_response())
    }

    /// The whole body. One that is too large is read on: who is still sending does not listen to an answer.
    async fn read(&self, body: Body) -> Result<Vec<u8>, Response> {
        let mut chunks = body.into_data_stream();
        let (mut read, mut beyond) = (Vec::new(), 0);
        while beyond <= DRAIN
            && let Some(chunk) = chunks.next().await
        {
            let chunk = chunk.map_err(|error| fail(StatusCode::BAD_REQUEST, format!("the body broke off: {error}")))?;
            if beyond > 0 || chunk.len() > self.body_limit - read.len() {
                beyond += chunk.len();
            } else {
                read.extend_from_slice(&chunk);
            }
        }
        if beyond > 0 {
            let message = format!("the body is larger than {} bytes: see --body-limit", self.body_limit);
            return Err(fail(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Ok(read)
    }
}

fn fail(status: StatusCode, message: String) -> Response {
    warn!(status = status.as_u16(), message, "not answered");
    (status, Json(Failure { message, status: status.as_u16() })).into_response()
}
