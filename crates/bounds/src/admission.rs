//! The admission request, borrowed from the payload. Objects stay raw until somebody has to read them.

use serde_json::value::RawValue;

use crate::read::json::{self, Unreadable};
use crate::read::object::object;
use crate::read::text::Text;

object! {
    /// What Kubewarden hands over: the request, and the settings of this registration.
    #[derive(Debug, Default)]
    pub struct Payload<'a> {
        /// The settings, as they are.
        pub settings: Option<&'a RawValue> = "settings",
        /// The admission request.
        pub request: Option<&'a RawValue> = "request",
    }
}

object! {
    /// An `admission.k8s.io/v1` request, as it is written.
    #[derive(Debug, Default)]
    struct Written<'a> {
        kind: GroupVersionKind<'a> = "kind",
        resource: GroupResource<'a> = "resource",
        sub_resource: Text<'a> = "subResource",
        name: Text<'a> = "name",
        namespace: Text<'a> = "namespace",
        operation: Text<'a> = "operation",
        user_info: UserInfo<'a> = "userInfo",
        object: Option<&'a RawValue> = "object",
        old_object: Option<&'a RawValue> = "oldObject",
    }
}

object! {
    /// Group, version and kind.
    #[derive(Debug, Default)]
    pub struct GroupVersionKind<'a> {
        /// The group; empty for the core group.
        pub group: Text<'a> = "group",
        /// The version.
        pub version: Text<'a> = "version",
        /// The kind.
        pub kind: Text<'a> = "kind",
    }
}

object! {
    /// Group and resource.
    #[derive(Debug, Default)]
    pub struct GroupResource<'a> {
        /// The group; empty for the core group.
        pub group: Text<'a> = "group",
        /// The resource, in the plural.
        pub resource: Text<'a> = "resource",
    }
}

object! {
    /// Who asks.
    #[derive(Debug, Default)]
    pub struct UserInfo<'a> {
        /// The user name; the background audit has none.
        pub username: Text<'a> = "username",
        /// The groups.
        pub groups: Vec<Text<'a>> = "groups",
    }
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change; patches and server-side apply included.
    Update,
    /// A removal.
    Delete,
    /// A connection to a subresource.
    Connect,
}

/// An `admission.k8s.io/v1` request.
#[derive(Debug)]
pub struct AdmissionRequest<'a> {
    /// What kind of object it is about. (The background audit puts the kind where the resource belongs, so this is what
    /// verdicts are dispatched on.)
    pub kind: GroupVersionKind<'a>,
    /// The resource, as URLs name it.
    pub resource: GroupResource<'a>,
    /// `status` and the like.
    pub sub_resource: Text<'a>,
    /// The name; empty for `generateName`.
    pub name: Text<'a>,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Text<'a>,
    /// What is done to it.
    pub operation: Operation,
    /// Who asks.
    pub user_info: UserInfo<'a>,
    /// The object as it would be.
    pub object: Option<&'a RawValue>,
    /// The object as it is.
    pub old_object: Option<&'a RawValue>,
}

impl<'a> AdmissionRequest<'a> {
    /// The namespace; none for cluster-scoped objects.
    #[must_use]
    pub fn in_namespace(&self) -> Option<&str> {
        Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }

    /// Whether Kubewarden's audit scanner asks: it has no user, and puts the kind where the resource belongs.
    #[must_use]
    pub fn is_by_the_audit(&self) -> bool {
        self.user_info.username.is_empty() && self.resource.resource == self.kind.kind
    }

    /// Reads a request; without a kind and an operation it is none.
    pub fn read(text: &'a str) -> Result<Self, Unreadable> {
        let written: Written<'a> = json::read(text, "request")?;
        let wrong = |path: &str, reason: String| Err(Unreadable { path: format!("request.{path}"), reason });
        if written.kind.kind.is_empty() {
            return wrong("kind.kind", "is missing".to_owned());
        }
        let operation = match written.operation.as_str() {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            "CONNECT" => Operation::Connect,
            "" => return wrong("operation", "is missing".to_owned()),
            other => return wrong("operation", format!("{other:?} is not one of CREATE, UPDATE, DELETE, CONNECT")),
        };
        Ok(AdmissionRequest {
            kind: written.kind,
            resource: written.resource,
            sub_resource: written.sub_resource,
            name: written.name,
            namespace: written.namespace,
            operation,
            user_info: written.user_info,
            object: written.object,
            old_object: written.old_object,
        })
    }
}
