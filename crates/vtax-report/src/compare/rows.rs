//! Comparisons of two runs, metric by metric.

use vtax_plan::model::{MeasureKind, Plan, Repeat};
use vtax_store::summary::{Comparison, Doubt};
use vtax_units::Share;

use super::runs::Runs;
use super::{GateVerdict, Options, Row, is_asked_for};
use crate::data::OneSide;
use crate::families::{metrics, unit_of_load};
use crate::fates::TrialFates;
use crate::format::quantity;
use crate::judged::{PendingComparison, above_limit, close, compared};
use crate::metric::Info;

/// Loads further apart than this make latencies incomparable: near half of capacity, 5 % more load
/// already moves a queue's delay by about as much.
const LOAD_TOLERANCE: f64 = 0.05;

/// One row per cell, measure and chosen metric that both plans have and at least one run measured. They are
/// read together, so they are judged as one family.
pub(super) fn rows(a: Runs<'_>, b: Runs<'_>, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut family = Vec::new();
    let (of_a, of_b) = (a.data(), b.data());
    let measures: Vec<&str> = of_a.measures().filter(|m| of_b.measures().any(|n| n == *m)).collect();
    for group in of_a.groups() {
        for measure in &measures {
            for info in metrics().filter(|m| is_asked_for(&options.metrics, of_a, measure, m)) {
                for cell in group.cells.iter().filter(|c| of_b.cell(&c.id).is_some()) {
                    let key = RowKey { cell: &cell.id, measure, info };
                    let Some((row, pending)) = row(a, b, key) else { continue };
                    family.extend(pending);
                    let environment = of_a.environment_label(cell);
                    rows.push(Row { group: group.label.clone(), environment, ..row });
                }
            }
        }
    }
    let plan_a = &of_a.plan;
    // How many trials a run made changes little of what it came to, where that counts once.
    if a.count() == 1 {
        let mins = [fewest_looked(&of_b.plan.repeat), fewest_looked(&plan_a.repeat)];
        family.iter_mut().for_each(|pending| pending.after_either_looked(mins));
    }
    // Which is all that there is to pay for: nobody looked at what is compared here.
    let repeat = Repeat { max: plan_a.repeat.min, ..plan_a.repeat.clone() };
    let plan = Plan { repeat, ..plan_a.clone() };
    close(&mut family, &plan, vtax_stats::ALPHA);
    let above = options.max_tax.map_or_else(Vec::new, |max| above_limit(&family, 1.0 + max.0));
    let mut judged = family.into_iter().zip(above.into_iter().chain(std::iter::repeat(false)));
    for row in &mut rows {
        let mut beyond = false;
        // Only what can be compared takes part in the family, in the order of rows.
        if let Some((pending, above)) = row.comparable.then(|| judged.next()).flatten() {
            beyond = above;
            row.comparison =
                Comparison { reason: for_runs(&pending.comparison.reason, a), ..pending.comparison };
            without_percentile(a, b, &mut row.comparison);
        }
        let is_much = many_left_out(a, b, &mut row.comparison);
        // Runs that have no figure may be those that a change broke, and so may trials that don't count.
        let doubtful = options.strict && (is_much || !row.incomplete([a.count(), b.count()]).is_empty());
        row.gate = options.max_tax.map(|max| match held_to(&row.comparison, max, beyond) {
            GateVerdict::Pass if doubtful => GateVerdict::CantTell,
            held => held,
        });
    }
    rows
}

/// Explains a comparison by the trials that don't count for what became of the service in them, where they are many of a side. Whether
/// they are of B, and more than of A: its better trials alone may be what keeps to a limit. Those of A only make it harder to keep to.
fn many_left_out(a: Runs<'_>, b: Runs<'_>, c: &mut Comparison) -> bool {
    let (cell, measure) = (c.cell.as_str(), c.measure.as_str());
    let (of_a, name_a) = TrialFates::named(a.all().map(|run| &run.context.data), cell, measure);
    let (of_b, name_b) = TrialFates::named(b.all().map(|run| &run.context.data), cell, measure);
    // Trials of several runs aren't drawn one by one: what differs between runs isn't chance among trials.
    let single = a.count() + b.count() == 2;
    let told = |(name, own): (&str, &TrialFates), of: &str, (other_name, other): (&str, &TrialFates)| {
        let said = own.told(&format!("of {cell} ({of}) in {name}"))?;
        Some(match single && own.loses_more_than(other) {
            true => {
                format!("{said} That is more than in {other_name}, beyond chance, and speaks against {name}.")
            }
            false => said,
        })
    };
    let told = [told(("B", &of_b), name_b, ("A", &of_a)), told(("A", &of_a), name_a, ("B", &of_b))];
    let told: Vec<String> = told.into_iter().flatten().collect();
    c.explanation = told.join(" ");
    of_b.is_much_lost() && of_b.loses_larger_share(&of_a)
}

/// What is said of trials that were left out for what became of them, once for all metrics that come of the same trials.
pub(super) fn left_out(rows: &[Row]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for text in rows.iter().map(|row| &row.comparison.explanation) {
        if !text.is_empty() && !said.contains(text) {
            said.push(text.clone());
        }
    }
    said
}

/// What is said of rows whose intervals are made of fewer runs than a side has.
pub(super) fn incomplete(a: Runs<'_>, b: Runs<'_>, rows: &[Row]) -> Vec<String> {
    let mut said = Vec::new();
    for row in rows.iter().filter(|row| row.comparable) {
        for (side, with, count) in row.incomplete([a.count(), b.count()]) {
            let (c, have) = (&row.comparison, if with == 1 { "has" } else { "have" });
            said.push(format!(
                "{} ({}) of {}: {with} of {count} runs of {side} {have} a figure; the others are not in the interval.",
                row.label, c.measure, c.cell
            ));
        }
    }
    said
}

/// The trials that a run made in any case, where it looked at its figures to decide how many more to make.
fn fewest_looked(repeat: &Repeat) -> Option<usize> {
    (repeat.max > repeat.min).then_some(repeat.min as usize)
}

/// Where a side's trials had too few answers for the percentile, that is the reason.
fn without_percentile(a: Runs<'_>, b: Runs<'_>, c: &mut Comparison) {
    let why =
        |runs: Runs<'_>| runs.all().find_map(|run| run.context.data.too_few(&c.cell, &c.measure, &c.metric));
    let found = [("A", a), ("B", b)].into_iter().find_map(|(name, run)| Some((name, why(run)?)));
    if let Some((name, text)) = found.filter(|_| c.doubt == Some(Doubt::NoRatio)) {
        c.reason = format!("in {name}, {text}");
    }
}

#[derive(Clone, Copy)]
struct RowKey<'a> {
    cell: &'a str,
    measure: &'a str,
    info: &'a Info,
}

/// A row without its verdict, and what it is to be made from, where the two can be compared; `None` where
/// neither run has a figure.
fn row(a: Runs<'_>, b: Runs<'_>, key: RowKey<'_>) -> Option<(Row, Option<PendingComparison>)> {
    let RowKey { cell, measure, info } = key;
    // Rounds of two runs have nothing to do with each other.
    let side = |runs: Runs<'_>| OneSide { found: runs.values(cell, measure, info), ..OneSide::default() };
    let (of_a, of_b) = (side(a), side(b));
    if of_a.found.is_empty() && of_b.found.is_empty() {
        return None;
    }
    let apart = loads_apart(a, b, cell, measure);
    let pending = compared([cell, cell, measure], info, (&of_b, &of_a), &a.data().plan);
    let row = Row {
        group: String::new(),
        environment: String::new(),
        label: info.label.to_owned(),
        a: a.figures(cell, measure, info),
        b: b.figures(cell, measure, info),
        comparable: apart.is_none(),
        gate: None,
        comparison: Comparison {
            cell: cell.to_owned(),
            baseline: cell.to_owned(),
            measure: measure.to_owned(),
            metric: info.name.to_owned(),
            reason: apart.clone().unwrap_or_default(),
            ..Comparison::default()
        },
    };
    Some((row, apart.is_none().then_some(pending)))
}

/// The statistics speak of an environment and its baseline, here these are B and A; and of trials, of which a side with several runs
/// has one in each.
fn for_runs(reason: &str, a: Runs<'_>) -> String {
    let words = [
        ("of this environment", "in B"),
        ("of the baseline", "in A"),
        ("this environment", "B"),
        ("the baseline", "A"),
    ];
    let of_runs: &[(&str, &str)] = if a.count() > 1 { &[("trial", "run")] } else { &[] };
    let words = words.iter().chain(of_runs);
    words.fold(reason.to_owned(), |text, (of_cells, of_runs)| text.replace(of_cells, of_runs))
}

/// Why figures of a latency measurement can't be compared: the loads differ, as shares of capacities do.
fn loads_apart(a: Runs<'_>, b: Runs<'_>, cell: &str, measure: &str) -> Option<String> {
    let mut measures = a.data().plan.measures.iter();
    measures.find(|m| m.name == measure && matches!(m.kind, MeasureKind::Latency(_)))?;
    let load = |runs: Runs<'_>| {
        let offered = runs.all().flat_map(|run| run.context.data.metric(cell, measure, "offered"));
        let loads: Vec<f64> = offered.map(|v| v.value).collect();
        vtax_stats::quantile(&loads, 0.5)
    };
    let (of_a, of_b) = (load(a)?, load(b)?);
    // Also true of what is not a number.
    if (of_b / of_a).ln().abs() <= LOAD_TOLERANCE {
        return None;
    }
    let unit = unit_of_load(a.data().cell(cell));
    let [of_a, of_b] = [of_a, of_b].map(|l| quantity(l, unit));
    Some(format!(
        "measured under different loads: {of_a} in A, {of_b} in B; a load per second, the same in both, would \
         make them comparable"
    ))
}

/// Whether a tax is shown to be within or beyond the limit; `beyond` it where that holds among all rows. The corrected interval
/// doesn't tell: it is as wide as claims of any difference ask for, and rows just below the limit may all differ plainly.
pub(super) fn held_to(comparison: &Comparison, max_tax: Share, beyond: bool) -> GateVerdict {
    let high = comparison.interval.map(|i| i.1).or(comparison.at_most);
    match high {
        _ if beyond => GateVerdict::Fail,
        Some(high) if high <= 1.0 + max_tax.0 => GateVerdict::Pass,
        _ => GateVerdict::CantTell,
    }
}
