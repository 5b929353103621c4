//! The part of WASI that the module imports: randomness for its hash maps, an empty environment, output and exit.
//!
//! A module that imports anything else cannot be started, and the error names what it misses.

use std::io::{self, Write};

use wasmtime::{Caller, Error, Linker, Result};

use super::wapc::{Conversation, parts, place, read, write};

/// Where the module's imports of WASI come from.
const NAMESPACE: &str = "wasi_snapshot_preview1";

const SUCCESS: u32 = 0;
const BAD_DESCRIPTOR: u32 = 8;
const IO: u32 = 29;

type Guest<'g> = Caller<'g, Conversation>;

/// Defines what a module imports.
pub(super) fn link(linker: &mut Linker<Conversation>) -> Result<()> {
    linker.func_wrap(NAMESPACE, "random_get", |mut guest: Guest<'_>, at: u32, length: u32| {
        let (memory, _) = parts(&mut guest)?;
        getrandom::fill(place(memory, at, length as usize)?).map_err(|error| Error::msg(error.to_string()))?;
        Ok(SUCCESS)
    })?;
    linker.func_wrap(NAMESPACE, "environ_sizes_get", |mut guest: Guest<'_>, count: u32, length: u32| {
        let (memory, _) = parts(&mut guest)?;
        write(memory, count, &0_u32.to_le_bytes())?;
        write(memory, length, &0_u32.to_le_bytes())?;
        Ok(SUCCESS)
    })?;
    linker.func_wrap(NAMESPACE, "environ_get", |_variables: u32, _text: u32| SUCCESS)?;
    linker.func_wrap(NAMESPACE, "fd_write", fd_write)?;
    linker.func_wrap(NAMESPACE, "proc_exit", |code: u32| -> Result<()> {
        Err(Error::msg(format!("the module exited with code {code}")))
    })?;
    Ok(())
}

/// Writes the pieces that a list of addresses and lengths names, and says how many bytes that were.
fn fd_write(mut guest: Guest<'_>, descriptor: u32, pieces: u32, count: u32, written: u32) -> Result<u32> {
    let (memory, _) = parts(&mut guest)?;
    let mut output: Box<dyn Write> = match descriptor {
        1 => Box::new(io::stdout().lock()),
        2 => Box::new(io::stderr().lock()),
        _ => return Ok(BAD_DESCRIPTOR),
    };
    let mut length: u32 = 0;
    for piece in read(memory, pieces, count.saturating_mul(8))?.chunks_exact(8) {
        let number = |at: usize| u32::from_le_bytes([piece[at], piece[at + 1], piece[at + 2], piece[at + 3]]);
        if output.write_all(read(memory, number(0), number(4))?).is_err() {
            return Ok(IO);
        }
        length = length.saturating_add(number(4));
    }
    write(memory, written, &length.to_le_bytes())?;
    Ok(SUCCESS)
}
