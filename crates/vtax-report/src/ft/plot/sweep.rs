//! A figure against a setting: one mark with its interval for each value of it, straight lines for what has none.

use crate::format::{duration, range, tick, typical};
use crate::markup::Markup;
use crate::plot::frame::{Frame, spread};
use crate::plot::scale::Scale;
use crate::plot::svg::{Anchor, Svg, number, polyline};
use crate::plot::{is_narrow, near_ends};

/// One value of the setting.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// The setting, in nanoseconds.
    pub(crate) at_ns: f64,
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
    /// The value is only a lower bound.
    pub(crate) at_least: bool,
}

/// An environment without the setting, to compare with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reference {
    pub(crate) label: String,
    /// Class of the colour.
    pub(crate) class: &'static str,
    pub(crate) value: f64,
    /// The value is only a lower bound.
    pub(crate) at_least: bool,
}

/// What a picture shows.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    pub(crate) title: &'a str,
    pub(crate) unit: &'a str,
    /// Class of the colour.
    pub(crate) class: &'a str,
    pub(crate) points: &'a [Point],
    pub(crate) references: &'a [Reference],
    /// Logarithmic upwards: where references are many times larger or smaller.
    pub(crate) log: bool,
}

impl Sweep<'_> {
    pub(crate) fn draw(&self, width: f64) -> Markup {
        let height = if is_narrow(width) { 230.0 } else { 260.0 };
        let ends = self.points.iter().flat_map(|p| near_ends(p.value, p.interval).chain([p.value]));
        let values: Vec<f64> = ends.chain(self.references.iter().map(|r| r.value)).collect();
        let high = values.iter().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
        let frame = Frame {
            left: 62.0,
            right: width - 14.0,
            top: 26.0,
            bottom: height - 38.0,
            x: Scale::log_around(self.points.iter().map(|p| p.at_ns)),
            y: if self.log { Scale::log_around(values) } else { Scale::from_zero(high) },
        };
        let description = "Marks: typical values over trials with their 95 % intervals; lines: the environments without it.";
        let mut svg = Svg::new(width, height, self.title, description);
        svg.text("heading", (0.0, 13.0), Anchor::Start, self.title);
        frame.y_axis(&mut svg, 5, |v| tick(v, self.unit));
        frame.x_axis_at(&mut svg, self.points.iter().map(|p| p.at_ns).collect(), |v| tick(v, "ns"));
        svg.text("name", (frame.right, height - 5.0), Anchor::End, "checkpoint interval");
        let mut labels: Vec<f64> = self.references.iter().map(|r| frame.y(r.value) - 4.0).collect();
        spread(&mut labels, 12.0, frame.top + 8.0, frame.bottom - 3.0);
        for (r, label) in self.references.iter().zip(labels) {
            let y = frame.y(r.value);
            let line = format!("M{} {}H{}", number(frame.left), number(y), number(frame.right));
            svg.path(&format!("{} reference", r.class), &line, &r.label);
            let text = format!("{} {}", r.label, typical(r.value, self.unit, r.at_least));
            svg.text(&format!("{} value small", r.class), (frame.right - 2.0, label), Anchor::End, &text);
        }
        let at = |p: &Point, v: f64| (frame.x(p.at_ns), frame.y(v));
        svg.path(&format!("{} firm", self.class), &polyline(self.points.iter().map(|p| at(p, p.value))), "");
        for p in self.points {
            if let Some((low, high)) = p.interval {
                svg.line(&format!("{} whisker", self.class), at(p, low), at(p, high));
            }
            let own = p.interval.map_or_else(String::new, |i| format!(" ({})", range(p.value, i, self.unit)));
            let tip = format!("{}: {}{own}", duration(p.at_ns), typical(p.value, self.unit, p.at_least));
            svg.mark(&format!("{} mark", self.class), 0, at(p, p.value), 4.0, &tip);
            if p.at_least {
                let (x, y) = at(p, p.value);
                svg.text(&format!("{} value small", self.class), (x - 7.0, y - 3.0), Anchor::End, "≥");
            }
        }
        svg.finish()
    }
}
