//! What routers said and did, under what the data plane lost.

use std::collections::BTreeSet;

use vtax_store::failover::{TopologyEvent, TopologyOutcome};
use vtax_topology::timeline::{Entry, Source};
use vtax_units::Nanos;

use super::convergence::MOST_EVENTS;
use super::{trials, worse};
use crate::data::RunData;
use crate::format::quantity;
use crate::html::parts::details;
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::table::{Table, count, number, text};

/// How long after an event its timeline goes on, where no other comes.
const AFTER: Nanos = Nanos::from_secs(10);
/// Most rows of one event.
const MOST_ROWS: usize = 200;
/// Most entries of a trial that are looked at: a run may hold anything. Some fifty events have no more.
const MOST_ENTRIES: usize = 100_000;

pub(super) fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    for (cell, trials) in trials(data) {
        // One trial tells what happens; the others are in the table.
        let Some((trial, found)) = trials.iter().find(|(_, found)| !found.events.is_empty()) else {
            continue;
        };
        let place = data.environment_label(cell);
        for (number, event) in found.events.iter().enumerate() {
            let title = format!("{}, {place}, trial {:03}", was_done(event), trial.index);
            let until = found.events.get(number + 1).map_or(end(event), |next| next.at);
            m.add(&details(&title, &one(found, event, until)));
        }
    }
    m
}

/// The end of an event's timeline where no other comes.
fn end(event: &TopologyEvent) -> Nanos {
    Nanos(event.at.0.saturating_add(AFTER.0))
}

/// Rows of an event: what was done, then those of the data plane among those of the routers. A guest that holds routers has a clock of
/// its own, by which what was done may stand before the event or among what followed the one before, so it is told from the event.
fn rows(found: &TopologyOutcome, event: &TopologyEvent, until: Nanos) -> Vec<(Nanos, [String; 3])> {
    let done: BTreeSet<String> = found.events.iter().take(MOST_EVENTS).map(was_done).collect();
    let is_done = |entry: &Entry| entry.source == Source::Fault && done.contains(&entry.text);
    let within = |entry: &&Entry| (event.at..until.min(end(event))).contains(&entry.at) && !is_done(entry);
    let entries = found.timeline.iter().take(MOST_ENTRIES).filter(within);
    let said = |entry: &Entry| (entry.at, [entry.router.clone(), who(&entry.source), entry.text.clone()]);
    let own = (event.at, [String::new(), who(&Source::Fault), was_done(event)]);
    let mut rows: Vec<(Nanos, [String; 3])> = [own].into_iter().chain(entries.map(said)).collect();
    let plane = |after: Nanos, words: &str| {
        let row = ["data plane".to_owned(), "probes".to_owned(), words.to_owned()];
        (Nanos(event.at.0.saturating_add(after.0)), row)
    };
    let seen = worse([event.up, event.down]);
    rows.extend(seen.began.map(|after| plane(after, "the first probe is lost")));
    if seen.counts.lost > 0 {
        rows.extend(seen.whole_again.map(|after| plane(after, "all probes arrive again")));
    }
    rows.sort_by_key(|(at, _)| *at);
    let left_out = rows.len().saturating_sub(MOST_ROWS);
    rows.truncate(MOST_ROWS);
    if let Some((at, _)) = rows.last().filter(|_| left_out > 0) {
        let what = format!("{left_out} later rows are left out here; csv/timeline.csv has what routers said");
        rows.push((*at, ["all".to_owned(), "vtax".to_owned(), what]));
    }
    rows
}

/// What was done, as the timeline has it.
fn was_done(event: &TopologyEvent) -> String {
    event.fault.event().to_string()
}

fn who(source: &Source) -> String {
    match source {
        Source::Fault => "vtax".to_owned(),
        Source::Kernel => "kernel".to_owned(),
        Source::Daemon(name) => name.clone(),
    }
}

fn one(found: &TopologyOutcome, event: &TopologyEvent, until: Nanos) -> Markup {
    let columns = [("After the event", true), ("Where", false), ("Who says so", false), ("What", false)];
    let mut table = PlainTable::new("", &columns);
    for (at, cells) in rows(found, event, until) {
        let after = at.saturating_sub(event.at);
        table.push(&quantity(after.0 as f64, "ns"), cells);
    }
    table.finish()
}

pub(super) fn tables(data: &RunData) -> Vec<Table> {
    let mut table = Table::new("timeline", "Timeline", "cell,trial,at_s,router,source,text");
    let mut any = false;
    for (cell, trials) in trials(data) {
        for (trial, found) in trials {
            for entry in found.timeline.iter().take(MOST_ENTRIES) {
                any = true;
                table.push(vec![
                    text(cell.id.clone()),
                    count(trial.index),
                    number(entry.at.as_secs_f64()),
                    text(entry.router.clone()),
                    text(who(&entry.source)),
                    text(entry.text.clone()),
                ]);
            }
        }
    }
    if any { vec![table] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::TopologyFault;
    use vtax_topology::convergence::{Convergence, Counts};

    use super::*;

    #[test]
    fn the_data_plane_stands_among_what_routers_said() {
        let ms = Nanos::from_millis;
        let seen = Convergence {
            began: Some(ms(2)),
            by_loss: ms(30),
            by_rate: Some(ms(30)),
            whole_again: Some(ms(32)),
            counts: Counts { sent: 100, lost: 30, ..Counts::default() },
        };
        let fault = TopologyFault::CutLink("a-b".parse().unwrap());
        let event = TopologyEvent { fault, at: ms(1_000), up: seen, down: Convergence::default() };
        let event = TopologyEvent {
            down: Convergence { by_rate: Some(Nanos::ZERO), whole_again: Some(Nanos::ZERO), ..event.down },
            ..event
        };
        let entry = |at: u64, text: &str| Entry {
            at: ms(at),
            router: "a".to_owned(),
            source: Source::Kernel,
            text: text.to_owned(),
        };
        let found = TopologyOutcome {
            interval: ms(1),
            late: Nanos::ZERO,
            before: None,
            events: vec![event.clone()],
            timeline: vec![
                entry(900, "before"),
                entry(1_010, "down"),
                entry(1_031, "route"),
                entry(20_000, "later"),
            ],
            problem: None,
        };
        let words: Vec<String> =
            rows(&found, &event, ms(9_000)).into_iter().map(|(_, [_, _, what])| what).collect();
        assert_eq!(
            words,
            ["cut: a-b", "the first probe is lost", "down", "route", "all probes arrive again"]
        );
        let timeline = (0..250).map(|number| entry(1_010, &number.to_string())).collect();
        let loud = rows(&TopologyOutcome { timeline, ..found }, &event, ms(9_000));
        let [.., (_, [_, _, last])] = loud.as_slice() else { panic!("{loud:?}") };
        assert_eq!(loud.len(), MOST_ROWS + 1);
        assert!(last.starts_with("53 later rows are left out"), "{last}");
    }

    #[test]
    fn what_was_done_leads_its_own_rows_whatever_the_routers_clock_says() {
        let ms = Nanos::from_millis;
        let (up, down) = (Convergence::default(), Convergence::default());
        let event = |at: u64, fault| TopologyEvent { fault, at: ms(at), up, down };
        let link = "a-b".parse().unwrap();
        let done = |at: u64, text: &str| Entry {
            at: ms(at),
            router: String::new(),
            source: Source::Fault,
            text: text.to_owned(),
        };
        let events =
            vec![event(2_000, TopologyFault::CutLink(link)), event(12_000, TopologyFault::RestoreLink(link))];
        let found = TopologyOutcome {
            interval: ms(1),
            late: Nanos::ZERO,
            before: None,
            events: events.clone(),
            // By the routers' clock a millisecond before the restore is told of here.
            timeline: vec![done(2_001, "cut: a-b"), done(11_999, "restore: a-b"), done(3_000, "left out")],
            problem: None,
        };
        let words = |event: &TopologyEvent, until: u64| -> Vec<(Nanos, String)> {
            rows(&found, event, ms(until)).into_iter().map(|(at, [_, _, what])| (at, what)).collect()
        };
        assert_eq!(
            words(&events[0], 12_000),
            [(ms(2_000), "cut: a-b".to_owned()), (ms(3_000), "left out".to_owned())]
        );
        assert_eq!(words(&events[1], 22_000), [(ms(12_000), "restore: a-b".to_owned())]);
    }
}
