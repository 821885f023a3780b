//! Turns the load of a latency measurement into requests per second.

use vtax_plan::model::{Cell, Load, Plan};
use vtax_stats::quantile;
use vtax_store::record::{Finding, TrialRecord};
use vtax_units::{Rate, Share};

/// The rate that `load` means for `cell`, or why it can't be known.
///
/// Capacities are taken from the first `repeat.min` attempts only, so that capacity trials added
/// later don't move the load of latency trials already made.
pub(crate) fn offered(plan: &Plan, records: &[TrialRecord], cell: &Cell, load: Load) -> Result<Rate, String> {
    match load {
        Load::Rate(rate) => Ok(cell.total_rate(rate)),
        Load::OwnCapacity(share) => {
            let own = capacity(plan, records, &cell.id)
                .ok_or_else(|| format!("the capacity of {} is not known", cell.id))?;
            Ok(whole(own * share.0))
        }
        Load::LowestCapacity(share) => {
            let lowest = plan
                .cells
                .iter()
                .filter(|c| group(c) == group(cell))
                .filter_map(|c| capacity(plan, records, &c.id))
                .fold(f64::INFINITY, f64::min);
            if lowest.is_finite() {
                Ok(whole(lowest * share.0))
            } else {
                Err(format!("no capacity is known among the cells compared with {}", cell.id))
            }
        }
    }
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

/// Median of the highest rates that passed, over the trials that found one.
pub(crate) fn capacity(plan: &Plan, records: &[TrialRecord], cell: &str) -> Option<f64> {
    let is_capacity = |name: &str| plan.measures.iter().any(|m| m.name == name && m.kind.finds_capacity());
    let found: Vec<f64> = records
        .iter()
        .filter(|r| r.cell == cell && is_capacity(&r.measure) && r.repetition < plan.repeat.min)
        .filter_map(|r| match r.finding() {
            Some(Finding::Capacity(c)) if c.lower.0 > 0.0 => Some(c.lower.0),
            Some(Finding::Ims(ims)) => ims.doc.map(|doc| doc.requested.0),
            _ => None,
        })
        .collect();
    quantile(&found, 0.5)
}

/// Two significant digits: a load is quoted in reports, and capacity isn't known better.
fn whole(rate: f64) -> Rate {
    let unit = 10f64.powf(rate.max(1.0).log10().floor() - 1.0);
    Rate(((rate / unit).round() * unit).max(1.0))
}
