//! Transfers by scenario, a mark for each window; and by window, a line for each series.

use crate::format::tick;
use crate::markup::Markup;
use crate::plot::frame::{Frame, GAP, before_names, behind_labels};
use crate::plot::scale::Scale;
use crate::plot::svg::{Anchor, Svg, number, polyline};
use crate::plot::{is_narrow, series};

/// One scenario.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) label: String,
    /// Not measured here: drawn as outlines.
    pub(crate) printed: bool,
    /// Number of the window, value, and what is shown on pointing at it.
    pub(crate) marks: Vec<(usize, f64, String)>,
}

/// Height of a row and of a heading, in pixels.
const ROW: f64 = 21.0;
const HEADING: f64 = 28.0;

/// Draws groups of scenarios on one logarithmic axis in `unit`.
pub(crate) fn scenarios(groups: &[(String, Vec<Row>)], title: &str, unit: &str, width: f64) -> Markup {
    let narrow = is_narrow(width);
    let row = if narrow { ROW * 1.6 } else { ROW };
    let rows: usize = groups.iter().map(|(_, rows)| rows.len()).sum();
    let height = 4.0 + groups.len() as f64 * HEADING + rows as f64 * row + 44.0;
    let values = groups.iter().flat_map(|(_, rows)| rows).flat_map(|r| r.marks.iter().map(|m| m.1));
    let labels = groups.iter().flat_map(|(_, rows)| rows).map(|r| r.label.as_str());
    let frame = Frame {
        left: if narrow { 8.0 } else { behind_labels(labels, 210.0, width) },
        right: width - 12.0,
        top: 4.0,
        bottom: height - 44.0,
        x: Scale::log_around(values),
        y: Scale::Linear { low: 0.0, high: 1.0 },
    };
    let description = match groups.iter().flat_map(|(_, rows)| rows).any(|r| r.printed) {
        true => {
            "One line per scenario, one mark per window, on a logarithmic axis; outlines are the study's figures."
        }
        false => "One line per path, one mark per window, on a logarithmic axis.",
    };
    let mut svg = Svg::new(width, height, title, description);
    frame.x_axis(&mut svg, if narrow { 4 } else { 8 }, |v| tick(v, unit));
    svg.text("name", (frame.right, height - 8.0), Anchor::End, &format!("{unit} in 30 s"));
    let mut y = frame.top;
    for (heading, rows) in groups {
        svg.text("heading", (0.0, y + 19.0), Anchor::Start, heading);
        y += HEADING;
        for r in rows {
            let middle = y + row - ROW / 2.0;
            let class = if r.printed { "tick" } else { "label" };
            if narrow {
                svg.text(class, (0.0, y + 11.0), Anchor::Start, &r.label);
            } else {
                svg.text(class, (frame.left - GAP, middle + 4.0), Anchor::End, &r.label);
            }
            svg.line("row", (frame.left, middle), (frame.right, middle));
            for (window, value, tip) in &r.marks {
                let class = if r.printed { "ring" } else { "mark" };
                let class = format!("{} {class}", series(*window));
                svg.mark(&class, *window, (frame.x(*value), middle), 4.6, tip);
            }
            y += row;
        }
    }
    svg.finish()
}

/// One line over the windows.
#[derive(Debug)]
pub(crate) struct WindowLine {
    pub(crate) label: String,
    /// Number of its colour and mark.
    pub(crate) position: usize,
    /// By window, in order; what wasn't measured is left out.
    pub(crate) values: Vec<Option<f64>>,
}

/// Draws lines over windows, which are equal steps apart, on a logarithmic axis in `unit`.
pub(crate) fn by_window(
    lines: &[WindowLine],
    windows: &[String],
    title: &str,
    unit: &str,
    width: f64,
) -> Markup {
    let narrow = is_narrow(width);
    let height = if narrow { 300.0 } else { 360.0 };
    let last = windows.len().saturating_sub(1) as f64;
    let frame = Frame {
        left: 66.0,
        right: before_names(lines.iter().map(|l| l.label.as_str()), width),
        top: 30.0,
        bottom: height - 44.0,
        x: Scale::Linear { low: -0.25, high: last + 0.25 },
        y: Scale::log_around(lines.iter().flat_map(|l| l.values.iter().flatten().copied())),
    };
    let mut svg = Svg::new(
        width,
        height,
        title,
        "Windows in rising order, equal steps apart; amounts on a logarithmic axis.",
    );
    frame.y_axis(&mut svg, 7, |v| tick(v, unit));
    svg.line("axis", (frame.left, frame.bottom), (frame.right, frame.bottom));
    for (i, window) in windows.iter().enumerate() {
        let x = frame.x(i as f64);
        svg.path("grid", &format!("M{} {}V{}", number(x), number(frame.top), number(frame.bottom)), "");
        svg.text("tick", (x, frame.bottom + 16.0), Anchor::Middle, window);
    }
    frame.names(&mut svg, "window", &format!("{unit} in 30 s"));
    let mut ends = Vec::new();
    for line in lines {
        let color = series(line.position);
        let place = |(i, v): (usize, &Option<f64>)| v.map(|v| (frame.x(i as f64), frame.y(v)));
        let points: Vec<(f64, f64)> = line.values.iter().enumerate().filter_map(place).collect();
        svg.path(&format!("{color} curve"), &polyline(points.iter().copied()), &line.label);
        for (i, value) in line.values.iter().enumerate().filter_map(|(i, v)| Some((i, (*v)?))) {
            let tip = format!("{}, window {}: {}", line.label, windows[i], tick(value, unit));
            let at = (frame.x(i as f64), frame.y(value));
            svg.mark(&format!("{color} mark"), line.position, at, 4.0, &tip);
        }
        let end = points.last().copied().unwrap_or((frame.left, frame.top));
        ends.push((line.position, line.label.as_str(), end));
    }
    if !narrow {
        frame.name_ends(&mut svg, &ends);
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::frame::width;

    #[test]
    fn a_long_label_has_room_before_the_lines() {
        let label = "native (path in TCG) over smallest";
        let row = Row { label: label.to_owned(), printed: false, marks: vec![(0, 1_000.0, String::new())] };
        let drawn = scenarios(&[("Measured here".to_owned(), vec![row])], "transfers", "MiB", 900.0);
        let end = format!("x=\"{}\"", number(width(label)));
        let its_text =
            drawn.into_string().split("<text").find(|text| text.contains(label)).map(str::to_owned);
        assert!(its_text.as_ref().is_some_and(|text| text.contains(&end)), "{end}: {its_text:?}");
    }
}
