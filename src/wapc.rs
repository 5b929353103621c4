//! A call to the host that checks the length of the answer before copying it. `wapc_guest::host_call` allocates
//! whatever is needed; a list of hundreds of MB would end in a trap, with a message that helps nobody.

/// Why a call gave no answer.
pub(crate) enum Failure {
    /// The host reported this error.
    Host(String),
    /// The answer has this many bytes, more than the limit.
    TooLong(usize),
}

#[link(wasm_import_module = "wapc")]
unsafe extern "C" {
    #[allow(clippy::too_many_arguments)]
    fn __host_call(
        binding: *const u8,
        binding_length: usize,
        namespace: *const u8,
        namespace_length: usize,
        operation: *const u8,
        operation_length: usize,
        message: *const u8,
        message_length: usize,
    ) -> usize;
    fn __host_response_len() -> usize;
    fn __host_response(buffer: *mut u8);
    fn __host_error_len() -> usize;
    fn __host_error(buffer: *mut u8);
}

/// Calls the host; an answer longer than `limit` is not copied.
pub(crate) fn call(
    [binding, namespace, operation]: [&str; 3],
    message: &[u8],
    limit: usize,
) -> Result<Vec<u8>, Failure> {
    // Safety: every pointer comes with the length of what it points to, and the host only reads.
    let answered = unsafe {
        __host_call(
            binding.as_ptr(),
            binding.len(),
            namespace.as_ptr(),
            namespace.len(),
            operation.as_ptr(),
            operation.len(),
            message.as_ptr(),
            message.len(),
        )
    };
    if answered != 1 {
        // Safety: the host writes exactly the number of bytes that it reports.
        let error = unsafe { taken(__host_error_len(), __host_error) };
        return Err(Failure::Host(String::from_utf8_lossy(&error).into_owned()));
    }
    // Safety: as above.
    let length = unsafe { __host_response_len() };
    if length > limit {
        return Err(Failure::TooLong(length));
    }
    // Safety: as above.
    Ok(unsafe { taken(length, __host_response) })
}

/// What the host writes into a buffer of this length.
///
/// # Safety
/// `fill` must write no more than `length` bytes.
unsafe fn taken(length: usize, fill: unsafe extern "C" fn(*mut u8)) -> Vec<u8> {
    let mut buffer = vec![0; length];
    // Safety: the buffer is as long as the caller guarantees.
    unsafe { fill(buffer.as_mut_ptr()) };
    buffer
}
