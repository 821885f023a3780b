//! What was to be compared and has no row, as neither side has a figure of it.

use vtax_plan::model::{Cell, MeasureKind, NetworkTestKind};

use super::runs::Runs;
use super::{ALL_METRICS, Options, Row, is_among, is_asked_for};
use crate::data::RunData;
use crate::families::metrics;
use crate::fates::TrialFates;
use crate::general::trial::PERCENTILES;
use crate::metric::{Info, LIFECYCLE, parts_of_measure};
use crate::rows::leads;

/// What was to be compared and can't be.
#[derive(Debug)]
pub(super) struct Missing {
    /// The gate can't tell it: it was asked for by name, or no trial that would tell it counts.
    pub(super) gated: bool,
    /// What is missing and why.
    pub(super) text: String,
}

/// All of it: metrics, environments of a metric, measures.
pub(super) fn missing(a: Runs<'_>, b: Runs<'_>, rows: &[Row], options: &Options) -> Vec<Missing> {
    let (mut missing, told) = in_all_cells(a, b, rows, options);
    missing.extend(in_some_cells(a, b, rows, options));
    missing.extend(measures(a, b, rows, options, &told));
    missing
}

fn is_named(options: &Options, info: &Info) -> bool {
    options.metrics.iter().any(|name| name == info.name)
}

/// Of `all` only what a first table would lack: few runs have a percentile of one in a thousand.
fn looked_for(options: &Options) -> impl Iterator<Item = &'static Info> {
    metrics().filter(move |m| is_among(&options.metrics, m) && (is_named(options, m) || m.primary))
}

fn all_data<'a>(a: Runs<'a>, b: Runs<'a>) -> impl Iterator<Item = &'a RunData> {
    a.all().chain(b.all()).map(|run| &run.context.data)
}

/// What was asked for by name and what first tables lack, with the reason where there is one; and the metrics asked for by name that no
/// trial gave.
fn in_all_cells(
    a: Runs<'_>,
    b: Runs<'_>,
    rows: &[Row],
    options: &Options,
) -> (Vec<Missing>, Vec<&'static str>) {
    let (mut missing, mut told) = (Vec::new(), Vec::new());
    for info in looked_for(options) {
        let named = is_named(options, info);
        let of_metric = || rows.iter().map(|r| &r.comparison).filter(|c| c.metric == info.name);
        let nowhere = of_metric().next().is_none();
        // What another measure found is no substitute for what the first table lacks.
        let lacks = |data: &RunData, measure: &str| match nowhere {
            true => is_asked_for(&options.metrics, data, measure, info),
            false => leads(data, measure, info.name) && of_metric().all(|c| c.measure != measure),
        };
        let why = all_data(a, b).find_map(|data| {
            let measures = data.measures().filter(|m| lacks(data, m));
            let mut pairs = measures.flat_map(|m| data.plan.cells.iter().map(move |c| (m, c)));
            pairs.find_map(|(m, cell)| Some((m, data.too_few(&cell.id, m, info.name)?)))
        });
        let text = match why {
            Some((_, why)) if nowhere => format!("is in neither run: {why}"),
            Some((measure, why)) => format!("of the measure {measure} is in neither run: {why}"),
            None if nowhere && named => {
                told.push(info.name);
                "is in neither run: no valid trial gave a figure".to_owned()
            }
            None => continue,
        };
        missing.push(Missing { gated: named, text: format!("{} ({}) {text}.", info.label, info.name) });
    }
    (missing, told)
}

/// What other cells have of a measure and one has in neither run: without a row, nothing would tell that a change broke it, or that
/// it has been broken all along.
fn in_some_cells(a: Runs<'_>, b: Runs<'_>, rows: &[Row], options: &Options) -> Vec<Missing> {
    let (of_a, of_b) = (a.data(), b.data());
    let mut missing = Vec::new();
    for info in looked_for(options) {
        for measure in of_a.measures().filter(|m| is_asked_for(&options.metrics, of_a, m, info)) {
            let own = rows.iter().map(|r| &r.comparison);
            let own = own.filter(|c| c.metric == info.name && c.measure == measure);
            let with: Vec<&Cell> = own.filter_map(|c| of_a.cell(&c.cell)).collect();
            if with.is_empty() {
                continue;
            }
            let is_without = |c: &&Cell| with.iter().all(|other| other.id != c.id);
            let common = of_a.plan.cells.iter().filter(|c| of_b.cell(&c.id).is_some());
            for cell in common.filter(is_without).filter(|c| is_measured(of_a, c, measure)) {
                // Another load may have no such figure at all.
                let usual = with.iter().any(|c| c.workload == cell.workload);
                let Some((gated, why)) = why_not(a, b, (cell, measure, info), options, usual) else {
                    continue;
                };
                let (label, name, cell) = (info.label, info.name, &cell.id);
                let text = format!("{label} ({name}) of {cell} ({measure}) is in neither run: {why}.");
                missing.push(Missing { gated, text });
            }
        }
    }
    missing
}

/// Whether the plan has trials of a measure in a cell, and the cell's workload the test that the measure is. Every trial tells of the
/// lifecycle.
pub(super) fn is_measured(data: &RunData, cell: &Cell, measure: &str) -> bool {
    let (of, test) = parts_of_measure(measure);
    let workload = cell.workload.model();
    let has = |test: &str| {
        workload.tests().iter().any(|t| t.name == test)
            || workload.storage_tests().iter().any(|t| t.name == test)
    };
    let mut measures = data.plan.measures.iter();
    test.is_none_or(has)
        && measures.any(|m| (of == LIFECYCLE || m.name == of) && data.plan.is_measured(cell, m))
}

/// Why a cell has no figure of a metric in either run, and whether the gate can't tell it then. `None` where trials that count need have
/// none; `usual` where it was to be expected of them.
fn why_not(
    a: Runs<'_>,
    b: Runs<'_>,
    (cell, measure, info): (&Cell, &str, &Info),
    options: &Options,
    usual: bool,
) -> Option<(bool, String)> {
    if let Some(why) = all_data(a, b).find_map(|data| data.too_few(&cell.id, measure, info.name)) {
        return Some((is_named(options, info), why));
    }
    let fates = TrialFates::of(all_data(a, b), &cell.id, measure);
    if fates.counting > 0 {
        return usual.then(|| (is_named(options, info), "no valid trial gave a figure".to_owned()));
    }
    let left_out = all_data(a, b).find_map(|data| data.left_out(&cell.id));
    let why = left_out.map(|reason| format!("left out: {}", reason.trim_end_matches('.')));
    Some((true, why.unwrap_or_else(|| fates.why_none().to_owned())))
}

/// Measures of which no trial counts in either run, in any environment. What is asked for by name is told by its name:
/// `by_name` are the metrics that were.
fn measures(a: Runs<'_>, b: Runs<'_>, rows: &[Row], options: &Options, by_name: &[&str]) -> Vec<Missing> {
    let (of_a, of_b) = (a.data(), b.data());
    if !options.metrics.is_empty() && options.metrics.iter().all(|name| name != ALL_METRICS) {
        return Vec::new();
    }
    let has_row = |measure: &str| rows.iter().any(|row| row.comparison.measure == measure);
    let is_asked = |measure: &str| metrics().any(|m| is_asked_for(&options.metrics, of_a, measure, m));
    // A first table has no figure of such a test.
    let is_beside = |measure: &str| options.metrics.is_empty() && is_udp(of_a, measure);
    // `None` where one of its trials counts.
    let why = |measure: &str| {
        let cells = of_a.plan.cells.iter().filter(|c| is_measured(of_a, c, measure));
        let fates: Vec<TrialFates> =
            cells.map(|cell| TrialFates::of(all_data(a, b), &cell.id, measure)).collect();
        let of_made = fates.iter().find(|f| f.made > 0).copied().unwrap_or_default();
        fates.iter().all(|f| f.counting == 0).then(|| of_made.why_none())
    };
    let is_told = |measure: &str| by_name.iter().any(|metric| is_about(of_a, measure, metric));
    let common = of_a.measures().filter(|m| *m != LIFECYCLE && of_b.measures().any(|n| n == *m));
    let lost = common.filter(|m| is_asked(m) && !is_beside(m) && !has_row(m) && !is_told(m));
    let told = lost.filter_map(|measure| Some(format!("{measure} is in neither run: {}.", why(measure)?)));
    told.map(|text| Missing { gated: true, text }).collect()
}

/// Whether a metric is what a measure is made for, so that the lack of one is that of the other. A test of a path or of storage has
/// several.
fn is_about(data: &RunData, measure: &str, metric: &str) -> bool {
    let kind = data.plan.measures.iter().find(|m| m.name == measure).map(|m| &m.kind);
    match kind {
        Some(MeasureKind::Capacity(_) | MeasureKind::Throughput(_) | MeasureKind::Ims(_)) => {
            leads(data, measure, metric)
        }
        Some(MeasureKind::Latency(_)) => PERCENTILES.iter().any(|(name, _)| *name == metric),
        _ => false,
    }
}

/// Whether a measure is a test by UDP.
fn is_udp(data: &RunData, measure: &str) -> bool {
    let test = parts_of_measure(measure).1;
    let mut tests = data.plan.cells.iter().flat_map(|cell| cell.workload.model().tests());
    tests.any(|t| test == Some(t.name.as_str()) && matches!(t.kind, NetworkTestKind::Udp(_)))
}
