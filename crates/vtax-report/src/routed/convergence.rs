//! How long the data plane took, of each thing that was done to a topology.

use std::collections::BTreeMap;

use vtax_stats::ENCLOSING;
use vtax_store::failover::TopologyEvent;
use vtax_topology::convergence::Convergence;
use vtax_units::Nanos;

use super::{median_by_loss, median_by_rate, trials, was_cut_off, worse};
use crate::data::RunData;
use crate::format::{quantity, range, typical};
use crate::html::parts::{FIGURES, scrolling};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::table::{Table, count, number, number_or_none, text};

/// The row of what was lost before anything was done: a path that loses then isn't stable.
const BEFORE: &str = "nothing yet";
/// Things of a trial that are looked at: a run may hold anything.
pub(super) const MOST_EVENTS: usize = 1_000;

pub(super) fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    let columns = [
        ("What was done", false),
        ("Environment and path", false),
        ("Times", true),
        ("By loss, median", true),
        ("95 % interval", true),
        ("least to most", true),
        ("By rate, median", true),
        ("Lost, duplicated, reordered, all together", true),
        ("Sent late, at most", true),
    ];
    let mut table = PlainTable::new(FIGURES, &columns);
    let mut any = false;
    for (cell, trials) in trials(data) {
        let events = trials.iter().flat_map(|(trial, found)| {
            let of_trial = found.events.iter().take(MOST_EVENTS);
            of_trial.map(|event| (trial.measure.as_str(), event))
        });
        let late = trials.iter().map(|(_, found)| found.late).max().unwrap_or_default();
        let late = quantity(late.0 as f64, "ns");
        let between = trials.iter().map(|(_, found)| found.interval).max().unwrap_or_default();
        let place = data.environment_label(cell);
        let row = |all: &[Convergence]| row(&place, all, between).into_iter().chain([late.clone()]);
        let before: Vec<Convergence> =
            trials.iter().filter_map(|(_, found)| found.before.map(worse)).collect();
        if before.iter().any(|found| found.counts.lost > 0) {
            table.push(BEFORE, row(&before));
        }
        for (words, events) in by_kind(events) {
            any = true;
            let all: Vec<Convergence> = events.iter().map(|event| worse([event.up, event.down])).collect();
            table.push(&words, row(&all));
        }
    }
    if any {
        m.element(
            "p",
            &[],
            "Probes from edge to edge, one each way every millisecond, beside the load; of times the worse of both ways is told, \
             counts are of both ways and of all times that it was done. What mends is told too: the way back may lose as much. \
             A time by rate is \"never\" where a way was not whole again before the next thing was done; of several, \"never\" stands above \
             all times. What it lost until then is a lower bound (≥) of what it would have lost. Fewer than six times have no interval. \
             The row \"nothing yet\" is of the time before the first. A probe belongs to the time in which it would have arrived, had it \
             taken the least that any took. Differences smaller than how late probes were sent, in the last \
             column, mean nothing.",
        );
        m.add(&scrolling(&table.finish()));
    }
    m.add(&problems(data));
    m
}

/// What kept probes away.
fn problems(data: &RunData) -> Markup {
    let mut m = Markup::new();
    for (cell, trials) in trials(data) {
        for (trial, problem) in trials.iter().filter_map(|(t, found)| Some((t, found.problem.as_ref()?))) {
            m.element(
                "p",
                &[],
                &format!("trial {:03}, {}: no probes were sent: {problem}", trial.index, cell.id),
            );
        }
    }
    m
}

/// Events of the same measure that are alike together, in the order in which they first came. A link that is restored was cut in
/// one measure and lossy in another: then the measure is named.
fn by_kind<'a>(
    events: impl Iterator<Item = (&'a str, &'a TopologyEvent)>,
) -> Vec<(String, Vec<&'a TopologyEvent>)> {
    let mut kinds: Vec<(&str, String, Vec<&TopologyEvent>)> = Vec::new();
    for (measure, event) in events {
        let words = event.fault.event().to_string();
        match kinds.iter_mut().find(|(of, known, _)| *of == measure && *known == words) {
            Some((_, _, events)) => events.push(event),
            None => kinds.push((measure, words, vec![event])),
        }
    }
    let mut measures: BTreeMap<String, usize> = BTreeMap::new();
    for (_, words, _) in &kinds {
        *measures.entry(words.clone()).or_default() += 1;
    }
    let named = |(measure, words, events): (&str, String, _)| {
        (if measures[&words] > 1 { format!("{words} ({measure})") } else { words }, events)
    };
    kinds.into_iter().map(named).collect()
}

/// The cells of a row, of probes so far apart.
fn row(place: &str, all: &[Convergence], between: Nanos) -> [String; 7] {
    let time = |median: Option<f64>| median.map_or_else(String::new, |ns| quantity(ns, "ns"));
    let by_loss = median_by_loss(all);
    let never = all.iter().filter(|found| found.by_rate.is_none()).count();
    let rate = match median_by_rate(all) {
        Some((_, true)) if never == all.len() => "never".to_owned(),
        Some((_, true)) => format!("never ({never} of {})", all.len()),
        by_rate if never == 0 => time(by_rate.map(|(ns, _)| ns)),
        by_rate => format!("{}, {never} never", time(by_rate.map(|(ns, _)| ns))),
    };
    let sum = |of: fn(&Convergence) -> u64| all.iter().map(of).sum::<u64>();
    let [lost, duplicated, reordered] = [
        sum(|found| found.counts.lost),
        sum(|found| found.counts.duplicated),
        sum(|found| found.counts.reordered),
    ];
    [
        place.to_owned(),
        all.len().to_string(),
        by_loss.map_or_else(String::new, |(ns, cut_off)| typical(ns, "ns", cut_off)),
        interval(all, between).unwrap_or_default(),
        span(all).unwrap_or_default(),
        rate,
        format!("{lost}, {duplicated}, {reordered}"),
    ]
}

/// The least and the most that was lost, as times.
fn span(all: &[Convergence]) -> Option<String> {
    let times = || all.iter().map(|found| (found.by_loss.0 as f64, was_cut_off(found)));
    let least = times().min_by(|one, other| one.0.total_cmp(&other.0))?;
    let most = times().max_by(|one, other| one.0.total_cmp(&other.0))?;
    if !least.1 && !most.1 {
        return Some(range(median_by_loss(all)?.0, (least.0, most.0), "ns"));
    }
    let [least, most] = [least, most].map(|(ns, cut_off)| typical(ns, "ns", cut_off));
    Some(if least == most { least } else { format!("{least} to {most}") })
}

/// The interval of the median of all times by loss that could be had. `None` where there are too few, and where one was cut off:
/// then no time is known above which it can't lie.
fn interval(all: &[Convergence], between: Nanos) -> Option<String> {
    if all.len() < ENCLOSING || all.iter().any(was_cut_off) {
        return None;
    }
    let times: Vec<f64> = all.iter().map(|found| found.by_loss.0 as f64).collect();
    // No less is lost than nothing, and no more than was sent one way.
    let sent = all.iter().map(|found| found.counts.sent.div_ceil(2)).max()?;
    let possible = (0.0, sent as f64 * between.0 as f64);
    let estimate = vtax_stats::estimate(&vtax_stats::Group::exact(&times))?.within(possible);
    Some(range(estimate.center, estimate.interval?, "ns"))
}

pub(super) fn tables(data: &RunData) -> Vec<Table> {
    let mut table = Table::new(
        "convergence",
        "Convergence",
        "cell,trial,event,at_s,way,by_loss_ns,by_rate_ns,began_ns,whole_again_ns,sent,lost,duplicated,reordered",
    );
    let mut any = false;
    for (cell, trials) in trials(data) {
        for (trial, found) in trials {
            for event in found.events.iter().take(MOST_EVENTS) {
                for (way, of) in [("up", &event.up), ("down", &event.down)] {
                    any = true;
                    let ns = |at: Option<Nanos>| number_or_none(at.map(|at| at.0 as f64));
                    table.push(vec![
                        text(cell.id.clone()),
                        count(trial.index),
                        text(event.fault.event().to_string()),
                        number(event.at.as_secs_f64()),
                        text(way),
                        number(of.by_loss.0 as f64),
                        ns(of.by_rate),
                        ns(of.began),
                        ns(of.whole_again),
                        count(of.counts.sent),
                        count(of.counts.lost),
                        count(of.counts.duplicated),
                        count(of.counts.reordered),
                    ]);
                }
            }
        }
    }
    if any { vec![table] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::TopologyFault;
    use vtax_topology::convergence::Counts;

    use super::*;

    #[test]
    fn a_median_by_rate_that_falls_on_never_is_never() {
        let by_rate = |all: &[Option<u64>]| {
            let found = |rate: &Option<u64>| Convergence {
                by_rate: rate.map(Nanos::from_millis),
                by_loss: Nanos::from_millis(1),
                ..Convergence::default()
            };
            row("native", &all.iter().map(found).collect::<Vec<_>>(), Nanos::from_millis(1))[5].clone()
        };
        assert_eq!(by_rate(&[Some(1), Some(3), Some(2)]), "2.00 ms");
        assert_eq!(by_rate(&[Some(1), Some(2), None]), "2.00 ms, 1 never");
        assert_eq!(by_rate(&[Some(1), None, None]), "never (2 of 3)");
        assert_eq!(by_rate(&[Some(1), None]), "never (1 of 2)");
        assert_eq!(by_rate(&[None, None]), "never");
    }

    #[test]
    fn what_was_cut_off_is_told_as_a_bound_and_without_an_interval() {
        let by_loss = |all: &[(u64, bool)]| {
            let found = |(ms, is_whole): &(u64, bool)| Convergence {
                by_rate: is_whole.then_some(Nanos::from_millis(*ms)),
                by_loss: Nanos::from_millis(*ms),
                counts: Counts { sent: 2_000, lost: *ms, ..Counts::default() },
                ..Convergence::default()
            };
            let all: Vec<Convergence> = all.iter().map(found).collect();
            let [_, _, median, interval, span, ..] = row("native", &all, Nanos::from_millis(1));
            [median, interval, span]
        };
        let never = by_loss(&[(9_980, false), (9_940, false), (9_990, false)]);
        assert_eq!(never, ["≥ 9.98 s", "", "≥ 9.94 s to ≥ 9.99 s"]);
        assert_eq!(
            by_loss(&[(970, true), (9_980, false), (866, true)]),
            ["970 ms", "", "866 ms to ≥ 9.98 s"]
        );
        assert_eq!(by_loss(&[(970, true), (926, true), (866, true)]), ["926 ms", "", "866–970"]);
        // They grow, so that an interval of what may come reaches far.
        let [median, interval, _] = by_loss(&[1, 1, 2, 3, 1_000, 1_000].map(|ms| (ms, true)));
        assert_eq!(median, "2.50 ms");
        assert!(interval.ends_with("1.00 s"), "no more than was sent one way: {interval}");
    }

    #[test]
    fn what_is_done_in_two_measures_is_told_apart() {
        let event = |fault| TopologyEvent {
            fault,
            at: Nanos(0),
            up: Convergence::default(),
            down: Convergence::default(),
        };
        let link = "a-b".parse().unwrap();
        let (cut, restore) = (event(TopologyFault::CutLink(link)), event(TopologyFault::RestoreLink(link)));
        let events = [("cut", &cut), ("cut", &restore), ("silent", &restore), ("cut", &cut)];
        let found: Vec<_> = by_kind(events.into_iter()).into_iter().map(|(w, e)| (w, e.len())).collect();
        let expected = [("cut: a-b", 2), ("restore: a-b (cut)", 1), ("restore: a-b (silent)", 1)];
        assert_eq!(found, expected.map(|(words, times)| (words.to_owned(), times)));
    }
}
