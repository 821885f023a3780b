//! The study's ratios and ours on one logarithmic axis.

use vtax_stats::Margin;
use vtax_study::{Compared, Reproduction, Step, Study};

use super::words::{margin, ours, studys, what};
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

/// A line of the picture: a claim's name, or one of its ratios with the margin within which it counts as equal.
enum Line<'a> {
    Claim(&'a str),
    Ratio(&'a Step, f64),
}

/// Every ratio of every claim that a run could tell; nothing where there is none.
pub(super) fn picture(study: &Study, found: &Reproduction) -> Markup {
    let mut lines = Vec::new();
    for claim in &found.claims {
        let ratios: Vec<&Step> =
            claim.properly.steps.iter().filter(|step| step.is_ratio && step.ours.is_some()).collect();
        if !ratios.is_empty() {
            let test = study.claim(&claim.id).and_then(|claim| claim.test.as_ref());
            let margin = margin(test);
            lines.push(Line::Claim(&claim.id));
            lines.extend(ratios.into_iter().map(|step| Line::Ratio(step, margin)));
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
    let row = if narrow { 1.7 * ROW } else { ROW };
    let height = 24.0 + row * lines.len() as f64 + 44.0;
    let ratios = lines.iter().filter_map(|line| match line {
        Line::Claim(_) => None,
        Line::Ratio(step, margin) => Some((step, margin)),
    });
    let ends = ratios.flat_map(|(step, margin)| {
        let Compared { ratio, interval } = step.ours.unwrap_or(Compared { ratio: 1.0, interval: None });
        let (low, high) = interval.unzip();
        let (from, to) = Margin::new(*margin).bounds();
        [Some(ratio), low, high, step.study, Some(from), Some(to)].into_iter().flatten()
    });
    // An interval without end must not flatten all others.
    let ends = ends.filter(|v| (1e-4..1e4).contains(v));
    let frame = Frame {
        left: if narrow { 8.0 } else { 330.0 },
        right: if narrow { width - 8.0 } else { width - 130.0 },
        top: 24.0,
        bottom: height - 44.0,
        x: Scale::log_around(ends),
        y: Scale::Linear { low: 0.0, high: 1.0 },
    };
    let description = "Dots are ratios of the first over the second, bars their intervals, on a logarithmic axis; squares are the study's. \
                       The shaded zone of a claim counts as equal.";
    let mut svg = Svg::new(width, height, "Ratios of the study and of this host", description);
    let placed = || (0..).zip(lines).map(|(place, line)| (frame.top + f64::from(place) * row, line));
    for (y, line) in placed() {
        if let Line::Ratio(_, margin) = line {
            let (from, to) = Margin::new(*margin).bounds();
            svg.rect("zone", (frame.x(from), y), (frame.x(to) - frame.x(from), row), "");
        }
    }
    frame.x_axis(&mut svg, if narrow { 4 } else { 8 }, tax_tick);
    let one = frame.x(1.0);
    svg.line("one", (one, frame.top), (one, frame.bottom));
    for (y, line) in placed() {
        match line {
            Line::Claim(name) => svg.text("heading", (0.0, y + 17.0), Anchor::Start, name),
            Line::Ratio(step, _) => ratio(&mut svg, &frame, step, y, narrow),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Widths of the shaded zones, from the top.
    fn zones(lines: &[Line<'_>]) -> Vec<f64> {
        let picture = draw(lines, 900.0).into_string();
        let zones = picture.split("class=\"zone\"").skip(1);
        let width = |zone: &str| zone.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
        zones.map(|zone| width(zone).unwrap_or_else(|| panic!("{zone}"))).collect()
    }

    #[test]
    fn each_claim_has_the_zone_of_its_own_margin() {
        let step = Step {
            group: String::new(),
            what: "a over b".to_owned(),
            is_ratio: true,
            study: Some(1.39),
            ours: Some(Compared { ratio: 1.12, interval: Some((1.05, 1.14)) }),
        };
        let lines =
            [Line::Claim("wide"), Line::Ratio(&step, 0.15), Line::Claim("usual"), Line::Ratio(&step, 0.1)];
        let [wide, usual] = zones(&lines)[..] else { panic!("{:?}", zones(&lines)) };
        // Widths on a logarithmic axis.
        assert!((wide / usual - 1.15_f64.ln() / 1.1_f64.ln()).abs() < 0.01, "{wide} {usual}");
    }
}
