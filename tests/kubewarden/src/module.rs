//! The policy as it is published: in a registry, by its digest.

use anyhow::Context;
use operator_bounds::policy::MODULE;
use test_parts::Registry;

/// The module in a registry of its own.
#[derive(Debug)]
pub struct Module {
    registry: Registry,
    reference: String,
}

impl Module {
    /// Pushes the module that the command line embeds, which is the one that is published.
    pub async fn publish() -> anyhow::Result<Self> {
        let registry = Registry::start()?;
        let name = format!("registry://{}/policies/operator-bounds:test", registry.address());
        let pushed =
            registry::push(MODULE, &name, &registry::Options::default()).await.context("pushing the policy")?;
        Ok(Module { registry, reference: pushed.reference })
    }

    /// `registry://…@sha256:…`.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// The registry that it is in, which speaks plain HTTP.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}
