//! YAML text to a tree whose every node knows where it was written.
//!
//! The tree is built from parser events rather than by serde, for three reasons: serde stops at the
//! first error where a plan reports all of them; it hands over `100` and `1e2` as the same float where
//! a label needs the text as written; and events make every bound explicit. A plan may come from a
//! stranger, so depth, node count and alias expansion are all limited ("billion laughs").

use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{Event, Marker, Options, Parser, ScalarStyle, Tag};

use crate::diagnose::Report;
use crate::source::{SourceId, Span, Spanned};

/// Collections nested deeper than this are refused; the deepest useful plan needs seven levels.
const MAX_DEPTH: usize = 32;
/// Nodes of the tree, aliases expanded.
const MAX_NODES: usize = 100_000;
/// Keys of one mapping; also keeps the search for duplicates cheap.
const MAX_KEYS: usize = 1_000;

/// One node of the tree. Cloning shares texts, so that an alias costs its nodes only.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Span,
}

/// What a node holds.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Scalar { text: Rc<str>, plain: bool },
    Sequence(Vec<Node>),
    Mapping(Vec<(Key, Node)>),
}

/// A key of a mapping.
pub(crate) type Key = Spanned<Rc<str>>;

impl Node {
    pub(crate) fn scalar(text: &str, span: Span) -> Self {
        Self { value: Value::Scalar { text: text.into(), plain: true }, span }
    }

    pub(crate) fn mapping(span: Span) -> Self {
        Self { value: Value::Mapping(Vec::new()), span }
    }

    /// True for a value that was left out or written as `null` or `~` (YAML 1.2.2 section 10.3.2).
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if matches!(&**text, "" | "~" | "null"))
    }

    /// The text of a scalar.
    pub(crate) fn text(&self) -> Option<&Rc<str>> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// What an item of a list is called where it stands for itself: its text, or that of its only key and value, `constant 3s`.
    pub(crate) fn label(&self) -> String {
        match &self.value {
            Value::Scalar { text, .. } => text.to_string(),
            Value::Mapping(entries) => match entries.as_slice() {
                [(key, value)] => {
                    value.text().map(|text| format!("{} {text}", key.value)).unwrap_or_default()
                }
                _ => String::new(),
            },
            Value::Sequence(_) => String::new(),
        }
    }

    /// What it is, for messages.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            _ if self.is_null() => "nothing".to_owned(),
            Value::Scalar { text, .. } => format!("`{}`", crate::diagnose::shorten(text)),
            Value::Sequence(_) => "a list".to_owned(),
            Value::Mapping(_) => "a mapping".to_owned(),
        }
    }

    /// How many nodes, this one included.
    fn count(&self) -> usize {
        1 + match &self.value {
            Value::Scalar { .. } => 0,
            Value::Sequence(items) => items.iter().map(Node::count).sum(),
            Value::Mapping(entries) => entries.iter().map(|(_, v)| v.count()).sum(),
        }
    }
}

/// Parses one YAML document, reporting what is wrong with it.
///
/// `offset` is where `text` starts in its source. `None` where there is no usable tree at all.
pub(crate) fn parse(text: &str, source: SourceId, offset: usize, report: &mut Report) -> Option<Node> {
    let mut builder =
        Builder { text, source, offset, report, anchors: HashMap::new(), stack: Vec::new(), nodes: 0 };
    builder.run()
}

/// An open collection.
struct Frame {
    anchor: usize,
    span: Span,
    kind: FrameKind,
}

enum FrameKind {
    Sequence(Vec<Node>),
    Mapping {
        entries: Vec<(Key, Node)>,
        /// The key whose value comes next; the inner `None` drops the value of an unusable key.
        key: Option<Option<Key>>,
    },
}

struct Builder<'a> {
    text: &'a str,
    source: SourceId,
    offset: usize,
    report: &'a mut Report,
    anchors: HashMap<usize, Node>,
    stack: Vec<Frame>,
    nodes: usize,
}

impl Builder<'_> {
    fn run(&mut self) -> Option<Node> {
        let mut options = Options::default();
        options.set_emit_comments(false);
        options.disallow_directives = true;
        options.emit_unresolved_aliases = true;
        options.flow_nesting_limit = MAX_DEPTH;
        options.block_nesting_limit = MAX_DEPTH;
        let mut root = None;
        for next in Parser::new_from_str_with_options(self.text, options) {
            let (event, place) = match next {
                Ok(event) => event,
                Err(error) => {
                    let at = self.byte(error.marker());
                    let span = Span::new(self.source, at..at);
                    let entry = self.report.error(span, format!("this is not YAML: {}", error.info()));
                    if tab_indents(self.text, at - self.offset) {
                        entry.help("indent with spaces, not tabs");
                    }
                    return None;
                }
            };
            let span = Span::new(self.source, self.byte(&place.start)..self.byte(&place.end));
            if matches!(event, Event::DocumentStart(..)) && root.is_some() {
                self.report.error(span, "a plan is one YAML document, and a second one starts here");
                return root;
            }
            if self.nodes > MAX_NODES {
                self.report
                    .error(span, format!("the plan has more than {MAX_NODES} values, aliases expanded"));
                return None;
            }
            if let Some(node) = self.event(&event, span) {
                root = Some(node);
            }
        }
        root
    }

    /// Byte offset of a marker in the whole source.
    fn byte(&self, marker: &Marker) -> usize {
        let within = marker.byte_offset().unwrap_or_else(|| {
            self.text.char_indices().nth(marker.index()).map_or(self.text.len(), |(i, _)| i)
        });
        self.offset + within.min(self.text.len())
    }

    /// Takes one event; gives the root once it is complete.
    fn event(&mut self, event: &Event<'_>, span: Span) -> Option<Node> {
        let open = |kind, anchor| Frame { anchor, span, kind };
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let quoted = self.tag_is_text(tag.as_deref(), span);
                let plain = *style == ScalarStyle::Plain && !quoted;
                let node = Node {
                    value: Value::Scalar { text: text.as_ref().into(), plain },
                    span: self.trim(span),
                };
                self.complete(node, *anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.tag_is_text(tag.as_deref(), span);
                self.stack.push(open(FrameKind::Sequence(Vec::new()), *anchor));
                None
            }
            Event::MappingStart(_, anchor, tag) => {
                self.tag_is_text(tag.as_deref(), span);
                self.stack.push(open(FrameKind::Mapping { entries: Vec::new(), key: None }, *anchor));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let frame = self.stack.pop()?;
                let value = match frame.kind {
                    FrameKind::Sequence(items) => Value::Sequence(items),
                    FrameKind::Mapping { entries, .. } => Value::Mapping(entries),
                };
                let end = span.end.max(frame.span.end);
                let whole = self.trim(Span { end, ..frame.span });
                self.complete(Node { value, span: whole }, frame.anchor)
            }
            Event::Alias(anchor) => {
                let node = self.alias(*anchor, span);
                self.complete(node, 0)
            }
            Event::UnresolvedAlias(name) => {
                let name = crate::diagnose::shorten(name);
                self.report.error(span, format!("alias `*{name}` has no anchor `&{name}` before it"));
                self.complete(Node::scalar("", span), 0)
            }
            _ => None,
        }
    }

    /// The parser's spans of blocks run on over line ends and comments; messages want the text only.
    fn trim(&self, span: Span) -> Span {
        let start = (span.start as usize).saturating_sub(self.offset);
        let end = (span.end as usize).saturating_sub(self.offset);
        match self.text.get(start..end) {
            Some(text) => Span { end: span.start + text.trim_end().len() as u32, ..span },
            None => span,
        }
    }

    /// True where the tag makes a scalar text; an unknown tag is reported.
    fn tag_is_text(&mut self, tag: Option<&Tag>, span: Span) -> bool {
        let Some(tag) = tag else { return false };
        match tag.core_suffix() {
            Some(core) => core == "str",
            None => {
                let tag = tag.original();
                let tag = crate::diagnose::shorten(&tag);
                self.report.error(span, format!("tag `{tag}` means nothing in a plan"));
                false
            }
        }
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Node {
        match self.anchors.get(&anchor) {
            Some(target) => {
                self.nodes += target.count();
                // An alias that would burst the bound is not expanded; `run` reports it next.
                if self.nodes > MAX_NODES { Node::scalar("", span) } else { Node { span, ..target.clone() } }
            }
            None => {
                self.report.error(span, "this alias refers to the value that contains it");
                Node::scalar("", span)
            }
        }
    }

    /// Puts a finished node where it belongs; gives it back where that is the root.
    fn complete(&mut self, node: Node, anchor: usize) -> Option<Node> {
        self.nodes += 1;
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut().map(|frame| &mut frame.kind) {
            None => return Some(node),
            Some(FrameKind::Sequence(items)) => items.push(node),
            Some(FrameKind::Mapping { entries, key }) => match key.take() {
                None => *key = Some(as_key(&node, entries, self.report)),
                Some(Some(name)) => entries.push((name, node)),
                Some(None) => {}
            },
        }
        None
    }
}

/// Whether the line of this byte, the line before or the one after is indented with a tab.
fn tab_indents(text: &str, at: usize) -> bool {
    let line = text.split_at_checked(at).unwrap_or((text, "")).0.matches('\n').count();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut near = text.lines().skip(line.saturating_sub(1)).take(if line == 0 { 2 } else { 3 });
    near.any(|line| line[..indent(line)].contains('\t'))
}

/// The node as a key, where it is one and is new in its mapping.
fn as_key(node: &Node, entries: &[(Key, Node)], report: &mut Report) -> Option<Key> {
    let Value::Scalar { text, plain } = &node.value else {
        report.error(node.span, format!("a key must be text, not {}", node.describe()));
        return None;
    };
    if *plain && &**text == "<<" {
        report
            .error(node.span, "merge keys (`<<`) are not part of YAML 1.2; use an alias for the whole value");
        return None;
    }
    if entries.len() >= MAX_KEYS {
        if entries.len() == MAX_KEYS {
            report.error(node.span, format!("this mapping has more than {MAX_KEYS} keys"));
        }
        return None;
    }
    if let Some((first, _)) = entries.iter().find(|(k, _)| k.value == *text) {
        report
            .error(node.span, format!("key `{}` is given twice", crate::diagnose::shorten(text)))
            .first_at(first.span);
        return None;
    }
    Some(Spanned { value: text.clone(), span: node.span })
}
