//! The parts of a failover one after the other, from the fault to the first answer.

use crate::format::{duration, tick};
use crate::markup::Markup;
use crate::plot::frame::Frame;
use crate::plot::is_narrow;
use crate::plot::scale::Scale;
use crate::plot::svg::{Anchor, Svg};

/// A part of a failover.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    /// Class of its colour: `part-detect` and so on.
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    /// Seconds since the fault.
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// One environment: its failover of the median length in parts, and how long each of its failovers took.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lane {
    pub(crate) label: String,
    pub(crate) parts: Vec<Part>,
    /// Seconds from the fault to the first answer, one per failover.
    pub(crate) totals: Vec<f64>,
}

impl Lane {
    /// The longest time shown, in seconds.
    pub(crate) fn longest(&self) -> f64 {
        let parts = self.parts.iter().map(|p| p.to);
        parts.chain(self.totals.iter().copied()).filter(|v| v.is_finite()).fold(0.0, f64::max)
    }
}

const LANE: f64 = 58.0;

/// Draws lanes below each other; lengths that can't share an axis belong into pictures of their own.
pub(crate) fn takeover(lanes: &[Lane], title: &str, width: f64) -> Markup {
    let height = 30.0 + LANE * lanes.len() as f64 + 24.0;
    let longest = lanes.iter().map(Lane::longest).fold(0.0, f64::max);
    let frame = Frame {
        left: 8.0,
        right: width - 26.0,
        top: 6.0,
        bottom: height - 24.0,
        x: Scale::from_zero(longest),
        y: Scale::Linear { low: 0.0, high: 1.0 },
    };
    let description =
        "Bars: the parts of the failover of the median length. Dots: how long each failover took.";
    let mut svg = Svg::new(width, height, title, description);
    frame.x_axis(&mut svg, if is_narrow(width) { 4 } else { 8 }, |v| tick(v * 1e9, "ns"));
    for (i, lane) in lanes.iter().enumerate() {
        let top = 22.0 + LANE * i as f64;
        svg.text("label", (frame.left + 4.0, top + 2.0), Anchor::Start, &lane.label);
        for part in &lane.parts {
            let (a, b) = (frame.x(part.from), frame.x(part.to));
            let tip = format!("{}: {}", part.name, duration((part.to - part.from) * 1e9));
            svg.rect(&format!("part {}", part.class), (a, top + 9.0), ((b - a).max(0.8), 16.0), &tip);
        }
        for total in lane.totals.iter().filter(|t| t.is_finite()) {
            let tip = format!("first answer after {}", duration(total * 1e9));
            svg.mark("trial total", 0, (frame.x(*total), top + 33.0), 3.2, &tip);
        }
    }
    svg.finish()
}
