//! Paths through routers: a picture of each topology, its bring-up, where packets spent their time on it, how long its data
//! plane took to converge, and what the routers said meanwhile.

mod bring_up;
mod convergence;
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
            "Convergence of the data plane after RFC 6412: probes that were lost times the interval between two; and the \
             time from the first that was lost to the first from which on all arrived. Both of probes from edge to edge, \
             each way by itself.",
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
}
