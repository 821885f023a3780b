//! CPU time per GiB by layer, on both ends.

use vtax_store::record::{CpuBreakdown, Layer, Observation, Validity};
use vtax_units::Bytes;

use super::sweep::{Environment, Point, Sweep, several};
use crate::context::Context;
use crate::format::duration;
use crate::general::cpu::keep_what_shows;
use crate::general::trial::{LAYERS, layer_label};
use crate::html::parts::{details, figure};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::plot::responsive;
use crate::plot::stack::{Bar, Per, layer_class, stack};

const GIB: f64 = (1_u64 << 30) as f64;

/// A picture for each operation, of its largest file in its smallest records, and a table of all.
pub(super) fn section(context: &Context, sweeps: &[Sweep<'_>]) -> Markup {
    let mut m = Markup::new();
    for sweep in sweeps {
        for operation in sweep.operations() {
            let (size, record) = (sweep.sizes().last().copied(), sweep.records().first().copied());
            let point = size.zip(record).and_then(|(size, record)| sweep.at(operation, size, record));
            m.add(&point.map(|point| picture(context, sweep, point)).unwrap_or_default());
        }
    }
    let table = table(context, sweeps);
    if !table.is_empty() {
        m.add(&details("All tests as a table", &table));
    }
    m
}

fn picture(context: &Context, sweep: &Sweep<'_>, point: &Point<'_>) -> Markup {
    let mut bars = Vec::new();
    for environment in &sweep.environments {
        for (end, of) in ENDS {
            let layers = layers(context, environment, point, of);
            if !layers.is_empty() {
                bars.push(Bar { label: format!("{}{end}", environment.label), layers });
            }
        }
    }
    if bars.is_empty() {
        return Markup::new();
    }
    keep_what_shows(&mut bars);
    let shape = &point.test.shape;
    let caption = sweep.titled(&format!(
        "CPU time per GiB by layer: {}, files of {}, records of {}",
        point.test.operation.word(),
        Bytes(shape.file.0),
        Bytes(shape.record.0)
    ));
    let keys: Vec<_> = LAYERS
        .iter()
        .filter(|(layer, _)| bars.iter().any(|b| b.layers.iter().any(|l| l.0 == *layer)))
        .map(|(layer, _)| (layer_class(*layer), layer_label(*layer).to_owned()))
        .collect();
    figure(&caption, &keys, &responsive(|width| stack(&bars, false, &caption, Per::GIB, width)))
}

/// One end of a load.
type End = fn(&Observation) -> Option<&CpuBreakdown>;

/// Both ends, with what their names are followed by: the system under test, and the client where the load came from there.
const ENDS: [(&str, End); 2] =
    [("", |o| o.cpu.as_ref()), (", client", |o| o.storage().and_then(|found| found.client.as_ref()))];

/// Nanoseconds of CPU time per GiB by layer: means over the trials that count, which add up.
fn layers(
    context: &Context,
    environment: &Environment<'_>,
    point: &Point<'_>,
    end: End,
) -> Vec<(Layer, f64)> {
    let trials = context.data.trials.iter().filter(|t| t.measure == point.of_measure());
    let trials = trials.filter(|t| t.cell == environment.cell.id && t.validity == Validity::Valid);
    let counts = |o: &&Observation| o.name == point.test.name && o.validity == Validity::Valid;
    let found: Vec<&CpuBreakdown> = trials
        .flat_map(|trial| trial.observations.iter().filter(counts))
        .filter_map(end)
        .filter(|cpu| cpu.requests > 0)
        .collect();
    let of = |layer: Layer| {
        let per_byte = found.iter().map(|cpu| cpu.time(layer).0 as f64 / cpu.requests as f64);
        per_byte.sum::<f64>() / found.len() as f64 * GIB
    };
    let all = LAYERS.iter().map(|(layer, _)| (*layer, of(*layer)));
    all.filter(|(_, time)| time.is_finite() && *time > 0.0).collect()
}

fn table(context: &Context, sweeps: &[Sweep<'_>]) -> Markup {
    let several = several(&context.data.plan);
    let mut rows: Vec<Bar> = sweeps
        .iter()
        .flat_map(|sweep| sweep.points.iter().flat_map(|p| sweep.environments.iter().map(move |e| (p, e))))
        .flat_map(|(point, environment)| {
            ENDS.map(|(end, of)| {
                let label = format!("{}, {}{end}", point.title(several), environment.label);
                Bar { label, layers: layers(context, environment, point, of) }
            })
        })
        .filter(|row| !row.layers.is_empty())
        .collect();
    keep_what_shows(&mut rows);
    let used: Vec<Layer> = LAYERS
        .iter()
        .map(|(layer, _)| *layer)
        .filter(|layer| rows.iter().any(|row| row.layers.iter().any(|l| l.0 == *layer)))
        .collect();
    if rows.is_empty() {
        return Markup::new();
    }
    let mut columns = vec![("Test, side", false)];
    columns.extend(used.iter().map(|layer| (layer_label(*layer), true)));
    columns.push(("Sum", true));
    let mut table = PlainTable::new("every", &columns);
    for row in &rows {
        let time = |layer: &Layer| row.layers.iter().find(|l| l.0 == *layer).map_or(0.0, |l| l.1);
        let cells = used.iter().map(time).chain([row.total()]);
        table.push(&row.label, cells.map(|time| if time > 0.0 { duration(time) } else { String::new() }));
    }
    table.finish()
}
