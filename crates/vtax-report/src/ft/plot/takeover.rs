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
    /// All moments shown, in seconds; what no axis can show is left out.
    fn moments(&self) -> impl Iterator<Item = f64> {
        let parts = self.parts.iter().map(|p| p.to);
        parts.chain(self.totals.iter().copied()).filter(|v| v.is_finite() && *v > 0.0)
    }

    /// The longest time shown, in seconds.
    fn longest(&self) -> f64 {
        self.moments().fold(0.0, f64::max)
    }

    /// Whether the longest times of lanes differ so much that on an axis of equal steps the shorter ones would all look like none.
    pub(crate) fn are_far_apart(lanes: &[Self]) -> bool {
        let longest = || lanes.iter().map(Self::longest).filter(|longest| *longest > 0.0);
        longest().fold(0.0, f64::max) > longest().fold(f64::INFINITY, f64::min) * SAME_AXIS
    }
}

const LANE: f64 = 58.0;
/// Lengths further apart than this don't share an axis of equal steps.
const SAME_AXIS: f64 = 8.0;

/// From where a logarithmic axis begins, which has no zero, to the longest time.
fn log_scale(lanes: &[Lane]) -> Scale {
    let moments = || lanes.iter().flat_map(Lane::moments);
    let (least, most) = (moments().fold(f64::INFINITY, f64::min), moments().fold(0.0, f64::max));
    if least > most { Scale::from_zero(1.0) } else { Scale::Log { low: least / 2.0, high: most * 1.1 } }
}

/// Draws lanes below each other.
pub(crate) fn takeover(lanes: &[Lane], title: &str, is_log: bool, width: f64) -> Markup {
    let height = 30.0 + LANE * lanes.len() as f64 + 40.0;
    let longest = lanes.iter().map(Lane::longest).fold(0.0, f64::max);
    let frame = Frame {
        left: 8.0,
        right: width - 26.0,
        top: 6.0,
        bottom: height - 40.0,
        x: if is_log { log_scale(lanes) } else { Scale::from_zero(longest) },
        y: Scale::Linear { low: 0.0, high: 1.0 },
    };
    let description =
        "Bars: the parts of the failover of the median length. Dots: how long each failover took.";
    let mut svg = Svg::new(width, height, title, description);
    frame.x_axis(&mut svg, if is_narrow(width) { 4 } else { 8 }, |v| tick(v * 1e9, "ns"));
    let name = if is_log { "since the fault, logarithmic" } else { "since the fault" };
    svg.text("name", (frame.right, height - 6.0), Anchor::End, name);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(seconds: f64) -> Lane {
        let part = Part { class: "part-answer", name: "until the first answer", from: 0.0, to: seconds };
        Lane { label: format!("{seconds}"), parts: vec![part], totals: vec![seconds] }
    }

    #[test]
    fn lengths_that_are_far_apart_share_a_logarithmic_axis() {
        let near = [lane(0.2), lane(1.0)];
        let far = [lane(0.008), lane(1.0), lane(20.0)];
        assert!(!Lane::are_far_apart(&near) && Lane::are_far_apart(&far) && !Lane::are_far_apart(&[]));
        let scale = log_scale(&far);
        let places = [0.008, 1.0, 20.0].map(|seconds| scale.at(seconds));
        assert!(scale.at(0.0) == 0.0 && places.windows(2).all(|pair| pair[1] - pair[0] > 0.1), "{places:?}");
        let drawn = takeover(&far, "title", true, 900.0).into_string();
        assert!(drawn.contains("since the fault, logarithmic"), "{drawn}");
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        let empty = Lane { label: String::new(), parts: Vec::new(), totals: vec![0.0] };
        assert!(!takeover(&[empty], "title", true, 900.0).into_string().contains("NaN"));
    }
}
