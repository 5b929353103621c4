//! Files of YAML or JSON: read, unpacked, parsed, with errors that name the place.

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde_json::Value;

/// What is wrong with a file, and where.
#[derive(Debug, thiserror::Error)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Line and column, both from 1, where they are known.
    pub place: Option<(u64, u64)>,
    /// What is wrong.
    pub reason: String,
}

impl FileError {
    /// An error about the file as a whole.
    pub fn new(path: &Path, reason: impl fmt::Display) -> Self {
        FileError { path: path.to_owned(), place: None, reason: reason.to_string() }
    }

    /// An error of the JSON parser.
    #[must_use]
    pub fn json(path: &Path, error: &serde_json::Error) -> Self {
        let place = (error.line() > 0).then_some((error.line() as u64, error.column() as u64));
        FileError { place, ..FileError::new(path, without_place(&error.to_string(), " at line ")) }
    }

    fn yaml(path: &Path, error: &serde_saphyr::Error) -> Self {
        let place = error.location().map(|location| (location.line(), location.column()));
        FileError { place, ..FileError::new(path, without_place(&error.to_string(), " at line ")) }
    }
}

/// The position is already at the front of the message.
fn without_place<'a>(message: &'a str, place: &str) -> &'a str {
    message.rfind(place).map_or(message, |end| &message[..end])
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// The documents of a file, in order; empty ones are left out. A name that ends in `.gz` is unpacked first.
pub fn read(path: &Path) -> Result<Vec<Value>, FileError> {
    parse(path, &read_bytes(path)?)
}

/// The bytes of a file. A name that ends in `.gz` is unpacked.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    let bytes = fs::read(path).map_err(|error| FileError::new(path, error))?;
    if !has_extension(path, "gz") {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(bytes.as_slice())
        .read_to_end(&mut unpacked)
        .map_err(|error| FileError::new(path, format!("cannot be unpacked: {error}")))?;
    Ok(unpacked)
}

/// Parses the content of a file. JSON goes the fast way, and everything else, JSON with comments included, is YAML.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Value>, FileError> {
    let text = text(path, bytes)?;
    match text.trim_start().as_bytes().first() {
        Some(b'{' | b'[') => match json(text) {
            Ok(documents) => Ok(documents),
            Err(error) if is_json(path) => Err(FileError::json(path, &error)),
            Err(_) => yaml(path, text),
        },
        _ => yaml(path, text),
    }
}

/// The content of a file as text.
pub(crate) fn text<'b>(path: &Path, bytes: &'b [u8]) -> Result<&'b str, FileError> {
    let not_text = |good: &[u8]| {
        let line = good.split(|byte| *byte == b'\n').count() as u64;
        let column = good.rsplit(|byte| *byte == b'\n').next().map_or(0, <[u8]>::len) as u64 + 1;
        FileError { place: Some((line, column)), ..FileError::new(path, "not a text file: neither YAML nor JSON") }
    };
    // What is no text is binary; a text with a NUL in it is, too.
    let good = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    match bytes[..good].iter().position(|byte| *byte == 0) {
        Some(nul) => Err(not_text(&bytes[..nul])),
        None => std::str::from_utf8(bytes).map_err(|_| not_text(&bytes[..good])),
    }
}

fn json(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    serde_json::Deserializer::from_str(text).into_iter().collect()
}

fn yaml(path: &Path, text: &str) -> Result<Vec<Value>, FileError> {
    // Limits meant for untrusted input; a dump of a whole cluster is larger. Words like `off` stay strings, as kwctl
    // reads them, and a leading zero is octal, as kubectl does.
    let budget = serde_saphyr::budget! {
        max_events: usize::MAX,
        max_nodes: usize::MAX,
        max_documents: usize::MAX,
        max_total_scalar_bytes: usize::MAX,
        max_depth: 128,
    };
    let options = serde_saphyr::options! {
        budget: budget,
        strict_booleans: true,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| FileError::yaml(path, &error))
}

/// Whether a directory's file of this name is read: `.yaml`, `.yml`, `.json`, and each with `.gz` behind it.
pub(crate) fn is_manifest(path: &Path) -> bool {
    let inner = if has_extension(path, "gz") { path.with_extension("") } else { path.to_owned() };
    ["yaml", "yml", "json"].iter().any(|extension| has_extension(&inner, extension))
}

fn is_json(path: &Path) -> bool {
    has_extension(path, "json") || path.to_string_lossy().ends_with(".json.gz")
}

pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(name: &str, text: &str) -> Result<Vec<Value>, String> {
        parse(Path::new(name), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn words_that_yaml_once_read_as_booleans_stay_words() {
        let document = parsed("a.yaml", "a: off\nb: \"off\"\nc: y\nd: n\ne: yes\nf: true\ng: 0644").unwrap();
        assert_eq!(document, [json!({"a": "off", "b": "off", "c": "y", "d": "n", "e": "yes", "f": true, "g": 420})]);
    }

    #[test]
    fn several_documents_come_in_order_and_empty_ones_do_not_come() {
        let documents = parsed("a.yaml", "---\na: 1\n---\n---\nnull\n---\nb: 2\n").unwrap();
        assert_eq!(documents, [json!({"a": 1}), json!({"b": 2})]);
        assert_eq!(parsed("a.yaml", "# nothing\n").unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn json_may_stand_in_a_yaml_file_and_yaml_in_flow_style_is_not_json() {
        assert_eq!(parsed("a.yaml", "{\"a\": 1}\n").unwrap(), [json!({"a": 1})]);
        assert_eq!(parsed("a.yaml", "{a: 1}\n").unwrap(), [json!({"a": 1})]);
    }

    #[test]
    fn errors_name_file_line_and_column() {
        assert!(parsed("a.yaml", "a: 1\nb:\n  - x\n c: 2\n").unwrap_err().starts_with("a.yaml:4:2: "));
        assert!(parsed("a.json", "{\n  \"a\": }").unwrap_err().starts_with("a.json:2:8: "));
        assert!(parsed("a.yaml", "a: 1\na: 2\n").unwrap_err().starts_with("a.yaml:2:1: duplicate"));
    }

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        let place = |bytes: &[u8]| text(Path::new("a.yaml"), bytes).unwrap_err().place;
        assert_eq!(place(b"a: b\nc: \xe9\n"), Some((2, 4)));
        assert_eq!(place(b"a\n\nb\0\xff"), Some((3, 2)));
        assert_eq!(place(b"\x89PNG\0"), Some((1, 1)));
    }

    #[test]
    fn only_manifests_are_read_from_a_directory() {
        for name in ["a.yaml", "a.YML", "a.json", "a.json.gz", "a.yaml.gz"] {
            assert!(is_manifest(Path::new(name)), "{name}");
        }
        for name in ["README.md", "a.gz", "yaml", "a.yaml.orig"] {
            assert!(!is_manifest(Path::new(name)), "{name}");
        }
    }
}
