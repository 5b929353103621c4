//! What the API server saw.

use std::path::Path;

use serde_json::Value;

pub(crate) const CONTROLLER: &str = "system:serviceaccount:operator-bounds:operator-bounds-controller";

/// The audit log.
pub(crate) struct Audit(Vec<Value>);

impl Audit {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // The last line may be half written.
        Audit(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Request<'_>> {
        self.0.iter().map(Request)
    }

    /// What the controller, and the accounts of a namespace, have asked for there.
    pub(crate) fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = Request<'a>> {
        let accounts = format!("system:serviceaccount:{namespace}:");
        self.all().filter(move |request| {
            let ours = request.user() == CONTROLLER || request.user().starts_with(&accounts);
            ours && (request.namespace() == namespace || request.user() != CONTROLLER)
        })
    }
}

/// One request.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a>(&'a Value);

impl<'a> Request<'a> {
    fn object(self, field: &str) -> &'a str {
        self.0["objectRef"][field].as_str().unwrap_or_default()
    }

    pub(crate) fn user(self) -> &'a str {
        self.0["user"]["username"].as_str().unwrap_or_default()
    }

    pub(crate) fn verb(self) -> &'a str {
        self.0["verb"].as_str().unwrap_or_default()
    }

    pub(crate) fn group(self) -> &'a str {
        self.object("apiGroup")
    }

    /// With its subresource.
    pub(crate) fn resource(self) -> String {
        match self.object("subresource") {
            "" => self.object("resource").to_owned(),
            sub => format!("{}/{sub}", self.object("resource")),
        }
    }

    pub(crate) fn namespace(self) -> &'a str {
        self.object("namespace")
    }

    pub(crate) fn name(self) -> &'a str {
        self.object("name")
    }

    pub(crate) fn code(self) -> u64 {
        self.0["responseStatus"]["code"].as_u64().unwrap_or_default()
    }

    pub(crate) fn is_write(self) -> bool {
        matches!(self.verb(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    pub(crate) fn impersonates(self) -> bool {
        !self.0["impersonatedUser"].is_null()
    }

    pub(crate) fn text(self) -> String {
        let place = format!("{}/{}", self.namespace(), self.name());
        format!("{} {} {} {place} -> {}", self.user(), self.verb(), self.resource(), self.code())
    }
}
