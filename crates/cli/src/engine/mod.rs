//! Runs a waPC module in wasmtime, the way Kubewarden's policy server does.
//!
//! [`wapc`] is the protocol that the module speaks with its host, [`wasi`] the few functions that Rust's standard library
//! imports. Both are small enough to be written here, and wasmtime is then built without all that they do not use
//! (see decision 0002).

mod wapc;
mod wasi;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use wasmtime::{Cache, CacheConfig, Config, InstancePre, Linker, Module, Store, Trap};

use crate::cache;
use crate::host::Host;
use wapc::Conversation;
pub use wapc::HostCall;

/// The policy server counts the time of an evaluation in ticks of a second.
const TICK: Duration = Duration::from_secs(1);

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
    #[error("the evaluation exceeded its time limit of {} s", .0.unwrap_or_default())]
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
    compiled: InstancePre<Conversation>,
    limits: Limits,
}

impl Engine {
    /// Compiles a module, once for the life of the process.
    pub fn new(module: &[u8], limits: Limits) -> Result<Self, EngineError> {
        let engine = wasmtime::Engine::new(&config()).map_err(not_started)?;
        let module = Module::new(&engine, module).map_err(not_started)?;
        tick(&engine).map_err(|error| EngineError::Start(error.to_string()))?;
        let mut linker = Linker::new(&engine);
        wapc::link(&mut linker).and_then(|()| wasi::link(&mut linker)).map_err(not_started)?;
        Ok(Engine { compiled: linker.instantiate_pre(&module).map_err(not_started)?, limits })
    }

    /// Calls a function of the module, which may call back to the host.
    pub fn call(&self, host: &Arc<Host>, function: &str, payload: &[u8]) -> Result<Vec<u8>, EngineError> {
        let host = Arc::clone(host);
        let callback = move |binding: &str, namespace: &str, operation: &str, payload: &[u8]| {
            host.call(binding, namespace, operation, payload).map_err(|error| error.to_string())
        };
        self.call_with(Box::new(callback), function, payload)
    }

    /// Calls a function of the module, and answers what it asks with `callback`.
    pub fn call_with(&self, callback: HostCall, function: &str, payload: &[u8]) -> Result<Vec<u8>, EngineError> {
        let lengths = (length(function.as_bytes())?, length(payload)?);
        let conversation = Conversation::new(callback, function, payload, self.limits.memory);
        let mut store = Store::new(self.compiled.module().engine(), conversation);
        store.limiter(Conversation::limits);
        // A deadline has to be set as soon as the engine counts at all: without a limit it lies beyond any evaluation.
        store.set_epoch_deadline(self.limits.seconds.unwrap_or(u64::MAX / 2));
        let instance = self.compiled.instantiate(&mut store).map_err(not_started)?;
        if instance.get_func(&mut store, wapc::INIT).is_some() {
            let init = instance.get_typed_func::<(), ()>(&mut store, wapc::INIT).map_err(not_started)?;
            init.call(&mut store, ()).map_err(|error| self.ended(&error))?;
        }
        let call = instance.get_typed_func::<(u32, u32), u32>(&mut store, wapc::CALL).map_err(not_started)?;
        let succeeded = call.call(&mut store, lengths).map_err(|error| self.ended(&error))? != 0;
        store.into_data().outcome(succeeded).map_err(EngineError::Guest)
    }

    /// Why the module did not run to its end.
    fn ended(&self, error: &wasmtime::Error) -> EngineError {
        match error.downcast_ref() {
            Some(Trap::Interrupt) => EngineError::Timeout(self.limits.seconds),
            _ => EngineError::Trap(format!("{error:#}")),
        }
    }
}

#[allow(clippy::needless_pass_by_value)]
fn not_started(error: wasmtime::Error) -> EngineError {
    EngineError::Start(format!("{error:#}"))
}

/// The memory of a module has 32-bit addresses.
fn length(bytes: &[u8]) -> Result<u32, EngineError> {
    u32::try_from(bytes.len()).map_err(|error| EngineError::Start(error.to_string()))
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
