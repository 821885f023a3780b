//! A picture of each topology of the plan.

use vtax_plan::estimate::path_words;
use vtax_plan::model::NetPath;
use vtax_topology::Blueprint;
use vtax_topology::builtin::topology;
use vtax_topology::graph::{Layout, Placed, layout};

use crate::data::RunData;
use crate::html::parts::figure;
use crate::markup::Markup;

/// Width and height of a node, in pixels.
const NODE: [usize; 2] = [96, 36];
/// Most pictures that are drawn.
const MOST_PICTURES: usize = 20;

pub(super) fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    for (picture, caption) in pictures(data.plan.cells.iter().map(|cell| &cell.path)) {
        m.add(&figure(&caption, &[], &draw(&picture, &caption)));
    }
    m
}

/// Each picture once, with the words for all paths that look like it.
fn pictures<'a>(paths: impl Iterator<Item = &'a NetPath>) -> Vec<(Layout, String)> {
    let mut known = Vec::new();
    let mut found: Vec<(Layout, Vec<&NetPath>)> = Vec::new();
    for path in paths {
        let Some(routed) = path.kind.routed() else { continue };
        if known.contains(&&routed.topology) {
            continue;
        }
        known.push(&routed.topology);
        let mut picture = layout(&Blueprint::outline(&topology(&routed.topology)));
        // What a line's label says isn't drawn.
        picture.lines.iter_mut().for_each(|line| line.label.clear());
        match found.iter_mut().find(|(other, _)| *other == picture) {
            Some((_, alike)) => alike.push(path),
            None => found.push((picture, vec![path])),
        }
    }
    found.truncate(MOST_PICTURES);
    found.into_iter().map(|(picture, alike)| (picture, words(&alike))).collect()
}

/// The first path in full, of the others what is different.
fn words(alike: &[&NetPath]) -> String {
    let [first, others @ ..] = alike else { return String::new() };
    let described = path_words(first);
    let parts: Vec<&str> = described.split(", ").collect();
    let different = |path: &&NetPath| {
        let own = path_words(path);
        let own: Vec<&str> = own.split(", ").filter(|part| !parts.contains(part)).collect();
        if own.is_empty() { path.name.clone() } else { format!("{} ({})", path.name, own.join(", ")) }
    };
    let others: Vec<String> = others.iter().map(different).collect();
    let same = if others.is_empty() { "" } else { "; drawn the same: " };
    format!("{}, {described}{same}{}", first.name, others.join(", "))
}

fn draw(picture: &Layout, name: &str) -> Markup {
    let Layout { nodes, lines, size } = picture;
    let [width, height] = size.map(|pixels| pixels.to_string());
    let view = format!("0 0 {width} {height}");
    let mut m = Markup::new();
    let attributes = [
        ("viewBox", view.as_str()),
        ("width", width.as_str()),
        ("height", height.as_str()),
        ("role", "img"),
        ("aria-label", name),
        ("font-size", "13"),
    ];
    m.open("svg", &attributes);
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
    use vtax_plan::model::PathKind;
    use vtax_topology::RoutedOptions;
    use vtax_topology::options::{Choice, MplsVpn, RouterHost};

    use super::*;

    #[test]
    fn every_router_and_link_is_drawn() {
        let vpn = Blueprint::outline(&topology(&Choice::MplsVpn(MplsVpn::default())));
        let picture = draw(&layout(&vpn), "a <VPN>").into_string();
        assert!(picture.contains("role=\"img\" aria-label=\"a &lt;VPN&gt;\""), "{picture}");
        for name in ["ce1", "pe1", "p1", "pe2", "ce2", "client", "sut"] {
            assert!(picture.contains(&format!(">{name}</text>")), "{name}: {picture}");
        }
        assert_eq!(picture.matches("<line").count(), vpn.cables.len() + 2);
    }

    #[test]
    fn what_looks_the_same_is_drawn_once() {
        let path = |name: &str, vpn: MplsVpn| {
            let (topology, place) = (Choice::MplsVpn(vpn), RouterHost::Auto);
            NetPath::new(name, PathKind::Routed(Box::new(RoutedOptions { topology, place, hops: false })))
        };
        let with = |routes: u32| MplsVpn { routes, ..MplsVpn::default() };
        let longer = MplsVpn { core: 3, ..MplsVpn::default() };
        let paths = [
            path("core", with(0)),
            path("routes", with(10)),
            path("long", longer),
            path("routes", with(100)),
        ];
        let found = pictures(paths.iter());
        let captions: Vec<&str> = found.iter().map(|(_, caption)| caption.as_str()).collect();
        let [short, long] = captions.as_slice() else { panic!("{captions:?}") };
        let same = "; drawn the same: routes (10 routes more), routes (100 routes more)";
        assert!(short.starts_with("core, MPLS VPN with 1 P router") && short.ends_with(same), "{short}");
        assert!(long.starts_with("long, ") && !long.contains("drawn the same"), "{long}");
    }
}
