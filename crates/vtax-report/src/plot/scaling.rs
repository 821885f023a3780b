//! What a system gets through over load, with the Universal Scalability Law through it.

use vtax_stats::{Load, Peak, Scalability};

use super::frame::{Frame, before_names};
use super::scale::Scale;
use super::svg::{Svg, polyline};
use super::{is_narrow, series};
use crate::format::{quantity, tick};
use crate::markup::Markup;
use crate::words::capitalised;

/// One environment's sweep.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// Name of the environment.
    pub(crate) label: String,
    /// Position in its group.
    pub(crate) position: usize,
    /// One measurement per valid trial.
    pub(crate) loads: Vec<Load>,
    /// The law, where the data support one.
    pub(crate) law: Option<Scalability>,
}

/// Points on the curve.
const STEPS: u32 = 80;

/// What is on one axis over what is on the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axes<'a> {
    /// The swept parameter.
    pub(crate) load: &'a str,
    /// What the metric is called: `throughput`, `capacity`.
    pub(crate) metric: &'a str,
    /// The metric's.
    pub(crate) unit: &'a str,
}

/// Draws all environments on one pair of axes.
pub(crate) fn scaling(sweeps: &[Sweep], axes: Axes<'_>, width: f64) -> Markup {
    let Axes { load, metric, unit } = axes;
    let narrow = is_narrow(width);
    let height = if narrow { 300.0 } else { 360.0 };
    let all = || sweeps.iter().flat_map(|s| &s.loads);
    let largest = all().map(|l| l.n).fold(1.0, f64::max);
    // A peak beyond what was measured is drawn as far as it is predicted.
    let reach =
        sweeps.iter().filter_map(|s| peak_at(s.law.as_ref()?)).fold(largest, f64::max).min(largest * 2.0);
    let smallest = all().map(|l| l.n).fold(largest, f64::min);
    // The ring that marks a peak is drawn too.
    let highest = sweeps.iter().filter_map(|s| peak_of(s.law.as_ref()?)).filter(|peak| peak.is_finite());
    let highest = highest.fold(all().map(|l| l.throughput).fold(0.0, f64::max), f64::max);
    let frame = Frame {
        left: 62.0,
        right: before_names(sweeps.iter().map(|s| s.label.as_str()), width),
        top: 30.0,
        bottom: height - 44.0,
        x: Scale::Log { low: smallest, high: (reach * 1.05).max(smallest * 1.1) },
        y: Scale::from_zero(highest),
    };
    let description = "Dots are trials, curves the fitted law; beyond the last dot a curve is a prediction. A ring marks the predicted peak.";
    let mut svg = Svg::new(width, height, &format!("{} over load", capitalised(metric)), description);
    frame.y_axis(&mut svg, 5, |v| tick(v, unit));
    frame.x_axis(&mut svg, if narrow { 5 } else { 9 }, |v| tick(v, ""));
    frame.names(&mut svg, load, metric);
    let mut ends = Vec::new();
    for sweep in sweeps {
        let color = series(sweep.position);
        for l in &sweep.loads {
            let tip = format!("{}: {} at {} {load}", sweep.label, quantity(l.throughput, unit), l.n);
            let at = (frame.x(l.n), frame.y(l.throughput));
            svg.mark(&format!("{color} trial"), sweep.position, at, 3.6, &tip);
        }
        let last =
            sweep.loads.iter().fold((0.0, 0.0), |m, l| if l.n >= m.0 { (l.n, l.throughput) } else { m });
        let mut end = last;
        if let Some(law) = &sweep.law {
            let to = peak_at(law).unwrap_or(0.0).clamp(last.0, reach);
            let n = |i: u32| smallest * (to / smallest).powf(f64::from(i) / f64::from(STEPS));
            let points = (0..=STEPS).map(|i| (frame.x(n(i)), frame.y(law.at(n(i)))));
            svg.path(&format!("{color} curve"), &polyline(points), &sweep.label);
            end = (to, law.at(to));
            if let Peak::At { n, throughput } = law.peak {
                let tip = format!(
                    "{}: predicted peak {} at {:.0} {load}",
                    sweep.label,
                    quantity(throughput, unit),
                    n.value
                );
                svg.mark(&format!("{color} ring"), 0, (frame.x(n.value), frame.y(throughput)), 7.0, &tip);
            }
        }
        let end = (frame.x(end.0).max(frame.right - 4.0), frame.y(end.1));
        ends.push((sweep.position, sweep.label.as_str(), end));
    }
    if !narrow {
        frame.name_ends(&mut svg, &ends);
    }
    svg.finish()
}

fn peak_at(law: &Scalability) -> Option<f64> {
    match law.peak {
        Peak::At { n, .. } => Some(n.value),
        Peak::Beyond => None,
    }
}

/// Throughput at the peak.
fn peak_of(law: &Scalability) -> Option<f64> {
    match law.peak {
        Peak::At { throughput, .. } => Some(throughput),
        Peak::Beyond => None,
    }
}

#[cfg(test)]
mod tests {
    use vtax_stats::Parameter;

    use super::*;

    /// The picture of one sweep whose peak is predicted to be this high, at twice the load that was measured.
    fn drawn(peak: f64) -> String {
        let known = |value: f64| Parameter { value, interval: (value, value) };
        let law = Scalability {
            lambda: known(100.0),
            sigma: known(0.1),
            kappa: known(0.001),
            peak: Peak::At { n: known(16.0), throughput: peak },
            scatter: 0.01,
        };
        let loads = [(1.0, 100.0), (2.0, 190.0), (8.0, 400.0)];
        let loads = loads.map(|(n, throughput)| Load { n, throughput }).to_vec();
        let sweep = Sweep { label: "native".to_owned(), position: 0, loads, law: Some(law) };
        let axes = Axes { load: "workers", metric: "capacity", unit: "req/s" };
        scaling(&[sweep], axes, 760.0).into_string()
    }

    /// It stood at the axis' top, as if that were its value.
    #[test]
    fn a_predicted_peak_is_within_the_scale() {
        assert!(drawn(390.0).contains(">400 req/s</text>") && !drawn(390.0).contains(">800 req/s</text>"));
        let high = drawn(790.0);
        assert!(high.contains(">800 req/s</text>") && high.contains("predicted peak 790 req/s"), "{high}");
        assert!(drawn(f64::INFINITY).contains(">400 req/s</text>"), "no peak is as high as that");
    }

    #[test]
    fn the_axis_says_what_the_metric_is() {
        let picture = drawn(390.0);
        assert!(picture.contains(">capacity</text>") && picture.contains("Capacity over load"), "{picture}");
        assert!(!picture.contains("hroughput"), "{picture}");
    }
}
