//! Determines what a request is about from its path.
//!
//! The API server decodes a path once and splits it at its slashes, and so does this module. A path that two readers
//! could interpret differently is rejected.

use std::borrow::Cow;
use std::fmt;

use hyper::Method;
use percent_encoding::percent_decode_str;

/// What a path refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// An object, or its collection.
    Object(Target),
    /// A connection into a pod, or through the API server to somewhere else: `exec`, `attach`, `portforward`, `proxy`.
    Connection,
    /// Discovery, versions, health, documentation.
    Other,
}

/// An object, or a collection if there is no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub group: String,
    pub resource: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// The length of the part of the path that refers to the object itself.
    object_path: usize,
}

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Create,
    Update,
    Patch,
    /// PATCH by server-side apply, which creates an object that does not exist.
    Apply,
    Delete,
    DeleteCollection,
}

/// Why a path is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PathError {
    /// It does not begin at the root, contains `//`, or ends with a slash.
    #[error("it has an empty segment")]
    Empty,
    /// `.` or `..`, in any encoding.
    #[error("it has a segment that leads elsewhere")]
    Dots,
    /// A slash or a percent sign inside a segment, or a segment that is not text.
    #[error("it has a segment that no name can be")]
    Encoding,
}

/// Reads a percent-encoded path, as it appears in a request.
pub(super) fn read(path: &str) -> Result<Place, PathError> {
    let mut segments = Vec::new();
    if path != "/" {
        let rest = path.strip_prefix('/').ok_or(PathError::Empty)?;
        for segment in rest.split('/') {
            segments.push(decode(segment)?);
        }
    }
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let (group, rest) = match segments.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return Ok(Place::Other),
    };
    Ok(place(path, group, rest))
}

fn decode(segment: &str) -> Result<Cow<'_, str>, PathError> {
    let text = percent_decode_str(segment).decode_utf8().map_err(|_| PathError::Encoding)?;
    match &*text {
        "" => Err(PathError::Empty),
        "." | ".." => Err(PathError::Dots),
        text if text.contains(['/', '%']) || text.contains(char::is_control) => Err(PathError::Encoding),
        _ => Ok(text),
    }
}

/// The part after the version: `[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]`.
fn place(path: &str, group: &str, rest: &[&str]) -> Place {
    let (namespace, parts) = match rest {
        // `watch` is an old form of a read; `proxy` is an old way out of the API.
        [] | ["watch", ..] => return Place::Other,
        ["proxy", ..] => return Place::Connection,
        ["namespaces", _, "status" | "finalize", ..] => (None, rest),
        ["namespaces", namespace, parts @ ..] if !parts.is_empty() => (Some(*namespace), parts),
        parts => (None, parts),
    };
    let (resource, name, subresource) = match parts {
        [resource] => (*resource, None, None),
        [resource, name] => (*resource, Some(*name), None),
        [resource, name, subresource] => (*resource, Some(*name), Some((*subresource).to_owned())),
        // Anything after a subresource is for whatever serves it.
        [resource, name, subresource @ ..] => (*resource, Some(*name), Some(subresource.join("/"))),
        [] => return Place::Other,
    };
    let first = subresource.as_deref().and_then(|subresource| subresource.split('/').next());
    if group.is_empty() && matches!(first, Some("exec" | "attach" | "portforward" | "proxy")) {
        return Place::Connection;
    }
    let behind = subresource.as_ref().map_or(0, |subresource| 1 + subresource.matches('/').count());
    Place::Object(Target {
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        subresource,
        object_path: without_last(path, behind),
    })
}

/// The length of a path without its last segments.
fn without_last(path: &str, segments: usize) -> usize {
    (0..segments).fold(path.len(), |end, _| path[..end].rfind('/').unwrap_or(end))
}

impl Target {
    /// What a method does to it. `None` if the API has no such request.
    pub(super) fn verb(&self, method: &Method, is_apply: bool) -> Option<Verb> {
        let named = self.name.is_some();
        // What follows a subresource is not an object that could be looked up.
        if self.subresource.as_ref().is_some_and(|subresource| subresource.contains('/')) {
            return None;
        }
        match *method {
            Method::POST if named == self.subresource.is_some() => Some(Verb::Create),
            Method::PUT if named => Some(Verb::Update),
            Method::PATCH if named => Some(if is_apply { Verb::Apply } else { Verb::Patch }),
            Method::DELETE if named && self.subresource.is_none() => Some(Verb::Delete),
            Method::DELETE if !named => Some(Verb::DeleteCollection),
            _ => None,
        }
    }

    /// The path of the object itself, without its subresource. `path` must be the one that this was read from.
    pub(super) fn object_path<'p>(&self, path: &'p str) -> &'p str {
        path.get(..self.object_path).unwrap_or(path)
    }

    pub(super) fn is(&self, group: &str, resources: &[&str]) -> bool {
        self.group == group && resources.contains(&self.resource.as_str())
    }
}

impl fmt::Display for Target {
    /// As the API server writes it: `clusterroles.rbac.authorization.k8s.io`, `configmaps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

impl fmt::Display for Verb {
    /// The verb as RBAC calls it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch | Verb::Apply => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `group resource namespace/name/subresource`, with `-` for absent parts.
    fn object(path: &str) -> String {
        match read(path) {
            Ok(Place::Object(target)) => {
                let or = |part: &Option<String>| part.clone().unwrap_or_else(|| "-".to_owned());
                let place = format!("{}/{}/{}", or(&target.namespace), or(&target.name), or(&target.subresource));
                format!("{:?} {} {place}", target.group, target.resource)
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn paths_are_read_as_the_api_server_reads_them() {
        for (path, expected) in [
            ("/api/v1/configmaps", r#""" configmaps -/-/-"#),
            ("/api/v1/namespaces", r#""" namespaces -/-/-"#),
            ("/api/v1/namespaces/a", r#""" namespaces -/a/-"#),
            ("/api/v1/namespaces/a/status", r#""" namespaces -/a/status"#),
            ("/api/v1/namespaces/a/finalize", r#""" namespaces -/a/finalize"#),
            ("/api/v1/namespaces/a/secrets", r#""" secrets a/-/-"#),
            ("/api/v1/namespaces/a/secrets/b", r#""" secrets a/b/-"#),
            ("/api/v1/namespaces/a/serviceaccounts/b/token", r#""" serviceaccounts a/b/token"#),
            ("/apis/apps/v1/namespaces/a/deployments/b/scale", r#""apps" deployments a/b/scale"#),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:x",
                r#""rbac.authorization.k8s.io" clusterroles -/system:x/-"#,
            ),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/two%20words",
                r#""rbac.authorization.k8s.io" clusterroles -/two words/-"#,
            ),
            ("/apis/metrics.k8s.io/v1/namespaces/a/pods/b", r#""metrics.k8s.io" pods a/b/-"#),
            ("/apis/sub.io/v1/namespaces/a/vms/b/restart/now", r#""sub.io" vms a/b/restart/now"#),
        ] {
            assert_eq!(object(path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_object_is_something_else() {
        for path in
            ["/", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/version", "/readyz", "/openapi/v3"]
        {
            assert_eq!(read(path), Ok(Place::Other), "{path}");
        }
        assert_eq!(read("/api/v1/watch/secrets"), Ok(Place::Other));
        for path in [
            "/api/v1/namespaces/a/pods/b/exec",
            "/api/v1/namespaces/a/pods/b/proxy/x/y",
            "/api/v1/namespaces/a/services/b/proxy",
            "/api/v1/nodes/b/proxy/logs",
            "/api/v1/namespaces/a/pods/b/portforward",
            "/api/v1/namespaces/a/pods/b/%65xec",
            "/api/v1/proxy/namespaces/a/pods/b",
        ] {
            assert_eq!(read(path), Ok(Place::Connection), "{path}");
        }
    }

    #[test]
    fn a_path_that_tries_to_leave_the_api_is_none() {
        use PathError::{Dots, Empty, Encoding};
        for (path, expected) in [
            ("", Empty),
            ("api/v1", Empty),
            ("//api/v1/secrets", Empty),
            ("/api/v1//secrets", Empty),
            ("/api/v1/secrets/", Empty),
            ("/api/v1/../../secrets", Dots),
            ("/api/v1/./secrets", Dots),
            ("/api/v1/%2e%2e/secrets", Dots),
            ("/api/v1/%2E./secrets", Dots),
            ("/api/v1/namespaces/a%2fsecrets", Encoding),
            ("/api/v1/namespaces/a%2Fsecrets", Encoding),
            ("/api/v1/%252e%252e/secrets", Encoding),
            ("/api/v1/secrets/%zz", Encoding),
            ("/api/v1/secrets/%", Encoding),
            ("/api/v1/secrets/a%00", Encoding),
            ("/api/v1/secrets/a%0d%0aX", Encoding),
            ("/api/v1/secrets/%ff", Encoding),
        ] {
            assert_eq!(read(path), Err(expected), "{path}");
        }
    }

    #[test]
    fn methods_become_verbs_only_where_the_api_has_them() {
        let verb = |method: Method, path: &str| match read(path) {
            Ok(Place::Object(target)) => target.verb(&method, false),
            other => panic!("{other:?}"),
        };
        let (many, one) = ("/api/v1/namespaces/a/secrets", "/api/v1/namespaces/a/secrets/b");
        let below = "/api/v1/namespaces/a/pods/b/eviction";
        assert_eq!(verb(Method::POST, many), Some(Verb::Create));
        assert_eq!(verb(Method::POST, one), None);
        assert_eq!(verb(Method::POST, below), Some(Verb::Create));
        assert_eq!(verb(Method::PUT, one), Some(Verb::Update));
        assert_eq!(verb(Method::PUT, many), None);
        assert_eq!(verb(Method::PATCH, one), Some(Verb::Patch));
        assert_eq!(verb(Method::PATCH, many), None);
        assert_eq!(verb(Method::DELETE, one), Some(Verb::Delete));
        assert_eq!(verb(Method::DELETE, many), Some(Verb::DeleteCollection));
        assert_eq!(verb(Method::DELETE, below), None);
        assert_eq!(verb(Method::CONNECT, one), None);
        assert_eq!(verb(Method::PUT, "/apis/sub.io/v1/namespaces/a/vms/b/restart/now"), None);
    }

    #[test]
    fn a_subresource_leads_back_to_its_object() {
        for (path, object) in [
            ("/api/v1/namespaces/a/status", "/api/v1/namespaces/a"),
            ("/apis/x.io/v1/things/two%20words/scale", "/apis/x.io/v1/things/two%20words"),
            ("/apis/x.io/v1/things/b", "/apis/x.io/v1/things/b"),
        ] {
            let Ok(Place::Object(target)) = read(path) else { panic!("{path}") };
            assert_eq!(target.object_path(path), object);
        }
    }
}
