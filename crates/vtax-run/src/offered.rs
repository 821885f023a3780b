//! Turns the load of a latency measurement into requests per second.

use vtax_plan::model::{Cell, Load, Measure, Plan};
use vtax_stats::quantile;
use vtax_store::record::{Finding, TrialRecord, Validity};
use vtax_units::{Rate, Share};

/// The rate that `load` of `measure` means for `cell`, or why it can't be known.
///
/// Capacities are those of the nearest measure before it that finds any, from the trials made before the first of `measure`: what is
/// added to them later doesn't move the load of trials already made.
pub(crate) fn offered(
    plan: &Plan,
    records: &[TrialRecord],
    (cell, measure): (&Cell, &Measure),
    load: Load,
) -> Result<Rate, String> {
    let found_by =
        plan.measures.iter().take_while(|m| *m != measure).filter(|m| m.kind.finds_capacity()).last();
    let capacity = |cell: &Cell, before: &[TrialRecord]| capacity(before, &cell.id, &found_by?.name);
    match load {
        Load::Rate(rate) => Ok(cell.total_rate(rate)),
        Load::OwnCapacity(share) => {
            // A cell that could not be built at first has its trials after those of the others.
            let before = before(records, |r| r.measure == measure.name && r.cell == cell.id);
            let own =
                capacity(cell, before).ok_or_else(|| format!("the capacity of {} is not known", cell.id))?;
            Ok(rounded(own * share.0))
        }
        Load::LowestCapacity(share) => {
            let before = before(records, |r| r.measure == measure.name);
            let compared = plan.cells.iter().filter(|c| group(c) == group(cell));
            let lowest = compared.filter_map(|c| capacity(c, before)).fold(f64::INFINITY, f64::min);
            if lowest.is_finite() {
                Ok(rounded(lowest * share.0))
            } else {
                Err(format!("no capacity is known among the cells compared with {}", cell.id))
            }
        }
    }
}

/// The trials that ended before the first of these.
fn before(records: &[TrialRecord], these: impl Fn(&TrialRecord) -> bool) -> &[TrialRecord] {
    let first = records.iter().position(these);
    &records[..first.unwrap_or(records.len())]
}

/// What each of two that share their CPUs is offered: half of a share of the capacity, which each has by
/// itself; a rate is a rate.
pub(crate) fn halved(load: Load) -> Load {
    match load {
        Load::Rate(rate) => Load::Rate(rate),
        Load::OwnCapacity(share) => Load::OwnCapacity(Share(share.0 / 2.0)),
        Load::LowestCapacity(share) => Load::LowestCapacity(Share(share.0 / 2.0)),
    }
}

/// Cells that are compared with one another share their baseline.
fn group(cell: &Cell) -> &str {
    cell.baseline.as_deref().unwrap_or(&cell.id)
}

/// Median of the highest rates that passed, over the trials of `measure` that count; where none does, over those that found one
/// all the same.
pub(crate) fn capacity(records: &[TrialRecord], cell: &str, measure: &str) -> Option<f64> {
    let median = |counts: bool| {
        let own = records.iter().filter(|r| r.cell == cell && r.measure == measure);
        let found: Vec<f64> =
            own.filter(|r| (r.validity == Validity::Valid) == counts).filter_map(highest).collect();
        quantile(&found, 0.5)
    };
    median(true).or_else(|| median(false))
}

/// The highest rate that passed in a trial.
fn highest(record: &TrialRecord) -> Option<f64> {
    match record.finding() {
        Some(Finding::Capacity(c)) if c.lower.0 > 0.0 => Some(c.lower.0),
        Some(Finding::Ims(ims)) => ims.doc.map(|doc| doc.requested.0).filter(|rate| *rate > 0.0),
        _ => None,
    }
}

/// Two significant digits: a load is quoted in reports, and capacity isn't known better.
fn rounded(rate: f64) -> Rate {
    let digits = 1 - rate.log10().floor() as i32;
    let by = 10f64.powi(digits.abs());
    // Whole numbers only: 17 times 0.1 is more than 1.7.
    Rate(if digits >= 0 { (rate * by).round() / by } else { (rate / by).round() * by })
}

#[cfg(test)]
mod tests {
    use vtax_store::record::{CapacityOutcome, InvalidReason, Observation};

    use super::*;

    const PLAN: &str = "
vtax: 1
name: t
baseline: native
environments: [native, vm]
services: [http]
workload:
  http: {target: /bytes/100}
measure:
  - capacity: {name: strict, limits: {p99: 20ms}}
  - latency: {name: below-strict, load: 50% of capacity}
  - capacity: {name: loose, limits: {p99: 200ms}}
  - latency: {name: below-loose, load: 50% of capacity}
  - latency: {name: below-lowest, load: 50% of lowest}
";

    fn found(cell: &Cell, measure: &str, capacity: f64, validity: Validity) -> TrialRecord {
        let found = CapacityOutcome { lower: Rate(capacity), upper: None, steps: vec![] };
        let observations = vec![Observation::whole(0, Finding::Capacity(found))];
        TrialRecord { validity, observations, ..TrialRecord::begin(&cell.id, measure, 0) }
    }

    fn disturbed() -> Validity {
        Validity::Invalid { reason: InvalidReason::Disturbed, detail: String::new() }
    }

    #[test]
    fn a_load_is_a_share_of_the_nearest_capacity_before_it_and_stays() {
        let plan = vtax_plan::parse("t", PLAN.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e:?}"));
        let [native, vm] = [&plan.cells[0], &plan.cells[1]];
        let load = |records: &[TrialRecord], cell: &Cell, measure: usize| {
            let measure = &plan.measures[measure];
            let load = measure.kind.load().expect("it has one");
            offered(&plan, records, (cell, measure), load).map(|rate| rate.0)
        };
        let mut records = vec![
            found(native, "strict", 300.0, disturbed()),
            found(native, "strict", 1000.0, Validity::Valid),
            found(native, "strict", 1040.0, Validity::Valid),
            // Nothing of this one counts: better than no load at all.
            found(vm, "strict", 80.0, disturbed()),
        ];
        assert_eq!((load(&records, native, 1), load(&records, vm, 1)), (Ok(510.0), Ok(40.0)));
        records.push(TrialRecord::begin(&native.id, "below-strict", 0));
        records.extend([4000.0, 5000.0].map(|c| found(native, "loose", c, Validity::Valid)));
        records.push(found(vm, "loose", 600.0, Validity::Valid));
        // A capacity that is looked for later, and trials added later, move nothing.
        records.push(found(native, "strict", 9000.0, Validity::Valid));
        assert_eq!(load(&records, native, 1), Ok(510.0));
        assert_eq!(load(&records, native, 3), Ok(2300.0));
        // It was left out until the others had all their trials.
        let late = [&records[..3], &records[4..], &records[3..4]].concat();
        assert_eq!((load(&late, native, 1), load(&late, vm, 1)), (Ok(510.0), Ok(40.0)));
        assert_eq!((load(&records, native, 4), load(&records, vm, 4)), (Ok(300.0), Ok(300.0)));
        assert!(load(&[], native, 3).is_err_and(|why| why.contains("is not known")));
    }

    #[test]
    fn a_share_has_two_digits_however_low_the_capacity_is() {
        let plan = vtax_plan::parse("t", PLAN.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e:?}"));
        let native = &plan.cells[0];
        for (capacity, share, expected) in [
            (0.9, 0.5, 0.45),
            (17.0, 0.1, 1.7),
            (1.0, 0.05, 0.05),
            (996.0, 1.0, 1_000.0),
            (12_345.0, 0.5, 6_200.0),
        ] {
            let records = [found(native, "strict", capacity, Validity::Valid)];
            for load in [Load::OwnCapacity(Share(share)), Load::LowestCapacity(Share(share))] {
                let rate = offered(&plan, &records, (native, &plan.measures[1]), load);
                assert_eq!(rate, Ok(Rate(expected)), "{share} of {capacity}");
            }
        }
    }
}
