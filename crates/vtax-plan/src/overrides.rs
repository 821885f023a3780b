//! `--set path=value`: changes to the tree before anything is read from it.
//!
//! A path is keys joined by dots. In a list, a number picks an item by place, from 0, and a word picks
//! the item of that kind or name and goes on in its options: `environments.2.vm.memory` and
//! `environments.vm.memory` mean the same where the third environment is the `vm`. Keys that are
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
                // The item may have been found by its name: enter it by its kind.
                if let Some((item, kind)) = pick(items, segment, report) {
                    let path: Vec<Key> = std::iter::once(kind).chain(rest.iter().cloned()).collect();
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

/// The only item of a kind or name, and its kind.
fn pick<'a>(items: &'a mut [Node], wanted: &Key, report: &mut Report) -> Option<(&'a mut Node, Key)> {
    let labels: Vec<Vec<String>> = items.iter().map(labels).collect();
    let mut found = labels.iter().enumerate().filter(|(_, l)| l.iter().any(|l| **l == *wanted.value));
    let shown = shorten(&wanted.value);
    match (found.next(), found.next()) {
        (Some((index, labels)), None) => {
            let kind = Spanned { value: labels[0].as_str().into(), span: wanted.span };
            Some((&mut items[index], kind))
        }
        (Some(_), Some(_)) => {
            report
                .error(wanted.span, format!("several items are `{shown}`"))
                .help("pick one by its place: a number from 0");
            None
        }
        (None, _) => {
            let known = || labels.iter().flatten().map(String::as_str);
            let guess =
                nearest(&wanted.value, known()).map_or(String::new(), |g| format!("did you mean `{g}`? "));
            report
                .error(wanted.span, format!("no item of this list is `{shown}`"))
                .help(format!("{guess}items: {}", listed(known().take(20))));
            None
        }
    }
}

/// What an item `kind` or `kind: {name: ...}` can be called: its kind first.
fn labels(item: &Node) -> Vec<String> {
    match &item.value {
        Value::Scalar { text, .. } => vec![text.to_string()],
        Value::Mapping(entries) => entries
            .first()
            .map(|(kind, options)| {
                let name = match &options.value {
                    Value::Mapping(options) => {
                        options.iter().find(|(k, _)| &*k.value == "name").and_then(|(_, v)| v.text())
                    }
                    _ => None,
                };
                std::iter::once(kind.value.to_string()).chain(name.map(ToString::to_string)).collect()
            })
            .unwrap_or_default(),
        Value::Sequence(_) => Vec::new(),
    }
}
