//! From the payload to the response.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::admission::{AdmissionRequest, Payload};
use crate::cluster::{Cluster, LookupError};
use crate::decide::context::{Context, Notes};
use crate::decide::lookups::Lookups;
use crate::decide::message;
use crate::decide::verdict::{Admitted, BAD_REQUEST, FORBIDDEN, Reason, Refusal, Refused, Response};
use crate::judge::judge;
use crate::read::json;
use crate::settings::{AuthorizerSetting, Mode, Settings};

/// Judges an admission request: `{"settings": …, "request": …}`. Every payload gets an answer, whatever it contains.
#[must_use]
pub fn validate(payload: &[u8], cluster: &dyn Cluster) -> Response {
    match evaluate(payload, cluster) {
        Ok(response) => response,
        Err(message) => refused(BAD_REQUEST, "unreadable", message::clean(&message), Notes::default()),
    }
}

fn evaluate(payload: &[u8], cluster: &dyn Cluster) -> Result<Response, String> {
    let text = std::str::from_utf8(payload).map_err(|error| format!("the payload is not UTF-8: {error}"))?;
    let payload: Payload<'_> = json::read(text, "").map_err(|error| format!("not a policy payload: {error}"))?;
    let Some(request) = payload.request else {
        return Err("not a policy payload: there is no admission request in it (request: is missing)".to_owned());
    };
    let request =
        AdmissionRequest::read(request.get()).map_err(|error| format!("not an admission request: {error}"))?;
    let settings = match payload.settings {
        Some(settings) => Settings::read(settings.get())?,
        None => Settings::default(),
    };
    let cx = Context::new(&settings, Lookups::new(cluster));
    let verdict = judge(&request, &cx);
    // What the background audit reports is a failure also while nothing is enforced yet.
    let warns = settings.mode == Mode::Warn && !request.is_by_the_audit();
    Ok(respond(cx, verdict, warns))
}

fn respond(cx: Context<'_>, verdict: Result<Admitted, Refusal>, warns: bool) -> Response {
    cx.fact("lookups", cx.lookups.made().to_string());
    if cx.settings.authorizer == AuthorizerSetting::AccessReview {
        cx.fact("authorizer", "access-review; rbac for nonResourceURLs and for what must be listed");
    } else {
        cx.fact("authorizer", "rbac");
    }
    let refusal = match verdict {
        Ok(Admitted(reason)) => return admitted(reason, cx.into_notes()),
        Err(refusal) => refusal.why(),
    };
    match refusal {
        Refused::Exceeds { lines, .. } if warns => {
            for line in &lines {
                cx.warn(line);
            }
            admitted("exceeds-but-mode-is-warn", cx.into_notes())
        }
        Refused::Exceeds { message, .. } => refused(FORBIDDEN, "exceeds", message, cx.into_notes()),
        Refused::Forbidden { reason, message } => refused(FORBIDDEN, reason.as_str(), message, cx.into_notes()),
        Refused::Lookup(error) if error.is_over_limit() => {
            refused(FORBIDDEN, Reason::OverLimit.as_str(), over_limit(&error), cx.into_notes())
        }
        Refused::Lookup(error) => refused(FORBIDDEN, "lookup-failed", lookup_failed(&error), cx.into_notes()),
        Refused::Unreadable { .. } => {
            refused(BAD_REQUEST, "unreadable", message::clean(&refusal.to_string()), cx.into_notes())
        }
    }
}

/// Forbidden rather than an internal error: OLM retries a Forbidden step, and so recovers when the look-up does.
fn lookup_failed(error: &LookupError) -> String {
    let reason = error.reason().trim_end_matches('.');
    message::clean(&format!(
        "cannot determine whether this stays within its boundary, because a look-up failed: {}: {reason}. Check the \
         policy server's RBAC and log, then try again.",
        error.lookup()
    ))
}

fn over_limit(error: &LookupError) -> String {
    message::clean(&format!(
        "cannot determine whether this stays within its boundary: {}, the first that was left out is the {}. Look there for \
         bindings that nobody needs, and delete them.",
        error.reason(),
        error.lookup()
    ))
}

fn admitted(reason: &'static str, notes: Notes) -> Response {
    let verdict = if notes.warnings.is_empty() { "admitted" } else { "warned" };
    Response {
        accepted: true,
        message: None,
        code: None,
        mutated_object: notes.mutated.and_then(|object| RawValue::from_string(object).ok()),
        audit_annotations: facts(notes.facts, verdict, reason),
        warnings: message::limit(notes.warnings),
    }
}

fn refused(code: u16, reason: &'static str, mut message: String, notes: Notes) -> Response {
    // Whatever names a request contains, the answer stays within the limit.
    message::clip(&mut message, message::MAX_MESSAGE);
    Response {
        accepted: false,
        message: Some(message),
        code: Some(code),
        mutated_object: None,
        audit_annotations: facts(notes.facts, "refused", reason),
        warnings: message::limit(notes.warnings),
    }
}

fn facts(mut facts: BTreeMap<&'static str, String>, verdict: &str, reason: &str) -> BTreeMap<&'static str, String> {
    for fact in facts.values_mut() {
        *fact = message::clean(fact);
        message::clip(fact, message::MAX_FACT);
    }
    facts.insert("verdict", verdict.to_owned());
    facts.insert("reason", reason.to_owned());
    facts
}

/// The answer to `validate_settings`.
#[derive(Debug, Serialize)]
pub struct SettingsVerdict {
    /// Whether the settings can be used.
    pub valid: bool,
    /// Why they cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Checks the settings of a registration.
#[must_use]
pub fn validate_settings(payload: &[u8]) -> SettingsVerdict {
    let read = std::str::from_utf8(payload)
        .map_err(|error| format!("the settings are not UTF-8: {error}"))
        .and_then(|text| Settings::read(text).map(drop));
    SettingsVerdict { valid: read.is_ok(), message: read.err() }
}
