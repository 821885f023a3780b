//! Capacity searches: every step that was tried and the bracket it ended with.

use vtax_store::record::CapacityOutcome;

use super::trial::{bracket, p99};
use crate::format::{duration, quantity, tick};
use crate::markup::Markup;
use crate::plot::frame::Frame;
use crate::plot::scale::Scale;
use crate::plot::svg::{Anchor, Svg, number};
use crate::plot::{is_narrow, series};

/// The searches of one environment.
#[derive(Debug)]
pub(crate) struct Searches<'a> {
    /// Name of the environment.
    pub(crate) label: String,
    /// Position in its group.
    pub(crate) position: usize,
    /// Index of the trial and its outcome.
    pub(crate) trials: Vec<(u32, &'a CapacityOutcome)>,
}

const ROW: f64 = 17.0;
const GAP: f64 = 24.0;

pub(crate) fn searches(cells: &[Searches<'_>], title: &str, width: f64) -> Markup {
    let narrow = is_narrow(width);
    let rows: usize = cells.iter().map(|c| c.trials.len()).sum();
    let height = 12.0 + rows as f64 * ROW + cells.len() as f64 * GAP + 44.0;
    let rates = cells.iter().flat_map(|c| &c.trials).flat_map(|(_, o)| {
        o.steps.iter().map(|s| s.offered.0).chain([o.lower.0]).chain(o.upper.map(|u| u.0))
    });
    let frame = Frame {
        left: if narrow { 34.0 } else { 64.0 },
        right: width - if narrow { 12.0 } else { 130.0 },
        top: 12.0,
        bottom: height - 44.0,
        x: Scale::log_around(rates),
        y: Scale::Linear { low: 0.0, high: 1.0 },
    };
    let mut svg = Svg::new(
        width,
        height,
        title,
        "One line per search: filled marks are rates that were carried, crosses rates that were not, the bar is the bracket left at the end.",
    );
    frame.x_axis(&mut svg, if narrow { 5 } else { 8 }, |v| tick(v, "req/s"));
    svg.text("name", (frame.right, height - 8.0), Anchor::End, "offered load");
    let mut y = frame.top;
    for cell in cells {
        svg.text(&format!("{} label", series(cell.position)), (0.0, y + 17.0), Anchor::Start, &cell.label);
        y += GAP;
        for (index, outcome) in &cell.trials {
            search(&mut svg, &frame, cell, (*index, outcome), y + ROW / 2.0);
            if !narrow {
                svg.text(
                    "value",
                    (frame.right + 10.0, y + ROW / 2.0 + 4.0),
                    Anchor::Start,
                    &bracket(outcome),
                );
            }
            y += ROW;
        }
    }
    svg.finish()
}

fn search(svg: &mut Svg, frame: &Frame, cell: &Searches<'_>, (index, o): (u32, &CapacityOutcome), y: f64) {
    let color = series(cell.position);
    svg.text("tick", (frame.left - 8.0, y + 4.0), Anchor::End, &format!("{index:03}"));
    svg.line("row", (frame.left, y), (frame.right, y));
    let low = frame.x(o.lower.0);
    let high = o.upper.map_or(frame.right, |u| frame.x(u.0));
    let tip = format!("trial {index:03}, {}: {} req/s", cell.label, bracket(o));
    svg.rect(&format!("{color} bracket"), (low, y - 6.5), ((high - low).max(2.0), 13.0), &tip);
    for (i, step) in o.steps.iter().enumerate() {
        let x = frame.x(step.offered.0);
        let outcome = match (&step.reason, step.passed) {
            (_, true) => "carried".to_owned(),
            (Some(r), false) => r.clone(),
            (None, false) => "not carried".to_owned(),
        };
        let p99 = p99(step).map_or_else(|| "no answer".to_owned(), |ns| format!("p99 {}", duration(ns)));
        let tip = format!(
            "step {}: {} offered, {} answered, {} lost, {p99}: {outcome}",
            i + 1,
            quantity(step.offered.0, "req/s"),
            quantity(step.goodput.0, "req/s"),
            quantity(step.loss, "1"),
        );
        if step.passed {
            svg.mark(&format!("{color} mark"), 0, (x, y), 3.2, &tip);
        } else {
            let (a, b) = (number(x - 2.6), number(y - 2.6));
            svg.path(&format!("{color} cross"), &format!("M{a} {b}l5.2 5.2m-5.2 0l5.2 -5.2"), &tip);
        }
    }
}
