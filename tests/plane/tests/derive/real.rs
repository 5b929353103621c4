//! The real API server, asked with an account's own token.

use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::server::{Path, Refused, Server, said};

/// One user of the API server.
pub(crate) struct Real<'r> {
    pub(crate) runtime: &'r Runtime,
    pub(crate) client: Client,
    /// What was created, to be cleaned up.
    pub(crate) created: Vec<Path>,
}

fn url(path: &Path, with_name: bool) -> String {
    let Path { group, version, resource, namespace, name } = path;
    let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let namespace = namespace.as_deref().map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    let name = if with_name { format!("/{}", name.replace(':', "%3A")) } else { String::new() };
    format!("{base}{namespace}/{resource}{name}")
}

impl<'r> Real<'r> {
    pub(crate) fn administrator(runtime: &'r Runtime, config: &Config) -> Self {
        let client = runtime.block_on(async { Client::try_from(config.clone()) }).unwrap();
        Real { runtime, client, created: Vec::new() }
    }

    /// The same server, with nothing but this token.
    pub(crate) fn with_token(&self, config: &Config, token: String) -> Self {
        let mut config = config.clone();
        config.auth_info = kube::config::AuthInfo { token: Some(token.into()), ..Default::default() };
        Real::administrator(self.runtime, &config)
    }

    pub(crate) fn send(&self, method: &str, url: &str, kind: &str, body: &Value) -> Result<Value, kube::Error> {
        let request = Request::builder().method(method).uri(url).header("Content-Type", kind);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.runtime.block_on(self.client.request::<Value>(request.body(body).unwrap()))
    }

    fn ask(
        &self,
        method: &str,
        verb: &str,
        path: &Path,
        kind: &str,
        body: &Value,
        query: &str,
    ) -> Result<Value, Refused> {
        let url = url(path, !matches!(verb, "create" | "list"));
        self.send(method, &format!("{url}{query}"), kind, body).map_err(|error| match error {
            kube::Error::Api(status) if status.code == 403 => {
                Refused::Forbidden(said(verb, path), status.message.clone())
            }
            kube::Error::Api(status) if status.code == 404 => Refused::Missing,
            kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists" => Refused::Exists,
            other => Refused::Other(format!("{}: {other}", said(verb, path))),
        })
    }

    /// Makes an object, whoever has made it before.
    pub(crate) fn ensure(&mut self, path: &Path, object: &Value) {
        match self.create(path, object) {
            Ok(()) | Err(Refused::Exists) => {}
            Err(error) => panic!("{}: {error:?}", said("create", path)),
        }
    }

    pub(crate) fn delete(&self, path: &Path) {
        let _ = self.send("DELETE", &url(path, true), "application/json", &Value::Null);
    }

    /// Whether the API server lets an account do this by now: it learns of bindings with a delay.
    pub(crate) fn review(&self, user: &str, groups: &[String], attributes: &Value) -> bool {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": attributes}});
        let answer = self
            .send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "application/json", &review)
            .unwrap();
        answer["status"]["allowed"] == true
    }
}

impl Server for Real<'_> {
    fn create(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        self.ask("POST", "create", path, "application/json", object, "")?;
        self.created.push(path.clone());
        Ok(())
    }

    fn get(&mut self, path: &Path) -> Result<Value, Refused> {
        self.ask("GET", "get", path, "application/json", &Value::Null, "")
    }

    fn list(&mut self, path: &Path) -> Result<(), Refused> {
        self.ask("GET", "list", path, "application/json", &Value::Null, "").map(|_| ())
    }

    fn patch(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        self.ask("PATCH", "patch", path, "application/merge-patch+json", object, "").map(|_| ())
    }

    fn update(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        self.ask("PUT", "update", path, "application/json", object, "").map(|_| ())
    }

    fn apply(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        let query = "?fieldManager=olm.install&force=true";
        self.ask("PATCH", "patch", path, "application/apply-patch+yaml", object, query)?;
        self.created.push(path.clone());
        Ok(())
    }
}
