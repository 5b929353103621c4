//! ClusterExtension: the life cycle of `spec.serviceAccount`, and what bounds an extension.

use serde_json::value::RawValue;

use crate::olm::meta::Meta;
use crate::read::json::{Members, Unreadable};
use crate::read::object::object;
use crate::read::text::Text;

/// The reserved account name that tells OLM 1.2 to 1.10, with the feature gate `SyntheticPermissions`, to act as the
/// extension's synthetic identity.
pub const SYNTHETIC_ACCOUNT: &str = "olm.synthetic-user";

object! {
    /// A ClusterExtension, in `v1` and both forms of `v1alpha1`.
    #[derive(Debug, Clone, Default)]
    pub struct ClusterExtension<'a> {
        /// The object metadata that affects a verdict.
        pub metadata: Meta<'a> = "metadata",
        /// What the extension installs, and as which account.
        pub(crate) spec: Spec<'a> = "spec",
    }
}

object! {
    /// The part of `spec` that affects a verdict.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Spec<'a> {
        namespace: Text<'a> = "namespace",
        install_namespace: Text<'a> = "installNamespace",
        service_account: Option<&'a RawValue> = "serviceAccount",
        install: Install<'a> = "install",
        /// What is installed.
        pub(crate) source: Option<&'a RawValue> = "source",
        /// The configuration of what is installed.
        pub(crate) config: Option<&'a RawValue> = "config",
        package_name: Option<&'a RawValue> = "packageName",
        version: Option<&'a RawValue> = "version",
        channel: Option<&'a RawValue> = "channel",
    }
}

object! {
    /// `spec.install` of `v1alpha1`.
    #[derive(Debug, Clone, Default)]
    struct Install<'a> {
        namespace: Text<'a> = "namespace",
        service_account: Option<&'a RawValue> = "serviceAccount",
    }
}

object! {
    #[derive(Debug, Default)]
    struct Account<'a> {
        name: Text<'a> = "name",
    }
}

impl<'a> ClusterExtension<'a> {
    /// The namespace it installs into.
    #[must_use]
    pub fn namespace(&self) -> &str {
        [&self.spec.namespace, &self.spec.install_namespace, &self.spec.install.namespace]
            .into_iter()
            .map(Text::as_str)
            .find(|name| !name.is_empty())
            .unwrap_or_default()
    }

    /// Every place in which the field is set.
    #[must_use]
    pub(crate) fn fields(&self) -> Vec<&'static [&'static str]> {
        let mut places: Vec<&'static [&'static str]> = Vec::new();
        if self.spec.service_account.is_some() {
            places.push(&["spec", "serviceAccount"]);
        }
        if self.spec.install.service_account.is_some() {
            places.push(&["spec", "install", "serviceAccount"]);
        }
        places
    }

    /// The name of the account, if the field specifies one.
    pub fn account(&self) -> Result<Option<Text<'a>>, Unreadable> {
        let Some(raw) = self.spec.service_account.or(self.spec.install.service_account) else { return Ok(None) };
        let place = self.fields().first().map(|path| path.join(".")).unwrap_or_default();
        let account: Account<'a> = crate::read::json::read(raw.get(), &format!("object.{place}"))?;
        Ok(Some(account.name).filter(|name| !name.is_empty()))
    }

    /// What it installs, unparsed: package, version, channel and configuration.
    #[must_use]
    pub(crate) fn content(&self) -> [Option<&str>; 5] {
        let spec = &self.spec;
        [spec.source, spec.config, spec.package_name, spec.version, spec.channel].map(|raw| raw.map(RawValue::get))
    }
}

/// The same JSON object without one member; everything else stays textually unchanged.
pub(crate) fn without(text: &str, path: &[&str]) -> Result<String, serde_json::Error> {
    let members: Members<'_> = serde_json::from_str(text)?;
    let mut out = String::from("{");
    for (key, value) in members.0 {
        let value = match path {
            [last] if key == *last => continue,
            [first, rest @ ..] if key == *first => without(value.get(), rest)?,
            _ => value.get().to_owned(),
        };
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&serde_json::to_string(key.as_str())?);
        out.push(':');
        out.push_str(&value);
    }
    out.push('}');
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_a_member_out_leaves_everything_else_as_it_is_written() {
        let text = r#"{"z":1.0,"spec":{"b":"\u0041","serviceAccount":{"name":"x"},"a":[ 1, 2 ]},"m":{}}"#;
        assert_eq!(
            without(text, &["spec", "serviceAccount"]).unwrap(),
            r#"{"z":1.0,"spec":{"b":"\u0041","a":[ 1, 2 ]},"m":{}}"#
        );
        assert_eq!(without(r#"{"a":{"b":1}}"#, &["x", "y"]).unwrap(), r#"{"a":{"b":1}}"#);
    }

    #[test]
    fn the_account_and_the_namespace_are_found_in_every_version() {
        for text in [
            r#"{"spec":{"namespace":"ns","serviceAccount":{"name":"sa"}}}"#,
            r#"{"spec":{"installNamespace":"ns","serviceAccount":{"name":"sa"}}}"#,
            r#"{"spec":{"install":{"namespace":"ns","serviceAccount":{"name":"sa"}}}}"#,
        ] {
            let extension: ClusterExtension<'_> = serde_json::from_str(text).unwrap();
            assert_eq!(extension.namespace(), "ns", "{text}");
            assert_eq!(extension.account().unwrap().unwrap(), "sa", "{text}");
            let [path] = extension.fields()[..] else { panic!("{text}") };
            let stripped = without(text, path).unwrap();
            assert!(!stripped.contains("serviceAccount"), "{stripped}");
        }
    }

    #[test]
    fn a_field_without_a_name_names_nobody_but_is_there() {
        let extension: ClusterExtension<'_> = serde_json::from_str(r#"{"spec":{"serviceAccount":{}}}"#).unwrap();
        assert_eq!(extension.fields().len(), 1);
        assert_eq!(extension.account().unwrap(), None);
    }
}
