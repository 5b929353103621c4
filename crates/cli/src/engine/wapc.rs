//! waPC: the module asks for its request, calls its host, and hands over a response or an error.
//!
//! Everything crosses as an address and a length in the module's memory. What does not lie in there ends the evaluation.

use wasmtime::{Caller, Error, Extern, Linker, Result, StoreLimits, StoreLimitsBuilder};

/// What the module exports to be called by, and to be set up by.
pub(super) const CALL: &str = "__guest_call";
pub(super) const INIT: &str = "wapc_init";

/// Where the module's imports of waPC come from.
const NAMESPACE: &str = "wapc";

/// Answers what a module asks of its host: binding, namespace, operation and payload.
pub type HostCall = Box<dyn Fn(&str, &str, &str, &[u8]) -> Result<Vec<u8>, String> + Send + Sync>;

/// One call of a module: its request, what the host answered last, and what the module hands over.
pub(super) struct Conversation {
    function: String,
    payload: Vec<u8>,
    callback: HostCall,
    answer: Vec<u8>,
    failure: String,
    response: Option<Vec<u8>>,
    error: Option<String>,
    limits: StoreLimits,
}

impl Conversation {
    pub(super) fn new(callback: HostCall, function: &str, payload: &[u8], memory: usize) -> Self {
        Conversation {
            function: function.to_owned(),
            payload: payload.to_owned(),
            callback,
            answer: Vec::new(),
            failure: String::new(),
            response: None,
            error: None,
            limits: StoreLimitsBuilder::new().memory_size(memory).build(),
        }
    }

    pub(super) fn limits(&mut self) -> &mut dyn wasmtime::ResourceLimiter {
        &mut self.limits
    }

    /// The response; without one, the error that the module has left.
    pub(super) fn outcome(self, succeeded: bool) -> Result<Vec<u8>, String> {
        match (self.response.filter(|_| succeeded), self.error) {
            (Some(response), _) => Ok(response),
            (None, Some(error)) => Err(error),
            (None, None) => Err("it returned neither a response nor an error".to_owned()),
        }
    }

    fn ask(&mut self, [binding, namespace, operation]: [&str; 3], payload: &[u8]) -> u32 {
        (self.answer, self.failure) = (Vec::new(), String::new());
        match (self.callback)(binding, namespace, operation, payload) {
            Ok(answer) => self.answer = answer,
            Err(failure) => {
                self.failure = failure;
                return 0;
            }
        }
        1
    }
}

type Guest<'g> = Caller<'g, Conversation>;

/// Defines what a module imports.
pub(super) fn link(linker: &mut Linker<Conversation>) -> Result<()> {
    linker.func_wrap(NAMESPACE, "__guest_request", |mut guest: Guest<'_>, function: u32, payload: u32| {
        let (memory, conversation) = parts(&mut guest)?;
        write(memory, function, conversation.function.as_bytes())?;
        write(memory, payload, &conversation.payload)
    })?;
    linker.func_wrap(NAMESPACE, "__host_call", host_call)?;
    linker.func_wrap(NAMESPACE, "__host_response_len", |guest: Guest<'_>| length(&guest.data().answer))?;
    linker.func_wrap(NAMESPACE, "__host_response", |mut guest: Guest<'_>, at: u32| {
        let (memory, conversation) = parts(&mut guest)?;
        write(memory, at, &conversation.answer)
    })?;
    linker.func_wrap(NAMESPACE, "__host_error_len", |guest: Guest<'_>| length(guest.data().failure.as_bytes()))?;
    linker.func_wrap(NAMESPACE, "__host_error", |mut guest: Guest<'_>, at: u32| {
        let (memory, conversation) = parts(&mut guest)?;
        write(memory, at, conversation.failure.as_bytes())
    })?;
    linker.func_wrap(NAMESPACE, "__guest_response", |mut guest: Guest<'_>, at: u32, length: u32| {
        let (memory, conversation) = parts(&mut guest)?;
        conversation.response = Some(read(memory, at, length)?.to_vec());
        Ok(())
    })?;
    linker.func_wrap(NAMESPACE, "__guest_error", |mut guest: Guest<'_>, at: u32, length: u32| {
        let (memory, conversation) = parts(&mut guest)?;
        conversation.error = Some(text(memory, at, length)?.to_owned());
        Ok(())
    })?;
    Ok(())
}

/// The protocol's own order: binding, namespace, operation and payload, each as an address and a length.
#[allow(clippy::too_many_arguments)]
fn host_call(
    mut guest: Guest<'_>,
    binding: u32,
    binding_length: u32,
    namespace: u32,
    namespace_length: u32,
    operation: u32,
    operation_length: u32,
    payload: u32,
    payload_length: u32,
) -> Result<u32> {
    let (memory, conversation) = parts(&mut guest)?;
    let name = [
        text(memory, binding, binding_length)?,
        text(memory, namespace, namespace_length)?,
        text(memory, operation, operation_length)?,
    ];
    Ok(conversation.ask(name, read(memory, payload, payload_length)?))
}

/// The module's memory, and the conversation with it.
pub(super) fn parts<'g>(guest: &'g mut Guest<'_>) -> Result<(&'g mut [u8], &'g mut Conversation)> {
    let memory = guest.get_export("memory").and_then(Extern::into_memory);
    let memory = memory.ok_or_else(|| Error::msg("the module exports no memory"))?;
    Ok(memory.data_and_store_mut(guest))
}

pub(super) fn read(memory: &[u8], at: u32, length: u32) -> Result<&[u8]> {
    memory.get(at as usize..).and_then(|memory| memory.get(..length as usize)).ok_or_else(outside)
}

fn text(memory: &[u8], at: u32, length: u32) -> Result<&str> {
    Ok(std::str::from_utf8(read(memory, at, length)?)?)
}

pub(super) fn place(memory: &mut [u8], at: u32, length: usize) -> Result<&mut [u8]> {
    memory.get_mut(at as usize..).and_then(|memory| memory.get_mut(..length)).ok_or_else(outside)
}

pub(super) fn write(memory: &mut [u8], at: u32, bytes: &[u8]) -> Result<()> {
    place(memory, at, bytes.len())?.copy_from_slice(bytes);
    Ok(())
}

fn length(bytes: &[u8]) -> Result<u32> {
    Ok(u32::try_from(bytes.len())?)
}

fn outside() -> Error {
    Error::msg("address outside of the module's memory")
}
