//! One layer of an image: a tar archive of what it adds and what it takes away.

use std::io::{self, ErrorKind, Read};

use flate2::read::MultiGzDecoder;
use tar::EntryType;

/// A name that takes away the file of the rest of its name, in the layers below.
const WHITEOUT: &str = ".wh.";
/// A name that takes away everything in its directory, in the layers below.
const OPAQUE: &str = ".wh..wh..opq";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
}

/// How much may be unpacked, over all the layers of an image. A bundle is some manifests: the largest known are a few MB.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) bytes: u64,
    pub(crate) entries: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { bytes: 128 << 20, entries: 20_000 }
    }
}

/// What a layer does, in its order.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    pub(crate) removed: Vec<Removal>,
    pub(crate) added: Vec<(String, Node)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The file or the directory of that path.
    Path(String),
    /// What is in the directory of that path.
    Content(String),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Directory,
    File(Vec<u8>),
    /// A link, a device: something that is not followed, and may not be where it matters.
    Special(&'static str),
}

/// Reads a layer. An entry that leaves the image makes all of it untrustworthy.
pub(crate) fn read(bytes: &[u8], compression: Compression, budget: &mut Budget) -> Result<Layer, String> {
    let source: Box<dyn Read + '_> = match compression {
        Compression::None => Box::new(bytes),
        Compression::Gzip => Box::new(MultiGzDecoder::new(bytes)),
    };
    let limit = budget.bytes;
    let metered = Metered { source, left: &mut budget.bytes };
    read_archive(metered, &mut budget.entries).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            format!("it has more than {limit} bytes when unpacked, which is too large for a bundle")
        }
        ErrorKind::QuotaExceeded => "it has too many files for a bundle".to_owned(),
        ErrorKind::InvalidFilename => error.to_string(),
        _ => format!("a layer cannot be unpacked: {error}"),
    })
}

fn read_archive(source: impl Read, entries: &mut u32) -> io::Result<Layer> {
    let mut layer = Layer::default();
    let mut archive = tar::Archive::new(source);
    for entry in archive.entries()? {
        let mut entry = entry?;
        *entries = entries.checked_sub(1).ok_or(ErrorKind::QuotaExceeded)?;
        let named = entry.path_bytes();
        let is_directory_by_name = named.ends_with(b"/");
        let Some(path) = normal(&named)? else { continue };
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            continue;
        }
        if let Some(removal) = removal(&path)? {
            layer.removed.push(removal);
            continue;
        }
        let node = match kind {
            EntryType::Directory => Node::Directory,
            EntryType::Regular | EntryType::Continuous if is_directory_by_name => Node::Directory,
            EntryType::Regular | EntryType::Continuous => {
                let mut content = Vec::new();
                entry.read_to_end(&mut content)?;
                Node::File(content)
            }
            // Its holes take no room in the layer, and so would not be counted: a kilobyte could stand for a terabyte.
            EntryType::GNUSparse => Node::Special("a sparse file"),
            EntryType::Symlink => Node::Special("a symbolic link"),
            EntryType::Link => Node::Special("a hard link"),
            _ => Node::Special("neither a file nor a directory"),
        };
        layer.added.push((path, node));
    }
    Ok(layer)
}

/// What a whiteout takes away, if this is one.
fn removal(path: &str) -> io::Result<Option<Removal>> {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    if name == OPAQUE {
        return Ok(Some(Removal::Content(directory.to_owned())));
    }
    let Some(hidden) = name.strip_prefix(WHITEOUT) else { return Ok(None) };
    // Other names that start with `.wh..wh.` are the bookkeeping of old storage drivers, and stand for nothing.
    if hidden.is_empty() || hidden == "." || hidden == ".." || hidden.starts_with(WHITEOUT) {
        return Err(io::Error::new(
            ErrorKind::InvalidFilename,
            format!("`{path}` takes away nothing that can be named"),
        ));
    }
    let path = if directory.is_empty() { hidden.to_owned() } else { format!("{directory}/{hidden}") };
    Ok(Some(Removal::Path(path)))
}

/// The path from the root of the image, `None` for the root itself.
pub(crate) fn normal(path: &[u8]) -> io::Result<Option<String>> {
    let refuse = |reason: &str| {
        let path = String::from_utf8_lossy(path);
        Err(io::Error::new(ErrorKind::InvalidFilename, format!("`{}` {reason}", path.escape_debug())))
    };
    let Ok(text) = str::from_utf8(path) else { return refuse("is not UTF-8") };
    if text.contains(['\0', '\\']) {
        return refuse("contains a character that is not portable in file names");
    }
    let parts: Vec<_> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return refuse("points outside of the image");
    }
    Ok(Some(parts.join("/")).filter(|path| !path.is_empty()))
}

/// Counts what is read, and stops when there is nothing left to spend.
struct Metered<'a, R> {
    source: R,
    left: &'a mut u64,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        *self.left = self.left.checked_sub(read as u64).ok_or(ErrorKind::FileTooLarge)?;
        Ok(read)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;

    use super::*;

    /// An archive with these entries, their names as they are: the `tar` crate would not write dangerous ones.
    pub(crate) fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, kind, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            if matches!(kind, EntryType::Symlink | EntryType::Link) {
                header.set_link_name_literal(content).unwrap();
                header.set_size(0);
                header.set_cksum();
                builder.append(&header, io::empty()).unwrap();
            } else {
                header.set_size(content.len() as u64);
                header.set_cksum();
                builder.append(&header, *content).unwrap();
            }
        }
        builder.into_inner().unwrap()
    }

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(entries: &[(&str, EntryType, &[u8])]) -> Result<Layer, String> {
        read(&gzip(&archive(entries)), Compression::Gzip, &mut Budget::default())
    }

    const FILE: EntryType = EntryType::Regular;

    #[test]
    fn files_and_whiteouts_are_told_apart() {
        let layer = unpacked(&[
            ("./manifests/", EntryType::Directory, b""),
            ("/manifests/a.yaml", FILE, b"a"),
            ("manifests/.wh.b.yaml", FILE, b""),
            ("metadata/.wh..wh..opq", FILE, b""),
            ("old/", FILE, b""),
        ])
        .unwrap();
        let added = [
            ("manifests".to_owned(), Node::Directory),
            ("manifests/a.yaml".to_owned(), Node::File(b"a".to_vec())),
            ("old".to_owned(), Node::Directory),
        ];
        assert_eq!(layer.added, added);
        let removed = [Removal::Path("manifests/b.yaml".to_owned()), Removal::Content("metadata".to_owned())];
        assert_eq!(layer.removed, removed);
    }

    #[test]
    fn an_entry_that_leaves_the_image_is_refused() {
        for path in ["../evil.yaml", "/../evil.yaml", "manifests/../../evil.yaml", "manifests/..", "../.wh.evil.yaml"] {
            let error = unpacked(&[(path, FILE, b"x")]).unwrap_err();
            assert_eq!(error, format!("`{path}` points outside of the image"));
        }
    }

    #[test]
    fn a_whiteout_of_nothing_in_particular_is_refused() {
        for path in [".wh.", "a/.wh..", "a/.wh...", "a/.wh..wh.plnk"] {
            let error = unpacked(&[(path, FILE, b"")]).unwrap_err();
            assert!(error.contains("takes away nothing that can be named"), "{path}: {error}");
        }
    }

    #[test]
    fn names_that_systems_read_differently_are_refused() {
        assert!(unpacked(&[("manifests\\a.yaml", FILE, b"x")]).unwrap_err().contains("not portable"));
    }

    #[test]
    fn a_small_layer_that_unpacks_to_a_huge_one_is_refused() {
        let bomb = gzip(&archive(&[("manifests/a.yaml", FILE, &vec![0; 3 << 20])]));
        assert!(bomb.len() < 100_000);
        let mut budget = Budget { bytes: 2 << 20, ..Budget::default() };
        let error = read(&bomb, Compression::Gzip, &mut budget).unwrap_err();
        assert_eq!(error, "it has more than 2097152 bytes when unpacked, which is too large for a bundle");
    }

    #[test]
    fn a_sparse_file_is_not_unpacked_for_its_holes_are_not_counted() {
        // Eight gigabytes of holes, in one block.
        let mut header = tar::Header::new_gnu();
        header.set_path("manifests/a.yaml").unwrap();
        header.set_entry_type(EntryType::GNUSparse);
        header.set_size(0);
        let gnu = header.as_gnu_mut().unwrap();
        gnu.realsize = *b"77777777777\0";
        gnu.sparse[0].offset = *b"77777777777\0";
        gnu.sparse[0].numbytes = *b"00000000000\0";
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, io::empty()).unwrap();
        let layer = read(&builder.into_inner().unwrap(), Compression::None, &mut Budget::default()).unwrap();
        assert_eq!(layer.added, [("manifests/a.yaml".to_owned(), Node::Special("a sparse file"))]);
    }

    #[test]
    fn the_layers_of_an_image_share_what_may_be_unpacked() {
        let layer = archive(&[("manifests/a.yaml", FILE, &vec![0; 1 << 20])]);
        let mut budget = Budget { bytes: 3 << 19, ..Budget::default() };
        read(&layer, Compression::None, &mut budget).unwrap();
        assert!(read(&layer, Compression::None, &mut budget).is_err());
    }

    #[test]
    fn too_many_entries_are_refused() {
        let mut budget = Budget { entries: 2, ..Budget::default() };
        let layer = archive(&[("a", FILE, b""), ("b", FILE, b""), ("c", FILE, b"")]);
        assert_eq!(read(&layer, Compression::None, &mut budget).unwrap_err(), "it has too many files for a bundle");
    }

    #[test]
    fn what_is_not_an_archive_is_said() {
        assert!(
            read(b"not gzip", Compression::Gzip, &mut Budget::default()).unwrap_err().contains("cannot be unpacked")
        );
        let cut = &archive(&[("a", FILE, &[1; 2000])])[..1000];
        assert!(read(cut, Compression::None, &mut Budget::default()).unwrap_err().contains("cannot be unpacked"));
    }
}
