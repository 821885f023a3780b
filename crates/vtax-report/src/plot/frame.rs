//! The box a picture is drawn in: scales, axes, grid.

use super::scale::Scale;
use super::svg::{Anchor, Svg, number};
use super::{is_narrow, series};

/// The box with its margins, in pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
}

impl Frame {
    pub(crate) fn x(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * self.x.at(value)
    }

    pub(crate) fn y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.at(value)
    }

    /// Vertical grid lines with their labels below; `label` words a value.
    pub(crate) fn x_axis(&self, svg: &mut Svg, count: usize, label: impl Fn(f64) -> String) {
        self.x_axis_at(svg, self.x.ticks(count), label);
    }

    /// Draws the horizontal axis with ticks at given values, ascending.
    pub(crate) fn x_axis_at(&self, svg: &mut Svg, ticks: Vec<f64>, label: impl Fn(f64) -> String) {
        svg.line("axis", (self.left, self.bottom), (self.right, self.bottom));
        let mut free = f64::NEG_INFINITY;
        let (top, bottom) = (number(self.top), number(self.bottom));
        let lines = ticks.iter().map(|t| format!("M{} {top}V{bottom}", number(self.x(*t))));
        svg.path("grid", &lines.collect::<String>(), "");
        for tick in ticks {
            let x = self.x(tick);
            let text = label(tick);
            // Labels that would run into each other are left out; the grid line stays.
            let half = width(&text) / 2.0;
            if x - half >= free {
                // At the very left a label starts at its line, clear of the y axis's labels.
                let first = x <= self.left;
                let anchor = if first { Anchor::Start } else { Anchor::Middle };
                svg.text("tick", (x, self.bottom + 16.0), anchor, &text);
                free = x + if first { 2.0 * half } else { half } + 6.0;
            }
        }
    }

    /// Horizontal grid lines with their labels at the left.
    pub(crate) fn y_axis(&self, svg: &mut Svg, count: usize, label: impl Fn(f64) -> String) {
        let ticks = self.y.ticks(count);
        let (left, right) = (number(self.left), number(self.right));
        let lines = ticks.iter().map(|t| format!("M{left} {}H{right}", number(self.y(*t))));
        svg.path("grid", &lines.collect::<String>(), "");
        for tick in ticks {
            let y = self.y(tick);
            svg.text("tick", (self.left - 6.0, y + 4.0), Anchor::End, &label(tick));
        }
    }

    /// Names of the axes: the y axis's above its labels, where it reads without turning the head.
    pub(crate) fn names(&self, svg: &mut Svg, x: &str, y: &str) {
        svg.text("name", (0.0, self.top - 10.0), Anchor::Start, y);
        svg.text("name", (self.right, self.bottom + 33.0), Anchor::End, x);
    }

    /// Writes the name of each series, given with its position, where its curve ends. A line leads to a name that had to be moved away.
    pub(crate) fn name_ends(&self, svg: &mut Svg, ends: &[(usize, &str, (f64, f64))]) {
        let mut heights: Vec<f64> = ends.iter().map(|(_, _, (_, y))| *y).collect();
        spread(&mut heights, 16.0, self.top, self.bottom);
        for (&(position, label, (x, y)), height) in ends.iter().zip(heights) {
            let color = series(position);
            if (height - y).abs() > 4.0 {
                svg.line(&format!("{color} leader"), (x + 5.0, y), (x + 12.0, height));
            }
            svg.text(&format!("{color} label"), (x + 14.0, height + 4.0), Anchor::Start, label);
        }
    }
}

/// About how wide a text is in the labels' size.
pub(crate) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.9
}

/// Pixels between a row's label and the frame.
pub(crate) const GAP: f64 = 14.0;

/// Where a frame begins whose rows have labels before them: `least`, or further right where one is longer, but not beyond two
/// fifths of the picture's width.
pub(crate) fn behind_labels<'a>(labels: impl Iterator<Item = &'a str>, least: f64, picture: f64) -> f64 {
    let longest = labels.map(width).fold(0.0, f64::max);
    (longest + GAP).clamp(least, (picture * 0.4).max(least))
}

/// Where a frame ends whose series have names behind their ends ([`Frame::name_ends`]), which phones have no room for.
pub(crate) fn before_names<'a>(names: impl Iterator<Item = &'a str>, picture: f64) -> f64 {
    if is_narrow(picture) {
        return picture - 12.0;
    }
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0) as f64;
    picture - longest * 7.2 - 25.0
}

/// Moves label positions apart to at least `gap`, keeping their order and within `low..high`: as little as is possible, by the
/// sum of squares.
pub(crate) fn spread(positions: &mut [f64], gap: f64, low: f64, high: f64) {
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by(|a, b| positions[*a].total_cmp(&positions[*b]));
    // Without the gaps between them they need only stay in order: neighbours that would not are taken together to their mean
    // (pool adjacent violators).
    let mut pools: Vec<(f64, f64)> = Vec::new();
    for (rank, &i) in order.iter().enumerate() {
        let (mut mean, mut members) = (positions[i] - rank as f64 * gap, 1.0);
        while let Some((before, many)) = pools.pop_if(|(before, _)| *before > mean) {
            mean = (before * many + mean * members) / (many + members);
            members += many;
        }
        pools.push((mean, members));
    }
    let highest = high - positions.len().saturating_sub(1) as f64 * gap;
    let places = pools.iter().flat_map(|(mean, members)| std::iter::repeat_n(*mean, *members as usize));
    for ((rank, &i), place) in order.iter().enumerate().zip(places) {
        positions[i] = place.max(low).min(highest) + rank as f64 * gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_makes_room_for_long_labels() {
        let at = |label: &str| behind_labels(["vm", label].into_iter(), 190.0, 900.0);
        assert_eq!(at("native"), 190.0);
        assert_eq!(at("native (path in TCG) over backdoor-only"), 39.0 * 6.9 + GAP);
        assert_eq!(at(&"x".repeat(200)), 360.0, "the picture has room too");
    }

    #[test]
    fn labels_keep_their_distance() {
        let mut at = [50.0, 49.0, 51.0, 98.0];
        spread(&mut at, 10.0, 0.0, 100.0);
        assert_eq!(at, [50.0, 40.0, 60.0, 98.0]);
        let mut at = [0.0, 3.0, 50.0];
        spread(&mut at, 10.0, 0.0, 100.0);
        assert_eq!(at, [0.0, 10.0, 50.0]);
        let mut at = [99.0, 100.0];
        spread(&mut at, 10.0, 0.0, 100.0);
        assert_eq!(at, [90.0, 100.0]);
    }
}
