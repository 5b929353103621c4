//! The admission request, borrowed from the payload. Objects stay raw until somebody has to read them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::null_default;
use crate::text::Text;

/// What Kubewarden hands over: the request, and the settings of this registration.
#[derive(Debug, Deserialize)]
pub struct Payload<'a> {
    /// The settings, as they are.
    #[serde(borrow, default)]
    pub settings: Option<&'a RawValue>,
    /// The admission request.
    #[serde(borrow)]
    pub request: &'a RawValue,
}

/// An `admission.k8s.io/v1` request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest<'a> {
    /// What kind of object it is about. (The background audit puts the kind where the resource belongs, so this is what
    /// verdicts are dispatched on.)
    #[serde(borrow)]
    pub kind: GroupVersionKind<'a>,
    /// `status` and the like.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub sub_resource: Text<'a>,
    /// The name; empty for `generateName`.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub name: Text<'a>,
    /// The namespace; empty for cluster-scoped objects.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub namespace: Text<'a>,
    /// What is done to it.
    pub operation: Operation,
    /// Who asks.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub user_info: UserInfo<'a>,
    /// The object as it would be.
    #[serde(borrow, default)]
    pub object: Option<&'a RawValue>,
    /// The object as it is.
    #[serde(borrow, default)]
    pub old_object: Option<&'a RawValue>,
}

/// Group, version and kind.
#[derive(Debug, Deserialize)]
pub struct GroupVersionKind<'a> {
    /// The group; empty for the core group.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub group: Text<'a>,
    /// The version.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub version: Text<'a>,
    /// The kind.
    #[serde(borrow)]
    pub kind: Text<'a>,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
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

/// Who asks.
#[derive(Debug, Default, Deserialize)]
pub struct UserInfo<'a> {
    /// The user name; the background audit has none.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub username: Text<'a>,
    /// The groups.
    #[serde(borrow, default, deserialize_with = "null_default")]
    pub groups: Vec<Text<'a>>,
}
