//! Paths through routers: a picture of each topology, its bring-up, where packets spent their time on it, how long its data
//! plane took to converge, and what the routers said meanwhile.

mod bring_up;
mod convergence;
mod headline;
mod hops;
pub(crate) mod neighbours;
mod picture;
mod timeline;

use vtax_plan::model::Cell;
use vtax_store::failover::TopologyOutcome;
use vtax_store::record::{TrialRecord, Validity};
use vtax_topology::convergence::{Convergence, Counts};
use vtax_units::Nanos;

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::RunData;
use crate::ft::trial::failover;
use crate::table::Table;

pub(crate) use headline::headline;

/// The chapter about paths through routers.
#[derive(Debug)]
pub(crate) struct Routed;

impl Chapter for Routed {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        let data = &context.data;
        if !data.plan.cells.iter().any(|cell| cell.path.kind.routed().is_some()) {
            return page;
        }
        page.put(Rank::Faults, "routed-convergence", "Convergence", convergence::section(data));
        page.put(Rank::Faults, "routed-timeline", "What routers said of it", timeline::section(data));
        page.put(Rank::Details, "routed-hops", "Where the time goes between routers", hops::section(data));
        page.put(Rank::Details, "routed-topologies", "Topologies", picture::section(data));
        page.put(Rank::Details, "routed-bring-up", "Bring-up of the routers", bring_up::section(data));
        page.words.push((
            "by loss, by rate",
            "Convergence of the data plane (RFC 6413): probes that were lost times the interval between two; and the time \
             from the first that was lost to the first from which on twenty in a row arrived. Both of probes from edge to \
             edge, each way by itself.",
        ));
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        let data = &context.data;
        let faults = convergence::tables(data).into_iter().chain(timeline::tables(data));
        hops::tables(data).into_iter().chain(faults).collect()
    }
}

/// What probes found in a trial.
pub(crate) fn found(record: &TrialRecord) -> Option<&TopologyOutcome> {
    failover(record)?.topology.as_deref()
}

/// The worse of both ways: a conversation needs both.
pub(crate) fn worse([up, down]: [Convergence; 2]) -> Convergence {
    // A way that was not whole again before the next event is the worse one.
    let longer = |one: Option<Nanos>, other: Option<Nanos>| Some(one?.max(other?));
    Convergence {
        began: match (up.began, down.began) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        },
        by_loss: up.by_loss.max(down.by_loss),
        by_rate: longer(up.by_rate, down.by_rate),
        whole_again: longer(up.whole_again, down.whole_again),
        counts: Counts {
            sent: up.counts.sent + down.counts.sent,
            lost: up.counts.lost + down.counts.lost,
            duplicated: up.counts.duplicated + down.counts.duplicated,
            reordered: up.counts.reordered + down.counts.reordered,
        },
    }
}

/// The median of times by rate, and whether it is only a lower bound: a way that was never whole again stands above all times.
/// Where the median falls on such, of an even number on one of its middle two, it was broken at least as long as any that is
/// known, and as what it lost by itself.
pub(crate) fn median_by_rate(all: &[Convergence]) -> Option<(f64, bool)> {
    let longest = all.iter().filter_map(|found| found.by_rate).max().unwrap_or_default();
    let at_least = |found: &Convergence| found.by_rate.unwrap_or(longest.max(found.by_loss));
    let times: Vec<f64> = all.iter().map(|found| at_least(found).0 as f64).collect();
    let known = all.iter().filter(|found| found.by_rate.is_some()).count();
    Some((vtax_stats::quantile(&times, 0.5)?, times.len() / 2 >= known))
}

/// The median of times by loss, and whether it is only a lower bound: what was not whole again before the next thing was done would
/// have lost more. Such a time that is above the median leaves it as it is.
pub(crate) fn median_by_loss(all: &[Convergence]) -> Option<(f64, bool)> {
    let time = |found: &Convergence| (found.by_loss.0 as f64, was_cut_off(found));
    let mut times: Vec<(f64, bool)> = all.iter().map(time).collect();
    times.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    let values: Vec<f64> = times.iter().map(|(ns, _)| *ns).collect();
    let median = vtax_stats::quantile(&values, 0.5)?;
    Some((median, times.iter().take(values.len() / 2 + 1).any(|(_, cut_off)| *cut_off)))
}

/// Whether the data plane was not whole again before the next thing was done: it would have lost more.
fn was_cut_off(found: &Convergence) -> bool {
    found.by_rate.is_none()
}

/// Cells whose paths have routers, with their trials that count and have probes.
fn trials(data: &RunData) -> impl Iterator<Item = (&Cell, Vec<(&TrialRecord, &TopologyOutcome)>)> {
    let routed = data.plan.cells.iter().filter(|cell| cell.path.kind.routed().is_some());
    routed.map(move |cell| {
        let own =
            data.trials.iter().filter(|trial| trial.cell == cell.id && trial.validity == Validity::Valid);
        (cell, own.filter_map(|trial| Some((trial, found(trial)?))).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_way_is_told_and_an_end_that_never_came_too() {
        let way = |loss: u64, rate: Option<u64>| Convergence {
            began: (loss > 0).then_some(Nanos(3)),
            by_loss: Nanos(loss),
            by_rate: rate.map(Nanos),
            whole_again: rate.map(Nanos),
            counts: Counts { sent: 10, lost: loss, ..Counts::default() },
        };
        let both = worse([way(0, Some(0)), way(5, Some(6))]);
        assert_eq!((both.by_loss, both.by_rate, both.began), (Nanos(5), Some(Nanos(6)), Some(Nanos(3))));
        assert_eq!((both.counts.sent, both.counts.lost), (20, 5));
        assert_eq!(worse([way(1, None), way(5, Some(6))]).by_rate, None);
    }

    #[test]
    fn what_was_cut_off_bounds_the_median_by_loss() {
        let median = |all: &[(u64, bool)]| {
            let found = |(loss, is_whole): &(u64, bool)| Convergence {
                by_rate: is_whole.then_some(Nanos(*loss)),
                by_loss: Nanos(*loss),
                ..Convergence::default()
            };
            median_by_loss(&all.iter().map(found).collect::<Vec<_>>())
        };
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[(10, true), (500, false), (30, true)]), Some((30.0, false)));
        assert_eq!(median(&[(998, false), (994, false), (1_000, false)]), Some((998.0, true)));
        // One that is lower may have lost more than the median.
        assert_eq!(median(&[(5, false), (10, true), (30, true)]), Some((10.0, true)));
        assert_eq!(median(&[(10, true), (10, false), (10, true)]), Some((10.0, false)));
        // Of an even number both of the middle count.
        assert_eq!(median(&[(10, true), (30, false)]), Some((20.0, true)));
    }

    #[test]
    fn what_never_came_back_is_above_all_times() {
        let median = |all: &[(Option<u64>, u64)]| {
            let found = |(rate, loss): &(Option<u64>, u64)| Convergence {
                by_rate: rate.map(Nanos),
                by_loss: Nanos(*loss),
                ..Convergence::default()
            };
            median_by_rate(&all.iter().map(found).collect::<Vec<_>>())
        };
        let (short, long, never) = ((Some(10), 10), (Some(30), 30), (None, 500));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[short, never, long]), Some((30.0, false)));
        // What it lost is longer than any time that is known; or it isn't.
        assert_eq!(median(&[never, short, never]), Some((500.0, true)));
        assert_eq!(median(&[(None, 5), short, (None, 5)]), Some((10.0, true)));
        assert_eq!(median(&[never]), Some((500.0, true)));
        // Of the middle two one is enough, and what is told is no more than is known.
        assert_eq!(median(&[short, never]), Some((255.0, true)));
        assert_eq!(median(&[short, long, never, never]), Some((265.0, true)));
        assert_eq!(median(&[short, short, long, never]), Some((20.0, false)));
    }
}
