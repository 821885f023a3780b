//! Small pictures that are read side by side: lines and heat over time.

use super::frame::{Frame, spread};
use super::scale::Scale;
use super::svg::{Anchor, Svg, number, polyline};
use crate::format::tick;
use crate::markup::Markup;

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 190.0;

/// One line of a panel.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Classes: the series' colour and how it is drawn.
    pub(crate) class: String,
    /// What it is, shown on pointing at it and, where `labelled`, at its end.
    pub(crate) label: String,
    pub(crate) labelled: bool,
    /// Seconds and value; a value that isn't finite interrupts the line.
    pub(crate) points: Vec<(f64, f64)>,
}

/// What the horizontal axis shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Horizontal {
    /// Its name, which tells the unit.
    pub(crate) name: &'static str,
    /// Where it ends, from 0.
    pub(crate) seconds: f64,
}

/// What the vertical axis shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vertical<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) scale: Scale,
}

/// A scale for several panels that are compared: from zero, or logarithmic where the values are.
pub(crate) fn common_scale<'a>(lines: impl IntoIterator<Item = &'a Line>, log: bool) -> Scale {
    let values = lines.into_iter().flat_map(|l| l.points.iter().map(|p| p.1)).filter(|v| v.is_finite());
    if log { Scale::log_around(values) } else { Scale::from_zero(values.fold(0.0, f64::max)) }
}

/// Lines over time; those without values are left out.
pub(crate) fn lines(title: &str, lines: &[Line], over: Horizontal, vertical: Vertical<'_>) -> Markup {
    let labels: Vec<&Line> = lines.iter().filter(|l| l.labelled && !l.points.is_empty()).collect();
    let longest = labels.iter().map(|l| l.label.chars().count()).max().map_or(0.0, |n| n as f64 * 6.6 + 10.0);
    let (mut svg, frame) = frame(title, over, vertical, longest);
    for line in lines {
        let points = line
            .points
            .iter()
            .map(|(t, v)| (frame.x(*t), if v.is_finite() { frame.y(*v) } else { f64::NAN }));
        let path = polyline(visible(points.collect()));
        if !path.is_empty() {
            svg.path(&line.class, &path, &line.label);
        }
    }
    let mut ends: Vec<f64> = labels.iter().map(|l| l.points.last().map_or(0.0, |p| frame.y(p.1))).collect();
    spread(&mut ends, 13.0, frame.top + 4.0, frame.bottom);
    for (line, y) in labels.iter().zip(ends) {
        svg.text(&format!("{} small", line.class), (frame.right + 6.0, y + 4.0), Anchor::Start, &line.label);
    }
    svg.finish()
}

/// Points that can be told apart: of more than four in one pixel's column only the first, the
/// extremes and the last stay, in their order. What interrupts the line stays too.
fn visible(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() < 4 * WIDTH as usize {
        return points;
    }
    let mut kept = Vec::new();
    let same =
        |a: &(f64, f64), b: &(f64, f64)| a.0.floor() == b.0.floor() && a.1.is_finite() == b.1.is_finite();
    for column in points.chunk_by(same) {
        let by_height = |a: &&(usize, &(f64, f64)), b: &&(usize, &(f64, f64))| a.1.1.total_cmp(&b.1.1);
        let places: Vec<(usize, &(f64, f64))> = column.iter().enumerate().collect();
        let lowest = places.iter().min_by(by_height).map_or(0, |p| p.0);
        let highest = places.iter().max_by(by_height).map_or(0, |p| p.0);
        let mut places = [0, lowest, highest, column.len() - 1];
        places.sort_unstable();
        let mut last = None;
        for place in places.into_iter().filter(|p| last.replace(*p) != Some(*p)) {
            kept.push(column[place]);
        }
    }
    kept
}

/// How many requests fell where, over time and latency.
#[derive(Debug, Clone)]
pub(crate) struct Heat {
    /// Requests by column and, within it, by row from the bottom.
    pub(crate) counts: Vec<Vec<u64>>,
}

/// Shades, from few requests to many.
const SHADES: [&str; 6] = ["h0", "h1", "h2", "h3", "h4", "h5"];

/// A heat map; `series` is the class of the colour that is shaded.
pub(crate) fn heat(
    title: &str,
    series: &str,
    heat: &Heat,
    over: Horizontal,
    vertical: Vertical<'_>,
) -> Markup {
    let (mut svg, frame) = frame(title, over, vertical, 0.0);
    let most = heat.counts.iter().flatten().copied().max().unwrap_or(0).max(2) as f64;
    let columns = heat.counts.len().max(1) as f64;
    let mut paths = [const { String::new() }; SHADES.len()];
    for (i, column) in heat.counts.iter().enumerate() {
        let rows = column.len().max(1) as f64;
        let (x, w) = (
            (frame.right - frame.left) * i as f64 / columns + frame.left,
            (frame.right - frame.left) / columns,
        );
        for (j, &count) in column.iter().enumerate().filter(|(_, c)| **c > 0) {
            // Logarithmic: a single slow request must be seen beside a thousand fast ones.
            let depth = (count as f64).ln_1p() / most.ln_1p() * SHADES.len() as f64;
            let shade = (depth.ceil() as usize).clamp(1, SHADES.len()) - 1;
            let h = (frame.bottom - frame.top) / rows;
            let y = frame.bottom - h * (j + 1) as f64;
            // A little larger than its place, against hairlines between neighbours.
            let (w, h) = (number(w + 0.3), number(h + 0.3));
            paths[shade].push_str(&format!("M{} {}h{w}v{h}h-{w}z", number(x), number(y)));
        }
    }
    for (shade, path) in SHADES.iter().zip(&paths).filter(|(_, p)| !p.is_empty()) {
        svg.path(&format!("{series} heat {shade}"), path, "");
    }
    svg.finish()
}

fn frame(title: &str, over: Horizontal, vertical: Vertical<'_>, label_width: f64) -> (Svg, Frame) {
    let frame = Frame {
        left: 54.0,
        right: WIDTH - label_width.max(14.0),
        top: 44.0,
        bottom: HEIGHT - 36.0,
        x: Scale::Linear { low: 0.0, high: if over.seconds > 0.0 { over.seconds } else { 1.0 } },
        y: vertical.scale,
    };
    let mut svg = Svg::new(WIDTH, HEIGHT, title, vertical.name);
    svg.text("heading", (0.0, 13.0), Anchor::Start, title);
    svg.text("name", (0.0, 29.0), Anchor::Start, vertical.name);
    frame.y_axis(&mut svg, 4, |v| tick(v, vertical.unit));
    frame.x_axis(&mut svg, 4, |v| tick(v, ""));
    svg.text("name", (frame.right, HEIGHT - 3.0), Anchor::End, over.name);
    (svg, frame)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_left_out_could_not_be_seen(values in proptest::collection::vec(0.0..150.0f64, 1200..3000)) {
            let n = values.len() as f64;
            let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(i, v)| (i as f64 / n * 100.0, *v)).collect();
            let kept = visible(points.clone());
            prop_assert!(kept.len() <= 4 * 101);
            prop_assert!(kept.windows(2).all(|w| w[0].0 <= w[1].0));
            let extremes = |p: &[(f64, f64)]| {
                let values = || p.iter().map(|p| p.1);
                (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
            };
            prop_assert_eq!(extremes(&kept), extremes(&points));
            prop_assert_eq!(kept.first(), points.first());
            prop_assert_eq!(kept.last(), points.last());
        }
    }
}
