//! Accepts everything, written the usual SDK way: what `make bench` measures the policy against.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use kubewarden_policy_sdk::request::ValidationRequest;
use kubewarden_policy_sdk::settings::Validatable;
use kubewarden_policy_sdk::{accept_request, protocol_version_guest, validate_settings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wapc_guest::{CallResult, register_function};

#[derive(Debug, Default, Deserialize, Serialize)]
struct Settings {
    /// Also read the release of OLM v1 that is in the Secret: what every policy must do that judges one.
    #[serde(default)]
    unpack: bool,
}

impl Validatable for Settings {
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Called by the host before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn wapc_init() {
    register_function("validate", validate);
    register_function("validate_settings", validate_settings::<Settings>);
    register_function("protocol_version", protocol_version_guest);
}

fn validate(payload: &[u8]) -> CallResult {
    let request = ValidationRequest::<Settings>::new(payload)?;
    if request.settings.unpack {
        let chunk = request.request.object["data"]["chunk"].as_str().ok_or("no release")?;
        let mut text = Vec::new();
        GzDecoder::new(STANDARD.decode(chunk)?.as_slice()).read_to_end(&mut text)?;
        let release: Value = serde_json::from_slice(&text)?;
        let manifest = release["manifest"].as_str().ok_or("no manifest")?;
        for object in serde_json::Deserializer::from_str(manifest).into_iter::<Value>() {
            object?;
        }
    }
    accept_request()
}
