//! The policy's settings, as arguments.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use operator_bounds::documents::{self, FileError};
use operator_bounds::policy::Policy;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Args)]
pub(crate) struct Settings {
    /// File with the policy's settings, as YAML or JSON [default: none, every setting has a default]
    #[arg(long, value_name = "FILE", conflicts_with = "settings_json")]
    settings_path: Option<PathBuf>,
    /// The policy's settings, as JSON
    #[arg(long, value_name = "JSON")]
    settings_json: Option<String>,
}

impl Settings {
    pub(crate) fn is_given(&self) -> bool {
        self.settings_path.is_some() || self.settings_json.is_some()
    }

    pub(crate) fn read(&self) -> anyhow::Result<Box<RawValue>> {
        let settings = match (&self.settings_path, &self.settings_json) {
            (Some(path), _) => match documents::read(path)?.as_mut_slice() {
                [] => Value::Object(serde_json::Map::new()),
                [settings] => settings.take(),
                _ => bail!(FileError::new(path, "more than one document")),
            },
            (None, Some(json)) => serde_json::from_str(json).context("--settings-json")?,
            (None, None) => Value::Object(serde_json::Map::new()),
        };
        Ok(RawValue::from_string(settings.to_string())?)
    }

    /// The settings, once the policy has accepted them.
    pub(crate) fn read_for(&self, policy: &Policy) -> anyhow::Result<Box<RawValue>> {
        let settings = self.read()?;
        let checked = policy.validate_settings(&settings)?;
        if !checked.valid {
            bail!("the settings are not valid: {}", checked.message.unwrap_or_default());
        }
        Ok(settings)
    }
}
