//! The few SVG elements pictures are made of.

use crate::markup::{Attributes, Markup};

/// An SVG picture being drawn.
#[derive(Debug)]
pub(crate) struct Svg {
    markup: Markup,
}

/// Where a text's position is in it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Anchor {
    /// At its start.
    Start,
    /// In its middle.
    Middle,
    /// At its end.
    End,
}

impl Svg {
    /// `title` names the picture for those who can't see it, `description` says what it shows.
    pub(crate) fn new(width: f64, height: f64, title: &str, description: &str) -> Self {
        let mut markup = Markup::new();
        let view = format!("0 0 {} {}", number(width), number(height));
        markup
            .open(
                "svg",
                &[
                    ("viewBox", &view),
                    ("width", &number(width)),
                    ("height", &number(height)),
                    ("role", "img"),
                    ("aria-label", title),
                ],
            )
            .element("title", &[], title)
            .element("desc", &[], description);
        Self { markup }
    }

    pub(crate) fn finish(mut self) -> Markup {
        self.markup.close("svg");
        self.markup
    }

    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.shape(
            "line",
            &[
                ("class", class),
                ("x1", &number(x1)),
                ("y1", &number(y1)),
                ("x2", &number(x2)),
                ("y2", &number(y2)),
            ],
            "",
        );
    }

    /// A rectangle; `tip` is shown on pointing at it, where not empty.
    pub(crate) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), tip: &str) {
        self.shape(
            "rect",
            &[
                ("class", class),
                ("x", &number(x)),
                ("y", &number(y)),
                ("width", &number(width.max(0.0))),
                ("height", &number(height.max(0.0))),
            ],
            tip,
        );
    }

    pub(crate) fn path(&mut self, class: &str, path: &str, tip: &str) {
        self.shape("path", &[("class", class), ("d", path)], tip);
    }

    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.markup.element(
            "text",
            &[("class", class), ("x", &number(x)), ("y", &number(y)), ("text-anchor", anchor)],
            text,
        );
    }

    /// The mark of a series: a shape of its own besides its colour.
    pub(crate) fn mark(&mut self, class: &str, shape: usize, (x, y): (f64, f64), size: f64, tip: &str) {
        let r = size;
        let n = number;
        let path = match shape % 4 {
            0 => format!(
                "M{} {}a{r} {r} 0 1 0 {} 0a{r} {r} 0 1 0 {} 0Z",
                n(x - r),
                n(y),
                n(2.0 * r),
                n(-2.0 * r),
                r = n(r)
            ),
            1 => format!("M{} {}h{s}v{s}h-{s}Z", n(x - r * 0.88), n(y - r * 0.88), s = n(r * 1.76)),
            2 => format!(
                "M{x} {}L{} {y}L{x} {}L{} {y}Z",
                n(y - r * 1.3),
                n(x + r * 1.3),
                n(y + r * 1.3),
                n(x - r * 1.3),
                x = n(x),
                y = n(y)
            ),
            _ => format!(
                "M{} {}L{} {}L{} {}Z",
                n(x),
                n(y - r * 1.2),
                n(x + r * 1.2),
                n(y + r),
                n(x - r * 1.2),
                n(y + r)
            ),
        };
        self.path(class, &path, tip);
    }

    fn shape(&mut self, tag: &'static str, attributes: Attributes<'_>, tip: &str) {
        if tip.is_empty() {
            self.markup.empty(tag, attributes);
        } else {
            self.markup.open(tag, attributes).element("title", &[], tip).close(tag);
        }
    }
}

/// A coordinate: a tenth of a pixel is enough.
pub(crate) fn number(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // Adding zero turns -0 into 0.
    format!("{}", rounded + 0.0)
}

/// A path in steps of a tenth of a pixel, each relative to the one before: less than half as long as one of
/// absolute places. A point that isn't finite interrupts it.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    path: String,
    /// Where the pen is, in tenths of a pixel.
    at: (i64, i64),
    drawing: bool,
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The next point: from here on a line leads to it, unless it is the first or follows a break.
    pub(crate) fn to(&mut self, (x, y): (f64, f64)) {
        if !(x.is_finite() && y.is_finite()) {
            self.lift();
            return;
        }
        let target = ((x * 10.0).round() as i64, (y * 10.0).round() as i64);
        let (dx, dy) = (target.0 - self.at.0, target.1 - self.at.1);
        match (self.drawing, dx, dy) {
            (true, 0, 0) => return,
            (true, _, 0) => self.step('h', &[dx]),
            (true, 0, _) => self.step('v', &[dy]),
            (true, ..) => self.step('l', &[dx, dy]),
            (false, ..) if self.path.is_empty() => self.step('M', &[dx, dy]),
            (false, ..) => self.step('m', &[dx, dy]),
        }
        (self.at, self.drawing) = (target, true);
    }

    /// A dot where the pen is, for a point without neighbours.
    pub(crate) fn dot(&mut self) {
        self.step('h', &[0]);
    }

    /// The next point is reached without a line.
    pub(crate) fn lift(&mut self) {
        self.drawing = false;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.path.is_empty()
    }

    pub(crate) fn into_path(self) -> String {
        self.path
    }

    fn step(&mut self, command: char, tenths: &[i64]) {
        self.path.push(command);
        for (i, n) in tenths.iter().enumerate() {
            // A minus sign separates numbers by itself.
            if i > 0 && *n >= 0 {
                self.path.push(' ');
            }
            if *n < 0 {
                self.path.push('-');
            }
            let (whole, part) = (n.unsigned_abs() / 10, n.unsigned_abs() % 10);
            match (whole, part) {
                (w, 0) => self.path.push_str(&w.to_string()),
                (0, p) => self.path.push_str(&format!(".{p}")),
                (w, p) => self.path.push_str(&format!("{w}.{p}")),
            }
        }
    }
}

/// A path through points; a point that isn't finite interrupts it.
pub(crate) fn polyline(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut trace = Trace::new();
    points.into_iter().for_each(|p| trace.to(p));
    trace.into_path()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn steps_are_short() {
        let path = polyline([
            (10.0, 20.0),
            (13.0, 19.7),
            (13.0, 25.0),
            (f64::NAN, 0.0),
            (20.04, 25.0),
            (20.0, 25.0),
        ]);
        assert_eq!(path, "M10 20l3-.3v5.3m7 0");
    }

    proptest! {
        /// Rounding doesn't add up: every point is where it would be on its own.
        #[test]
        fn a_trace_ends_where_it_should(points in proptest::collection::vec((-500.0..500.0f64, -500.0..500.0f64), 1..80)) {
            let mut trace = Trace::new();
            points.iter().for_each(|p| trace.to(*p));
            let last = points[points.len() - 1];
            prop_assert!((trace.at.0 as f64 / 10.0 - last.0).abs() <= 0.0501);
            prop_assert!((trace.at.1 as f64 / 10.0 - last.1).abs() <= 0.0501);
        }
    }
}
