//! A picture of what is built: for Graphviz, and as an SVG without it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use crate::blueprint::{Blueprint, NodeKind};

/// Distance between two columns and between two rows, in pixels.
const STEP: [usize; 2] = [150, 80];
/// Width and height of a node.
const NODE: [usize; 2] = [96, 36];

/// For Graphviz.
#[must_use]
pub fn dot(blueprint: &Blueprint, title: &str) -> String {
    let mut text = format!("graph {} {{\n  layout=dot; rankdir=LR; node [shape=box];\n", quoted(title));
    for node in &blueprint.nodes {
        let shape = match node.kind {
            NodeKind::Router(_) => "box, style=rounded",
            NodeKind::Host => "box",
            NodeKind::Bridge => "box, style=dashed",
        };
        // Writing to a text doesn't fail.
        let _ = writeln!(text, "  {} [shape={shape}];", quoted(&node.name));
    }
    for door in &blueprint.doors {
        let (name, node) = (quoted(&door.name), quoted(&door.node));
        let _ = writeln!(text, "  {name} [shape=ellipse];\n  {name} -- {node};");
    }
    for cable in &blueprint.cables {
        let [one, other] = cable.ends.each_ref().map(|end| quoted(&end.node));
        let wire = Some(cable.wire.words()).filter(|words| !words.is_empty());
        let label = wire.map_or(String::new(), |words| format!(" [label={}]", quoted(&words)));
        let _ = writeln!(text, "  {one} -- {other}{label};");
    }
    text.push_str("}\n");
    text
}

fn quoted(text: &str) -> String {
    let inner: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", inner.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A node of a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// What it is, in a word: `router`, `host`, `bridge` or `end`.
    pub kind: &'static str,
    /// Its centre in pixels.
    pub x: usize,
    /// Its centre in pixels.
    pub y: usize,
}

/// A line of a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What is written beside it: its rate, delay and loss, where it has any.
    pub label: String,
    /// Its name.
    pub name: String,
    /// Its ends, as places in the list of nodes.
    pub ends: [usize; 2],
}

/// Where everything is in a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// In the order of the blueprint; then the path's ends.
    pub nodes: Vec<Placed>,
    /// Cables, and those that lead to the path's ends.
    pub lines: Vec<Line>,
    /// Width and height in pixels.
    pub size: [usize; 2],
}

/// Places nodes in columns by how far they are from the client, or from the first node where there is none.
#[must_use]
pub fn layout(blueprint: &Blueprint) -> Layout {
    let mut names: Vec<(&str, &'static str)> = blueprint
        .nodes
        .iter()
        .map(|node| {
            let kind = match node.kind {
                NodeKind::Router(_) => "router",
                NodeKind::Host => "host",
                NodeKind::Bridge => "bridge",
            };
            (node.name.as_str(), kind)
        })
        .collect();
    names.extend(blueprint.doors.iter().map(|door| (door.name.as_str(), "end")));
    let place =
        |name: &str, end: bool| names.iter().position(|(n, kind)| *n == name && (*kind == "end") == end);
    let mut lines = Vec::new();
    for cable in &blueprint.cables {
        let [one, other] = cable.ends.each_ref().map(|end| place(&end.node, false));
        let Some(ends) = one.zip(other).map(|(one, other)| [one, other]) else { continue };
        lines.push(Line { label: cable.wire.words(), name: cable.name.clone(), ends });
    }
    for door in &blueprint.doors {
        let Some((one, other)) = place(&door.name, true).zip(place(&door.node, false)) else { continue };
        lines.push(Line { label: String::new(), name: door.name.clone(), ends: [one, other] });
    }
    let start = blueprint.doors.first().and_then(|door| place(&door.name, true)).unwrap_or(0);
    let columns = columns(names.len(), &lines, start);
    let mut filled: BTreeMap<usize, usize> = BTreeMap::new();
    let tallest =
        columns.iter().map(|column| columns.iter().filter(|c| *c == column).count()).max().unwrap_or(1);
    let nodes = names.iter().zip(&columns).map(|((name, kind), column)| {
        let row = filled.entry(*column).or_default();
        let inside = columns.iter().filter(|c| *c == column).count();
        // Each column is centred.
        let y = STEP[1] * (2 * *row + 1 + tallest - inside) / 2;
        *row += 1;
        Placed { name: (*name).to_owned(), kind, x: STEP[0] * column + STEP[0] / 2, y }
    });
    let nodes: Vec<Placed> = nodes.collect();
    let widest = columns.iter().max().map_or(1, |column| column + 1);
    Layout { nodes, lines, size: [STEP[0] * widest, STEP[1] * tallest] }
}

/// The column of each node: how many lines it is from `start`. What no line leads to is in the last.
fn columns(nodes: usize, lines: &[Line], start: usize) -> Vec<usize> {
    let mut columns = vec![None; nodes];
    let mut row = VecDeque::from([start]);
    let mut seen = BTreeSet::from([start]);
    if let Some(first) = columns.get_mut(start) {
        *first = Some(0);
    }
    while let Some(at) = row.pop_front() {
        let next = columns.get(at).copied().flatten().map_or(0, |column: usize| column + 1);
        let others = lines.iter().filter(|line| line.ends.contains(&at));
        for there in others.map(|line| if line.ends[0] == at { line.ends[1] } else { line.ends[0] }) {
            if seen.insert(there) {
                columns[there] = Some(next);
                row.push_back(there);
            }
        }
    }
    let last = columns.iter().flatten().max().copied().unwrap_or(0);
    columns.into_iter().map(|column| column.unwrap_or(last)).collect()
}

/// A picture that needs nothing else.
#[must_use]
pub fn svg(blueprint: &Blueprint, title: &str) -> String {
    let Layout { nodes, lines, size: [width, height] } = layout(blueprint);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n<title>{}</title>\n",
        escaped(title)
    );
    for line in &lines {
        let [one, other] = line.ends.map(|end| &nodes[end]);
        let _ = writeln!(
            text,
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#777\"><title>{}</title></line>",
            one.x,
            one.y,
            other.x,
            other.y,
            escaped(&line.name)
        );
        if !line.label.is_empty() {
            let (x, y) = (usize::midpoint(one.x, other.x), usize::midpoint(one.y, other.y));
            let label = escaped(&line.label);
            let _ = writeln!(
                text,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"#555\">{label}</text>"
            );
        }
    }
    for node in &nodes {
        let radius = if node.kind == "router" { NODE[1] / 2 } else { 2 };
        let dashes = if node.kind == "bridge" { " stroke-dasharray=\"4 3\"" } else { "" };
        let fill = if node.kind == "end" { "#eef" } else { "#fff" };
        let (x, y) = (node.x.saturating_sub(NODE[0] / 2), node.y.saturating_sub(NODE[1] / 2));
        let [w, h] = NODE;
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"{radius}\" fill=\"{fill}\" stroke=\"#333\"{dashes}/>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            node.x,
            node.y + 5,
            escaped(&node.name)
        );
    }
    text.push_str("</svg>\n");
    text
}

fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::builtin::topology;
    use crate::options::{Choice, LeafSpine, MplsVpn};

    fn of(choice: &Choice) -> Blueprint {
        Blueprint::of(&topology(choice), 1500)
    }

    #[test]
    fn nodes_stand_beside_each_other_and_nowhere_on_each_other() {
        for choice in [Choice::MplsVpn(MplsVpn::default()), Choice::LeafSpine(LeafSpine::default())] {
            let Layout { nodes, lines, size: [width, height] } = layout(&of(&choice));
            let places: BTreeSet<_> = nodes.iter().map(|node| (node.x, node.y)).collect();
            assert_eq!(places.len(), nodes.len(), "{nodes:?}");
            assert!(nodes.iter().all(|node| node.x < width && node.y < height), "{nodes:?}");
            assert_eq!(lines.len(), of(&choice).cables.len() + 2);
            assert_eq!(nodes.iter().find(|node| node.name == "client").map(|node| node.x), Some(75));
        }
    }

    #[test]
    fn nothing_at_all_has_a_picture() {
        assert!(svg(&Blueprint::default(), "empty").starts_with("<svg"));
        assert_eq!(
            dot(&Blueprint::default(), "a\"b"),
            "graph \"a\\\"b\" {\n  layout=dot; rankdir=LR; node [shape=box];\n}\n"
        );
    }

    proptest! {
        #[test]
        fn no_name_breaks_out_of_a_picture(name in "\\PC*") {
            let mut blueprint = of(&Choice::MplsVpn(MplsVpn::default()));
            blueprint.nodes[0].name.clone_from(&name);
            blueprint.cables[0].name.clone_from(&name);
            let picture = svg(&blueprint, &name);
            let plain = svg(&of(&Choice::MplsVpn(MplsVpn::default())), "x");
            // A node of another name has lost its cables; nothing else is more.
            prop_assert!(picture.matches('<').count() <= plain.matches('<').count());
        }
    }
}
