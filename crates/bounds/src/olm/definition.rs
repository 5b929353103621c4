//! CustomResourceDefinitions: what that of ClusterExtensions says about the account, and the resource of a new kind.

use serde_json::value::RawValue;

use crate::read::json::{at, list_at, text_at};
use crate::read::object::object;
use crate::read::text::Text;

/// The name of the definition of ClusterExtensions.
pub const EXTENSIONS: &str = "clusterextensions.olm.operatorframework.io";

/// What a definition of ClusterExtensions says about the service account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The field is required.
    Required,
    /// The field is optional.
    Optional {
        /// Whether the description says that it is ignored, or deprecated.
        is_ignored: bool,
    },
    /// The field does not exist.
    Absent,
}

/// What a definition of ClusterExtensions, as JSON, says about the field in a version; `None` if it does not have that
/// version.
#[must_use]
pub fn field(definition: &str, version: &str) -> Option<Field> {
    const SPEC: &[&str] = &["schema", "openAPIV3Schema", "properties", "spec"];
    let versions = list_at(definition, &["spec", "versions"]);
    let written = versions.into_iter().map(RawValue::get).find(|written| text_at(written, &["name"]) == *version)?;
    let spec = at(written, SPEC).unwrap_or("{}");
    // `v1alpha1` of 0.16 has it in `spec.install`; all other versions in `spec`.
    let install = at(spec, &["properties", "install"]);
    Some(install.and_then(field_of).or_else(|| field_of(spec)).unwrap_or(Field::Absent))
}

/// What the schema of an object says about the field; `None` if it does not have it.
fn field_of(schema: &str) -> Option<Field> {
    const NAME: &str = "serviceAccount";
    let written = at(schema, &["properties", NAME])?;
    if list_at(schema, &["required"]).iter().any(|name| name.get().trim_matches('"') == NAME) {
        return Some(Field::Required);
    }
    let description = text_at(written, &["description"]).to_ascii_lowercase();
    Some(Field::Optional { is_ignored: description.contains("ignored") || description.contains("deprecated") })
}

object! {
    #[derive(Debug, Default)]
    struct Definition<'a> {
        spec: Defined<'a> = "spec",
    }
}

object! {
    /// The resource that a CustomResourceDefinition defines.
    #[derive(Debug, Default)]
    pub(crate) struct Defined<'a> {
        pub(crate) group: Text<'a> = "group",
        pub(crate) names: Names<'a> = "names",
        scope: Text<'a> = "scope",
    }
}

object! {
    #[derive(Debug, Default)]
    pub(crate) struct Names<'a> {
        pub(crate) kind: Text<'a> = "kind",
        pub(crate) plural: Text<'a> = "plural",
    }
}

impl<'a> Defined<'a> {
    /// Reads the resource from a CustomResourceDefinition in JSON; one that cannot be read defines nothing.
    pub(crate) fn read(definition: &'a str) -> Self {
        serde_json::from_str::<Definition<'a>>(definition).unwrap_or_default().spec
    }

    /// Whether its objects are namespaced.
    pub(crate) fn is_namespaced(&self) -> bool {
        self.scope == "Namespaced"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(version: &str, spec: &str) -> String {
        format!(
            r#"{{"spec":{{"versions":[{{"name":"v0"}},{{"name":"{version}","schema":{{"openAPIV3Schema":{{"properties":{{"spec":{spec}}}}}}}}}]}}}}"#
        )
    }

    #[test]
    fn the_field_is_required_optional_ignored_or_absent() {
        let optional = |is_ignored| Some(Field::Optional { is_ignored });
        for (spec, expected) in [
            (
                r#"{"required":["namespace","serviceAccount"],"properties":{"serviceAccount":{}}}"#,
                Some(Field::Required),
            ),
            (
                r#"{"required":["source"],"properties":{"serviceAccount":{"description":"who installs"}}}"#,
                optional(false),
            ),
            (r#"{"properties":{"serviceAccount":{"description":"a Deprecated field"}}}"#, optional(true)),
            (r#"{"properties":{"serviceAccount":{"description":"is completely ignored."}}}"#, optional(true)),
            (r#"{"required":["source"],"properties":{"source":{}}}"#, Some(Field::Absent)),
            // A field without a schema cannot be required either.
            (r#"{"required":["serviceAccount"],"properties":{}}"#, Some(Field::Absent)),
            (
                r#"{"properties":{"install":{"required":["serviceAccount"],"properties":{"serviceAccount":{}}}}}"#,
                Some(Field::Required),
            ),
        ] {
            assert_eq!(field(&definition("v1", spec), "v1"), expected, "{spec}");
        }
        assert_eq!(field(&definition("v1", "{}"), "v1alpha1"), None);
        assert_eq!(field("{}", "v1"), None);
    }

    #[test]
    fn a_definition_says_which_resource_its_kind_is() {
        let text =
            r#"{"spec":{"group":"example.com","names":{"kind":"Hello","plural":"hellos"},"scope":"Namespaced"}}"#;
        let defined = Defined::read(text);
        assert_eq!((&*defined.group, &*defined.names.kind, &*defined.names.plural), ("example.com", "Hello", "hellos"));
        assert!(defined.is_namespaced() && !Defined::read("{}").is_namespaced());
    }
}
