//! A picture of each topology of the plan.

use vtax_topology::Blueprint;
use vtax_topology::builtin::topology;
use vtax_topology::graph::{Layout, Placed, layout};

use crate::data::RunData;
use crate::html::parts::figure;
use crate::markup::Markup;

/// Width and height of a node, in pixels.
const NODE: [usize; 2] = [96, 36];
/// Most paths that are drawn.
const MOST_PATHS: usize = 20;

pub(super) fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    let mut drawn = Vec::new();
    for cell in &data.plan.cells {
        let Some(routed) = cell.path.kind.routed() else { continue };
        if drawn.contains(&&routed.topology) || drawn.len() == MOST_PATHS {
            continue;
        }
        drawn.push(&routed.topology);
        let caption = format!("{}, {}", cell.path.name, vtax_plan::estimate::path_words(&cell.path));
        m.add(&figure(&caption, &[], &draw(&layout(&Blueprint::outline(&topology(&routed.topology))))));
    }
    m
}

fn draw(picture: &Layout) -> Markup {
    let Layout { nodes, lines, size } = picture;
    let [width, height] = size.map(|pixels| pixels.to_string());
    let view = format!("0 0 {width} {height}");
    let mut m = Markup::new();
    m.open(
        "svg",
        &[("viewBox", &view), ("width", &width), ("height", &height), ("role", "img"), ("font-size", "13")],
    );
    let links: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    m.element("desc", &[], &format!("Links: {}.", links.join(", ")));
    for line in lines {
        let [Some(one), Some(other)] = line.ends.map(|end| nodes.get(end)) else { continue };
        let [x1, y1, x2, y2] = [one.x, one.y, other.x, other.y].map(|pixels| pixels.to_string());
        m.open("line", &[("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2), ("stroke", "#888")]);
        m.element("title", &[], &line.name).close("line");
    }
    for node in nodes {
        put(&mut m, node);
    }
    m.close("svg");
    m
}

fn put(m: &mut Markup, node: &Placed) {
    let corner = [node.x.saturating_sub(NODE[0] / 2), node.y.saturating_sub(NODE[1] / 2)];
    let [x, y] = corner.map(|pixels| pixels.to_string());
    let [width, height] = NODE.map(|pixels| pixels.to_string());
    let radius = if node.kind == "router" { "18" } else { "2" };
    let frame = [
        ("x", x.as_str()),
        ("y", y.as_str()),
        ("width", width.as_str()),
        ("height", height.as_str()),
        ("rx", radius),
        // The lines behind must not shine through.
        ("fill", "Canvas"),
        ("stroke", "currentColor"),
    ];
    m.empty("rect", &frame);
    let (middle, baseline) = (node.x.to_string(), (node.y + 5).to_string());
    let place = [
        ("x", middle.as_str()),
        ("y", baseline.as_str()),
        ("text-anchor", "middle"),
        ("fill", "currentColor"),
    ];
    m.element("text", &place, &node.name);
}

#[cfg(test)]
mod tests {
    use vtax_topology::options::{Choice, MplsVpn};

    use super::*;

    #[test]
    fn every_router_and_link_is_drawn() {
        let vpn = Blueprint::outline(&topology(&Choice::MplsVpn(MplsVpn::default())));
        let picture = draw(&layout(&vpn)).into_string();
        for name in ["ce1", "pe1", "p1", "pe2", "ce2", "client", "sut"] {
            assert!(picture.contains(&format!(">{name}</text>")), "{name}: {picture}");
        }
        assert_eq!(picture.matches("<line").count(), vpn.cables.len() + 2);
    }
}
