//! Durations by percentile, with as much room for the last nines as for the first.

use hdrhistogram::Histogram;

use super::frame::{Frame, before_names};
use super::scale::Scale;
use super::svg::{Svg, polyline};
use super::{is_narrow, series};
use crate::format::{duration, quantile_name, tick};
use crate::markup::Markup;

/// One environment's durations.
#[derive(Debug)]
pub(crate) struct Curve<'a> {
    /// Name of the environment.
    pub(crate) label: String,
    /// Position in its group.
    pub(crate) position: usize,
    /// All valid trials merged; not empty.
    pub(crate) histogram: &'a Histogram<u64>,
}

/// What the values are called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    pub(crate) description: &'static str,
    pub(crate) share: &'static str,
    pub(crate) value: &'static str,
}

/// Latency of answers.
pub(crate) const LATENCY: Words = Words {
    description: "Latency in logarithmic steps over the share of answers that were at least as fast; each nine takes the same room.",
    share: "share of answers within",
    value: "latency",
};

/// Pauses of checkpoints.
pub(crate) const PAUSES: Words = Words {
    description: "Pauses in logarithmic steps over the share of checkpoints that took no longer; each nine takes the same room.",
    share: "share of checkpoints done within",
    value: "pause",
};

/// A percentile needs this many values beyond it to be drawn.
const BEYOND: f64 = 10.0;

pub(crate) fn percentiles(curves: &[Curve<'_>], title: &str, words: Words, width: f64) -> Markup {
    let narrow = is_narrow(width);
    let height = if narrow { 300.0 } else { 360.0 };
    let nines = curves.iter().map(|c| last_nine(c.histogram)).fold(1.0, f64::max);
    let values = curves.iter().flat_map(|c| {
        let last = quantile(last_nine(c.histogram));
        [0.0, last].map(|q| c.histogram.value_at_quantile(q) as f64)
    });
    let frame = Frame {
        left: 58.0,
        right: before_names(curves.iter().map(|c| c.label.as_str()), width),
        top: 30.0,
        bottom: height - 44.0,
        x: Scale::Nines { high: nines },
        y: Scale::log_around(values),
    };
    let mut svg = Svg::new(width, height, title, words.description);
    frame.y_axis(&mut svg, 7, |v| tick(v, "ns"));
    frame.x_axis(&mut svg, 8, |q| match q {
        0.0 => "min".to_owned(),
        q => quantile_name(q),
    });
    frame.names(&mut svg, words.share, words.value);
    let mut ends = Vec::new();
    for curve in curves {
        let color = series(curve.position);
        let h = curve.histogram;
        let at = |nines: f64| {
            let q = quantile(nines);
            (frame.x(q), frame.y(h.value_at_quantile(q) as f64))
        };
        let last = last_nine(h);
        let steps = (last * 40.0).ceil() as u32;
        let points: Vec<_> = (0..=steps).map(|i| at(last * f64::from(i) / f64::from(steps))).collect();
        ends.push((curve.position, curve.label.as_str(), at(last)));
        svg.path(&format!("{color} curve"), &polyline(points), &curve.label);
        for q in [0.5, 0.9, 0.99, 0.999, 0.9999].into_iter().filter(|q| nines_of(*q) <= last) {
            let value = h.value_at_quantile(q) as f64;
            let tip = format!("{}: {} within {}", curve.label, quantile_name(q), duration(value));
            svg.mark(&format!("{color} mark"), curve.position, (frame.x(q), frame.y(value)), 4.0, &tip);
        }
    }
    if !narrow {
        frame.name_ends(&mut svg, &ends);
    }
    svg.finish()
}

fn quantile(nines: f64) -> f64 {
    1.0 - 10f64.powf(-nines)
}

fn nines_of(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

fn last_nine(h: &Histogram<u64>) -> f64 {
    (h.len() as f64 / BEYOND).log10().clamp(0.31, 6.0)
}
