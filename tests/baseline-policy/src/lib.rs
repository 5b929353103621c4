//! Accepts everything, written the usual SDK way: what `make bench` measures the policy against.

use kubewarden_policy_sdk::request::ValidationRequest;
use kubewarden_policy_sdk::settings::Validatable;
use kubewarden_policy_sdk::{accept_request, protocol_version_guest, validate_settings};
use serde::{Deserialize, Serialize};
use wapc_guest::{CallResult, register_function};

#[derive(Debug, Default, Deserialize, Serialize)]
struct Settings {}

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
    let _request = ValidationRequest::<Settings>::new(payload)?;
    accept_request()
}
