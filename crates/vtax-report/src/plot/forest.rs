//! Taxes with their intervals on one logarithmic axis.

use vtax_stats::Margin;
use vtax_store::summary::{Comparison, Verdict};

use super::frame::{Frame, GAP, behind_labels};
use super::scale::Scale;
use super::svg::{Anchor, Svg, number};
use super::{is_narrow, series};
use crate::format::tax_tick;
use crate::markup::Markup;
use crate::rows::Row;
use crate::words::word;

/// Height of a heading or a tax, in pixels.
const ROW: f64 = 26.0;

/// Draws the taxes of `rows`, each metric under its name; `margin` is the zone that counts as equal.
pub(crate) fn forest(rows: &[&Row], margin: f64, width: f64) -> Markup {
    let narrow = is_narrow(width);
    let lines = lines(rows);
    // On a phone a tax has its label on a line of its own.
    let heights = lines.iter().map(|l| if narrow && matches!(l, Line::Tax(_)) { 1.6 * ROW } else { ROW });
    let height = 24.0 + heights.sum::<f64>() + 44.0;
    let ends = rows.iter().filter_map(|r| r.comparison.as_ref()).flat_map(|c| {
        let (low, high) = c.interval.unzip();
        let (least, most) = outer(c).unzip();
        [c.tax, low, high, least, most, c.at_least, c.at_most].into_iter().flatten()
    });
    // An interval without end, or nearly, must not flatten all others.
    let (least, most) = Margin::new(margin).bounds();
    let ends = ends.filter(|v| (1e-4..1e4).contains(v)).chain([least, most]);
    let frame = Frame {
        left: if narrow {
            8.0
        } else {
            behind_labels(rows.iter().map(|r| r.environment.as_str()), 190.0, width)
        },
        right: if narrow { width - 8.0 } else { width - 170.0 },
        top: 24.0,
        bottom: height - 44.0,
        x: Scale::log_around(ends),
        y: Scale::Linear { low: 0.0, high: 1.0 },
    };
    let mut svg = Svg::new(
        width,
        height,
        "Tax of each environment in each metric",
        "Dots are taxes, bars their 95 % intervals, on a logarithmic axis; 1 is the baseline. The shaded zone counts as equal.",
    );
    let zone = (frame.x(least), frame.x(most));
    svg.rect("zone", (zone.0, frame.top), (zone.1 - zone.0, frame.bottom - frame.top), "");
    frame.x_axis(&mut svg, if narrow { 4 } else { 8 }, tax_tick);
    let one = frame.x(1.0);
    svg.line("one", (one, frame.top), (one, frame.bottom));
    svg.text("tick", (one, frame.top - 8.0), Anchor::Middle, "baseline");
    let name = if narrow {
        "tax; bar: 95 % interval, line: corrected"
    } else {
        "tax: cost over the baseline's; bar: 95 % interval, line: corrected"
    };
    svg.text("name", (frame.right, height - 8.0), Anchor::End, name);
    let mut y = frame.top;
    for line in &lines {
        match line {
            Line::Heading(text) => {
                clear(&mut svg, &frame, y, ROW);
                svg.text("heading", (0.0, y + 18.0), Anchor::Start, text);
                y += ROW;
            }
            Line::Tax(row) => {
                if narrow {
                    clear(&mut svg, &frame, y, 0.75 * ROW);
                }
                tax(&mut svg, &frame, row, y, narrow);
                y += if narrow { 1.6 * ROW } else { ROW };
            }
        }
    }
    svg.finish()
}

enum Line<'a> {
    Heading(String),
    Tax(&'a Row),
}

fn lines<'a>(rows: &[&'a Row]) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    let mut last = String::new();
    for row in rows.iter().filter(|r| r.comparison.is_some()) {
        let group = if row.group.is_empty() { String::new() } else { format!("{}: ", row.group) };
        // `latency, median` of the measure `latency` needs no more words, of `latency@lowest` it does.
        let own = row.label.split(',').next() == Some(row.measure.as_str());
        let measure = if own { String::new() } else { format!(" · {}", row.measure) };
        let heading = format!("{group}{}{measure}", row.label);
        if heading != last {
            lines.push(Line::Heading(heading.clone()));
            last = heading;
        }
        lines.push(Line::Tax(row));
    }
    lines
}

/// Text is not to stand across lines of the picture.
fn clear(svg: &mut Svg, frame: &Frame, y: f64, height: f64) {
    svg.rect("blank", (frame.left, y), (frame.right - frame.left, height), "");
}

/// What the verdict is read off, where that reaches further than the interval or the bound.
fn outer(c: &Comparison) -> Option<(f64, f64)> {
    let (low, high) = c.corrected?;
    match (c.at_least, c.at_most) {
        (Some(least), _) => Some((low, least)).filter(|_| low < least),
        (_, Some(most)) => Some((most, high)).filter(|_| most < high),
        _ => c.corrected.filter(|_| c.corrected != c.interval),
    }
}

/// Every judgement has a reason; what has none, a host's own tax, was never judged.
fn tip(row: &Row, c: &Comparison, words: &str) -> String {
    let tip = format!("{}, {}: {words}", row.environment, row.label);
    match c.reason.as_str() {
        "" => tip,
        reason => format!("{tip}, {}. {reason}", word(c.verdict)),
    }
}

fn tax(svg: &mut Svg, frame: &Frame, row: &Row, y: f64, narrow: bool) {
    let Some(c) = &row.comparison else { return };
    let value = match (row.tax_text(), row.tax_interval_text()) {
        (t, i) if i.is_empty() => t,
        (t, i) => format!("{t} ({i})"),
    };
    let words = match c.verdict {
        Verdict::Inconclusive if value.is_empty() => "can't tell".to_owned(),
        _ => value,
    };
    let tip = tip(row, c, &words);
    let middle = if narrow { y + 1.1 * ROW } else { y + ROW / 2.0 };
    if narrow {
        svg.text("label", (8.0, y + 14.0), Anchor::Start, &row.environment);
        svg.text("value", (frame.right, y + 14.0), Anchor::End, &words);
    } else {
        svg.text("label", (frame.left - GAP, middle + 4.0), Anchor::End, &row.environment);
        svg.text("value", (frame.right + 12.0, middle + 4.0), Anchor::Start, &words);
    }
    let color = series(row.position);
    let whisker = |svg: &mut Svg, low: f64, high: f64| {
        let (a, b) = (frame.x(low), frame.x(high));
        svg.path(
            &format!("{color} whisker"),
            &format!("M{} {m}H{}", number(a), number(b.max(a + 1.0)), m = number(middle)),
            &tip,
        );
    };
    // What the verdict is read off reaches further, where comparisons are read together.
    if let Some((low, high)) = outer(c) {
        let (a, b) = (frame.x(low), frame.x(high));
        let m = number(middle);
        svg.path(&format!("{color} outer"), &format!("M{} {m}H{}", number(a), number(b.max(a + 1.0))), &tip);
    }
    if let Some((low, high)) = c.interval {
        whisker(svg, low, high);
    }
    // A bound is an arrow that points to where the truth may be.
    let arrow = |svg: &mut Svg, at: f64, way: f64| {
        let x = frame.x(at);
        let d = format!(
            "M{x0} {m}h{}m{} -5l{} 5l{} 5",
            number(34.0 * way),
            number(-6.0 * way),
            number(6.0 * way),
            number(-6.0 * way),
            x0 = number(x),
            m = number(middle)
        );
        svg.path(&format!("{color} arrow"), &d, &tip);
    };
    if let Some(least) = c.at_least {
        arrow(svg, least, 1.0);
    }
    if let Some(most) = c.at_most {
        arrow(svg, most, -1.0);
    }
    if let Some(t) = c.tax {
        svg.mark(&format!("{color} mark"), row.position, (frame.x(t), middle), 5.0, &tip);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_judged_has_no_verdict() {
        let row = Row {
            group: String::new(),
            cell: "vm".to_owned(),
            environment: "host 1".to_owned(),
            position: 0,
            measure: "capacity".to_owned(),
            metric: "capacity",
            label: "capacity",
            primary: true,
            value: None,
            too_few: false,
            comparison: None,
        };
        let own = Comparison { tax: Some(1.2), ..Comparison::default() };
        assert_eq!(tip(&row, &own, "1.20x"), "host 1, capacity: 1.20x");
        let judged =
            Comparison { verdict: Verdict::Worse, reason: "the interval lies above 1".to_owned(), ..own };
        assert_eq!(tip(&row, &judged, "1.20x"), "host 1, capacity: 1.20x, worse. the interval lies above 1");
    }
}
