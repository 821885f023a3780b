//! How the interval of a tax narrowed while trials were added.

use vtax_stats::Margin;

use super::frame::Frame;
use super::scale::Scale;
use super::series;
use super::svg::{Anchor, Svg, number, polyline};
use crate::format::{tax_tick, tick};
use crate::judged::Step;
use crate::markup::Markup;

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 190.0;

/// What is drawn besides the steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Narrowing<'a> {
    pub(crate) title: &'a str,
    /// Position of the environment in its group.
    pub(crate) position: usize,
    /// The zone that counts as equal.
    pub(crate) margin: f64,
    /// The half-width at which trials end; `None` where their number is fixed.
    pub(crate) until: Option<f64>,
}

/// The tax and its interval after each number of rounds; `steps` has at least two.
pub(crate) fn narrowing(steps: &[Step], what: Narrowing<'_>) -> Markup {
    let last = steps.last().map_or(1.0, |s| s.trials as f64);
    let first = steps.first().map_or(0.0, |s| s.trials as f64);
    // The first intervals may span everything; what matters is where they end.
    let settled = steps.iter().rev().take(steps.len().div_ceil(2) + 1);
    let ends = settled.flat_map(|s| [s.interval.0, s.interval.1]);
    // Far from 1 the zone of equality would leave no room for what narrows.
    let near = steps.last().is_some_and(|s| (0.7..1.4).contains(&s.tax));
    let (least, most) = Margin::new(what.margin).bounds();
    let ends = ends.chain([least, most].into_iter().filter(|_| near)).filter(|v| (1e-4..1e4).contains(v));
    let frame = Frame {
        left: 48.0,
        right: WIDTH - 12.0,
        top: 44.0,
        bottom: HEIGHT - 36.0,
        x: Scale::Linear { low: first, high: last.max(first + 1.0) },
        y: Scale::log_around(ends),
    };
    let description = "The line is the tax, the band its 95 % interval, by number of rounds.";
    let mut svg = Svg::new(WIDTH, HEIGHT, what.title, description);
    svg.text("heading", (0.0, 13.0), Anchor::Start, what.title);
    let rule = match what.until {
        Some(until) => format!("tax; ends at ± {}", tick(until, "1")),
        None => "tax".to_owned(),
    };
    svg.text("name", (0.0, 29.0), Anchor::Start, &rule);
    let (top, bottom) = (frame.y(most), frame.y(least));
    if near {
        svg.rect("zone", (frame.left, top), (frame.right - frame.left, bottom - top), "");
        svg.line("one", (frame.left, frame.y(1.0)), (frame.right, frame.y(1.0)));
    }
    frame.y_axis(&mut svg, 4, tax_tick);
    frame.x_axis(&mut svg, 5, |v| if v.fract() == 0.0 { format!("{v:.0}") } else { String::new() });
    svg.text("name", (frame.right, HEIGHT - 4.0), Anchor::End, "rounds");
    let color = series(what.position);
    let at = |s: &Step, v: f64| (frame.x(s.trials as f64), frame.y(v));
    let mut band = polyline(steps.iter().map(|s| at(s, s.interval.1)));
    for s in steps.iter().rev() {
        let (x, y) = at(s, s.interval.0);
        band.push_str(&format!("L{} {}", number(x), number(y)));
    }
    band.push('Z');
    svg.path(&format!("{color} band"), &band, "");
    svg.path(&format!("{color} firm"), &polyline(steps.iter().map(|s| at(s, s.tax))), "");
    for s in steps {
        let text = crate::format::tax_range(s.interval.0, s.interval.1);
        let tip = format!("after {} rounds: {} ({text})", s.trials, crate::format::tax(s.tax));
        let (x, y) = at(s, s.tax);
        svg.mark(&format!("{color} mark"), what.position, (x, y), 3.4, &tip);
    }
    svg.finish()
}
