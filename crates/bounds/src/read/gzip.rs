//! Data that is compressed with gzip, in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

pub(crate) fn from_base64(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text.as_bytes().trim_ascii()).map_err(|error| error.to_string())
}

/// Decompresses a gzip file to text, up to the number of bytes left in the budget. The file states the length of the
/// text at its end: a text that is too long is not decompressed at all, and no more memory is allocated than needed.
pub(crate) fn unpack(file: &[u8], budget: &mut usize) -> Result<String, String> {
    const DAMAGED: &str = "the compressed data is corrupt";
    let stream = gzip_stream(file).ok_or("is not compressed with gzip")?;
    let (stream, end) = stream.split_last_chunk::<8>().ok_or(DAMAGED)?;
    let [_, _, _, _, length @ ..] = *end;
    let length = u32::from_le_bytes(length) as usize;
    if length > *budget {
        return Err(format!("unpacks to {length} bytes, more than the {budget} that are read"));
    }
    let mut text = vec![0; length];
    let mut state = Box::<DecompressorOxide>::default();
    let flags = TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let (status, read, written) = decompress(&mut state, stream, &mut text, 0, flags);
    // Several files in one, or a wrong length, would be read differently by other readers.
    if status != TINFLStatus::Done || read != stream.len() || written != length {
        return Err(DAMAGED.to_owned());
    }
    *budget -= length;
    String::from_utf8(text).map_err(|error| error.to_string())
}

/// The content of a gzip file (RFC 1952), without its header. The checksum at the end protects against accidental
/// corruption, and a manifest that was corrupted by accident does not parse.
fn gzip_stream(file: &[u8]) -> Option<&[u8]> {
    const CHECKSUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let [0x1f, 0x8b, 8, flags, _, _, _, _, _, _, rest @ ..] = file else { return None };
    let mut rest = rest;
    if flags & EXTRA != 0 {
        let [low, high, after @ ..] = rest else { return None };
        rest = after.get(usize::from(u16::from_le_bytes([*low, *high]))..)?;
    }
    for field in [NAME, COMMENT] {
        if flags & field != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & CHECKSUM != 0 {
        rest = rest.get(2..)?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::unpack;

    #[test]
    fn every_field_of_a_gzip_header_is_passed_over() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(b"kind: Role").unwrap();
        let plain = encoder.finish().unwrap();
        let mut odd = plain[..10].to_vec();
        odd[3] = 2 | 4 | 8 | 16;
        odd.extend([3, 0, 1, 2, 3]);
        odd.extend(b"name\0comment\0");
        odd.extend([0, 0]);
        odd.extend(&plain[10..]);
        assert_eq!(unpack(&odd, &mut 100).unwrap(), "kind: Role");
        for broken in [&odd[..12], &odd[..15], &odd[..20], &odd[..30], b"", b"\x1f\x8b"] {
            assert!(unpack(broken, &mut 100).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn two_files_in_one_and_a_false_length_are_damaged() {
        let pack = |text: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(unpack(&pack(b""), &mut 100).unwrap(), "");
        assert!(unpack(&[pack(b"one"), pack(b"two")].concat(), &mut 100).is_err());
        let mut false_length = pack(&[b'a'; 50]);
        let end = false_length.len();
        false_length[end - 4] = 49;
        assert!(unpack(&false_length, &mut 100).is_err());
        assert!(unpack(&pack(&[b'a'; 101]), &mut 100).unwrap_err().contains("101 bytes, more than the 100"));
    }
}
