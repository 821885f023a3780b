//! A history as a picture: a mark for each run, its interval, and the levels between changes.

use super::{History, Of, Point};
use crate::format::{tax_tick, tick, utc};
use crate::markup::Markup;
use crate::plot::frame::Frame;
use crate::plot::scale::Scale;
use crate::plot::svg::{Anchor, Svg, number};
use crate::plot::{is_narrow, near_ends, responsive};

const HEIGHT: f64 = 300.0;

pub(super) fn draw(history: &History) -> Markup {
    if history.points.is_empty() {
        return Markup::new();
    }
    responsive(|width| one(history, width))
}

fn one(history: &History, width: f64) -> Markup {
    let last = history.points.len().saturating_sub(1).max(1) as f64;
    let frame = Frame {
        left: 64.0,
        // Half of the last date is beside the last run.
        right: width - 36.0,
        top: 40.0,
        bottom: HEIGHT - 40.0,
        x: Scale::Linear { low: 0.0, high: last },
        y: scale(&history.points),
    };
    let title = format!("{} of {} over runs", history.wanted.metric, history.wanted.cell);
    let description =
        "Marks are runs in the order of time, bars their 95 % intervals, lines the levels between changes.";
    let mut svg = Svg::new(width, HEIGHT, &title, description);
    let of_axis = match history.wanted.of {
        Of::Tax => "tax".to_owned(),
        Of::Value => history.wanted.metric.clone(),
    };
    svg.text("name", (0.0, 16.0), Anchor::Start, &of_axis);
    let label = |value: f64| match history.wanted.of {
        Of::Tax => tax_tick(value),
        Of::Value => tick(value, history.unit),
    };
    frame.y_axis(&mut svg, 5, label);
    let date = |index: f64| -> String {
        let point = history.points.get(index as usize).filter(|_| index.fract() == 0.0);
        point.map_or_else(String::new, |p| utc(p.started_unix_ms).chars().take(10).collect())
    };
    frame.x_axis(&mut svg, if is_narrow(width) { 2 } else { 7 }, date);
    svg.text("name", (frame.right, HEIGHT - 4.0), Anchor::End, "runs, by their start");
    levels(history, &frame, &mut svg);
    for (index, point) in history.points.iter().enumerate() {
        mark(history, &frame, &mut svg, (index, point));
    }
    svg.finish()
}

/// Every value and interval, with room; taxes and positive values on a logarithmic axis.
fn scale(points: &[Point]) -> Scale {
    let ends = || points.iter().flat_map(|p| near_ends(p.value, p.interval).chain([p.value]));
    if points.iter().all(|p| p.value > 0.0) {
        return Scale::log_around(ends());
    }
    Scale::from_zero(ends().fold(0.0, f64::max))
}

/// The level between each two changes, and a line where it changed.
fn levels(history: &History, frame: &Frame, svg: &mut Svg) {
    let mut from = 0.0;
    for (i, turn) in history.turns.iter().enumerate() {
        let at = turn.at as f64 - 0.5;
        let x = frame.x(at);
        svg.line("one", (x, frame.top), (x, frame.bottom));
        level(frame, svg, (from, at), turn.before);
        from = at;
        if i + 1 == history.turns.len() {
            level(frame, svg, (from, history.points.len() as f64 - 1.0), turn.after);
        }
    }
}

fn level(frame: &Frame, svg: &mut Svg, (from, to): (f64, f64), value: f64) {
    let path = format!("M{} {}H{}", number(frame.x(from)), number(frame.y(value)), number(frame.x(to)));
    svg.path("s2 firm", &path, "");
}

fn mark(history: &History, frame: &Frame, svg: &mut Svg, (index, point): (usize, &Point)) {
    let x = frame.x(index as f64);
    let of = match (history.wanted.of, point.trials) {
        (Of::Tax, 0) => String::new(),
        (Of::Tax, rounds) => format!(", {rounds} rounds"),
        (Of::Value, trials) => format!(", {trials} trials"),
    };
    let tip = format!("{}: {}{of}", utc(point.started_unix_ms), history.text(point.value));
    if let Some((low, high)) = point.interval {
        let path = format!("M{} {}V{}", number(x), number(frame.y(low)), number(frame.y(high)));
        svg.path("s1 thin", &path, &tip);
    }
    svg.mark("s1 mark", 0, (x, frame.y(point.value)), 3.6, &tip);
}
