//! Warm-up detection: what of a load step was still warm-up beyond the plan's is cut off; a step that never becomes
//! steady makes its trial invalid.

use vtax_load::{Begun, Counts, Interval, LatencyHistogram, LoadResult};
use vtax_stats::settled;
use vtax_store::record::{InvalidReason, SteadyState, Validity, WarmUp};
use vtax_units::{Nanos, Share};

/// Intervals of a load step: enough to tell a late change from scatter, few enough to cost nothing.
const INTERVALS: u64 = 40;
/// Closing an interval takes a worker some 50 µs; that must stay below a thousandth of its time.
const SHORTEST: Nanos = Nanos::from_millis(50);
/// Longer ones would hide what lasts a few seconds.
const LONGEST: Nanos = Nanos::from_secs(1);
/// More of them make a result large, and the engine refuses still more: those of a step of hours are longer.
const MOST_INTERVALS: u64 = 5_000;
/// Fewer values than this can't tell a change from scatter.
const LEAST_VALUES: usize = 20;
/// A value is of at least this many requests on average, or its own scatter is all that is seen.
const REQUESTS_PER_VALUE: u64 = 10;

/// Length of the intervals that a load step of this duration is recorded in; all are equally long, to a
/// few nanoseconds.
pub(crate) fn interval(duration: Nanos) -> Nanos {
    let count = INTERVALS.min(duration.0 / SHORTEST.0).max(duration.0.div_ceil(LONGEST.0));
    let count = count.clamp(1, MOST_INTERVALS);
    Nanos(duration.0.div_ceil(count).max(1))
}

/// What tells how a load step went along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Series {
    /// Median latency of each interval: for open loops, whose pace is given.
    Latency,
    /// Requests sent in each interval: for closed loops, where each follows an answer. (Answers are
    /// not counted: those to requests of the warm-up are missing at the start.)
    Sent,
}

impl Series {
    const fn name(self) -> &'static str {
        match self {
            Self::Latency => "median latency",
            Self::Sent => "requests sent",
        }
    }

    fn value(self, intervals: &[Interval]) -> Option<f64> {
        match self {
            Self::Sent => Some(intervals.iter().map(|i| i.counts.sent as f64).sum()),
            Self::Latency => {
                let mut all = LatencyHistogram::new();
                intervals.iter().for_each(|i| all.add(&i.latency));
                (!all.is_empty()).then(|| all.quantile(0.5).0 as f64)
            }
        }
    }
}

/// Cuts warm-up off `load`, whose intervals stay whole; where it never became steady, says why it
/// doesn't count. Changes of level below `tolerance` don't matter.
///
/// `agree` is asked once, with the time that this step would cut, for the time to be cut: two steps that are
/// compared moment by moment must keep the same moments.
pub(crate) fn cut_warm_up(
    load: &mut LoadResult,
    of: Series,
    tolerance: Share,
    agree: impl FnOnce(Nanos) -> Nanos,
) -> (WarmUp, Validity) {
    let group = group_size(load, of);
    let length = load.intervals.get(1).map_or(load.duration, |second| second.start);
    let found = |state, cut, values: usize, detail: String| WarmUp {
        state,
        cut,
        series: of.name().to_owned(),
        interval: Nanos(length.0.saturating_mul(group as u64)),
        values: values as u32,
        detail,
    };
    let series = series(&load.intervals, group, of);
    let values = series.len();
    if values < LEAST_VALUES {
        let cut = cut(load, intervals_of(load, agree(Nanos::ZERO)));
        let detail = format!(
            "not judged: {values} intervals of {REQUESTS_PER_VALUE} requests or more, {LEAST_VALUES} are needed"
        );
        return (found(SteadyState::NotJudged, cut, values, detail), Validity::Valid);
    }
    match settled(&series, tolerance.0) {
        Ok(steady) => {
            let own = load.intervals.get(steady.from * group).map_or(Nanos::ZERO, |i| i.start);
            let cut = cut(load, intervals_of(load, agree(own)));
            let seconds = cut.as_secs_f64();
            let detail = match cut {
                Nanos::ZERO => "steady from the start of the recorded time".to_owned(),
                _ if cut > own => format!("the first {seconds:.2} s were still warm-up of its partner"),
                _ => format!("the first {seconds:.2} s were still warm-up"),
            };
            (found(SteadyState::Steady, cut, values, detail), Validity::Valid)
        }
        Err(why) => {
            agree(Nanos::ZERO);
            let detail = format!("no steady state: by the {} of each interval, {why}", of.name());
            let validity = Validity::Invalid { reason: InvalidReason::NoSteadyState, detail: detail.clone() };
            (found(SteadyState::Never, Nanos::ZERO, values, detail), validity)
        }
    }
}

/// Intervals that begin before this time.
fn intervals_of(load: &LoadResult, time: Nanos) -> usize {
    load.intervals.iter().take_while(|i| i.start < time).count()
}

/// How many neighbouring intervals make one value.
fn group_size(load: &LoadResult, of: Series) -> usize {
    let requests = match of {
        Series::Latency => load.latency.len(),
        Series::Sent => load.counts.sent,
    };
    let intervals = load.intervals.len() as u64;
    usize::try_from((REQUESTS_PER_VALUE * intervals).div_ceil(requests.max(1))).unwrap_or(usize::MAX).max(1)
}

/// One value for each whole group; a group without an answer is as good as its neighbour.
fn series(intervals: &[Interval], group: usize, of: Series) -> Vec<f64> {
    let values: Vec<Option<f64>> = intervals.chunks_exact(group).map(|g| of.value(g)).collect();
    let mut last = values.iter().flatten().next().copied();
    let mut next = |value: Option<f64>| {
        last = value.or(last);
        last
    };
    values.into_iter().map_while(&mut next).collect()
}

/// Reduces `load` to what came after this time, up to its next interval.
pub(crate) fn cut_to(load: &mut LoadResult, time: Nanos) {
    let from = intervals_of(load, time);
    cut(load, from);
}

/// What became of the requests that began in these intervals; `None` where a load doesn't tell.
fn begun_in(intervals: &[Interval]) -> Option<Begun> {
    let mut sum = Begun::default();
    for interval in intervals {
        sum.add(interval.begun.as_deref()?);
    }
    Some(sum)
}

/// Reduces `load` to what came after its first `from` intervals; returns the time cut. Latencies are of the answers that came after
/// it, also of those few whose requests were under way then.
fn cut(load: &mut LoadResult, from: usize) -> Nanos {
    let start = load.intervals.get(from).map_or(Nanos::ZERO, |i| i.start);
    if start == Nanos::ZERO {
        return start;
    }
    let sum = |intervals: &[Interval]| {
        let mut counts = Counts::default();
        intervals.iter().for_each(|i| counts.add(&i.counts));
        counts
    };
    let mut kept = sum(&load.intervals[from..]);
    // Only requests whose start lies in the recorded time count, so what became of earlier ones doesn't.
    if let Some(begun) = begun_in(&load.intervals[from..]) {
        kept.set_outcomes(begun);
    } else {
        // Whether those under way succeeded isn't known: no success is claimed that wasn't there.
        let before = sum(&load.intervals[..from]);
        let under_way = before.sent.saturating_sub(before.ok + before.errors.total());
        kept.ok = kept.ok.saturating_sub(under_way);
    }
    let mut latency = LatencyHistogram::new();
    load.intervals[from..].iter().for_each(|i| latency.add(&i.latency));
    load.counts = kept;
    load.latency = latency;
    load.duration = Nanos(load.duration.0.saturating_sub(start.0));
    start
}

#[cfg(test)]
mod tests {
    use vtax_load::Errors;

    use super::*;

    /// A step at 1,000 requests per second, each interval with the latency that `at` says.
    fn load(intervals: u64, per_interval: u64, at: impl Fn(u64) -> u64) -> LoadResult {
        let length = Nanos::from_millis(50);
        let mut load = LoadResult {
            started_unix_ns: 0,
            connections: Vec::new(),
            duration: Nanos(length.0 * intervals),
            counts: Counts::default(),
            latency: LatencyHistogram::new(),
            lateness: LatencyHistogram::new(),
            intervals: Vec::new(),
            generator: Default::default(),
            samples: Vec::new(),
            details: None,
            timeout: Nanos::ZERO,
            answered_in_time: None,
        };
        for i in 0..intervals {
            let mut latency = LatencyHistogram::new();
            // A little scatter, or the smallest drift would be certain.
            (0..per_interval).for_each(|k| latency.record(Nanos(at(i) + (i * 37 + k) % 11 * 1_000)));
            let mut counts = Counts { intended: per_interval, sent: per_interval, ..Counts::default() };
            // One request is under way at every boundary.
            counts.ok = per_interval - u64::from(i == 0);
            counts.unfinished = u64::from(i + 1 == intervals);
            load.counts.add(&counts);
            load.latency.add(&latency);
            load.intervals.push(Interval { start: Nanos(i * length.0), counts, latency, begun: None });
        }
        load
    }

    const TOLERANCE: Share = Share(0.05);

    /// A hundred requests are under way at the cut and time out; of the 10,000 after it none fails.
    #[test]
    fn what_became_of_requests_under_way_at_the_cut_is_no_part_of_the_rest() {
        let mut step = load(40, 500, |_| 3_000_000);
        let timeouts = Errors { client_timeout: 100, ..Errors::default() };
        for (i, interval) in (0_u64..).zip(&mut step.intervals) {
            let (failed, errors) = if i == 19 { (100, timeouts.clone()) } else { (0, Errors::default()) };
            let begun = Begun { sent: 500, ok: 500 - failed, errors, ..Begun::default() };
            interval.counts = Counts { intended: 500, sent: 500, ok: 500, ..Counts::default() };
            interval.begun = Some(Box::new(begun));
        }
        // They began in the last interval before the cut, and ended a second later.
        step.intervals[19].counts.ok = 400;
        step.intervals[38].counts.errors = timeouts;
        cut_to(&mut step, Nanos::from_secs(1));
        let c = &step.counts;
        assert_eq!((c.intended, c.sent, c.ok, c.errors.total()), (10_000, 10_000, 10_000, 0));
        assert_eq!(step.duration, Nanos::from_secs(1));
    }

    #[test]
    fn intervals_are_equal_and_neither_too_short_nor_too_long() {
        for (duration, expected) in [(2_000, 50), (10_000, 250), (60_000, 1_000), (500, 50), (30, 30)] {
            let found = interval(Nanos::from_millis(duration));
            assert_eq!(found, Nanos::from_millis(expected), "of {duration} ms");
        }
        // A second as long as there are 5,000 of them, then longer.
        for (hours, expected) in [(1, 1_000), (24, 17_280)] {
            assert_eq!(interval(Nanos::from_secs(hours * 3600)), Nanos::from_millis(expected), "{hours} h");
        }
        for ns in [1, 7, 1_234_567_891, 3_333_333_333, 86_400_000_000_000] {
            let length = interval(Nanos(ns)).0;
            let count = ns.div_ceil(length);
            assert!(count * length - ns <= count, "{ns} in {count} of {length}");
        }
    }

    #[test]
    fn a_slow_start_is_cut_and_nothing_else() {
        let mut step = load(40, 50, |i| if i < 10 { 9_000_000 } else { 3_000_000 });
        let (warm_up, validity) = cut_warm_up(&mut step, Series::Latency, TOLERANCE, |cut| cut);
        assert_eq!((warm_up.state, validity), (SteadyState::Steady, Validity::Valid));
        assert_eq!((warm_up.cut, warm_up.values), (Nanos::from_millis(500), 40));
        assert_eq!((step.duration, step.intervals.len()), (Nanos::from_millis(1_500), 40));
        // What was kept is exact, and the counts still add up.
        assert_eq!((step.latency.len(), step.latency.max().0 < 3_100_000), (1_500, true));
        let c = &step.counts;
        assert_eq!((c.intended, c.sent, c.ok, c.unfinished), (1_500, 1_500, 1_499, 1));
        assert_eq!(c.sent, c.ok + c.errors.total() + c.unfinished);
    }

    #[test]
    fn a_steady_step_stays_as_it_is() {
        let before = load(40, 50, |_| 3_000_000);
        for of in [Series::Latency, Series::Sent] {
            let mut after = before.clone();
            let (warm_up, validity) = cut_warm_up(&mut after, of, TOLERANCE, |cut| cut);
            assert_eq!(
                (warm_up.state, warm_up.cut, validity),
                (SteadyState::Steady, Nanos::ZERO, Validity::Valid)
            );
            assert_eq!(after, before);
        }
    }

    #[test]
    fn a_step_that_never_settles_does_not_count_and_says_why() {
        let mut step = load(40, 50, |i| if i < 34 { 3_000_000 } else { 6_000_000 });
        let (warm_up, validity) = cut_warm_up(&mut step, Series::Latency, TOLERANCE, |cut| cut);
        assert_eq!((warm_up.state, warm_up.cut), (SteadyState::Never, Nanos::ZERO));
        let Validity::Invalid { reason: InvalidReason::NoSteadyState, detail } = validity else {
            panic!("{validity:?}")
        };
        assert!(detail.contains("median latency") && detail.contains("shortly before the end"), "{detail}");
        assert_eq!(step.duration, Nanos::from_secs(2));
    }

    #[test]
    fn few_requests_and_short_steps_are_not_judged() {
        for (intervals, per_interval) in [(19, 1_000), (40, 2), (1, 10), (0, 0), (40, 0)] {
            let mut step = load(intervals, per_interval.max(1), |i| 1_000_000 * (i + 1));
            if per_interval == 0 {
                step.intervals.iter_mut().for_each(|i| i.latency = LatencyHistogram::new());
                step.latency = LatencyHistogram::new();
            }
            let before = step.clone();
            let (warm_up, validity) = cut_warm_up(&mut step, Series::Latency, TOLERANCE, |cut| cut);
            assert_eq!((warm_up.state, validity), (SteadyState::NotJudged, Validity::Valid), "{intervals}");
            assert_eq!(step, before);
        }
    }

    #[test]
    fn neighbours_make_up_for_few_requests() {
        let mut step = load(200, 2, |i| if i < 40 { 9_000_000 } else { 3_000_000 });
        let (warm_up, _) = cut_warm_up(&mut step, Series::Latency, TOLERANCE, |cut| cut);
        assert_eq!((warm_up.values, warm_up.interval), (40, Nanos::from_millis(250)));
        assert_eq!(warm_up.cut, Nanos::from_secs(2));
    }

    #[test]
    fn partners_keep_the_same_moments() {
        let mut step = load(40, 50, |_| 3_000_000);
        let agree = |own: Nanos| own.max(Nanos::from_millis(400));
        let (warm_up, validity) = cut_warm_up(&mut step, Series::Latency, TOLERANCE, agree);
        assert_eq!((warm_up.cut, validity), (Nanos::from_millis(400), Validity::Valid));
        assert!(warm_up.detail.contains("of its partner"), "{}", warm_up.detail);
        assert_eq!(step.duration, Nanos::from_millis(1_600));
    }
}
