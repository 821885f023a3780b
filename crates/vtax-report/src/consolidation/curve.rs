//! Figures over the number of systems, and where the cost of another one begins.

use vtax_plan::model::{Cell, MeasureKind, Split};
use vtax_stats::{Bound, Direction, Ratio, allowing, levels, tax};
use vtax_store::record::{InvalidReason, TrialRecord, Validity};

use crate::context::Context;
use crate::data::RunData;
use crate::format::{much_within, quantity};
use crate::judged::{group, looked_at};

/// Cells that differ in the number of their systems alone, fewest first.
pub(super) struct Curve<'a> {
    pub(super) label: String,
    pub(super) cells: Vec<&'a Cell>,
}

/// All curves of a plan that have cells of several systems.
pub(super) fn curves(data: &RunData) -> Vec<Curve<'_>> {
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for cell in &data.plan.cells {
        match curves.iter_mut().find(|curve| is_alike(curve.cells[0], cell)) {
            Some(curve) => curve.cells.push(cell),
            None => curves.push(Curve { label: label(data, cell), cells: vec![cell] }),
        }
    }
    curves.retain(|curve| curve.cells.iter().any(|cell| cell.is_several()));
    for curve in &mut curves {
        curve.cells.sort_by_key(|cell| cell.environment.count);
    }
    curves
}

/// Whether two cells differ in nothing but the number of their systems.
fn is_alike(one: &Cell, other: &Cell) -> bool {
    let rest = |cell: &Cell| {
        let parameters = cell.parameters.iter().filter(|(key, _)| *key != "count");
        parameters.map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
    };
    one.environment.name == other.environment.name
        && one.path.name == other.path.name
        && one.service.name == other.service.name
        && one.systems.name == other.systems.name
        && rest(one) == rest(other)
}

/// What a curve is called: its environment, with what else the plan varies.
fn label(data: &RunData, cell: &Cell) -> String {
    let mut label = match data.accelerated(cell) {
        Some(accelerated) => format!("{} ({accelerated})", cell.environment.name),
        None => cell.environment.name.clone(),
    };
    let cells = &data.plan.cells;
    let mut add = |differs: bool, text: &str| {
        if differs && !text.is_empty() {
            label.push_str(&format!(", {text}"));
        }
    };
    add(cells.iter().any(|c| c.service.name != cell.service.name), &cell.service.name);
    add(cells.iter().any(|c| c.path.name != cell.path.name), &cell.path.name);
    add(cells.iter().any(|c| c.systems.name != cell.systems.name), &cell.systems.name);
    for (key, value) in cell.parameters.iter().filter(|(key, _)| *key != "count") {
        add(cells.iter().any(|c| c.parameters.get(key) != Some(value)), &format!("{key} {value}"));
    }
    label
}

/// The middle of a metric's values in a cell.
pub(super) fn center(context: &Context, cell: &Cell, measure: &str, metric: &str) -> Option<f64> {
    context.center(cell, measure, metric)
}

/// Whether of that only a lower bound is known.
pub(super) fn is_least(context: &Context, cell: &Cell, measure: &str, metric: &str) -> bool {
    center(context, cell, measure, metric).is_some() && context.exact_center(cell, measure, metric).is_none()
}

/// Rate of all systems together, whatever the measure calls it.
pub(super) fn rate(context: &Context, cell: &Cell, measure: &str) -> Option<f64> {
    RATES.iter().find_map(|metric| center(context, cell, measure, metric))
}

/// What measures call the rate that all systems have together.
const RATES: [&str; 3] = ["throughput", "goodput", "capacity"];

/// Whether that rate is only a bound: no search came to the limit.
pub(super) fn is_bound(context: &Context, cell: &Cell, measure: &str) -> bool {
    let known = |metric: &&&str| center(context, cell, measure, metric).is_some();
    RATES.iter().find(known).is_some_and(|metric| is_least(context, cell, measure, metric))
}

/// What shows the cost of another system, of a measure: a metric, its label, its unit and which direction is better.
fn cost_metric(measure: &MeasureKind) -> Option<(&'static str, &'static str, &'static str, Direction)> {
    match measure {
        MeasureKind::Latency(_) => Some(("latency_p50", "median latency", "ns", Direction::Lower)),
        MeasureKind::Throughput(_) => Some(("throughput", "throughput", "req/s", Direction::Higher)),
        MeasureKind::Capacity(_) => Some(("capacity", "capacity", "req/s", Direction::Higher)),
        MeasureKind::Ims(_)
        | MeasureKind::Failover(_)
        | MeasureKind::Network(_)
        | MeasureKind::Storage(_) => None,
    }
}

/// Where the cost of another system begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Knee {
    /// The number of systems that the others are compared with.
    fewest: u32,
    /// The most systems that are known to cost no more than the margin, beside the fewest.
    pub(super) within: u32,
    /// The fewest that are known to cost more; `None` where none are.
    pub(super) beyond: Option<u32>,
    /// Whether more systems were expected to answer more, in proportion: what is told is each one's, and not that of all.
    of_each: bool,
    /// What it costs there, and what may be: the tax with its interval.
    pub(super) cost: Option<(f64, (f64, f64))>,
    /// More systems than that which are known to cost no more than the margin all the same.
    again: Vec<u32>,
    /// Numbers of systems whose cost can't be told.
    pub(super) open: Vec<u32>,
    /// Numbers of systems that could not answer what they were asked for, so that no trial counts.
    overloaded: Vec<u32>,
}

/// Finds the knee of a curve, where it has a number of systems to compare with the fewest.
///
/// Each number is compared with the curve's fewest within rounds, with an interval as wide as the table of verdicts would have it:
/// for having looked, and for levels. Where a closed loop's load is of each system, more
/// systems are expected to answer more, in proportion.
pub(super) fn knee(data: &RunData, curve: &Curve<'_>, measure: &str) -> Option<Knee> {
    let kind = &data.plan.measures.iter().find(|m| m.name == measure)?.kind;
    let (metric, _, _, better) = cost_metric(kind)?;
    let (fewest, more) = curve.cells.split_first()?;
    let side = |cell: &Cell| data.side(&cell.id, measure, metric, None);
    let base = side(fewest);
    if more.is_empty() || base.found.is_empty() {
        return None;
    }
    let values = |cell: &&Cell| -> Vec<f64> { side(cell).found.iter().map(|found| found.value).collect() };
    let sides: Vec<Vec<f64>> = curve.cells.iter().map(values).collect();
    let apart = levels(&sides.iter().map(Vec::as_slice).collect::<Vec<&[f64]>>());
    let wide = |ratio: Ratio| {
        let looked = looked_at(&ratio, &data.plan);
        apart.map_or(looked, |apart| allowing(&looked, apart))
    };
    let margin = 1.0 + data.plan.margin.0;
    let of_each = matches!((kind, fewest.systems.load), (MeasureKind::Throughput(_), Split::Each));
    let mut knee = Knee { of_each, ..Knee::of(fewest.environment.count) };
    for cell in more {
        let count = cell.environment.count;
        if always_overloaded(data, cell, measure) {
            knee.overloaded.push(count);
            continue;
        }
        let expected = if of_each { f64::from(count) / f64::from(knee_base(fewest)) } else { 1.0 };
        let own = side(cell);
        let values: Vec<f64> = own.found.iter().map(|found| found.value).collect();
        let scaled: Vec<f64> = base.found.iter().map(|found| found.value * expected).collect();
        let candidate = group(&values, &own.rounds, &own.found);
        let ratio = tax(&candidate, &group(&scaled, &base.rounds, &base.found), better, data.plan.seed);
        // Where only a lower bound is known of a side, what it costs would be a bound as well.
        let known = ratio.ok().filter(|ratio| ratio.bound == Bound::Exact).map(wide);
        knee.add(count, known.and_then(|ratio| Some((ratio.tax, ratio.interval?))), margin);
    }
    Some(knee)
}

/// Whether no trial tells what it costs, as more was asked for than could be answered, as often as the plan's minimum of trials.
fn always_overloaded(data: &RunData, cell: &Cell, measure: &str) -> bool {
    let own = || data.trials.iter().filter(|t| t.cell == cell.id && t.measure == measure);
    let is_overloaded =
        |t: &&TrialRecord| matches!(t.validity, Validity::Invalid { reason: InvalidReason::Overloaded, .. });
    let enough = own().filter(is_overloaded).count() >= data.plan.repeat.min as usize;
    enough && own().all(|t| t.validity != Validity::Valid)
}

fn knee_base(fewest: &Cell) -> u32 {
    fewest.environment.count.max(1)
}

impl Knee {
    /// Of which only the fewest systems are looked at yet.
    fn of(fewest: u32) -> Self {
        Self {
            fewest,
            within: fewest,
            beyond: None,
            of_each: false,
            cost: None,
            again: Vec::new(),
            open: Vec::new(),
            overloaded: Vec::new(),
        }
    }

    /// Takes in what a larger number of systems costs.
    fn add(&mut self, count: u32, known: Option<(f64, (f64, f64))>, margin: f64) {
        match known {
            Some((tax, interval)) if interval.0 > margin => {
                if self.beyond.is_none() {
                    (self.beyond, self.cost) = (Some(count), Some((tax, interval)));
                }
            }
            Some((_, interval)) if interval.1 <= margin => match self.beyond {
                None => self.within = count,
                Some(_) => self.again.push(count),
            },
            _ => self.open.push(count),
        }
    }

    /// In a sentence, without its end.
    pub(super) fn words(&self, data: &RunData, measure: &str) -> String {
        let kind = data.plan.measures.iter().find(|m| m.name == measure).map(|m| &m.kind);
        let (_, label, unit, better) =
            kind.and_then(cost_metric).unwrap_or(("", "cost", "ns", Direction::Lower));
        let margin = quantity(data.plan.margin.0, "1");
        let numbers = |of: &[u32]| of.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let mut open = match self.open.as_slice() {
            [] => String::new(),
            open => format!("; trials can't tell for {} systems", numbers(open)),
        };
        if !self.overloaded.is_empty() {
            open += &format!("; {} systems were overloaded", numbers(&self.overloaded));
        }
        let is_first =
            |count: &&u32| **count > self.within && self.beyond.is_none_or(|beyond| **count < beyond);
        if let Some(count) = self.overloaded.iter().find(is_first) {
            return format!("the knee lies {}{open}", self.between(*count));
        }
        let (Some(beyond), Some((tax, (low, high)))) = (self.beyond, self.cost) else {
            if self.within == self.fewest {
                return format!("where the knee lies is not known{open}");
            }
            return format!("no knee: up to {} systems it costs no more than {margin}{open}", self.within);
        };
        // The metric's own ratio: the tax turns it around where more is better.
        let own = match better {
            Direction::Lower => much_within(tax, (low, high), unit),
            Direction::Higher => much_within(1.0 / tax, (1.0 / high, 1.0 / low), unit),
        };
        let whose = if self.of_each { " of each" } else { "" };
        let between = self.between(beyond);
        let again = match self.again.as_slice() {
            [] => String::new(),
            again => format!("; within the margin again with {}", numbers(again)),
        };
        format!("the knee lies {between}: with {beyond} the {label}{whose} is {own}{again}{open}")
    }

    /// Where it lies if the margin is known to be exceeded with so many systems.
    fn between(&self, beyond: u32) -> String {
        if beyond == self.within + 1 {
            format!("between {} and {beyond} systems", self.within)
        } else {
            format!("above {} and at most at {beyond} systems", self.within)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use vtax_fixture::Options;
    use vtax_load::{Counts, LoadResult, merged};
    use vtax_store::RunDir;
    use vtax_store::record::{CapacityOutcome, Finding, Observation};
    use vtax_units::{Nanos, Rate};

    use super::*;

    const PLAN: &str = "
vtax: 1
name: systems
baseline: {environment: container, count: 1}
environments: [{container: {count: [1, 2, 3]}}]
services: http
workload:
  http: {target: /bytes/100}
measure: [capacity]
repeat: 5
";

    /// A run of one to three containers; `found` gives what a trial found by the number of containers and its round.
    fn made_of(directory: &Path, plan: &str, found: impl Fn(u32, u32) -> Finding) -> RunData {
        let options = Options { repetitions: 1, seconds: 1, rate: 10, ..Options::default() };
        let provenance =
            vtax_fixture::create(&directory.join("other"), &options).unwrap().provenance().unwrap();
        let plan = vtax_plan::parse("systems", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        let measure = plan.measures[0].name.as_str();
        let mut run = RunDir::create(directory.join("run"), &plan, &provenance).unwrap();
        for repetition in 0..plan.repeat.min {
            for cell in &plan.cells {
                let finding = found(cell.environment.count, repetition);
                let trial = run.begin_trial(&cell.id, measure, repetition).unwrap();
                let record = TrialRecord {
                    observations: vec![Observation::whole(0, finding)],
                    round: Some(repetition),
                    ..TrialRecord::begin(&cell.id, measure, repetition)
                };
                run.finish_trial(trial, record).unwrap();
            }
        }
        RunData::read(run.run()).unwrap()
    }

    /// `found` gives the bracket of each search by the number of containers.
    fn made(directory: &Path, found: impl Fn(u32) -> (f64, Option<f64>)) -> RunData {
        made_of(directory, PLAN, |count, _| {
            let (lower, upper) = found(count);
            Finding::Capacity(CapacityOutcome {
                lower: Rate(lower),
                upper: upper.map(Rate),
                steps: Vec::new(),
            })
        })
    }

    fn knee_of(found: impl Fn(u32) -> (f64, Option<f64>)) -> Knee {
        let directory = tempfile::tempdir().unwrap();
        let data = made(directory.path(), found);
        let curves = curves(&data);
        knee(&data, &curves[0], "capacity").unwrap()
    }

    #[test]
    fn capacities_that_are_known_have_a_knee() {
        let found = knee_of(|count| match count {
            3 => (5_000.0, Some(5_050.0)),
            _ => (10_000.0, Some(10_100.0)),
        });
        assert_eq!((found.within, found.beyond, found.again, found.open), (2, Some(3), vec![], vec![]));
    }

    #[test]
    fn numbers_that_were_overloaded_in_each_trial_are_beyond_the_knee() {
        let mut knee = Knee::of(1);
        knee.add(2, Some((1.0, (0.99, 1.01))), 1.1);
        knee.overloaded = vec![3, 4];
        let directory = tempfile::tempdir().unwrap();
        let data = made(directory.path(), |_| (10_000.0, Some(10_100.0)));
        assert_eq!(
            knee.words(&data, "capacity"),
            "the knee lies between 2 and 3 systems; 3, 4 systems were overloaded"
        );
        let overloaded = |trials: usize| {
            let directory = tempfile::tempdir().unwrap();
            let mut data = made(directory.path(), |_| (10_000.0, Some(10_100.0)));
            let third = curves(&data)[0].cells[2].id.clone();
            for trial in data.trials.iter_mut().filter(|trial| trial.cell == third).take(trials) {
                let reason = InvalidReason::Overloaded;
                trial.validity = Validity::Invalid { reason, detail: String::new() };
            }
            super::knee(&data, &curves(&data)[0], "capacity").unwrap().overloaded
        };
        assert_eq!((overloaded(5), overloaded(4)), (vec![3], vec![]));
    }

    /// It was said that trials can't tell what they had told.
    #[test]
    fn a_number_within_the_margin_after_the_knee_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let data = made(directory.path(), |count| match count {
            2 => (5_000.0, Some(5_050.0)),
            _ => (10_000.0, Some(10_100.0)),
        });
        let found = knee(&data, &curves(&data)[0], "capacity").unwrap();
        assert_eq!((found.within, found.beyond, found.open.len()), (1, Some(2), 0));
        assert_eq!(found.again, [3]);
        let said = found.words(&data, "capacity");
        assert!(said.starts_with("the knee lies between 1 and 2 systems: with 2 the capacity is "), "{said}");
        assert!(said.ends_with("; within the margin again with 3"), "{said}");
    }

    /// It was said that two answer half as much where the table beside it had as many answers of all.
    #[test]
    fn where_each_is_asked_for_as_much_as_it_can_the_knee_is_of_each() {
        let said = |load: &str| {
            let directory = tempfile::tempdir().unwrap();
            let plan = PLAN.replace("capacity", "throughput").replace("repeat: 5", "repeat: 8");
            let plan = plan + &format!("consolidation: {{load: {load}}}\n");
            // However many there are, all together answer some 10,000 requests per second.
            let data = made_of(directory.path(), &plan, |_, repetition| {
                let ok = 100_000 + 100 * u64::from(repetition);
                let counts = Counts { intended: ok, sent: ok, ok, ..Counts::default() };
                let load = LoadResult { counts, duration: Nanos::from_secs(10), ..merged(&[]) };
                Finding::Throughput { load }
            });
            let found = knee(&data, &curves(&data)[0], "throughput").unwrap();
            (found.beyond, found.words(&data, "throughput"))
        };
        let (beyond, words) = said("each");
        assert_eq!(beyond, Some(2), "{words}");
        assert!(words.contains(": with 2 the throughput of each is "), "{words}");
        let (beyond, words) = said("total");
        assert_eq!(beyond, None, "{words}");
        assert!(words.starts_with("no knee: up to 3 systems"), "{words}");
    }

    /// Two that both reached the highest rate asked for may cost anything between them.
    #[test]
    fn a_bound_of_capacity_is_no_figure() {
        let ends_at_two = knee_of(|count| match count {
            3 => (5_000.0, Some(5_050.0)),
            2 => (10_000.0, None),
            _ => (10_000.0, Some(10_100.0)),
        });
        assert_eq!((ends_at_two.within, ends_at_two.beyond, ends_at_two.open), (1, Some(3), vec![2]));
        let never = knee_of(|count| (if count == 3 { 5_000.0 } else { 10_000.0 }, None));
        assert_eq!((never.within, never.beyond, never.cost, never.open), (1, None, None, vec![2, 3]));
    }

    /// Searches that end in the same wide bracket agree because it is wide.
    #[test]
    fn a_brackets_width_is_part_of_what_is_not_known() {
        let found = knee_of(|_| (10_000.0, Some(12_000.0)));
        assert_eq!((found.within, found.open), (1, vec![2, 3]));
    }
}
