//! The study's ratios and ours on one logarithmic axis.

use vtax_study::{Compared, MARGIN, Reproduction, Step};

use super::words::{ours, studys, what};
use crate::format::tax_tick;
use crate::html::parts::figure;
use crate::markup::Markup;
use crate::plot::frame::Frame;
use crate::plot::scale::Scale;
use crate::plot::svg::{Anchor, Svg, number};
use crate::plot::{is_narrow, responsive, series};

/// Height of a heading or a ratio, in pixels.
const ROW: f64 = 24.0;

/// Series of ours, and of the study.
const OURS: usize = 0;
const STUDYS: usize = 1;

/// A line of the picture: a claim's name, or one of its ratios.
enum Line<'a> {
    Claim(&'a str),
    Ratio(&'a Step),
}

/// Every ratio of every claim that a run could tell; nothing where there is none.
pub(super) fn picture(found: &Reproduction) -> Markup {
    let mut lines = Vec::new();
    for claim in &found.claims {
        let ratios: Vec<&Step> =
            claim.properly.steps.iter().filter(|step| step.is_ratio && step.ours.is_some()).collect();
        if !ratios.is_empty() {
            lines.push(Line::Claim(&claim.id));
            lines.extend(ratios.into_iter().map(Line::Ratio));
        }
    }
    if lines.is_empty() {
        return Markup::new();
    }
    let keys =
        [(series(OURS), "here, with its interval".to_owned()), (series(STUDYS), "the study".to_owned())];
    figure("Ratios: the study's and ours", &keys, &responsive(|width| draw(&lines, width)))
}

fn draw(lines: &[Line<'_>], width: f64) -> Markup {
    let narrow = is_narrow(width);
    let height = 24.0 + ROW * lines.len() as f64 * if narrow { 1.7 } else { 1.0 } + 44.0;
    let ends = lines.iter().filter_map(|line| match line {
        Line::Claim(_) => None,
        Line::Ratio(step) => Some(step),
    });
    let ends = ends.flat_map(|step| {
        let Compared { ratio, interval } = step.ours.unwrap_or(Compared { ratio: 1.0, interval: None });
        let (low, high) = interval.unzip();
        [Some(ratio), low, high, step.study].into_iter().flatten()
    });
    // An interval without end must not flatten all others.
    let ends = ends.filter(|v| (1e-4..1e4).contains(v)).chain([1.0 / (1.0 + MARGIN), 1.0 + MARGIN]);
    let frame = Frame {
        left: if narrow { 8.0 } else { 330.0 },
        right: if narrow { width - 8.0 } else { width - 130.0 },
        top: 24.0,
        bottom: height - 44.0,
        x: Scale::log_around(ends),
        y: Scale::Linear { low: 0.0, high: 1.0 },
    };
    let description = "Dots are ratios of the first over the second, bars their intervals, on a logarithmic axis; squares are the study's. \
                       The shaded zone counts as equal.";
    let mut svg = Svg::new(width, height, "Ratios of the study and of this host", description);
    let zone = (frame.x(1.0 / (1.0 + MARGIN)), frame.x(1.0 + MARGIN));
    svg.rect("zone", (zone.0, frame.top), (zone.1 - zone.0, frame.bottom - frame.top), "");
    frame.x_axis(&mut svg, if narrow { 4 } else { 8 }, tax_tick);
    let one = frame.x(1.0);
    svg.line("one", (one, frame.top), (one, frame.bottom));
    let mut y = frame.top;
    for line in lines {
        match line {
            Line::Claim(name) => svg.text("heading", (0.0, y + 17.0), Anchor::Start, name),
            Line::Ratio(step) => ratio(&mut svg, &frame, step, y, narrow),
        }
        y += if narrow { 1.7 * ROW } else { ROW };
    }
    svg.finish()
}

fn ratio(svg: &mut Svg, frame: &Frame, step: &Step, y: f64, narrow: bool) {
    let label = what(step);
    let tip = format!("{label}: study {}, here {}", studys(step), ours(step));
    let middle = if narrow { y + 1.2 * ROW } else { y + ROW / 2.0 };
    if narrow {
        svg.text("label", (8.0, y + 14.0), Anchor::Start, &label);
    } else {
        svg.text("label", (frame.left - 12.0, middle + 4.0), Anchor::End, &label);
    }
    if let Some(Compared { ratio, interval }) = step.ours {
        if let Some((low, high)) = interval {
            let (a, b) = (frame.x(low), frame.x(high));
            let bar = format!("M{} {m}H{}", number(a), number(b.max(a + 1.0)), m = number(middle));
            svg.path(&format!("{} whisker", series(OURS)), &bar, &tip);
        }
        svg.mark(&format!("{} mark", series(OURS)), OURS, (frame.x(ratio), middle), 5.0, &tip);
    }
    if let Some(study) = step.study {
        svg.mark(&format!("{} mark", series(STUDYS)), STUDYS, (frame.x(study), middle), 5.0, &tip);
    }
}
