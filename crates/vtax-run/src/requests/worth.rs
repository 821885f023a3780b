//! What a step of load is worth.

use vtax_load::{Doubt, Interval, LatencyHistogram, LoadResult};
use vtax_store::record::{InvalidReason, Validity};
use vtax_units::{Nanos, Share};

/// Shares of what was asked for below this, by which answers are behind, don't matter.
const BEHIND: Share = Share(0.05);
/// From so much longer a wait in the second half of a step on than in the first, waits grow.
const GROWS: f64 = 1.1;

/// What a step without faults is worth, however it went along: a server that acknowledges what isn't so has no speed.
pub(super) fn undisturbed(result: &LoadResult) -> Validity {
    let ftp = result.details.as_ref().and_then(|details| details.ftp.as_ref());
    match ftp.map_or(0, |ftp| ftp.wrong()) {
        0 => validity(result),
        wrong => {
            let detail = format!("{wrong} transfers were acknowledged, but short or wrong");
            invalid(InvalidReason::DataWrong, detail)
        }
    }
}

/// What a step is worth, however it went along.
pub(crate) fn validity(result: &LoadResult) -> Validity {
    match result.doubt() {
        None => Validity::Valid,
        Some(Doubt::NothingSucceeded(why)) => invalid(InvalidReason::NothingSucceeded, why),
        Some(Doubt::GeneratorLimited(why)) => invalid(InvalidReason::GeneratorLimited, why),
    }
}

/// What a step at a given rate is worth by whether it was answered as fast as it asked. Where it wasn't, requests wait the longer the
/// later they begin, so a latency would tell of the step's length alone.
pub(super) fn kept_up(result: &LoadResult) -> Validity {
    if result.behind(BEHIND).is_none() {
        return Validity::Valid;
    }
    // Also where none piles up, fewer answers come than requests begin until the first have been under way for their whole time.
    let answered: Vec<&Interval> = result.intervals.iter().filter(|i| !i.latency.is_empty()).collect();
    let (early, late) = answered.split_at(answered.len() / 2);
    let (early, late) = (median(early), median(late));
    if early == Nanos::ZERO || late.0 as f64 <= early.0 as f64 * GROWS {
        return Validity::Valid;
    }
    let asked = result.counts.intended as f64 / result.duration.as_secs_f64().max(1e-9);
    let (early, late) = (early.as_secs_f64(), late.as_secs_f64());
    let detail = format!(
        "{asked:.0} requests/s were asked for and {:.0} answered in time, so waits grew: the median latency was {early:.3} s in the \
         first half and {late:.3} s in the second",
        result.throughput().0
    );
    invalid(InvalidReason::Overloaded, detail)
}

/// The median latency of what ended in these intervals, zero where nothing did.
fn median(intervals: &[&Interval]) -> Nanos {
    let mut all = LatencyHistogram::new();
    intervals.iter().for_each(|interval| all.add(&interval.latency));
    all.quantile(0.5)
}

/// What a load is worth that was held while things broke. Answers count as delayed beyond `delayed`; starts within a hundredth of
/// that are on time, however short latencies are.
pub(super) fn validity_under_faults(result: &LoadResult, delayed: Nanos) -> Validity {
    match result.doubt() {
        Some(Doubt::GeneratorLimited(_)) if result.on_time(Nanos(delayed.0 / 100)) => Validity::Valid,
        _ => validity(result),
    }
}

fn invalid(reason: InvalidReason, detail: String) -> Validity {
    Validity::Invalid { reason, detail }
}

#[cfg(test)]
mod tests {
    use vtax_load::Counts;

    use super::*;

    const WARMUP: f64 = 1.0;
    const DURATION: f64 = 10.0;

    /// A step of 10 s and 1 s of warm-up at this rate, whose request that is due at a time is answered when `answer` says.
    fn step(rate: f64, mut answer: impl FnMut(f64) -> f64) -> LoadResult {
        let interval = |i: u64| Interval {
            start: Nanos(i),
            counts: Counts::default(),
            latency: LatencyHistogram::new(),
            begun: None,
        };
        let mut result = LoadResult {
            duration: Nanos((DURATION * 1e9) as u64),
            intervals: (0..40).map(interval).collect(),
            ..vtax_load::merged(&[])
        };
        let mut in_time = 0;
        for i in 0..((WARMUP + DURATION) * rate) as u64 {
            let due = i as f64 / rate - WARMUP;
            let answered = answer(due);
            in_time += u64::from((0.0..DURATION).contains(&answered));
            if due < 0.0 {
                continue;
            }
            result.counts.intended += 1;
            result.counts.ok += 1;
            let latency = Nanos(((answered - due) * 1e9) as u64);
            result.latency.record(latency);
            let place = ((answered / DURATION * 40.0) as usize).min(39);
            result.intervals[place].latency.record(latency);
        }
        result.answered_in_time = Some(in_time);
        result
    }

    /// One server with a queue, which takes as long for each as `takes` says of the time at which it begins.
    fn queue(mut takes: impl FnMut(f64) -> f64) -> impl FnMut(f64) -> f64 {
        let mut free = -WARMUP;
        move |due| {
            let begins = free.max(due);
            free = begins + takes(begins);
            free
        }
    }

    fn is_overloaded(result: &LoadResult) -> bool {
        matches!(kept_up(result), Validity::Invalid { reason: InvalidReason::Overloaded, .. })
    }

    #[test]
    fn what_answers_less_than_it_is_asked_for_is_overloaded() {
        for rate in [50.0, 600.0, 5_000.0] {
            for (share, overloaded) in [(0.5, false), (0.99, false), (1.2, true), (1.5, true), (4.0, true)] {
                let result = step(rate, queue(|_| share / rate));
                assert_eq!(is_overloaded(&result), overloaded, "{rate}/s at {share} of its capacity");
            }
        }
        let Validity::Invalid { detail, .. } = kept_up(&step(600.0, queue(|_| 1.0 / 400.0))) else {
            panic!("valid")
        };
        let begins = "600 requests/s were asked for and 400 answered in time, so waits grew: ";
        assert!(detail.starts_with(begins), "{detail}");
    }

    #[test]
    fn what_is_slow_or_catches_up_is_not_overloaded() {
        // Nothing piles up, though of 10 s the answers of 4 are still to come.
        assert!(!is_overloaded(&step(600.0, |due| due + 5.0)));
        // Three times too slow until it is warm, and then fast enough for what waits.
        let cold = |begins: f64| if begins < 1.0 { 3.0 / 600.0 } else { 0.5 / 600.0 };
        assert!(!is_overloaded(&step(600.0, queue(cold))));
        // It stands still for 0.3 s in the end.
        let stalls = |begins: f64| if (9.7..9.71).contains(&begins) { 0.3 } else { 0.5 / 600.0 };
        assert!(!is_overloaded(&step(600.0, queue(stalls))));
        // Where it isn't known when answers came, nothing is claimed.
        let unknown = LoadResult { answered_in_time: None, ..step(600.0, queue(|_| 1.0 / 400.0)) };
        assert!(!is_overloaded(&unknown));
    }
}
