//! CPU time per request by layer.

use vtax_plan::model::MeasureKind;
use vtax_store::record::{TrialRecord, Validity};
use vtax_store::summary::Summary;

use super::trial::{LAYERS, layer_label};
use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::{Group, RunData};
use crate::format::quantity;
use crate::html::parts::{details, figure, titled};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::plot::responsive;
use crate::plot::stack::{Bar, Part, Per, layer_class, stack};

/// The chapter about where CPU time goes.
#[derive(Debug)]
pub(crate) struct Cpu;

impl Chapter for Cpu {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        let body = section(&context.data, &context.summary);
        page.put(Rank::Pictures, "cpu", "Where the tax is paid", body);
        page
    }
}

fn section(data: &RunData, summary: &Summary) -> Markup {
    let mut m = Markup::new();
    for group in data.groups() {
        // The measure at a given load: at the limit, time per request says little.
        let measured = |measure: &str| bars(data, summary, &group, measure);
        let kinds = data.plan.measures.iter();
        let first = |latency: bool| {
            kinds
                .clone()
                .filter(|k| matches!(k.kind, MeasureKind::Latency(_)) == latency)
                .map(|k| (k.name.clone(), measured(&k.name)))
                .find(|(_, bars)| !bars.is_empty())
        };
        let Some((measure, bars)) = first(true).or_else(|| first(false)) else { continue };
        let caption = titled(
            &format!(
                "Mean CPU time per request by layer, over trials, {measure}; from the service outwards to the host"
            ),
            &group.label,
        );
        let keys: Vec<_> = LAYERS
            .iter()
            .filter(|(layer, _)| bars.iter().any(|b| b.layers.iter().any(|l| l.0 == *layer)))
            .map(|(layer, _)| (layer_class(*layer), layer_label(*layer).to_owned()))
            .collect();
        let mut pictures = responsive(|w| stack(&bars, false, &caption, Per::REQUEST, w));
        pictures.add(&responsive(|w| stack(&bars, true, "The same as shares", Per::REQUEST, w)));
        m.add(&figure(&caption, &keys, &pictures)).add(&layer_table(&bars));
        m.add(&accounting_notes(data, &group, &measure));
    }
    m
}

/// What the accounting could not know, trial by trial.
fn accounting_notes(data: &RunData, group: &Group<'_>, measure: &str) -> Markup {
    let mut m = Markup::new();
    let own = |t: &&TrialRecord| t.measure == measure && group.cells.iter().any(|c| c.id == t.cell);
    let valid = data.trials.iter().filter(own).filter(|t| t.validity == Validity::Valid);
    for trial in valid {
        for note in trial.cpu().iter().flat_map(|c| &c.notes) {
            m.element("li", &[], &format!("trial {:03}, {}: {note}", trial.index, trial.cell));
        }
    }
    let mut all = Markup::new();
    if !m.is_empty() {
        all.open("details", &[]).element("summary", &[], "What the accounting could not know");
        all.open("ul", &[("class", "small-print")]).add(&m).close("ul").close("details");
    }
    all
}

/// The least share of a bar that can be seen and is told.
const LEAST: f64 = 0.001;

/// Takes parts out that are less than [`LEAST`] in every bar: what rounding leaves over is no layer.
pub(crate) fn keep_what_shows<P: Part + PartialEq>(bars: &mut [Bar<P>]) {
    let mut kept: Vec<P> = Vec::new();
    for bar in bars.iter() {
        let least = LEAST * bar.total();
        let shows = bar.layers.iter().filter(|(_, time)| *time > 0.0 && *time >= least);
        kept.extend(shows.map(|(part, _)| *part));
    }
    for bar in bars {
        bar.layers.retain(|(part, _)| kept.contains(part));
    }
}

fn bars(data: &RunData, summary: &Summary, group: &Group<'_>, measure: &str) -> Vec<Bar> {
    let mut bars = Vec::new();
    for cell in &group.cells {
        let Some(found) = summary.cells.iter().find(|c| c.cell == cell.id && c.measure == measure) else {
            continue;
        };
        let layers: Vec<_> = LAYERS
            .iter()
            .filter_map(|(layer, metric)| Some((*layer, found.metrics.get(*metric)?.mean)))
            .filter(|(_, time)| *time > 0.0)
            .collect();
        if !layers.is_empty() {
            bars.push(Bar { label: data.environment_label(cell), layers });
        }
    }
    keep_what_shows(&mut bars);
    bars
}

fn layer_table(bars: &[Bar]) -> Markup {
    let mut columns = vec![("Layer", false)];
    columns.extend(bars.iter().map(|b| (b.label.as_str(), true)));
    let mut table = PlainTable::new("", &columns);
    for (layer, _) in LAYERS {
        let of = |b: &Bar| b.layers.iter().find(|l| l.0 == layer).map(|l| l.1);
        if bars.iter().all(|b| of(b).is_none()) {
            continue;
        }
        let times = bars.iter().map(|bar| of(bar).map_or_else(String::new, |v| quantity(v, "ns")));
        table.push(layer_label(layer), times);
    }
    table.push("sum", bars.iter().map(|bar| quantity(bar.total(), "ns")));
    details("As a table", &table.finish())
}

#[cfg(test)]
mod tests {
    use vtax_store::record::Layer;

    use super::*;

    /// 0.2 ns of rounding had an entry in the key and a row in the table.
    #[test]
    fn what_rounding_leaves_over_is_no_layer() {
        let bar = |layers: &[(Layer, f64)]| Bar { label: String::new(), layers: layers.to_vec() };
        let (service, rest, io) = (Layer::ServiceUser, Layer::GuestOther, Layer::HypervisorIo);
        let mut bars = [
            bar(&[(service, 600_000.0), (rest, 0.238), (io, 0.0)]),
            bar(&[(service, 500_000.0), (rest, 0.1), (io, 500.6)]),
        ];
        keep_what_shows(&mut bars);
        assert_eq!(bars[0].layers, [(service, 600_000.0), (io, 0.0)]);
        // What shows in one bar stays in all.
        assert_eq!(bars[1].layers, [(service, 500_000.0), (io, 500.6)]);
    }
}
