//! The real API server, asked with an account's own token.

use std::io::Write;
use std::path::{Path as File, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use test_plane::Plane;

use crate::server::{Path, Refused, Server, said};

/// One user of the API server.
pub(crate) struct Real {
    server: String,
    authority: PathBuf,
    user: User,
    /// What was created, to be cleaned up.
    pub(crate) created: Vec<Path>,
}

enum User {
    Certificate { certificate: PathBuf, key: PathBuf },
    Token(String),
}

/// An answer that is no success.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
}

fn url(path: &Path, with_name: bool) -> String {
    let Path { group, version, resource, namespace, name } = path;
    let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let namespace = namespace.as_deref().map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    let name = if with_name { format!("/{}", name.replace(':', "%3A")) } else { String::new() };
    format!("{base}{namespace}/{resource}{name}")
}

impl Real {
    /// The administrator of the kubeconfig.
    pub(crate) fn administrator(plane: &Plane, directory: &File) -> Self {
        let view = |path: &str| {
            let output = Command::new("kubectl")
                .arg("--kubeconfig")
                .arg(plane.kubeconfig())
                .args(["config", "view", "--raw", "--minify", "--flatten", "--output", &format!("jsonpath={{{path}}}")])
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let file = |name: &str, path: &str| {
            let target = directory.join(name);
            let decoded =
                Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            decoded.stdin.as_ref().unwrap().write_all(view(path).as_bytes()).unwrap();
            std::fs::write(&target, decoded.wait_with_output().unwrap().stdout).unwrap();
            target
        };
        Real {
            server: view(".clusters[0].cluster.server"),
            authority: file("ca.pem", ".clusters[0].cluster.certificate-authority-data"),
            user: User::Certificate {
                certificate: file("user.pem", ".users[0].user.client-certificate-data"),
                key: file("user.key", ".users[0].user.client-key-data"),
            },
            created: Vec::new(),
        }
    }

    /// The same server, with nothing but this token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        let user = User::Token(token.to_owned());
        Real { server: self.server.clone(), authority: self.authority.clone(), user, created: Vec::new() }
    }

    pub(crate) fn send(&self, method: &str, url: &str, kind: &str, body: &Value) -> Result<Value, Answer> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--request", method, "--write-out", "\n%{http_code}", "--cacert"]);
        curl.arg(&self.authority).arg("--header").arg(format!("Content-Type: {kind}"));
        match &self.user {
            User::Certificate { certificate, key } => curl.arg("--cert").arg(certificate).arg("--key").arg(key),
            User::Token(token) => curl.arg("--header").arg(format!("Authorization: Bearer {token}")),
        };
        if !body.is_null() {
            curl.args(["--data-binary", "@-"]);
        }
        curl.arg(format!("{}{url}", self.server)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = curl.spawn().unwrap();
        let text = if body.is_null() { String::new() } else { body.to_string() };
        running.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = running.wait_with_output().unwrap();
        assert!(output.status.success(), "curl {method} {url}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, code) = text.rsplit_once('\n').unwrap();
        let answer: Value = serde_json::from_str(body).unwrap_or_default();
        let field = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        match code.parse().unwrap() {
            200..300 => Ok(answer),
            code => Err(Answer { code, reason: field("reason"), message: field("message") }),
        }
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
        self.send(method, &format!("{url}{query}"), kind, body).map_err(|answer| match answer.code {
            403 => Refused::Forbidden(said(verb, path), answer.message),
            404 => Refused::Missing,
            409 if answer.reason == "AlreadyExists" => Refused::Exists,
            _ => Refused::Other(format!("{}: {answer:?}", said(verb, path))),
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
        // It may be gone already.
        let _ = self.send("DELETE", &url(path, true), "application/json", &Value::Null);
    }

    /// Whether the API server lets an account do this by now: it learns of bindings with a delay.
    pub(crate) fn review(&self, user: &str, attributes: &Value) -> bool {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes}});
        let url = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        self.send("POST", url, "application/json", &review).unwrap()["status"]["allowed"] == true
    }
}

impl Server for Real {
    fn create(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        self.ask("POST", "create", path, "application/json", object, "")?;
        self.created.push(path.clone());
        Ok(())
    }

    fn get(&mut self, path: &Path) -> Result<Value, Refused> {
        self.ask("GET", "get", path, "application/json", &Value::Null, "")
    }

    fn list(&mut self, path: &Path) -> Result<Vec<Value>, Refused> {
        let list = self.ask("GET", "list", path, "application/json", &Value::Null, "")?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    fn patch(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        self.ask("PATCH", "patch", path, "application/merge-patch+json", object, "").map(|_| ())
    }

    fn update(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        self.ask("PUT", "update", path, "application/json", object, "").map(|_| ())
    }

    fn apply(&mut self, path: &Path, object: &Value) -> Result<(), Refused> {
        let query = "?fieldManager=olm.install&force=true";
        let answer = self.ask("PATCH", "patch", path, "application/apply-patch+yaml", object, query);
        // An apply that makes the object takes the right to create it as well.
        answer.map_err(|refused| match refused {
            Refused::Forbidden(_, message) if message.contains("cannot create resource") => {
                Refused::Forbidden(said("create", path), message)
            }
            refused => refused,
        })?;
        self.created.push(path.clone());
        Ok(())
    }
}
