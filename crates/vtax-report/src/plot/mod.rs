//! Pictures as SVG, drawn for one width each; [`responsive`] gives a page both.

pub(crate) mod curves;
pub(crate) mod dots;
pub(crate) mod forest;
pub(crate) mod frame;
pub(crate) mod narrowing;
pub(crate) mod panel;
pub(crate) mod scale;
pub(crate) mod scaling;
pub(crate) mod shape;
pub(crate) mod stack;
pub(crate) mod svg;
pub(crate) mod timeline;
pub(crate) mod xy;

use crate::format::is_far;
use crate::markup::Markup;

/// Width on a desktop, in CSS pixels.
const WIDE: f64 = 900.0;
/// Width on a phone.
const NARROW: f64 = 350.0;

/// Draws a picture for desktop and phone; style shows the one that fits.
pub(crate) fn responsive(draw: impl Fn(f64) -> Markup) -> Markup {
    let mut both = Markup::new();
    for (class, width) in [("wide", WIDE), ("narrow", NARROW)] {
        both.open("div", &[("class", class)]).add(&draw(width)).close("div");
    }
    both
}

/// True where a picture of that width is for a phone.
pub(crate) fn is_narrow(width: f64) -> bool {
    width < 500.0
}

/// The class that gives a series its colour: the baseline is 0. From the ninth on the colours come again, with hollow marks and
/// broken lines.
pub(crate) fn series(index: usize) -> &'static str {
    const CLASSES: [&str; 16] = [
        "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "s12", "s13", "s14", "s15",
    ];
    CLASSES[index % CLASSES.len()]
}

/// The ends of an interval that an axis must hold: one without end, or nearly, must not flatten all others.
pub(crate) fn near_ends(center: f64, interval: Option<(f64, f64)>) -> impl Iterator<Item = f64> {
    let (low, high) = interval.unzip();
    [low, high].into_iter().flatten().filter(move |end| !is_far(center, *end))
}

/// A logarithmic scale between two positive values.
pub(crate) fn log_scale(low: f64, high: f64) -> scale::Scale {
    scale::Scale::Log { low, high }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_of_sixteen_series_has_a_class_and_a_colour() {
        let classes: BTreeSet<&str> = (0..16).map(series).collect();
        assert_eq!(classes.len(), 16);
        for class in classes {
            assert!(crate::pages::STYLE.contains(&format!(".{class} {{ --c: ")), "{class}");
        }
    }
}
