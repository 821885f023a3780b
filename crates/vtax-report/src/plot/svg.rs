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

/// A path through points; a point that isn't finite interrupts it.
pub(crate) fn polyline(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    let mut pen_down = false;
    for (x, y) in points {
        if !(x.is_finite() && y.is_finite()) {
            pen_down = false;
            continue;
        }
        path.push(if pen_down { 'L' } else { 'M' });
        path.push_str(&number(x));
        path.push(' ');
        path.push_str(&number(y));
        pen_down = true;
    }
    path
}
