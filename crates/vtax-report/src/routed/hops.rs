//! Where packets spent their time on the way through the routers, hop by hop.

use vtax_plan::model::Cell;
use vtax_store::record::{TrialRecord, Validity};
use vtax_topology::hops::{Hop, Hops, Part, Times};
use vtax_units::counted;

use crate::data::RunData;
use crate::format::quantity;
use crate::html::parts::{FIGURES, scrolling};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::table::{Table, count, number, text};

/// Parts of a way that are looked at in a trial: a run may hold anything.
const MOST_PARTS: usize = 1_000;

pub(super) fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    let columns = [
        ("Environment, path and measure", false),
        ("Way", false),
        ("Hop", false),
        ("Packets", true),
        ("Forwarding: the shortest", true),
        ("Median", true),
        ("99 of 100 within", true),
        ("Waiting, mean", true),
        ("Share of the way", true),
    ];
    let mut table = PlainTable::new(FIGURES, &columns);
    let (mut any, mut missed) = (false, 0);
    for (cell, measure, trials) in cells(data) {
        let all: Vec<&Hops> = trials.iter().map(|(_, hops)| *hops).collect();
        missed += all.iter().map(|hops| hops.missed).sum::<u64>();
        let parts = over_trials(&all);
        let place = format!("{}, {measure}", data.environment_label(cell));
        for part in &parts {
            any = true;
            table.push(&place, row(part, &parts));
        }
    }
    if any {
        m.element(
            "p",
            &[],
            "Some of the load’s own packets, captured where each router’s kernel takes them in and where its queues let \
             go of them, in the first ten seconds of a load; medians over trials. The shortest time of a hop is what \
             forwarding takes where nothing is in the way, the rest is waiting: for the CPU and in the queue of the link \
             that the packet leaves by, whose own rate and delay count as well. The share is of all mean times of the way.",
        );
        m.add(&scrolling(&table.finish()));
        if missed > 0 {
            m.element("p", &[], &format!("{} found no room in the captures.", counted(missed, "packet")));
        }
    }
    for (cell, _, trials) in cells(data) {
        for (trial, problem) in trials.iter().filter_map(|(t, hops)| Some((t, hops.problem.as_ref()?))) {
            let words = format!("trial {:03}, {}: no hop was watched: {problem}", trial.index, cell.id);
            m.element("p", &[], &words);
        }
    }
    m
}

/// A cell whose hops were watched, a measure's name, and its trials that count.
type Watched<'a> = (&'a Cell, &'a str, Vec<(&'a TrialRecord, &'a Hops)>);

/// All cells whose hops were watched, by measure.
fn cells(data: &RunData) -> Vec<Watched<'_>> {
    let mut found = Vec::new();
    for cell in data.plan.cells.iter().filter(|cell| cell.path.kind.routed().is_some_and(|r| r.hops)) {
        for measure in &data.plan.measures {
            let own = |trial: &&TrialRecord| {
                trial.cell == cell.id && trial.measure == measure.name && trial.validity == Validity::Valid
            };
            let trials: Vec<(&TrialRecord, &Hops)> =
                data.trials.iter().filter(own).filter_map(|t| Some((t, t.hops.as_deref()?))).collect();
            if !trials.is_empty() {
                found.push((cell, measure.name.as_str(), trials));
            }
        }
    }
    found
}

/// Each part of both ways, in the order of the first trial that has any: medians over trials, packets of all together.
fn over_trials(all: &[&Hops]) -> Vec<Hop> {
    let mut parts: Vec<(&Part, bool)> = Vec::new();
    for hop in all.iter().flat_map(|hops| hops.hops.iter().take(MOST_PARTS)) {
        if !parts.contains(&(&hop.part, hop.up)) {
            parts.push((&hop.part, hop.up));
        }
    }
    // A stable order: what a later trial saw alone comes after the others of its way, and the whole last.
    parts.sort_by_key(|(part, up)| (!*up, **part == Part::Whole));
    let hop = |(part, up): (&Part, bool)| {
        let same = all.iter().flat_map(|hops| hops.hops.iter().take(MOST_PARTS));
        let times: Vec<Times> =
            same.filter(|hop| hop.part == *part && hop.up == up).map(|hop| hop.times).collect();
        let median = |of: fn(&Times) -> u64| {
            let values: Vec<f64> = times.iter().map(|times| of(times) as f64).collect();
            vtax_units::Nanos(vtax_stats::quantile(&values, 0.5).unwrap_or_default() as u64)
        };
        Hop {
            part: part.clone(),
            up,
            times: Times {
                packets: times.iter().map(|times| times.packets).sum(),
                least: median(|times| times.least.0),
                median: median(|times| times.median.0),
                p99: median(|times| times.p99.0),
                mean: median(|times| times.mean.0),
            },
        }
    };
    parts.into_iter().map(hop).collect()
}

fn row(hop: &Hop, all: &[Hop]) -> [String; 8] {
    let time = |ns: u64| quantity(ns as f64, "ns");
    let parts = all.iter().filter(|other| other.up == hop.up && other.part != Part::Whole);
    let sum: f64 = parts.map(|other| other.times.mean.0 as f64).sum();
    let share = match hop.part {
        Part::Whole => String::new(),
        _ if sum > 0.0 => quantity(hop.times.mean.0 as f64 / sum, "1"),
        _ => String::new(),
    };
    [
        way(hop.up).to_owned(),
        words(&hop.part),
        hop.times.packets.to_string(),
        time(hop.times.least.0),
        time(hop.times.median.0),
        time(hop.times.p99.0),
        time(hop.times.waited().0),
        share,
    ]
}

const fn way(up: bool) -> &'static str {
    if up { "to the service" } else { "to the client" }
}

fn words(part: &Part) -> String {
    match part {
        Part::Router(name) => format!("router {name}"),
        Part::Cable(name) => format!("cable {name}"),
        Part::Whole => "all of it".to_owned(),
    }
}

pub(super) fn tables(data: &RunData) -> Vec<Table> {
    let mut table =
        Table::new("hops", "Hops", "cell,measure,trial,way,hop,packets,least_ns,median_ns,p99_ns,mean_ns");
    let mut any = false;
    for (cell, measure, trials) in cells(data) {
        for (trial, hops) in trials {
            for hop in hops.hops.iter().take(MOST_PARTS) {
                any = true;
                table.push(vec![
                    text(cell.id.clone()),
                    text(measure),
                    count(trial.index),
                    text(if hop.up { "up" } else { "down" }),
                    text(words(&hop.part)),
                    count(hop.times.packets),
                    number(hop.times.least.0 as f64),
                    number(hop.times.median.0 as f64),
                    number(hop.times.p99.0 as f64),
                    number(hop.times.mean.0 as f64),
                ]);
            }
        }
    }
    if any { vec![table] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use vtax_units::Nanos;

    use super::*;

    fn hop(part: Part, up: bool, least: u64, mean: u64) -> Hop {
        let times = Times {
            packets: 10,
            least: Nanos(least),
            median: Nanos(mean),
            p99: Nanos(mean * 2),
            mean: Nanos(mean),
        };
        Hop { part, up, times }
    }

    #[test]
    fn shares_are_of_one_way_and_the_whole_is_last() {
        let router = |name: &str| Part::Router(name.to_owned());
        let first = Hops {
            hops: vec![
                hop(router("a"), true, 10_000, 30_000),
                hop(Part::Whole, true, 40_000, 99_000),
                hop(router("a"), false, 10_000, 10_000),
            ],
            ..Hops::default()
        };
        let second = Hops {
            hops: vec![hop(router("a"), true, 10_000, 30_000), hop(router("b"), true, 10_000, 10_000)],
            ..Hops::default()
        };
        let parts = over_trials(&[&first, &second]);
        let words: Vec<String> = parts
            .iter()
            .map(|part| {
                let [way, words, packets, least, _, _, waited, share] = row(part, &parts);
                format!("{way}: {words}, {packets}, {least}, {waited}, {share}")
            })
            .collect();
        assert_eq!(
            words,
            [
                "to the service: router a, 20, 10.0 µs, 20.0 µs, 75.0 %",
                "to the service: router b, 10, 10.0 µs, 0 ns, 25.0 %",
                "to the service: all of it, 10, 40.0 µs, 59.0 µs, ",
                "to the client: router a, 10, 10.0 µs, 0 ns, 100 %",
            ]
        );
    }
}
