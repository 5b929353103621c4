//! Runs a waPC module in wasmtime, the way Kubewarden's policy server does.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use wapc::WapcHost;
use wasmtime_provider::wasmtime::{Cache, CacheConfig, Config, Module};
use wasmtime_provider::{
    EpochDeadlines, ResourceLimits, WasmtimeEngineProviderBuilder, WasmtimeEngineProviderPre, wasmtime,
};

use crate::cache;
use crate::host::Host;

/// The policy server counts the time of an evaluation in ticks of a second.
const TICK: Duration = Duration::from_secs(1);
/// What wasmtime-provider says when the time is up. There is no typed error.
const INTERRUPTED: &str = "execution deadline exceeded";
/// How wasmtime begins what it says of a trap; an error that the module answers with has words of its own.
const TRAPPED: &str = "error while executing at wasm backtrace";

/// What one evaluation may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: usize,
    /// Seconds, host look-ups included; none for as long as it takes.
    pub seconds: Option<u64>,
}

impl Default for Limits {
    /// The policy server's two seconds, and 256 MiB.
    fn default() -> Self {
        Limits { memory: 256 * 1024 * 1024, seconds: Some(2) }
    }
}

/// Why an evaluation gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The module cannot be compiled or started.
    #[error("the module cannot be started: {0}")]
    Start(String),
    /// It used up its time.
    #[error("the evaluation was ended after its time limit of {} s", .0.unwrap_or_default())]
    Timeout(Option<u64>),
    /// It crashed.
    #[error("the module crashed: {0}")]
    Trap(String),
    /// It answered with an error.
    #[error("the module answered with an error: {0}")]
    Guest(String),
}

/// A compiled module. Every call runs in a fresh instance of it: one request never sees another's data.
pub struct Engine {
    compiled: WasmtimeEngineProviderPre,
    limits: Limits,
}

impl Engine {
    /// Compiles a module, once for the life of the process.
    pub fn new(module: &[u8], limits: Limits) -> Result<Self, EngineError> {
        let start = |error: wasmtime::Error| EngineError::Start(format!("{error:#}"));
        let engine = wasmtime::Engine::new(&config()).map_err(start)?;
        let module = Module::new(&engine, module).map_err(start)?;
        tick(&engine).map_err(|error| EngineError::Start(error.to_string()))?;
        let compiled = WasmtimeEngineProviderBuilder::new()
            .engine(engine)
            .module(module)
            .enable_resource_limits(ResourceLimits { max_memory_size: Some(limits.memory), max_table_elements: None })
            .build_pre()
            .map_err(|error| EngineError::Start(error.to_string()))?;
        Ok(Engine { compiled, limits })
    }

    /// Calls a function of the module, which may call back to the host.
    pub fn call(&self, host: &Arc<Host>, function: &str, payload: &[u8]) -> Result<Vec<u8>, EngineError> {
        // A deadline has to be set as soon as the engine counts at all: without a limit it lies beyond any evaluation.
        let ticks = self.limits.seconds.unwrap_or(u64::MAX / 2);
        let deadlines = EpochDeadlines { wapc_init: ticks, wapc_func: ticks };
        let instance =
            self.compiled.rehydrate(Some(deadlines)).map_err(|error| EngineError::Start(error.to_string()))?;
        let host = Arc::clone(host);
        let callback = move |_id: u64, binding: &str, namespace: &str, operation: &str, payload: &[u8]| {
            host.call(binding, namespace, operation, payload).map_err(Into::into)
        };
        let guest = WapcHost::new(Box::new(instance), Some(Box::new(callback)))
            .map_err(|error| EngineError::Start(error.to_string()))?;
        guest.call(function, payload).map_err(|error| self.describe(error))
    }

    fn describe(&self, error: wapc::errors::Error) -> EngineError {
        match error {
            wapc::errors::Error::GuestCallFailure(reason) if reason.contains(INTERRUPTED) => {
                EngineError::Timeout(self.limits.seconds)
            }
            wapc::errors::Error::GuestCallFailure(reason) if reason.starts_with(TRAPPED) => EngineError::Trap(reason),
            wapc::errors::Error::GuestCallFailure(reason) => EngineError::Guest(reason),
            other => EngineError::Start(other.to_string()),
        }
    }
}

/// Compiled code is kept where only the user can write; without such a place the module is compiled every time.
fn config() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config.cache(cache::directory().and_then(|directory| {
        let mut kept = CacheConfig::new();
        kept.with_directory(directory);
        Cache::new(kept).ok()
    }));
    config
}

/// Counts the ticks for as long as the engine lives.
fn tick(engine: &wasmtime::Engine) -> std::io::Result<()> {
    let engine = engine.weak();
    let count = move || {
        loop {
            thread::sleep(TICK);
            match engine.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => return,
            }
        }
    };
    thread::Builder::new().name("ticks".to_owned()).spawn(count).map(drop)
}
