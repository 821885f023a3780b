//! A course over the phases of a benchmark: extremes as a band, means as a line, a second axis.

use super::frame::{Frame, width as text_width};
use super::is_narrow;
use super::scale::Scale;
use super::shape::Bin;
use super::svg::{Anchor, Svg, Trace, number};
use crate::markup::Markup;

/// A phase in the strip above the course.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    /// Seconds.
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// `prepared`, `passed`, `failed`.
    pub(crate) class: &'static str,
    /// Its name where there is room.
    pub(crate) label: String,
}

/// One course with its axis.
#[derive(Debug)]
pub(crate) struct Track<'a> {
    /// Class of its colour.
    pub(crate) class: &'a str,
    pub(crate) name: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) scale: Scale,
    /// Columns of equal width; see [`columns`].
    pub(crate) bins: Vec<Option<Bin>>,
    /// Whether extremes are drawn.
    pub(crate) band: bool,
    /// Longest gap that the line bridges, in seconds.
    pub(crate) gap: f64,
}

/// What a picture over time shows.
#[derive(Debug)]
pub(crate) struct Timeline<'a> {
    pub(crate) title: &'a str,
    pub(crate) description: &'a str,
    /// Length of all phases.
    pub(crate) seconds: f64,
    pub(crate) zones: &'a [Zone],
    pub(crate) left: Track<'a>,
    pub(crate) right: Option<Track<'a>>,
    /// What was asked for, at the left axis: from, to, value.
    pub(crate) goal: &'a [(f64, f64, f64)],
    /// Whether the title stands in the picture.
    pub(crate) heading: bool,
}

/// Width of a small picture, which stands beside others.
pub(crate) const SMALL: f64 = 400.0;

/// How many columns a picture of that width has: three pixels each, and none without a second of its own.
pub(crate) fn columns(width: f64, seconds: f64) -> usize {
    ((width - 70.0) / 3.0).min(seconds.ceil()).max(1.0) as usize
}

impl Timeline<'_> {
    pub(crate) fn draw(&self, width: f64, height: f64) -> Markup {
        let top = if self.heading { 52.0 } else { 34.0 };
        let minutes = self.seconds > 300.0;
        let (length, unit) = if minutes { (self.seconds / 60.0, "min") } else { (self.seconds, "s") };
        let frame = Frame {
            left: 58.0,
            right: width - if self.right.is_some() { 52.0 } else { 12.0 },
            top,
            bottom: height - 22.0,
            x: Scale::Linear { low: 0.0, high: if length > 0.0 { length } else { 1.0 } },
            y: self.left.scale,
        };
        let mut svg = Svg::new(width, height, self.title, self.description);
        if self.heading {
            svg.text("heading", (0.0, 13.0), Anchor::Start, self.title);
        }
        frame.y_axis(&mut svg, 4, |v| value(v, self.left.unit));
        let count = if is_narrow(width) { 4 } else { 9 };
        frame.x_axis(&mut svg, count, |v| format!("{} {unit}", crate::format::tick(v, "").trim_end()));
        svg.text(&format!("{} axis-name", self.left.class), (0.0, top - 13.0), Anchor::Start, self.left.name);
        self.strip(&mut svg, &frame, length / self.seconds.max(1e-9));
        if let Some(right) = &self.right {
            let other = Frame { y: right.scale, ..frame };
            for tick in right.scale.ticks(4) {
                let at = (frame.right + 6.0, other.y(tick) + 4.0);
                svg.text("tick", at, Anchor::Start, &value(tick, right.unit));
            }
            let class = format!("{} axis-name", right.class);
            svg.text(&class, (width, top - 13.0), Anchor::End, right.name);
            course(&mut svg, &other, right, self.seconds);
        }
        course(&mut svg, &frame, &self.left, self.seconds);
        self.goal(&mut svg, &frame, length / self.seconds.max(1e-9));
        svg.finish()
    }

    fn goal(&self, svg: &mut Svg, frame: &Frame, factor: f64) {
        let mut path = String::new();
        for (from, to, value) in self.goal {
            let (a, b) = (number(frame.x(from * factor)), number(frame.x(to * factor)));
            path.push_str(&format!("M{a} {}H{b}", number(frame.y(*value))));
        }
        if !path.is_empty() {
            svg.path("goal", &path, "requested");
        }
    }

    /// The phases, green and red, above the course.
    fn strip(&self, svg: &mut Svg, frame: &Frame, factor: f64) {
        for class in ["prepared", "passed", "failed"] {
            let mut path = String::new();
            for zone in self.zones.iter().filter(|z| z.class == class) {
                let (a, b) = (frame.x(zone.from * factor), frame.x(zone.to * factor));
                let w = (b - a - 0.8).max(0.4);
                path.push_str(&format!(
                    "M{} {}h{}v5h-{}z",
                    number(a),
                    number(frame.top - 8.0),
                    number(w),
                    number(w)
                ));
            }
            if !path.is_empty() {
                svg.path(&format!("phase {class}"), &path, "");
            }
        }
        // The names of the axes stand at both ends of the same line.
        let from = text_width(self.left.name);
        for zone in self.zones.iter().filter(|_| frame.right - frame.left > 600.0) {
            let (a, b) = (frame.x(zone.from * factor).max(from), frame.x(zone.to * factor));
            if b - a > text_width(&zone.label) {
                let at = (f64::midpoint(a, b), frame.top - 12.0);
                svg.text("tick", at, Anchor::Middle, &zone.label);
            }
        }
    }
}

fn course(svg: &mut Svg, frame: &Frame, track: &Track<'_>, seconds: f64) {
    let n = track.bins.len().max(1) as f64;
    // Neighbouring columns always belong together.
    let bridge = (track.gap * n / seconds.max(1e-9)).max(1.0) as usize;
    let width = (frame.right - frame.left) / n;
    let x = |i: usize| frame.left + (i as f64 + 0.5) * width;
    let (mut band, mut line) = (Trace::new(), Trace::new());
    let mut last: Option<usize> = None;
    for (i, bin) in track.bins.iter().enumerate() {
        let Some(bin) = bin else { continue };
        if track.band && bin.high > bin.low {
            let (from, to) = (frame.y(bin.low), frame.y(bin.high));
            // Whole pixels are enough for what is only shaded.
            band.lift();
            band.to((x(i).round(), from.round()));
            band.to((x(i).round(), to.round().min(from.round() - 1.0)));
        }
        let joined = last.is_some_and(|l| i - l <= bridge);
        if !joined {
            line.lift();
        }
        line.to((x(i), frame.y(bin.mean)));
        if !joined {
            line.dot();
        }
        last = Some(i);
    }
    if !band.is_empty() {
        svg.path(&format!("{} extremes", track.class), &band.into_path(), "");
    }
    if !line.is_empty() {
        svg.path(&format!("{} firm", track.class), &line.into_path(), track.name);
    }
}

/// A value at an axis with its unit.
pub(crate) fn value(v: f64, unit: &str) -> String {
    use crate::format::tick;
    match unit {
        "ms" => tick(v * 1e6, "ns"),
        "%" if v == 0.0 => "0".to_owned(),
        "%" => tick(v / 100.0, "1"),
        "MiB" => tick(v * 1_048_576.0, "B"),
        "B" | "B/s" => tick(v, unit),
        _ => tick(v, "").trim_end().to_owned(),
    }
}
