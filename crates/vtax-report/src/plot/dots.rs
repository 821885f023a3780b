//! Each trial as a dot, each environment's interval beside them: what a verdict is made of.

use vtax_units::counted;

use super::frame::{Frame, GAP, behind_labels};
use super::scale::Scale;
use super::svg::{Anchor, Svg, number};
use super::{is_narrow, near_ends, series};
use crate::format::{range, tick, typical};
use crate::markup::Markup;

/// One environment's trials in one metric.
#[derive(Debug)]
pub(crate) struct Dots {
    /// Name of the environment.
    pub(crate) label: String,
    /// Position in its group.
    pub(crate) position: usize,
    /// One value per valid trial, and whether it is only a lower bound.
    pub(crate) values: Vec<(f64, bool)>,
    /// The typical value.
    pub(crate) center: f64,
    /// Whether that is only a lower bound.
    pub(crate) at_least: bool,
    /// Its 95 % interval.
    pub(crate) interval: Option<(f64, f64)>,
}

/// Height of one environment, in pixels.
const ROW: f64 = 40.0;

/// Draws trials of all environments on one axis: logarithmic, as taxes are ratios, unless a value is 0.
pub(crate) fn dots(all: &[Dots], title: &str, unit: &str, width: f64) -> Markup {
    let narrow = is_narrow(width);
    let lift = if narrow { 16.0 } else { 0.0 };
    let height = 8.0 + all.len() as f64 * (ROW + lift) + 42.0;
    let ends = all
        .iter()
        .flat_map(|d| d.values.iter().map(|(value, _)| *value).chain(near_ends(d.center, d.interval)));
    let positive = all.iter().flat_map(|d| &d.values).all(|(v, _)| *v > 0.0);
    let frame = Frame {
        left: if narrow { 10.0 } else { behind_labels(all.iter().map(|d| d.label.as_str()), 190.0, width) },
        right: if narrow { width - 10.0 } else { width - 170.0 },
        top: 8.0,
        bottom: height - 42.0,
        x: if positive { Scale::log_around(ends) } else { Scale::from_zero(ends.fold(0.0, f64::max)) },
        y: Scale::Linear { low: 0.0, high: 1.0 },
    };
    let description = "Each dot is one trial. The bar is the 95 % interval of the typical value, the mark on it the median.";
    let mut svg = Svg::new(width, height, title, description);
    frame.x_axis(&mut svg, if narrow { 4 } else { 7 }, |v| tick(v, unit));
    let mut y = frame.top;
    for d in all {
        environment(&mut svg, &frame, d, (y + lift + ROW / 2.0, unit), narrow);
        y += ROW + lift;
    }
    svg.finish()
}

fn environment(svg: &mut Svg, frame: &Frame, d: &Dots, (middle, unit): (f64, &str), narrow: bool) {
    let color = series(d.position);
    let center = typical(d.center, unit, d.at_least);
    let value = match d.interval {
        Some(i) => format!("{center} ({})", range(d.center, i, unit)),
        None => center,
    };
    if narrow {
        svg.text("label", (0.0, middle - 18.0), Anchor::Start, &d.label);
        svg.text("value", (frame.right, middle - 18.0), Anchor::End, &value);
    } else {
        svg.text("label", (frame.left - GAP, middle + 4.0), Anchor::End, &d.label);
        svg.text("value", (frame.right + 12.0, middle + 4.0), Anchor::Start, &value);
    }
    svg.line("row", (frame.left, middle), (frame.right, middle));
    let tip = format!("{}: median of {} {value}", d.label, counted(d.values.len(), "trial"));
    if let Some((low, high)) = d.interval {
        let (a, b) = (frame.x(low), frame.x(high).max(frame.x(low) + 1.0));
        let bar = format!("M{} {m}H{}", number(a), number(b), m = number(middle + 7.0));
        svg.path(&format!("{color} whisker"), &bar, &tip);
    }
    for (i, (v, at_least)) in d.values.iter().enumerate() {
        // Neighbours in time lie at different heights, so that equal values stay visible.
        let y = middle - 7.0 + [0.0, 4.0, -4.0][i % 3];
        let tip =
            format!("{}, trial {} of {}: {}", d.label, i + 1, d.values.len(), typical(*v, unit, *at_least));
        svg.mark(&format!("{color} trial"), 0, (frame.x(*v), y), 3.6, &tip);
    }
    svg.mark(&format!("{color} mark"), d.position, (frame.x(d.center), middle + 7.0), 5.0, &tip);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(interval: (f64, f64)) -> String {
        let values = vec![(1e5, false), (3e5, false)];
        let vm = Dots {
            label: "vm".into(),
            position: 1,
            values,
            center: 1.8e5,
            at_least: false,
            interval: Some(interval),
        };
        dots(&[vm], "Latency", "ns", 900.0).into_string()
    }

    #[test]
    fn an_interval_that_is_nearly_without_end_leaves_the_trials_apart() {
        let (near, far) = (drawn((1e5, 3e5)), drawn((1e5, 2.7e14)));
        let trials = |svg: &str| -> Vec<String> {
            svg.split('<').filter(|part| part.contains(" trial\"")).map(str::to_owned).collect()
        };
        assert_eq!(trials(&near).len(), 2, "{near}");
        assert_eq!(trials(&near), trials(&far));
        assert!(far.contains("180 µs (100 µs to &gt; 1.80 s)"), "{far}");
    }
}
