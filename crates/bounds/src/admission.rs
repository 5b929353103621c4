//! The admission request, borrowed from the payload. Objects stay raw until they have to be parsed.

use serde_json::value::RawValue;

use crate::read::json::{self, Unreadable};
use crate::read::object::object;
use crate::read::text::Text;

object! {
    /// What Kubewarden passes in: the request, and the settings of this registration.
    #[derive(Debug, Default)]
    pub(crate) struct Payload<'a> {
        /// The settings, unparsed.
        pub(crate) settings: Option<&'a RawValue> = "settings",
        /// The admission request, unparsed.
        pub(crate) request: Option<&'a RawValue> = "request",
    }
}

object! {
    /// An `admission.k8s.io/v1` request as it is sent, before required fields are checked.
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
    /// The type of an object.
    #[derive(Debug, Default)]
    pub(crate) struct GroupVersionKind<'a> {
        /// The API group; empty for the core group.
        pub(crate) group: Text<'a> = "group",
        /// The API version, without the group.
        pub(crate) version: Text<'a> = "version",
        /// The kind, as in a manifest.
        pub(crate) kind: Text<'a> = "kind",
    }
}

object! {
    /// A resource as RBAC names it.
    #[derive(Debug, Default)]
    pub(crate) struct GroupResource<'a> {
        /// The API group; empty for the core group.
        pub(crate) group: Text<'a> = "group",
        /// The plural resource name, as in URLs.
        pub(crate) resource: Text<'a> = "resource",
    }
}

object! {
    /// The user that sends the request.
    #[derive(Debug, Default)]
    pub(crate) struct UserInfo<'a> {
        /// The user name; empty in the background audit.
        pub(crate) username: Text<'a> = "username",
        /// The groups that the user was authenticated with.
        pub(crate) groups: Vec<Text<'a>> = "groups",
    }
}

/// The operation that is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A new object is created.
    Create,
    /// An object is changed; patches and server-side apply included.
    Update,
    /// An object is deleted.
    Delete,
    /// A connection to a subresource is opened.
    Connect,
}

/// An `admission.k8s.io/v1` request.
#[derive(Debug)]
pub struct AdmissionRequest<'a> {
    /// The kind of the object. (The background audit puts the kind where the resource belongs, so verdicts are
    /// dispatched on this field.)
    pub(crate) kind: GroupVersionKind<'a>,
    /// The resource, as URLs name it.
    pub(crate) resource: GroupResource<'a>,
    /// The subresource, such as `status`; empty for the object itself.
    pub(crate) sub_resource: Text<'a>,
    /// The name; empty for `generateName`.
    pub(crate) name: Text<'a>,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Text<'a>,
    /// The requested operation.
    pub(crate) operation: Operation,
    /// The user that sends the request; without a name in the background audit.
    pub(crate) user_info: UserInfo<'a>,
    /// The object as it would be stored.
    pub object: Option<&'a RawValue>,
    /// The object as it is stored now.
    pub(crate) old_object: Option<&'a RawValue>,
}

impl<'a> AdmissionRequest<'a> {
    /// The namespace; `None` for cluster-scoped objects.
    #[must_use]
    pub(crate) fn in_namespace(&self) -> Option<&str> {
        Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }

    /// Whether Kubewarden's audit scanner asks: it has no user, and puts the kind where the resource belongs.
    #[must_use]
    pub(crate) fn is_by_the_audit(&self) -> bool {
        self.user_info.username.is_empty() && self.resource.resource == self.kind.kind
    }

    /// Reads a request. Without a kind and an operation it is not a valid one.
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
