//! A quantity over repeated failovers: typical value, interval, and on how many it rests.

use vtax_stats::{ENCLOSING, Estimate, Group, MIN_TRIALS, estimate, estimate_counts, proportion};

use super::failover::Failover;
use crate::format::{duration, quantity, range, whole};

/// A duration or count of each failover.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    /// In CSV files and addresses.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) label: &'static str,
    /// `ns`, or empty for counts.
    pub(crate) unit: &'static str,
    /// What it is, for people who don't know the field.
    pub(crate) meaning: &'static str,
    pub(crate) of: fn(&Failover) -> Option<f64>,
    /// What it can be at most in that failover; `None` where nothing bounds it.
    pub(crate) most: fn(&Failover) -> Option<f64>,
}

const fn time(
    name: &'static str,
    label: &'static str,
    meaning: &'static str,
    of: fn(&Failover) -> Option<f64>,
) -> Quantity {
    Quantity { name, label, unit: "ns", meaning, of, most: |f| f.left_ns }
}

const fn count(
    name: &'static str,
    label: &'static str,
    meaning: &'static str,
    of: fn(&Failover) -> Option<f64>,
    most: fn(&Failover) -> Option<f64>,
) -> Quantity {
    Quantity { name, label, unit: "", meaning, of, most }
}

/// The name of the only time that failovers have in which nobody answered before something was restored.
pub(crate) const AFTER_RESTORE: &str = "after_restore";

/// Every quantity, in the order of tables.
pub(crate) const QUANTITIES: [Quantity; 17] = [
    time(
        "detection",
        "Failure noticed after",
        "From the fault until the failed host was believed dead: it had been silent on both heartbeat paths for as long \
         as the detector waits, or the end of its virtual machine was seen.",
        |f| f.times.detected.map(ns),
    ),
    time(
        "fencing",
        "Fencing took",
        "From that moment until the failed host could do no more harm: its port on the service network is cut and the \
         kernel has confirmed the end of everything on it. Nothing takes over before.",
        |f| f.fencing_ns,
    ),
    time(
        "takeover",
        "Take-over took",
        "From there until the other host's copy runs and is plugged in (or, where the mode keeps none, until it is booted \
         or restored). A guest that is moved on purpose: how long it ran nowhere.",
        |f| f.takeover_ns,
    ),
    time(
        "first_answer",
        "First answer after",
        "From the fault until a client got its first successful answer: what callers notice. It holds all of the above \
         and the time until a client repeats what was lost. Where nobody had to wait for an answer there is none.",
        |f| f.answered().filter(|_| !f.planned).map(ns),
    ),
    time(
        AFTER_RESTORE,
        "First answer after the restore",
        "Where nobody was answered before the plan restored what it had broken: from then until the first answer.",
        Failover::after_restore_ns,
    ),
    time(
        "silence",
        "Nobody was answered for",
        "Where the guest is moved on purpose: from the last answer on the old host to the first one on the new. It answers \
         while it is copied, so what callers notice begins long after the move does.",
        |f| f.silence_ns.filter(|_| f.planned),
    ),
    time(
        "normal",
        "Latency normal again after",
        "From the fault until answers came as fast as before it, and kept to it.",
        |f| f.normal().map(ns),
    ),
    time(
        "rearm",
        "Protected again after",
        "From the moment the other copy ran until its own first checkpoint on another host was complete.",
        |f| f.rearm_ns,
    ),
    time(
        "silence_arming",
        "Silence while that was prepared",
        "The longest time without any answer from the first answer until then: the end of the copy of the guest's memory \
         stops it once more, and callers notice that too.",
        |f| f.silence_arming_ns,
    ),
    time(
        "unprotected",
        "Unprotected for",
        "From the fault until the guest was protected again. A second failure in that time ends the service.",
        |f| f.times.rearmed.map(ns),
    ),
    Quantity {
        // It lies before the fault.
        most: |_| None,
        ..time(
            "forgotten",
            "Forgotten",
            "How old the restored state was: what the service did in that time before the fault, it doesn't know any more.",
            |f| f.forgotten_ns,
        )
    },
    time(
        "rebuild",
        "Rebuild of the RAID took",
        "From the moment at which a new disk took the place of the failed one until the RAID was whole again: as long as \
         that lasts, the failure of a second disk would lose everything.",
        |f| f.rebuild_ns,
    ),
    count(
        "connections",
        "Connections open at the fault",
        "TCP connections that clients held.",
        |f| f.counts.open.map(whole_number),
        |f| f.counts.most.map(whole_number),
    ),
    count(
        "connections_lost",
        "Connections lost",
        "Those that were reset, timed out or closed and so had to be opened anew.",
        |f| f.counts.lost.map(whole_number),
        |f| f.counts.open.map(whole_number),
    ),
    count(
        "failed",
        "Requests lost",
        "Requests or scenarios around the fault that never got the right answer in time.",
        |f| f.counts.failed.map(whole_number),
        |f| f.counts.attempted.map(whole_number),
    ),
    count(
        "delayed",
        "Requests delayed",
        "Those that got it, but later than the plan's `delayed` (100 ms unless it says otherwise).",
        |f| f.counts.delayed.map(whole_number),
        |f| f.counts.attempted.map(whole_number),
    ),
    count(
        "retransmissions",
        "Retransmissions",
        "Messages that clients sent again because nothing had come back.",
        |f| f.counts.retransmissions.map(whole_number),
        |_| None,
    ),
];

impl Quantity {
    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        QUANTITIES.iter().find(|quantity| quantity.name == name)
    }
}

fn ns(seconds: f64) -> f64 {
    seconds * 1e9
}

fn whole_number(count: u64) -> f64 {
    count as f64
}

/// What makes an interval of values.
type Estimator = fn(&Group<'_>) -> Option<Estimate>;

/// What is known of a quantity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// Failovers that have it.
    pub(crate) n: usize,
    /// Failovers that count.
    pub(crate) of: usize,
    pub(crate) median: Option<f64>,
    /// 95 % interval of the median of all that could be made.
    pub(crate) interval: Option<(f64, f64)>,
    /// Smallest and largest seen.
    pub(crate) extremes: Option<(f64, f64)>,
}

impl Figure {
    /// Of values in the order of time; those that aren't finite are none.
    pub(crate) fn new(values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self::with(estimate, values)
    }

    fn with(estimate: Estimator, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        let all: Vec<Option<f64>> = values.into_iter().map(|v| v.filter(|v| v.is_finite())).collect();
        let known: Vec<f64> = all.iter().copied().flatten().collect();
        // The estimate's own center went through logarithms and back, where 16 becomes 15.999999999999998.
        let median = vtax_stats::quantile(&known, 0.5);
        let found = estimate(&Group::exact(&known)).zip(median);
        let extremes = known
            .iter()
            .copied()
            .reduce(f64::min)
            .and_then(|low| Some((low, known.iter().copied().reduce(f64::max)?)));
        // A duration or a count can't be below zero, whatever its scatter suggests.
        let interval = found
            .and_then(|(found, center)| Estimate { center, ..found }.within((0.0, f64::INFINITY)).interval);
        Self { n: known.len(), of: all.len(), median, interval, extremes }
    }

    /// Of failovers, of what can be so much at most. Below [`ENCLOSING`] an interval rests on how all would have to be spread: of times
    /// that differ a hundredfold it holds what can't be, so there is none.
    pub(crate) fn of_failovers(unit: &str, values: impl IntoIterator<Item = Option<f64>>, most: f64) -> Self {
        let figure = Self::with(if unit.is_empty() { estimate_counts } else { estimate }, values);
        match figure.n < ENCLOSING {
            true => Self { interval: None, ..figure },
            false => figure.at_most(most),
        }
    }

    /// The same of what can't be more than that, as no share of time is above 1.
    pub(crate) fn at_most(self, most: f64) -> Self {
        let cut = |interval| {
            let estimate = Estimate { center: self.median.unwrap_or_default(), interval: Some(interval) };
            estimate.within((0.0, most)).interval
        };
        Self { interval: self.interval.and_then(cut), ..self }
    }

    /// Too few to say more than what was seen.
    pub(crate) fn unknown(&self) -> bool {
        self.n < MIN_TRIALS
    }

    /// `104 ms`, `can't tell`, empty where no failover has it.
    pub(crate) fn text(&self, unit: &str) -> String {
        match self.median {
            Some(_) if self.unknown() => "can't tell".to_owned(),
            Some(v) => value(v, unit),
            None => String::new(),
        }
    }

    /// `98–110, n = 9`; what was seen where that is too little for an interval: `95.0 ms to 112 ms seen, n = 5`.
    pub(crate) fn detail(&self, unit: &str) -> String {
        let n = if self.n == self.of {
            format!("n = {}", self.n)
        } else {
            format!("n = {} of {}", self.n, self.of)
        };
        match (self.median, self.interval, self.extremes) {
            (Some(_), _, Some((low, high))) if self.unknown() => {
                let seen = if low == high {
                    value(low, unit)
                } else {
                    format!("{} and {}", value(low, unit), value(high, unit))
                };
                format!("{seen} seen, {n}")
            }
            // Nothing scatters, so that an interval would claim more than is known.
            (Some(_), _, Some((low, high))) if low == high => format!("in all, {n}"),
            (Some(center), Some(interval), _) if unit == "ns" => {
                format!("{}, {n}", range(center, interval, unit))
            }
            // Half a request can't be lost: outwards to whole ones.
            (Some(_), Some((low, high)), _) => {
                format!("{}–{}, {n}", whole(nearly(low).floor()), whole(nearly(high).ceil()))
            }
            (Some(_), None, Some((low, high))) => {
                format!("{} to {} seen, {n}", value(low, unit), value(high, unit))
            }
            _ => n,
        }
    }
}

fn value(v: f64, unit: &str) -> String {
    match unit {
        "ns" => duration(v),
        "" => whole(nearly(v)),
        _ => quantity(v, unit),
    }
}

/// Logarithms and back turn 8 into 8.000000000000002.
fn nearly(v: f64) -> f64 {
    if (v - v.round()).abs() < 1e-9 * v.abs().max(1.0) { v.round() } else { v }
}

/// `5 of 5` and `47–100 of 100`: what was seen, and what it shows of all such cases with 95 % certainty.
pub(crate) fn seen_of(successes: u64, n: u64) -> (String, String) {
    let shows = match proportion(successes, n) {
        None => String::new(),
        Some((low, high)) => format!("{:.0}–{:.0} of 100", (low * 100.0).floor(), (high * 100.0).ceil()),
    };
    (format!("{successes} of {n}"), shows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_failovers_cannot_tell() {
        let two = Figure::new([Some(1e8), None, Some(2e8)]);
        assert_eq!(two.text("ns"), "can't tell");
        assert_eq!(two.detail("ns"), "100 ms and 200 ms seen, n = 2 of 3");
        let none = Figure::new([None, None]);
        assert_eq!((none.text("ns"), none.detail("ns")), (String::new(), "n = 0 of 2".to_owned()));
    }

    #[test]
    fn what_few_failovers_took_is_told_as_it_was_seen() {
        let seen = [Some(3.91e6), Some(8.59e6), Some(741e6)];
        let three = Figure::of_failovers("ns", seen, f64::INFINITY);
        assert_eq!(three.text("ns"), "8.59 ms");
        assert_eq!((three.detail("ns").as_str(), three.interval), ("3.91 ms to 741 ms seen, n = 3", None));
        let six = seen.into_iter().cycle().take(ENCLOSING);
        let many = Figure::of_failovers("ns", six, f64::INFINITY);
        assert!(many.interval.is_some(), "{many:?}");
    }

    #[test]
    fn no_more_is_lost_than_there_was() {
        let lost = || [3.0, 0.0, 76.0, 2.0, 1.0, 170.0].map(Some);
        let (_, high) = Figure::of_failovers("", lost(), f64::INFINITY).interval.unwrap();
        assert!(high > 100.0, "{high}");
        let (low, high) = Figure::of_failovers("", lost(), 100.0).interval.unwrap();
        assert!(low >= 0.0 && high == 100.0, "{low} {high}");
    }

    #[test]
    fn nothing_is_below_zero() {
        let figure = Figure::new([0.0, 0.0, 0.0, 5.0, 0.0].map(Some));
        assert_eq!(figure.text(""), "0");
        let (low, high) = figure.interval.unwrap();
        assert!(low == 0.0 && high >= 5.0, "{low} {high}");
        assert!(Figure::new([Some(f64::NAN), Some(f64::INFINITY)]).median.is_none());
    }

    #[test]
    fn no_share_is_above_the_whole() {
        let share = Figure::new([0.99, 0.98, 0.3].map(Some));
        let (low, high) = share.interval.unwrap();
        assert!(high > 1.0, "{share:?}");
        assert_eq!(share.at_most(1.0).interval, Some((low, 1.0)));
    }

    #[test]
    fn shares_say_what_few_show() {
        assert_eq!(seen_of(5, 5), ("5 of 5".to_owned(), "47–100 of 100".to_owned()));
        assert_eq!(seen_of(0, 0).1, "");
    }
}
