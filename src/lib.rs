//! The operator-bounds policy: a thin waPC shell around `bounds`, where every decision is made.

mod host;
mod wapc;

use wapc_guest::{CallResult, register_function};

use crate::host::Host;

/// Called by the host before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn wapc_init() {
    register_function("validate", validate);
    register_function("validate_settings", validate_settings);
    register_function("protocol_version", kubewarden_policy_sdk::protocol_version_guest);
}

fn validate(payload: &[u8]) -> CallResult {
    Ok(serde_json::to_vec(&bounds::validate(payload, &Host))?)
}

fn validate_settings(payload: &[u8]) -> CallResult {
    Ok(serde_json::to_vec(&bounds::validate_settings(payload))?)
}
