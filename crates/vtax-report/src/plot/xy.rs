//! Values over values: histograms, probabilities, percentiles by load.

use super::frame::Frame;
use super::scale::Scale;
use super::svg::{Anchor, Svg, number, polyline};
use super::timeline::value;
use crate::markup::Markup;

/// One axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis<'a> {
    pub(crate) name: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) scale: Scale,
    /// Where its ticks are, ascending; empty: at round values.
    pub(crate) ticks: &'a [f64],
}

impl Axis<'_> {
    fn ticks(&self, count: usize) -> Vec<f64> {
        if self.ticks.is_empty() { self.scale.ticks(count) } else { self.ticks.to_vec() }
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stroke {
    /// A line.
    Line,
    /// A line with a mark of its series at each point.
    Marked(usize),
    /// The outline of bars, filled faintly down to the axis.
    Bars,
}

/// One line.
#[derive(Debug)]
pub(crate) struct Series {
    /// Classes: its colour and how it is drawn.
    pub(crate) class: String,
    /// What it is, shown on pointing at it.
    pub(crate) label: String,
    pub(crate) stroke: Stroke,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws them into one frame.
pub(crate) fn xy(
    title: &str,
    description: &str,
    (width, height): (f64, f64),
    x: Axis<'_>,
    y: Axis<'_>,
    series: &[Series],
) -> Markup {
    let frame =
        Frame { left: 58.0, right: width - 12.0, top: 44.0, bottom: height - 36.0, x: x.scale, y: y.scale };
    let mut svg = Svg::new(width, height, title, description);
    svg.text("heading", (0.0, 13.0), Anchor::Start, title);
    svg.text("name", (0.0, 30.0), Anchor::Start, y.name);
    svg.text("name", (frame.right, height - 3.0), Anchor::End, x.name);
    frame.y_axis(&mut svg, 4, |v| value(v, y.unit));
    frame.x_axis_at(&mut svg, x.ticks(5), |v| value(v, x.unit));
    for s in series {
        let at = |(px, py): (f64, f64)| (frame.x(px), frame.y(py));
        let points = s.points.iter().map(|p| at(*p));
        let line = polyline(points.clone());
        match s.stroke {
            Stroke::Bars => {
                let (first, last) = (s.points.first(), s.points.last());
                if let (Some(first), Some(last)) = (first, last) {
                    let floor = number(frame.bottom);
                    let area = format!("{line}L{} {floor}H{}Z", number(at(*last).0), number(at(*first).0));
                    svg.path(&format!("{} bars", s.class), &area, &s.label);
                }
            }
            Stroke::Line | Stroke::Marked(_) => svg.path(&s.class, &line, &s.label),
        }
        if let Stroke::Marked(shape) = s.stroke {
            let color = s.class.split(' ').next().unwrap_or_default();
            for p in &s.points {
                let tip = format!("{}: {} at {}", s.label, value(p.1, y.unit), value(p.0, x.unit));
                svg.mark(&format!("{color} mark"), shape, at(*p), 3.0, &tip);
            }
        }
    }
    svg.finish()
}

/// Corners of bars from their edges and heights.
pub(crate) fn outline(bars: impl IntoIterator<Item = (f64, f64, f64)>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (from, to, height) in bars {
        // Bars of one height are one bar.
        match points.last_mut() {
            Some(last) if last.1 == height && last.0 == from => last.0 = to,
            _ => points.extend([(from, height), (to, height)]),
        }
    }
    points
}
