//! Where objects are in a file, and the values in them.

use std::cell::OnceCell;

use crate::syntax::{self, Node};

use super::objects::Object;

/// A line and a column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Place {
    /// Where a file begins.
    pub const START: Place = Place { line: 1, column: 1 };

    /// Where a value begins.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        Place { line: node.line, column: node.column }
    }
}

/// The positions in a file, computed on first use.
#[derive(Debug)]
pub struct Places<'t> {
    text: &'t str,
    /// Whether the file is one object and nothing else.
    single: bool,
    documents: OnceCell<Vec<Node>>,
}

impl<'t> Places<'t> {
    /// The places of a text with these objects in it.
    #[must_use]
    pub fn new(text: &'t str, objects: &[Object]) -> Self {
        let single = matches!(objects, [only] if only.document == 0 && only.way.is_empty());
        Places { text, single, documents: OnceCell::new() }
    }

    /// Where an object begins.
    #[must_use]
    pub fn of(&self, object: &Object) -> Place {
        if self.single {
            return first(self.text);
        }
        self.node(object).map_or(Place::START, Place::of)
    }

    /// An object, with the places of everything in it.
    #[must_use]
    pub fn node(&self, object: &Object) -> Option<&Node> {
        // A text that the parser does not like, such as several JSON objects in a row, has as many as come before.
        let documents = self.documents.get_or_init(|| syntax::up_to_error(self.text).0);
        let document = documents.get(object.document)?;
        let way: Vec<String> =
            object.way.iter().flat_map(|position| ["items".to_owned(), position.to_string()]).collect();
        document.at(&way)
    }
}

/// Where a file's only document begins, without reading the rest of it: behind comments and a leading `---`.
fn first(text: &str) -> Place {
    let line = text.lines().position(|line| {
        let line = line.trim();
        !(line.is_empty() || line.starts_with('#') || line.starts_with("---") || line.starts_with('%'))
    });
    Place { line: line.unwrap_or_default() + 1, column: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a comment\n---\nkind: List\nitems:\n- metadata:\n    name: one\n  rules:\n  - verbs: [get]\n- metadata: {name: two}\n---\n---\nkind: Other\n";

    fn place(document: usize, way: &[&str]) -> Option<(usize, usize)> {
        syntax::parse(TEXT).unwrap()[document].at(way).map(|node| (node.line, node.column))
    }

    #[test]
    fn every_value_has_its_line_and_column() {
        assert_eq!(place(0, &[]), Some((3, 1)));
        assert_eq!(place(0, &["items", "0"]), Some((5, 3)));
        assert_eq!(place(0, &["items", "0", "rules", "0"]), Some((8, 5)));
        assert_eq!(place(0, &["items", "1", "metadata", "name"]), Some((9, 20)));
        assert_eq!(place(0, &["items", "2"]), None);
    }

    #[test]
    fn empty_documents_do_not_count() {
        assert_eq!(syntax::parse(TEXT).unwrap().len(), 2);
        assert_eq!(place(1, &[]), Some((12, 1)));
    }

    #[test]
    fn json_has_places_too() {
        let node = &syntax::parse("{\n\t\"spec\": {\"rules\": [\n\t\t{\"verbs\": []}]}\n}").unwrap()[0];
        assert_eq!(node.at(&["spec", "rules", "0"]).map(|node| node.line), Some(3));
    }

    #[test]
    fn what_comes_before_an_error_has_places() {
        let (documents, broken) = syntax::up_to_error("kind: One\n---\nkind: [\n");
        assert_eq!(documents.iter().map(|node| Place::of(node).line).collect::<Vec<_>>(), [1]);
        assert!(broken.is_some());
    }

    #[test]
    fn the_first_document_begins_behind_comments() {
        assert_eq!(first("# c\n\n---\nkind: x\n").line, 4);
        assert_eq!(first("{}").line, 1);
    }
}
