//! The policy itself: the module that is published, or the same decisions run natively.

use std::collections::BTreeMap;
use std::sync::Arc;

use policy_module::Metadata;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::engine::{Engine, EngineError, Limits};
use crate::host::Host;
use crate::manifests::Manifests;
use crate::source::Source;

/// The annotated module, as it is published.
pub const MODULE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/annotated-policy.wasm"));

/// Why the policy gave no verdict.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The embedded module has no metadata that could be read.
    #[error("the embedded policy: {0}")]
    Metadata(String),
    /// It did not run to its end.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Its answer is not what the protocol says.
    #[error("the policy's answer cannot be read: {0}")]
    Answer(#[from] serde_json::Error),
}

/// The policy, ready to judge.
pub struct Policy {
    metadata: Arc<Metadata>,
    /// None to run natively.
    engine: Option<Engine>,
}

/// What the policy answers to a request: Kubewarden's `ValidationResponse`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ValidationResponse {
    /// Admitted?
    pub accepted: bool,
    /// The message of a refusal.
    pub message: Option<String>,
    /// The HTTP code of a refusal.
    pub code: Option<u16>,
    /// The object as it should be instead.
    pub mutated_object: Option<Value>,
    /// Facts for machines.
    pub audit_annotations: Option<BTreeMap<String, String>>,
    /// What the client prints.
    pub warnings: Option<Vec<String>>,
}

/// What the policy answers to settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SettingsResponse {
    /// Can it run with them?
    pub valid: bool,
    /// What is wrong with them.
    pub message: Option<String>,
}

/// What the policy is called with.
#[derive(Serialize)]
struct Payload<'a> {
    request: &'a RawValue,
    settings: &'a RawValue,
}

impl Policy {
    /// The module that is published.
    pub fn embedded(limits: Limits) -> Result<Self, PolicyError> {
        Ok(Policy { engine: Some(Engine::new(MODULE, limits)?), ..Policy::native()? })
    }

    /// The same decisions without the module, for debugging.
    pub fn native() -> Result<Self, PolicyError> {
        let metadata =
            policy_module::read_metadata(MODULE).map_err(|error| PolicyError::Metadata(error.to_string()))?;
        let metadata = metadata.ok_or_else(|| PolicyError::Metadata("it is not annotated".to_owned()))?;
        Ok(Policy { metadata: metadata.into(), engine: None })
    }

    /// A host for one evaluation.
    #[must_use]
    pub fn host(&self, manifests: &Arc<Manifests>) -> Host {
        Host::new(Arc::clone(manifests), Arc::clone(&self.metadata))
    }

    /// A host for one evaluation that asks any source.
    #[must_use]
    pub fn host_on(&self, source: Arc<dyn Source>) -> Host {
        Host::on(source, Arc::clone(&self.metadata))
    }

    /// Whether the policy can run with these settings.
    pub fn validate_settings(&self, settings: &RawValue) -> Result<SettingsResponse, PolicyError> {
        let payload = settings.get().as_bytes();
        let answer = match &self.engine {
            Some(engine) => engine.call(&Arc::new(self.host(&Arc::default())), "validate_settings", payload)?,
            None => serde_json::to_vec(&bounds::validate_settings(payload))?,
        };
        Ok(serde_json::from_slice(&answer)?)
    }

    /// The verdict on a request. The look-ups it took are in the host's exchanges.
    pub fn validate(
        &self,
        request: &RawValue,
        settings: &RawValue,
        host: &Arc<Host>,
    ) -> Result<ValidationResponse, PolicyError> {
        let payload = serde_json::to_vec(&Payload { request, settings })?;
        let answer = match &self.engine {
            Some(engine) => engine.call(host, "validate", &payload)?,
            None => serde_json::to_vec(&bounds::validate(&payload, host.as_ref()))?,
        };
        Ok(serde_json::from_slice(&answer)?)
    }
}
