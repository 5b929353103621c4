//! A YAML or JSON text with the place of everything in it: which bytes each value is written in, and how.

use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StructureStyle};

/// A value, and where it is written.
#[derive(Debug)]
pub struct Node {
    /// The bytes of the text that it takes. Of a mapping or a sequence without braces, up to the end of its last value.
    pub bytes: Range<usize>,
    /// The line it begins in, from 1.
    pub line: usize,
    /// The column it begins in, from 1.
    pub column: usize,
    /// Whether an anchor names it, so that it may be used elsewhere.
    pub is_anchored: bool,
    /// Its content, by type.
    pub content: Content,
}

/// What a value is.
#[derive(Debug)]
pub enum Content {
    /// A text, a number, a word.
    Scalar(String),
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and values, in order, and whether they are in braces.
    Mapping {
        /// The entries.
        entries: Vec<(Node, Node)>,
        /// `{…}`, as JSON always has it.
        in_braces: bool,
    },
    /// What an anchor elsewhere names.
    Alias,
}

/// Where a text breaks off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// What the parser expected or found.
    pub reason: String,
}

impl Node {
    /// The entries, of a mapping.
    #[must_use]
    pub fn entries(&self) -> &[(Node, Node)] {
        match &self.content {
            Content::Mapping { entries, .. } => entries,
            _ => &[],
        }
    }

    /// The elements, of a list.
    #[must_use]
    pub fn items(&self) -> &[Node] {
        match &self.content {
            Content::Sequence(items) => items,
            _ => &[],
        }
    }

    /// The text, of a scalar.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// The entry of this key.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&(Node, Node)> {
        self.entries().iter().find(|(found, _)| found.text() == Some(key))
    }

    /// The value of this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, value)| value)
    }

    /// The value at the end of a way of keys and positions.
    #[must_use]
    pub fn at<S: AsRef<str>>(&self, way: &[S]) -> Option<&Node> {
        way.iter().try_fold(self, |node, step| match &node.content {
            Content::Sequence(items) => items.get(step.as_ref().parse::<usize>().ok()?),
            _ => node.get(step.as_ref()),
        })
    }

    /// Whether this, or anything in it, is named by an anchor.
    #[must_use]
    pub fn has_anchor(&self) -> bool {
        self.is_anchored
            || self.items().iter().any(Node::has_anchor)
            || self.entries().iter().any(|(key, value)| key.has_anchor() || value.has_anchor())
    }
}

/// The documents of a text, in order; empty ones are left out, as [`crate::documents::parse`] does.
pub fn parse(text: &str) -> Result<Vec<Node>, Broken> {
    match up_to_error(text) {
        (documents, None) => Ok(documents),
        (_, Some(broken)) => Err(broken),
    }
}

/// The documents that come before the place where a text breaks off, and that place.
#[must_use]
pub fn up_to_error(text: &str) -> (Vec<Node>, Option<Broken>) {
    let mut documents = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for next in Parser::new_from_str(text) {
        let (event, span) = match next {
            Ok(next) => next,
            Err(error) => return (documents, Some(Broken::new(&error))),
        };
        let done = match event {
            Event::MappingStart(style, anchor, _) => {
                open.push(Open::new(&span, anchor, true, style == StructureStyle::Flow));
                None
            }
            Event::SequenceStart(style, anchor, _) => {
                open.push(Open::new(&span, anchor, false, style == StructureStyle::Flow));
                None
            }
            Event::MappingEnd | Event::SequenceEnd => open.pop().map(|open| open.close(&span)),
            Event::Scalar(value, style, anchor, _) => {
                let is_null = style == ScalarStyle::Plain && matches!(&*value, "" | "~" | "null" | "Null" | "NULL");
                let node = Node { is_anchored: anchor != 0, ..node(&span, Content::Scalar(value.into_owned())) };
                Some(node).filter(|_| !(is_null && open.is_empty()))
            }
            Event::Alias(_) => Some(node(&span, Content::Alias)),
            _ => None,
        };
        match (done, open.last_mut()) {
            (Some(node), Some(around)) => around.values.push(node),
            (Some(node), None) => documents.push(node),
            (None, _) => {}
        }
    }
    (documents, None)
}

impl Broken {
    fn new(error: &ScanError) -> Self {
        let marker = error.marker();
        Broken { line: marker.line(), column: marker.col() + 1, reason: error.info().clone() }
    }
}

fn node(span: &Span, content: Content) -> Node {
    Node {
        bytes: span.byte_range().unwrap_or_default(),
        line: span.start.line(),
        column: span.start.col() + 1,
        is_anchored: false,
        content,
    }
}

/// A mapping or a list whose end has not come yet.
struct Open {
    start: Node,
    is_mapping: bool,
    in_braces: bool,
    values: Vec<Node>,
}

impl Open {
    fn new(span: &Span, anchor: usize, is_mapping: bool, in_braces: bool) -> Self {
        let start = Node { is_anchored: anchor != 0, ..node(span, Content::Alias) };
        Open { start, is_mapping, in_braces, values: Vec::new() }
    }

    fn close(self, span: &Span) -> Node {
        let Open { start, is_mapping, in_braces, values } = self;
        let last = values.last().map(|value| value.bytes.end);
        // Without braces the parser sees the end only where the next thing begins.
        let end = if in_braces { span.byte_range().map(|bytes| bytes.end) } else { last };
        let bytes = start.bytes.start..end.unwrap_or(start.bytes.end).max(start.bytes.start);
        let content =
            if is_mapping { Content::Mapping { entries: pairs(values), in_braces } } else { Content::Sequence(values) };
        Node { bytes, content, ..start }
    }
}

fn pairs(values: Vec<Node>) -> Vec<(Node, Node)> {
    let mut values = values.into_iter();
    let mut entries = Vec::new();
    while let (Some(key), Some(value)) = (values.next(), values.next()) {
        entries.push((key, value));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# über\n---\nkind: List\nitems:\n- metadata:\n    name: 'one'   # a name\n  spec: {a: [1, 2], b: x}\n\
                        ---\nother: &x\n  deep: |\n    text\n    more\n\nuse: *x\n";

    fn written(document: usize, way: &[&str]) -> &'static str {
        &TEXT[parse(TEXT).unwrap()[document].at(way).unwrap().bytes.clone()]
    }

    #[test]
    fn every_value_knows_its_bytes() {
        assert_eq!(written(0, &["items", "0", "metadata", "name"]), "'one'");
        assert_eq!(written(0, &["items", "0", "metadata"]), "name: 'one'");
        assert_eq!(written(0, &["items", "0", "spec"]), "{a: [1, 2], b: x}");
        assert_eq!(written(0, &["items", "0", "spec", "a"]), "[1, 2]");
        assert_eq!(written(1, &["use"]), "*x");
    }

    #[test]
    fn lines_and_columns_are_those_of_an_editor() {
        let documents = parse(TEXT).unwrap();
        let name = documents[0].at(&["items", "0", "metadata", "name"]).unwrap();
        assert_eq!((name.line, name.column), (6, 11));
    }

    #[test]
    fn anchors_are_seen() {
        let documents = parse(TEXT).unwrap();
        assert!(!documents[0].has_anchor());
        assert!(documents[1].has_anchor() && documents[1].at(&["other"]).unwrap().is_anchored);
    }

    #[test]
    fn empty_documents_do_not_count_and_json_is_yaml() {
        assert_eq!(parse("---\n---\n# nothing\n").unwrap().len(), 0);
        let json = "{\n\t\"spec\": {\"rules\": [\n\t\t{\"verbs\": []}]}\n}";
        assert_eq!(parse(json).unwrap()[0].at(&["spec", "rules", "0"]).unwrap().line, 3);
    }

    #[test]
    fn a_broken_text_says_where() {
        assert_eq!(parse("a: 1\nb:\n  - x\n c: 2\n").unwrap_err().line, 4);
    }
}
