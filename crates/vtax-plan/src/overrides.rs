//! `--set path=value`: changes to the tree before anything is read from it.
//!
//! A path is keys joined by dots. In a list, a number picks an item by place, from 0, and a word picks
//! the item of that kind or name and goes on in its options: `environments.2.vm.memory` and
//! `environments.vm.memory` mean the same where the third environment is the `vm`. Items without a kind
//! are picked by their `name`: `systems.busy.beside`. Keys that are
//! missing are made, so that a misspelt one meets the same refusal as in the file.

use crate::diagnose::{Report, listed, nearest, shorten};
use crate::source::{SourceId, Span, Spanned};
use crate::tree::{self, Key, Node, Value};

/// Applies one override, reporting what is wrong with it.
pub(crate) fn apply(root: &mut Node, text: &str, source: SourceId, report: &mut Report) {
    let whole = Span::new(source, 0..text.len());
    let Some((path, value)) = text.split_once('=') else {
        report.error(whole, "an override is written `path=value`").help("for example `--set repeat.min=10`");
        return;
    };
    let mut segments = Vec::new();
    let mut at = 0;
    for name in path.split('.') {
        let span = Span::new(source, at..at + name.len());
        if name.is_empty() {
            report.error(whole, format!("`{}` is not a path of keys joined by dots", shorten(path)));
            return;
        }
        segments.push(Spanned { value: name.into(), span });
        at += name.len() + 1;
    }
    let value_span = Span::new(source, path.len() + 1..text.len());
    let value = match tree::parse(value, source, path.len() + 1, report) {
        Some(value) => value,
        None if value.trim().is_empty() => Node::scalar("", value_span),
        None => return,
    };
    set(root, &segments, value, report);
}

/// Puts `value` at `path` below `node`.
fn set(node: &mut Node, path: &[Key], value: Node, report: &mut Report) {
    let Some((segment, rest)) = path.split_first() else {
        *node = value;
        return;
    };
    // `vm` is short for `vm: {}`, and nothing at all is an empty mapping.
    if node.is_null() || node.text().is_some_and(|text| *text == segment.value) {
        *node = Node::mapping(segment.span);
    }
    let shown = shorten(&segment.value);
    match &mut node.value {
        Value::Mapping(entries) => {
            let index = entries.iter().position(|(k, _)| k.value == segment.value).unwrap_or_else(|| {
                entries.push((segment.clone(), Node::mapping(segment.span)));
                entries.len() - 1
            });
            set(&mut entries[index].1, rest, value, report);
        }
        Value::Sequence(items) => match segment.value.parse::<usize>() {
            Ok(index) if index < items.len() => set(&mut items[index], rest, value, report),
            Ok(_) => {
                let last = items.len().saturating_sub(1);
                report
                    .error(segment.span, format!("there is no item {shown}: they are numbered 0 to {last}"));
            }
            Err(_) => {
                // The item may have been found by its name: one of a kind is entered by that.
                if let Some((item, kind)) = pick(items, segment, report) {
                    let path: Vec<Key> = kind.into_iter().chain(rest.iter().cloned()).collect();
                    set(item, &path, value, report);
                }
            }
        },
        Value::Scalar { text, .. } => {
            let text = shorten(text);
            report
                .error(segment.span, format!("there is no `{shown}` here, for the plan says only `{text}`"))
                .help("set the whole value instead, such as `--set 'repeat={min: 5, max: 9}'`");
        }
    }
}

/// The only item of a kind or name, and its kind where it has one.
fn pick<'a>(items: &'a mut [Node], wanted: &Key, report: &mut Report) -> Option<(&'a mut Node, Option<Key>)> {
    let labels: Vec<Labels> = items.iter().map(Labels::of).collect();
    let mut found = labels.iter().enumerate().filter(|(_, l)| l.all().any(|l| *l == *wanted.value));
    let shown = shorten(&wanted.value);
    match (found.next(), found.next()) {
        (Some((index, labels)), None) => {
            let kind = labels.kind.as_deref();
            let kind = kind.map(|kind| Spanned { value: kind.into(), span: wanted.span });
            Some((&mut items[index], kind))
        }
        (Some(_), Some(_)) => {
            report
                .error(wanted.span, format!("several items are `{shown}`"))
                .help("pick one by its place: a number from 0");
            None
        }
        (None, _) => {
            let known = || labels.iter().flat_map(Labels::all);
            let guess =
                nearest(&wanted.value, known()).map_or(String::new(), |g| format!("did you mean `{g}`? "));
            let help = match known().next() {
                Some(_) => format!("{guess}items: {}", listed(known().take(20))),
                None => "its items have no names: pick one by its place, a number from 0".to_owned(),
            };
            report.error(wanted.span, format!("no item of this list is `{shown}`")).help(help);
            None
        }
    }
}

/// What an item of a list can be called.
struct Labels {
    /// Its kind, where it is written `kind` or `kind: {options}`: its options are below this key.
    kind: Option<String>,
    /// The text of its `name`, which is among the options of a kind, or in the item itself.
    name: Option<String>,
}

impl Labels {
    fn of(item: &Node) -> Self {
        match &item.value {
            Value::Scalar { text, .. } => Self { kind: Some(text.to_string()), name: None },
            Value::Mapping(entries) => match entries.as_slice() {
                [(kind, options)] if &*kind.value != "name" => {
                    Self { kind: Some(kind.value.to_string()), name: name_in(options) }
                }
                _ => Self { kind: None, name: name_in(item) },
            },
            Value::Sequence(_) => Self { kind: None, name: None },
        }
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.kind.iter().chain(&self.name).map(String::as_str)
    }
}

/// The text of a mapping's `name`.
fn name_in(node: &Node) -> Option<String> {
    let Value::Mapping(entries) = &node.value else { return None };
    let name = entries.iter().find(|(key, _)| &*key.value == "name")?;
    name.1.text().map(ToString::to_string)
}
