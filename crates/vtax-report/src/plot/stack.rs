//! Times stacked by their parts: CPU time per request or per byte by the layer it is spent in, time of a transfer by its phases.

use vtax_store::record::Layer;

use super::frame::{Frame, GAP, behind_labels, width as text_width};
use super::is_narrow;
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use crate::format::{quantity, tick};
use crate::general::trial::layer_label;
use crate::markup::Markup;

/// What a bar is stacked of.
pub(crate) trait Part: Copy {
    /// The class that gives it its colour.
    fn class(self) -> &'static str;

    /// Words for it.
    fn label(self) -> &'static str;
}

impl Part for Layer {
    fn class(self) -> &'static str {
        layer_class(self)
    }

    fn label(self) -> &'static str {
        layer_label(self)
    }
}

/// One environment's bar.
#[derive(Debug)]
pub(crate) struct Bar<P = Layer> {
    /// Name of the environment.
    pub(crate) label: String,
    /// Nanoseconds by part; layers have the innermost first.
    pub(crate) layers: Vec<(P, f64)>,
}

impl<P> Bar<P> {
    pub(crate) fn total(&self) -> f64 {
        self.layers.iter().map(|l| l.1).sum()
    }
}

/// What time is told of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Per {
    /// Name of the axis.
    pub(crate) name: &'static str,
    /// Unit of a part.
    pub(crate) unit: &'static str,
}

impl Per {
    /// CPU time per request.
    pub(crate) const REQUEST: Self = Self { name: "CPU time per request", unit: "ns/req" };
    /// CPU time per GiB that was read or written.
    pub(crate) const GIB: Self = Self { name: "CPU time per GiB", unit: "ns" };
    /// Time of a transfer or a login.
    pub(crate) const PHASES: Self = Self { name: "mean time", unit: "ns" };
}

const ROW: f64 = 30.0;

/// The class that gives a layer its colour.
pub(crate) fn layer_class(layer: Layer) -> &'static str {
    match layer {
        Layer::ServiceUser => "l0",
        Layer::ServiceSystem => "l1",
        Layer::ServiceInterrupts => "l2",
        Layer::GuestOther => "l3",
        Layer::Vcpu => "l4",
        Layer::HypervisorIo => "l5",
        Layer::Supervisor => "l6",
        Layer::HostInterrupts => "l7",
    }
}

/// Draws bars to one scale, or with `shares` each as parts of its own whole.
pub(crate) fn stack<P: Part>(bars: &[Bar<P>], shares: bool, title: &str, per: Per, width: f64) -> Markup {
    let narrow = is_narrow(width);
    // On a phone the label stands above its bar.
    let row = if narrow { 1.7 * ROW } else { ROW };
    let height = 4.0 + bars.len() as f64 * row + 40.0;
    let longest = bars.iter().map(Bar::total).fold(0.0, f64::max);
    let x = if shares { Scale::Linear { low: 0.0, high: 1.0 } } else { Scale::from_zero(longest) };
    let frame = Frame {
        left: if narrow { 2.0 } else { behind_labels(bars.iter().map(|b| b.label.as_str()), 110.0, width) },
        right: width - if narrow { 14.0 } else { 110.0 },
        top: 4.0,
        bottom: height - 40.0,
        x,
        y: Scale::Linear { low: 0.0, high: 1.0 },
    };
    let what = if shares { "Shares of each environment's own CPU time." } else { "All bars to one scale." };
    let mut svg = Svg::new(width, height, title, what);
    frame.x_axis(&mut svg, if narrow { 4 } else { 6 }, |v| tick(v, if shares { "1" } else { "ns" }));
    let name = if shares { "share of CPU time" } else { per.name };
    svg.text("name", (frame.right, height - 5.0), Anchor::End, name);
    for (i, bar) in bars.iter().enumerate() {
        let top = frame.top + i as f64 * row;
        let (y, middle) = if narrow { (top + 20.0, top + 14.0) } else { (top + 5.0, top + ROW / 2.0 + 4.0) };
        let total = bar.total();
        let value = quantity(total, "ns");
        if narrow {
            svg.text("label", (frame.left, middle), Anchor::Start, &bar.label);
            svg.text("value", (frame.right, middle), Anchor::End, &value);
        } else {
            svg.text("label", (frame.left - GAP, middle), Anchor::End, &bar.label);
        }
        let mut from = 0.0;
        for (layer, time) in &bar.layers {
            let unit = if shares { total } else { 1.0 };
            let (a, b) = (frame.x(from / unit), frame.x((from + time) / unit));
            from += time;
            let share = quantity(time / total, "1");
            let tip = format!("{}, {}: {}, {share}", bar.label, layer.label(), quantity(*time, per.unit));
            // A thin gap tells neighbours apart without their colours.
            svg.rect(&format!("layer {}", layer.class()), (a, y), ((b - a - 1.0).max(0.4), ROW - 10.0), &tip);
            let text = if shares { format!("{:.0} %", time / total * 100.0) } else { quantity(*time, "ns") };
            if !narrow && b - a > text_width(&text) + 8.0 {
                let class = format!("inside {}", layer.class());
                svg.text(&class, (f64::midpoint(a, b), middle), Anchor::Middle, &text);
            }
        }
        if !narrow && !shares {
            svg.text("value", (frame.x(total) + 8.0, middle), Anchor::Start, &value);
        }
    }
    svg.finish()
}
