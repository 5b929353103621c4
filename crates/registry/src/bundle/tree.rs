//! The files of an image: its layers, one over the other.

use std::collections::BTreeMap;

use super::layer::{Layer, Node, Removal};

/// What is at each path. Directories are there by what is in them.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
}

impl Tree {
    /// Puts a layer on top. What it takes away, it takes from the layers below and never from itself.
    pub(crate) fn apply(&mut self, layer: Layer) -> Result<(), String> {
        for removal in layer.removed {
            match removal {
                Removal::Path(path) => {
                    self.nodes.remove(&path);
                    self.empty(&path);
                }
                Removal::Content(directory) => self.empty(&directory),
            }
        }
        layer.added.into_iter().try_for_each(|(path, node)| self.add(path, node))
    }

    fn add(&mut self, path: String, node: Node) -> Result<(), String> {
        for directory in ancestors(&path) {
            match self.nodes.get(directory) {
                // Where that leads depends on who unpacks it.
                Some(Node::Special(kind)) => return Err(format!("`{path}` is below `{directory}`, which is {kind}")),
                Some(_) => {
                    self.nodes.remove(directory);
                }
                None => {}
            }
        }
        if node == Node::Directory {
            self.nodes.remove(&path);
        } else {
            self.empty(&path);
            self.nodes.insert(path, node);
        }
        Ok(())
    }

    /// Removes what is below a directory.
    fn empty(&mut self, directory: &str) {
        self.nodes.retain(|path, _| !is_below(path, directory));
    }

    /// The files of that name, in whatever directory.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.nodes.iter().filter_map(move |(path, node)| match node {
            Node::File(content) if path.rsplit('/').next() == Some(name) => Some((path.as_str(), content.as_slice())),
            _ => None,
        })
    }

    /// Whether there is anything in the directory.
    pub(crate) fn has(&self, directory: &str) -> bool {
        self.nodes.keys().any(|path| is_below(path, directory))
    }

    /// The files in the directory, by their path below it. Anything else in it, or on the way to it, is an error.
    pub(crate) fn take(&mut self, directory: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
        for path in ancestors(directory).chain([directory]) {
            match self.nodes.get(path) {
                Some(Node::Special(kind)) => return Err(format!("`{path}` is {kind}: only files are read")),
                Some(_) => return Err(format!("`{path}` is a file and not a directory")),
                None => {}
            }
        }
        let mut files = Vec::new();
        for (path, node) in self.nodes.extract_if(.., |path, _| is_below(path, directory)) {
            match node {
                Node::File(content) => files.push((path[directory.len() + 1..].to_owned(), content)),
                Node::Special(kind) => return Err(format!("`{path}` is {kind}: only files are read")),
                Node::Directory => {}
            }
        }
        Ok(files)
    }
}

/// `a` and `a/b` for `a/b/c`.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Everything is below the root, whose path is empty.
fn is_below(path: &str, directory: &str) -> bool {
    directory.is_empty() || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> (String, Node) {
        (path.to_owned(), Node::File(path.as_bytes().to_vec()))
    }

    fn link(path: &str) -> (String, Node) {
        (path.to_owned(), Node::Special("a symbolic link"))
    }

    fn layer(removed: Vec<Removal>, added: Vec<(String, Node)>) -> Layer {
        Layer { removed, added }
    }

    /// The paths below `m` after these layers.
    fn paths(layers: Vec<Layer>) -> Result<Vec<String>, String> {
        let mut tree = Tree::default();
        layers.into_iter().try_for_each(|layer| tree.apply(layer))?;
        Ok(tree.take("m")?.into_iter().map(|(path, _)| path).collect())
    }

    #[test]
    fn a_whiteout_hides_what_is_below_it_and_not_what_comes_with_it() {
        let lower = layer(vec![], vec![file("m/a"), file("m/b"), file("m/d/e")]);
        let upper = layer(
            vec![Removal::Path("m/b".to_owned()), Removal::Path("m/d".to_owned()), Removal::Path("m/c".to_owned())],
            vec![file("m/c")],
        );
        assert_eq!(paths(vec![lower, upper]).unwrap(), ["a", "c"]);
    }

    #[test]
    fn an_opaque_directory_hides_all_that_was_in_it() {
        let lower = layer(vec![], vec![file("m/a"), file("m/d/e"), file("ma")]);
        let upper = layer(vec![Removal::Content("m".to_owned())], vec![file("m/b")]);
        assert_eq!(paths(vec![lower, upper]).unwrap(), ["b"]);
        let lower = layer(vec![], vec![file("m/a")]);
        let root = layer(vec![Removal::Content(String::new())], vec![file("m/b")]);
        assert_eq!(paths(vec![lower, root]).unwrap(), ["b"]);
    }

    #[test]
    fn a_file_in_the_place_of_a_directory_hides_it_and_the_other_way_round() {
        let lower = layer(vec![], vec![file("m/a/b"), file("m/c")]);
        let upper = layer(vec![], vec![file("m/a"), file("m/c/d")]);
        assert_eq!(paths(vec![lower, upper]).unwrap(), ["a", "c/d"]);
    }

    #[test]
    fn a_link_among_the_files_is_refused() {
        let error = paths(vec![layer(vec![], vec![file("m/a"), link("m/b")])]).unwrap_err();
        assert_eq!(error, "`m/b` is a symbolic link: only files are read");
    }

    #[test]
    fn a_link_in_the_place_of_the_directory_is_refused() {
        assert!(paths(vec![layer(vec![], vec![link("m")])]).unwrap_err().starts_with("`m` is a symbolic link"));
    }

    #[test]
    fn a_file_that_would_be_written_through_a_link_is_refused() {
        let lower = layer(vec![], vec![link("x")]);
        let upper = layer(vec![], vec![file("x/evil.yaml")]);
        let error = paths(vec![lower, upper]).unwrap_err();
        assert_eq!(error, "`x/evil.yaml` is below `x`, which is a symbolic link");
    }

    #[test]
    fn a_link_elsewhere_and_one_that_is_replaced_do_no_harm() {
        let lower = layer(vec![], vec![link("bin"), link("m")]);
        let upper = layer(vec![], vec![("m".to_owned(), Node::Directory), file("m/a")]);
        assert_eq!(paths(vec![lower, upper]).unwrap(), ["a"]);
    }
}
