//! Where things are in a file: line and column of every value, from the events of the YAML parser. JSON is YAML too.

use std::cell::OnceCell;

use granit_parser::{Event, Parser, ScalarStyle};

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
}

/// A value with its place, and the values in it.
#[derive(Debug)]
pub struct Node {
    /// Where it begins.
    pub place: Place,
    /// The fields of a mapping, the elements of a sequence by their number.
    inner: Vec<(String, Node)>,
    is_mapping: bool,
    /// A mapping's field that waits for its value.
    key: Option<String>,
}

impl Node {
    fn new(place: Place, is_mapping: bool) -> Self {
        Node { place, inner: Vec::new(), is_mapping, key: None }
    }

    /// Takes the next value inside; a scalar in the place of a key is the key.
    fn take(&mut self, scalar: Option<&str>, node: Node) {
        if !self.is_mapping {
            self.inner.push((self.inner.len().to_string(), node));
        } else if let Some(key) = self.key.take() {
            self.inner.push((key, node));
        } else {
            self.key = Some(scalar.unwrap_or_default().to_owned());
        }
    }

    /// The value at the end of this way.
    #[must_use]
    pub fn at<S: AsRef<str>>(&self, way: &[S]) -> Option<&Node> {
        way.iter().try_fold(self, |node, step| {
            node.inner.iter().find(|(key, _)| key == step.as_ref()).map(|(_, inner)| inner)
        })
    }
}

/// The documents of a text, empty ones aside, as [`crate::documents::parse`] counts them. A text that the parser does not
/// like, such as several JSON objects in a row, has as many as come before.
fn documents(text: &str) -> Vec<Node> {
    let mut documents = Vec::new();
    let mut open: Vec<Node> = Vec::new();
    for next in Parser::new_from_str(text) {
        let Ok((event, span)) = next else { break };
        let place = Place { line: span.start.line(), column: span.start.col() + 1 };
        let done = match event {
            Event::MappingStart(..) => {
                open.push(Node::new(place, true));
                continue;
            }
            Event::SequenceStart(..) => {
                open.push(Node::new(place, false));
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => open.pop().map(|node| (None, node)),
            Event::Scalar(text, style, ..) => {
                if open.is_empty()
                    && style == ScalarStyle::Plain
                    && matches!(&*text, "" | "~" | "null" | "Null" | "NULL")
                {
                    continue;
                }
                Some((Some(text.to_string()), Node::new(place, false)))
            }
            Event::Alias(..) => Some((None, Node::new(place, false))),
            _ => None,
        };
        let Some((scalar, node)) = done else { continue };
        match open.last_mut() {
            Some(around) => around.take(scalar.as_deref(), node),
            None => documents.push(node),
        }
    }
    documents
}

/// The places of a file, found out when somebody asks.
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
        self.node(object).map_or(Place::START, |node| node.place)
    }

    /// An object, with the places of everything in it.
    #[must_use]
    pub fn node(&self, object: &Object) -> Option<&Node> {
        let document = self.documents.get_or_init(|| documents(self.text)).get(object.document)?;
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
        documents(TEXT)[document].at(way).map(|node| (node.place.line, node.place.column))
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
        assert_eq!(documents(TEXT).len(), 2);
        assert_eq!(place(1, &[]), Some((12, 1)));
    }

    #[test]
    fn json_has_places_too() {
        let node = &documents("{\n\t\"spec\": {\"rules\": [\n\t\t{\"verbs\": []}]}\n}")[0];
        assert_eq!(node.at(&["spec", "rules", "0"]).map(|node| node.place.line), Some(3));
    }

    #[test]
    fn the_first_document_begins_behind_comments() {
        assert_eq!(first("# c\n\n---\nkind: x\n").line, 4);
        assert_eq!(first("{}").line, 1);
    }
}
