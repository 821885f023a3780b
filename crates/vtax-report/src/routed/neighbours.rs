//! Neighbours that routers lost although nothing had broken the link between them. The times of convergence of such a trial are
//! not those of the injected faults alone.

use std::collections::BTreeSet;

use vtax_plan::model::{Cell, TopologyFault};
use vtax_store::failover::TopologyOutcome;
use vtax_topology::bfd::Bfd;
use vtax_topology::options::Choice;
use vtax_topology::timeline::Entry;
use vtax_units::Nanos;

use super::convergence::MOST_EVENTS;
use super::trials;
use crate::data::RunData;

/// Different things done in a trial, at most: a run may hold anything.
const MOST_DONE: usize = 100;

/// A sentence for each cell in whose trials it happened.
pub(crate) fn notes(data: &RunData) -> Vec<String> {
    let of_cell = |(cell, trials): (&Cell, Vec<_>)| {
        let all = trials.len();
        let counts: Vec<usize> = trials.into_iter().map(|(_, found)| elsewhere(found)).collect();
        let (times, some) = (counts.iter().sum::<usize>(), counts.iter().filter(|n| **n > 0).count());
        let times = match times {
            0 => return None,
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        let why = bfd(cell).interval().map_or_else(String::new, |interval| {
            format!(
                " BFD declares a neighbour down after {} without a packet, and a busy or emulated machine may send none for that long: \
                 `bfd` takes a longer time between two packets than {}.",
                interval.silence(),
                interval.nanos()
            )
        });
        Some(format!(
            "{}: in {some} of {all} trials OSPF lost neighbours on links that nothing had broken, {times} in all. The convergence \
             times of these trials include what that cost.{why}",
            data.environment_label(cell)
        ))
    };
    trials(data).filter_map(of_cell).collect()
}

/// Whether the routers of a cell's path watch each other by BFD.
fn bfd(cell: &Cell) -> Bfd {
    cell.path.kind.routed().map_or(Bfd::Off, |options| match &options.topology {
        Choice::MplsVpn(vpn) => vpn.bfd,
        Choice::LeafSpine(fabric) => fabric.bfd,
        Choice::Custom(custom) => custom.bfd,
    })
}

/// How often a neighbour was lost on a link that had nothing to do with what had been done until then.
fn elsewhere(found: &TopologyOutcome) -> usize {
    // What was mended may still have been noticed late, so each thing counts from its first time on.
    let mut done: Vec<(Nanos, TopologyFault)> = Vec::new();
    for event in found.events.iter().take(MOST_EVENTS) {
        if done.iter().all(|(_, fault)| *fault != event.fault) {
            done.push((event.at, event.fault));
        }
    }
    let Some((first, _)) = done.first().copied().filter(|_| done.len() <= MOST_DONE) else { return 0 };
    let routers: BTreeSet<&str> = found.timeline.iter().map(|entry| entry.router.as_str()).collect();
    let is_elsewhere = |entry: &&Entry| {
        let Some(interface) = entry.neighbour_lost().filter(|_| entry.at >= first) else { return false };
        // Tunnels go over links that may have broken; their interfaces aren't named after a neighbour.
        let of_link = neighbours(interface).any(|(router, _)| routers.contains(router));
        let mut before = done.iter().filter(|(at, _)| *at <= entry.at);
        of_link && !before.any(|(_, fault)| concerns(*fault, &entry.router, interface))
    };
    found.timeline.iter().filter(is_elsewhere).count()
}

/// What comes after one end in a link's name.
fn after<'a>(link: &'a str, end: &str) -> Option<&'a str> {
    link.strip_prefix(end)?.strip_prefix('-')
}

/// Whether what was done was done to this link of a router's, or to a router at an end of it.
fn concerns(fault: TopologyFault, router: &str, interface: &str) -> bool {
    let at = |name: &str| router == name || neighbours(interface).any(|(neighbour, _)| neighbour == name);
    // A link is named by one of its ends; its number is the same at both.
    let on = |link: &str| {
        after(link, router) == Some(interface)
            || neighbours(interface).any(|(other, number)| {
                after(link, other).is_some_and(|rest| rest.strip_prefix(router) == Some(number))
            })
    };
    match fault {
        TopologyFault::CutLink(link) | TopologyFault::RestoreLink(link) => on(link.as_str()),
        TopologyFault::LossyLink(lossy) => on(lossy.link.as_str()),
        TopologyFault::KillRouter(name) | TopologyFault::RestoreRouter(name) => at(name.as_str()),
        TopologyFault::StopDaemon(stop) => at(stop.router.as_str()),
    }
}

/// The routers that an interface may be named after, each with the number behind its name where several links join the same two.
fn neighbours(interface: &str) -> impl Iterator<Item = (&str, &str)> {
    let name = interface.trim_end_matches(|c: char| c.is_ascii_digit()).len().max(1);
    (name..=interface.len()).filter_map(|end| interface.split_at_checked(end))
}

#[cfg(test)]
mod tests {
    use vtax_store::failover::TopologyEvent;
    use vtax_topology::convergence::Convergence;
    use vtax_topology::timeline::Source;

    use super::*;

    fn lost(at: u64, router: &str, interface: &str) -> Entry {
        let text = format!(
            "AdjChg: Nbr 1.1.1.1, NbrIP 10.0.0.6 (default) on {interface}:10.0.0.5: Full -> Deleted (KillNbr)"
        );
        Entry { at: Nanos(at), router: router.to_owned(), source: Source::Daemon("ospfd".to_owned()), text }
    }

    fn outcome(done: Vec<(u64, TopologyFault)>, timeline: Vec<Entry>) -> TopologyOutcome {
        let (up, down) = (Convergence::default(), Convergence::default());
        let event = |(at, fault)| TopologyEvent { fault, at: Nanos(at), up, down };
        TopologyOutcome {
            interval: Nanos(1),
            late: Nanos(0),
            before: None,
            events: done.into_iter().map(event).collect(),
            timeline,
            problem: None,
        }
    }

    #[test]
    fn neighbours_over_what_was_broken_are_lost_as_they_should_be() {
        let cut = TopologyFault::CutLink("p1-pe2".parse().unwrap());
        let both = || vec![lost(12, "p1", "pe2"), lost(13, "pe2", "p1"), lost(14, "pe1", "sham")];
        assert_eq!(elsewhere(&outcome(vec![(10, cut)], both())), 0);
        let more = [both(), vec![lost(15, "ce1", "pe1"), lost(16, "pe1", "ce1")]].concat();
        assert_eq!(elsewhere(&outcome(vec![(10, cut)], more)), 2);
        // Before anything was done, after the link was whole again, and late on the link itself.
        let timeline =
            vec![lost(3, "p1", "pe1"), lost(12, "pe1", "p1"), lost(25, "pe1", "p1"), lost(26, "pe2", "p1")];
        let restore = TopologyFault::RestoreLink("p1-pe2".parse().unwrap());
        assert_eq!(elsewhere(&outcome(vec![(10, cut), (20, restore)], timeline)), 2);
    }

    #[test]
    fn a_router_that_is_off_is_lost_by_all_its_neighbours() {
        let kill = TopologyFault::KillRouter("p1".parse().unwrap());
        let timeline = vec![lost(12, "pe1", "p1"), lost(13, "pe2", "p11"), lost(14, "p1", "pe1")];
        assert_eq!(elsewhere(&outcome(vec![(10, kill)], timeline)), 0);
        assert_eq!(
            elsewhere(&outcome(vec![(10, kill)], vec![lost(12, "pe1", "ce1"), lost(13, "ce1", "pe1")])),
            2
        );
    }

    #[test]
    fn links_that_join_the_same_two_are_told_apart() {
        let cut = TopologyFault::CutLink("a-b2".parse().unwrap());
        for (router, interface, own) in
            [("a", "b2", true), ("b", "a2", true), ("a", "b", false), ("b", "a", false)]
        {
            assert_eq!(concerns(cut, router, interface), own, "{router} {interface}");
        }
    }
}
