//! Just enough of the wasm binary format: a module is a header and a row of sections, each an id, a length and a body.

use crate::annotate::AnnotateError;

const HEADER: &[u8] = b"\0asm\x01\0\0\0";
const CUSTOM: u8 = 0;

/// One section, with the bytes it takes up in the module and the body inside.
struct Section<'a> {
    id: u8,
    whole: &'a [u8],
    body: &'a [u8],
}

/// Reads forward through the module and knows where it is, for the errors.
struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    fn fail<T>(&self, reason: &'static str) -> Result<T, AnnotateError> {
        Err(AnnotateError::Module { reason, offset: self.offset })
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], AnnotateError> {
        match self.bytes.get(self.offset..).and_then(|rest| rest.get(..count)) {
            Some(taken) => {
                self.offset += count;
                Ok(taken)
            }
            None => self.fail("unexpected end"),
        }
    }

    /// A LEB128 number of at most 32 bits, as all lengths in a module are.
    fn length(&mut self) -> Result<usize, AnnotateError> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return match u32::try_from(value).map(usize::try_from) {
                    Ok(Ok(length)) => Ok(length),
                    _ => self.fail("a length is out of range"),
                };
            }
        }
        self.fail("a length is out of range")
    }

    fn section(&mut self) -> Result<Section<'a>, AnnotateError> {
        let start = self.offset;
        let id = self.take(1)?[0];
        let length = self.length()?;
        let body = self.take(length)?;
        Ok(Section { id, whole: &self.bytes[start..self.offset], body })
    }
}

impl<'a> Section<'a> {
    /// The content, when this is the custom section of that name.
    fn named(&self, name: &str) -> Result<Option<&'a [u8]>, AnnotateError> {
        if self.id != CUSTOM {
            return Ok(None);
        }
        let mut cursor = Cursor { bytes: self.body, offset: 0 };
        let length = cursor.length()?;
        let found = cursor.take(length)?;
        Ok((found == name.as_bytes()).then(|| &self.body[cursor.offset..]))
    }
}

fn sections(wasm: &[u8]) -> Result<impl Iterator<Item = Result<Section<'_>, AnnotateError>>, AnnotateError> {
    let mut cursor = Cursor { bytes: wasm, offset: 0 };
    if !wasm.starts_with(HEADER) {
        return cursor.fail("the header of a version 1 module is missing");
    }
    cursor.offset = HEADER.len();
    Ok(std::iter::from_fn(move || {
        (cursor.offset < wasm.len()).then(|| {
            let section = cursor.section();
            if section.is_err() {
                cursor.offset = wasm.len();
            }
            section
        })
    }))
}

/// The content of the first custom section of that name.
pub(crate) fn custom_section<'a>(wasm: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, AnnotateError> {
    for section in sections(wasm)? {
        if let Some(content) = section?.named(name)? {
            return Ok(Some(content));
        }
    }
    Ok(None)
}

/// The module without its custom sections of that name, and with a new one at the end.
pub(crate) fn with_custom_section(wasm: &[u8], name: &str, content: &[u8]) -> Result<Vec<u8>, AnnotateError> {
    let mut out = Vec::with_capacity(wasm.len() + name.len() + content.len() + 16);
    out.extend_from_slice(HEADER);
    for section in sections(wasm)? {
        let section = section?;
        if section.named(name)?.is_none() {
            out.extend_from_slice(section.whole);
        }
    }
    let mut body = Vec::with_capacity(name.len() + content.len() + 8);
    push_length(&mut body, name.len());
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(content);
    out.push(CUSTOM);
    push_length(&mut out, body.len());
    out.extend_from_slice(&body);
    Ok(out)
}

fn push_length(out: &mut Vec<u8>, mut value: usize) {
    loop {
        let [low, ..] = (value & 0x7f).to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module with a custom section `name` and an empty type section.
    const MODULE: &[u8] = b"\0asm\x01\0\0\0\x00\x07\x04name\x01\x02\x01\x01\x00";

    #[test]
    fn a_section_that_was_written_is_read_back() {
        for length in [0, 1, 127, 128, 300, 70_000] {
            let content = vec![b'x'; length];
            let module = with_custom_section(MODULE, "added", &content).unwrap();
            assert_eq!(custom_section(&module, "added").unwrap(), Some(content.as_slice()));
        }
    }

    #[test]
    fn the_other_sections_stay_as_they_are() {
        let module = with_custom_section(MODULE, "added", b"x").unwrap();
        assert!(module.starts_with(MODULE));
        assert_eq!(custom_section(&module, "name").unwrap(), Some(b"\x01\x02".as_slice()));
    }

    #[test]
    fn writing_again_replaces_and_does_not_grow() {
        let once = with_custom_section(MODULE, "added", b"one").unwrap();
        let twice = with_custom_section(&once, "added", b"two").unwrap();
        assert_eq!(custom_section(&twice, "added").unwrap(), Some(b"two".as_slice()));
        assert_eq!(once.len(), twice.len());
        assert_eq!(with_custom_section(&twice, "added", b"one").unwrap(), once);
    }

    #[test]
    fn what_is_not_a_module_says_where_it_breaks() {
        let message = |bytes: &[u8]| custom_section(bytes, "x").unwrap_err().to_string();
        assert_eq!(message(b"#!/bin/sh"), "not a wasm module: the header of a version 1 module is missing at byte 0");
        assert_eq!(message(&MODULE[..12]), "not a wasm module: unexpected end at byte 10");
        let endless = [HEADER, b"\x01\xff\xff\xff\xff\xff\xff"].concat();
        assert_eq!(message(&endless), "not a wasm module: a length is out of range at byte 14");
    }
}
