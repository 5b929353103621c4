//! The policy with a recorded session in place of a cluster, in strict order, as kwctl does it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use operator_bounds::documents;
use operator_bounds::engine::Engine;
use serde_json::Value;

/// What is left of a session, and what went wrong.
#[derive(Default)]
struct Session {
    exchanges: VecDeque<Exchange>,
    problem: Option<String>,
}

struct Exchange {
    /// `!KubernetesGetResource` and the like.
    tag: String,
    request: Value,
    response: Result<String, String>,
}

/// The response, with every look-up answered by the session.
pub fn validate(engine: &Engine, payload: &[u8], session: &str) -> Result<Value, String> {
    let session = Arc::new(Mutex::new(Session { exchanges: read(session)?, problem: None }));
    let replayed = Arc::clone(&session);
    let callback = move |_binding: &str, namespace: &str, operation: &str, payload: &[u8]| {
        if namespace == "tracing" {
            return Ok(Vec::new());
        }
        replayed.lock().unwrap().answer(operation, payload)
    };
    let answer = engine.call_with(Box::new(callback), "validate", payload);
    let answer = answer.map_err(|error| format!("replayed: {error}"))?;
    let session = session.lock().unwrap();
    if let Some(problem) = &session.problem {
        return Err(format!("replayed: {problem}"));
    }
    if !session.exchanges.is_empty() {
        return Err(format!("replayed: {} exchanges were not asked for", session.exchanges.len()));
    }
    serde_json::from_slice(&answer).map_err(|error| format!("replayed: {error}"))
}

impl Session {
    fn answer(&mut self, operation: &str, payload: &[u8]) -> Result<Vec<u8>, String> {
        let tag = match operation {
            "list_resources_all" => "!KubernetesListResourceAll",
            "list_resources_by_namespace" => "!KubernetesListResourceNamespace",
            "get_resource" => "!KubernetesGetResource",
            "can_i" => "!KubernetesCanI",
            other => return Err(self.fail(format!("unknown operation {other}"))),
        };
        let asked: Value = serde_json::from_slice(payload).map_err(|error| self.fail(error.to_string()))?;
        let Some(next) = self.exchanges.pop_front() else {
            return Err(self.fail(format!("asked beyond the end of the session: {tag} {asked}")));
        };
        let recorded = match tag {
            "!KubernetesCanI" => {
                // The policy's word for it is another one than the session's.
                let mut recorded = next.request;
                let review = recorded["request"].take();
                recorded.as_object_mut().map(|fields| fields.remove("request"));
                recorded["subject_access_review"] = review;
                recorded
            }
            _ => next.request,
        };
        if next.tag != tag || without_nulls(recorded.clone()) != without_nulls(asked.clone()) {
            return Err(self.fail(format!("asked {tag} {asked}, recorded is {} {recorded}", next.tag)));
        }
        next.response.map(String::into_bytes).map_err(|message| format!("Callback evaluation failure: {message}"))
    }

    fn fail(&mut self, problem: String) -> String {
        self.problem.get_or_insert(problem).clone()
    }
}

/// The session file, read as kwctl reads it.
fn read(session: &str) -> Result<VecDeque<Exchange>, String> {
    let mut documents = documents::parse(Path::new("session.yaml"), session.as_bytes()).map_err(|e| e.to_string())?;
    let Some(Value::Array(exchanges)) = documents.pop() else { return Err("the session is no list".to_owned()) };
    exchanges.iter().map(exchange).collect()
}

fn exchange(exchange: &Value) -> Result<Exchange, String> {
    let text = |pointer: &str| {
        let found = exchange.pointer(pointer).and_then(Value::as_str);
        found.map(str::to_owned).ok_or_else(|| format!("session: no {pointer} in {exchange}"))
    };
    let request = text("/request")?;
    let (tag, fields) = request.split_once('\n').ok_or("session: a request of one line")?;
    let mut fields = documents::parse(Path::new("session.yaml"), fields.as_bytes()).map_err(|e| e.to_string())?;
    let response = match text("/response/type")?.as_str() {
        "Success" => Ok(text("/response/payload")?),
        _ => Err(text("/response/message")?),
    };
    Ok(Exchange { tag: tag.to_owned(), request: fields.pop().unwrap_or_default(), response })
}

/// An optional field that is not there and one that is null are the same.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect()
        }
        Value::Array(elements) => elements.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
