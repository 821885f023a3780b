//! One quantity around a failover: median and range over repeated ones, laid over each other at the fault.

use crate::markup::Markup;
use crate::plot::frame::{Frame, spread};
use crate::plot::scale::Scale;
use crate::plot::svg::{Anchor, Svg, Trace, number};
use crate::plot::timeline::value;

/// Width of a picture; two stand beside each other.
pub(crate) const WIDTH: f64 = 430.0;
const HEIGHT: f64 = 216.0;
/// Columns without values that line and band pass over.
const BRIDGED: f64 = 2.0;
/// Distance of the numbers of two events, in pixels.
const EVENT_GAP: f64 = 15.0;

/// One column of the picture: what was seen at the same distance from the fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Column {
    /// Seconds since the fault, of its middle.
    pub(crate) at: f64,
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

/// Something that happened, with its usual distance from the fault.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// What the key calls it.
    pub(crate) number: usize,
    /// For people.
    pub(crate) name: &'static str,
    /// Seconds since the fault, median.
    pub(crate) at: f64,
}

/// What a picture shows.
#[derive(Debug)]
pub(crate) struct Failover<'a> {
    pub(crate) title: &'a str,
    /// What the vertical axis is.
    pub(crate) name: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) scale: Scale,
    /// Class of the colour.
    pub(crate) class: &'a str,
    /// Seconds since the fault: first and last shown.
    pub(crate) window: (f64, f64),
    /// Seconds since the fault: when nobody answered.
    pub(crate) outage: Option<(f64, f64)>,
    pub(crate) columns: &'a [Column],
    pub(crate) events: &'a [Event],
    /// Failovers laid over each other.
    pub(crate) count: usize,
}

impl Failover<'_> {
    pub(crate) fn draw(&self) -> Markup {
        let (from, to) = self.window;
        let frame = Frame {
            left: 58.0,
            right: WIDTH - 12.0,
            top: 58.0,
            bottom: HEIGHT - 36.0,
            x: Scale::Linear { low: from, high: if to > from { to } else { from + 1.0 } },
            y: self.scale,
        };
        let description = format!(
            "Line: median of {} failovers at the same distance from the fault; band: their range; shaded: nobody \
             answered.",
            self.count
        );
        let mut svg = Svg::new(WIDTH, HEIGHT, self.title, &description);
        svg.text("heading", (0.0, 13.0), Anchor::Start, self.title);
        svg.text("name", (0.0, 30.0), Anchor::Start, self.name);
        if let Some((begin, end)) = self.outage {
            let (a, b) = (frame.x(begin), frame.x(end));
            let tip = format!("no answer for {}, median", crate::format::duration((end - begin) * 1e9));
            let size = ((b - a).max(1.0), frame.bottom - frame.top);
            svg.rect("outage", (a, frame.top), size, &tip);
        }
        frame.y_axis(&mut svg, 4, |v| value(v, self.unit));
        let sign = |v: f64| if v < 0.0 { "−" } else { "" };
        frame
            .x_axis(&mut svg, 6, |v| format!("{}{} s", sign(v), crate::format::tick(v.abs(), "").trim_end()));
        svg.text("name", (frame.right, HEIGHT - 3.0), Anchor::End, "since the fault");
        self.course(&mut svg, &frame);
        self.events(&mut svg, &frame);
        svg.finish()
    }

    fn course(&self, svg: &mut Svg, frame: &Frame) {
        let at = |c: &Column, v: f64| (frame.x(c.at), frame.y(v));
        let known = |c: &&Column| c.median.is_finite() && c.low.is_finite() && c.high.is_finite();
        let columns: Vec<&Column> = self.columns.iter().filter(known).collect();
        let width = self.columns.get(1).zip(self.columns.first()).map_or(0.0, |(b, a)| b.at - a.at);
        let mut line = Trace::new();
        // A few columns without values are bridged: few messages don't mean none.
        for run in columns.chunk_by(|a, b| b.at - a.at < width * (1.5 + BRIDGED)) {
            let mut band = Trace::new();
            run.iter().for_each(|c| band.to(at(c, c.high)));
            run.iter().rev().for_each(|c| band.to(at(c, c.low)));
            svg.path(&format!("{} range", self.class), &format!("{}z", band.into_path()), "");
            line.lift();
            run.iter().for_each(|c| line.to(at(c, c.median)));
            if run.len() == 1 {
                line.dot();
            }
        }
        if !line.is_empty() {
            svg.path(&format!("{} firm", self.class), &line.into_path(), self.name);
        }
    }

    /// A dashed line for each event and its number above, moved aside where several are close.
    fn events(&self, svg: &mut Svg, frame: &Frame) {
        let shown: Vec<&Event> =
            self.events.iter().filter(|e| (self.window.0..=self.window.1).contains(&e.at)).collect();
        let mut places: Vec<f64> = shown.iter().map(|e| frame.x(e.at)).collect();
        spread(&mut places, EVENT_GAP, frame.left, frame.right);
        let y = frame.top - 15.0;
        for (event, place) in shown.iter().zip(places) {
            let x = frame.x(event.at);
            let path = format!(
                "M{} {}L{} {}V{}",
                number(place),
                number(y + 7.0),
                number(x),
                number(frame.top),
                number(frame.bottom)
            );
            svg.path("event", &path, "");
            let tip = format!("{}: {}", event.name, crate::format::duration(event.at * 1e9));
            svg.mark("event-mark", 0, (place, y), 6.5, &tip);
            svg.text("event-number", (place, y + 3.8), Anchor::Middle, &event.number.to_string());
        }
    }
}
