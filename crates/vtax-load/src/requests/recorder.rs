//! What one worker writes down.

use hdrhistogram::Histogram;
use vtax_units::Nanos;

use super::counted::CountedDurations;
use crate::histogram::bounded;
use crate::{Begun, ConnectionCounts, Counts, Errors, Progress, Sample};

/// Samples are kept in pieces of this many, so that growing never copies.
const SAMPLES_PER_PIECE: usize = 1 << 16;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    ClientTimeout,
    Refused,
    Reset,
    NoDescriptors,
    NoAddresses,
    Protocol,
    Status,
    Other,
    Lost,
    Stale,
    Corrupt,
    Unexpected,
}

/// How late a request starts, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lateness {
    /// From its intended start.
    pub(crate) total: u64,
    /// The part of it that is the generator's own: all the time that there was room for it.
    pub(crate) own: u64,
}

impl Lateness {
    /// Of a request that starts `now` and was meant to at `intended`, where there has been room for it since `available_since`.
    pub(crate) fn of(intended: u64, available_since: u64, now: u64) -> Self {
        Self { total: now - intended, own: now - intended.max(available_since).min(now) }
    }
}

/// The recorded stretch of time, in nanoseconds since the load's epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) interval: u64,
}

/// One interval with its histogram as the few buckets that are not empty.
#[derive(Debug)]
pub(crate) struct SparseInterval {
    pub(crate) counts: Counts,
    pub(crate) latency: Vec<(u64, u64)>,
    pub(crate) connections: ConnectionCounts,
}

/// One worker's recorder. Nothing in it is shared; workers are merged when all have ended.
#[derive(Debug)]
pub(crate) struct Recorder {
    window: Window,
    next_flush: u64,
    counts: Counts,
    latency: CountedDurations,
    connections: ConnectionCounts,
    pub(crate) intervals: Vec<SparseInterval>,
    /// What became of the requests that began in each interval.
    pub(crate) begun: Vec<Begun>,
    pub(crate) lateness: Histogram<u64>,
    /// Lateness while a connection was free: the part that only the generator can have caused.
    pub(crate) own_lateness: Histogram<u64>,
    /// Missed starts while a connection was free.
    pub(crate) missed_own: u64,
    /// Until when answers count in `answered_in_time` and `replies_in_time`: the end of the recorded time.
    until: u64,
    /// Successful answers within the recorded time, whenever their requests began.
    pub(crate) answered_in_time: u64,
    pub(crate) samples: Option<Vec<Vec<Sample>>>,
    /// Since it was last handed over.
    progress: Progress,
}

impl Recorder {
    pub(crate) fn new(window: Window, timeout: Nanos, samples: bool) -> Self {
        let intervals = (window.to - window.from).div_ceil(window.interval) as usize;
        // A request may end a little after its timeout; clearing touches the memory now, so that
        // no page fault happens during the load.
        let histogram = || {
            let mut histogram = bounded(timeout.0.saturating_add(1_000_000_000));
            histogram.clear();
            histogram
        };
        Self {
            window,
            next_flush: window.from + window.interval,
            counts: Counts::default(),
            latency: CountedDurations::new(),
            connections: ConnectionCounts::default(),
            intervals: Vec::with_capacity(intervals),
            begun: vec![Begun::default(); intervals.max(1)],
            lateness: histogram(),
            own_lateness: histogram(),
            missed_own: 0,
            until: window.to,
            answered_in_time: 0,
            samples: samples.then(|| vec![Vec::with_capacity(SAMPLES_PER_PIECE)]),
            progress: Progress::default(),
        }
    }

    /// When [`tick`](Self::tick) has something to do next: the last interval stays open for what comes after it.
    pub(crate) fn next_flush(&self) -> u64 {
        if self.next_flush < self.window.to { self.next_flush } else { u64::MAX }
    }

    /// Closes the intervals that have ended.
    pub(crate) fn tick(&mut self, now: u64) {
        while now >= self.next_flush && self.next_flush < self.window.to {
            self.flush();
        }
    }

    /// The recorded time ends before the window does.
    pub(crate) fn stops(&mut self, at: u64) {
        self.until = self.until.min(at);
    }

    /// Closes the last interval; what came after the window's end is in it.
    pub(crate) fn close(&mut self) {
        self.flush();
    }

    fn flush(&mut self) {
        let latency = self.latency.take();
        let (counts, connections) = (std::mem::take(&mut self.counts), self.connections);
        self.intervals.push(SparseInterval { counts, latency, connections });
        self.connections.broken = 0;
        self.next_flush += self.window.interval;
    }

    fn recorded(&self, start: u64) -> bool {
        start >= self.window.from
    }

    /// Where it is written down what becomes of a request that starts then.
    fn begun_at(&mut self, start: u64) -> Option<&mut Begun> {
        let interval = start.saturating_sub(self.window.from) / self.window.interval;
        let last = self.begun.len().saturating_sub(1);
        self.begun.get_mut(usize::try_from(interval).map_or(last, |interval| interval.min(last)))
    }

    /// Whether this happens within the recorded time. What is still waited for after it goes on, but is no part of its rates.
    fn during(&self, now: u64) -> bool {
        self.recorded(now) && now < self.window.to
    }

    /// A request starts. It has no lateness where it starts as soon as it can.
    pub(crate) fn started(&mut self, start: u64, late: Option<Lateness>) {
        self.progress.sent += 1;
        if self.recorded(start) {
            self.counts.intended += 1;
            self.counts.sent += 1;
            if let Some(begun) = self.begun_at(start) {
                begun.sent += 1;
            }
            if let Some(Lateness { total, own }) = late {
                self.lateness.saturating_record(total);
                self.own_lateness.saturating_record(own);
            }
        }
    }

    /// A start was given up; `own` says that a connection would have been free.
    pub(crate) fn missed(&mut self, start: u64, own: bool) {
        self.progress.failed += 1;
        if self.recorded(start) {
            self.counts.intended += 1;
            self.counts.missed += 1;
            self.missed_own += u64::from(own);
            if let Some(begun) = self.begun_at(start) {
                begun.missed += 1;
            }
        }
    }

    /// A request ended. `status` is 0 where there was no answer.
    pub(crate) fn ended(&mut self, start: u64, now: u64, outcome: Outcome, status: u16) {
        let latency = now.saturating_sub(start);
        let in_time = self.recorded(now) && now < self.until;
        let replied = matches!(outcome, Outcome::Ok | Outcome::Status | Outcome::Unexpected);
        self.counts.replies_in_time += u64::from(in_time && replied);
        if outcome == Outcome::Ok {
            self.progress.ok += 1;
            self.progress.latency_sum.0 += latency;
            self.answered_in_time += u64::from(in_time);
        } else {
            self.progress.failed += 1;
        }
        if !self.recorded(start) {
            return;
        }
        // RFC 9110 section 15: an unknown status is treated as a 5xx.
        let digit = (status >= 100).then(|| usize::from(status / 100 - 1).min(4));
        if let Some(digit) = digit {
            self.counts.status[digit] += 1;
        }
        if let Some(begun) = self.begun_at(start) {
            if let Some(digit) = digit {
                begun.status[digit] += 1;
            }
            match class_of(&mut begun.errors, outcome) {
                Some(class) => *class += 1,
                None => begun.ok += 1,
            }
        }
        match outcome {
            Outcome::Ok => {
                self.counts.ok += 1;
                self.latency.record(latency);
            }
            failure => count_failure(&mut self.counts, failure, status),
        }
        if let Some(pieces) = &mut self.samples {
            let sample =
                Sample { start_ns: start - self.window.from, latency_ns: latency, outcome: outcome as u8 };
            keep(pieces, sample);
        }
    }

    /// A request had neither ended nor timed out when the load ended.
    pub(crate) fn unfinished(&mut self, start: u64) {
        if self.recorded(start) {
            self.counts.unfinished += 1;
            if let Some(begun) = self.begun_at(start) {
                begun.unfinished += 1;
            }
        }
    }

    /// The load has ended before the answer of a request came, which might still have come in time.
    pub(crate) fn cut_short(&mut self, start: u64) {
        self.unfinished(start);
        self.waiting(start);
    }

    /// A start that nothing had come of when the load ended; `in_time` says that something still might have.
    pub(crate) fn never_begun(&mut self, start: u64, in_time: bool) {
        self.missed(start, false);
        if in_time {
            self.waiting(start);
        }
    }

    fn waiting(&mut self, start: u64) {
        if self.recorded(start) {
            self.counts.waiting += 1;
            if let Some(begun) = self.begun_at(start) {
                begun.waiting += 1;
            }
        }
    }

    pub(crate) fn connected(&mut self, now: u64) {
        // The last interval tells what was open at its end.
        self.connections.open += u64::from(now < self.window.to);
        if self.during(now) {
            self.counts.connects += 1;
        }
    }

    /// An established connection has ended; `broken` says that it wasn't the generator's wish.
    pub(crate) fn disconnected(&mut self, now: u64, broken: bool) {
        self.connections.open = self.connections.open.saturating_sub(u64::from(now < self.window.to));
        // Also after the window's end: what a recorded request ended with belongs to it, as its outcome does.
        self.connections.broken += u64::from(broken && self.recorded(now));
    }

    pub(crate) fn received(&mut self, now: u64, bytes: usize) {
        if self.during(now) {
            self.counts.bytes_received += bytes as u64;
        }
    }

    pub(crate) fn sent(&mut self, now: u64, bytes: usize) {
        if self.during(now) {
            self.counts.bytes_sent += bytes as u64;
        }
    }

    /// What happened since the last call.
    pub(crate) fn take_progress(&mut self, now: u64) -> Progress {
        Progress { elapsed: Nanos(now), ..std::mem::take(&mut self.progress) }
    }
}

fn count_failure(counts: &mut Counts, failure: Outcome, status: u16) {
    if failure == Outcome::Status {
        counts.failed_by_status(status);
    } else if let Some(class) = class_of(&mut counts.errors, failure) {
        *class += 1;
    }
}

/// Where failures of this class are counted; `None` for a success.
fn class_of(errors: &mut Errors, outcome: Outcome) -> Option<&mut u64> {
    Some(match outcome {
        Outcome::Ok => return None,
        Outcome::ClientTimeout => &mut errors.client_timeout,
        Outcome::Refused => &mut errors.refused,
        Outcome::Reset => &mut errors.reset,
        Outcome::NoDescriptors => &mut errors.no_descriptors,
        Outcome::NoAddresses => &mut errors.no_addresses,
        Outcome::Protocol => &mut errors.protocol,
        Outcome::Status => &mut errors.status,
        Outcome::Other => &mut errors.other,
        Outcome::Lost => &mut errors.lost,
        Outcome::Stale => &mut errors.stale,
        Outcome::Corrupt => &mut errors.corrupt,
        Outcome::Unexpected => &mut errors.unexpected,
    })
}

fn keep(pieces: &mut Vec<Vec<Sample>>, sample: Sample) {
    match pieces.last_mut() {
        Some(piece) if piece.len() < SAMPLES_PER_PIECE => piece.push(sample),
        _ => {
            let mut piece = Vec::with_capacity(SAMPLES_PER_PIECE);
            piece.push(sample);
            pieces.push(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::LONGEST_NS;

    #[test]
    fn what_starts_in_the_warm_up_is_not_recorded() {
        let window = Window { from: 100, to: 300, interval: 100 };
        let mut recorder = Recorder::new(window, Nanos::from_millis(1), true);
        for (start, end) in [(0, 50), (99, 150), (100, 120), (199, 250), (299, 400)] {
            recorder.tick(end);
            recorder.started(start, Some(Lateness { total: 2, own: 1 }));
            recorder.ended(start, end, Outcome::Ok, 200);
        }
        recorder.started(250, None);
        recorder.unfinished(250);
        recorder.missed(260, true);
        recorder.close();
        let by_interval: Vec<u64> = recorder.intervals.iter().map(|i| i.counts.ok).collect();
        assert_eq!(by_interval, [1, 2]);
        let mut all = Counts::default();
        recorder.intervals.iter().for_each(|i| all.add(&i.counts));
        assert_eq!((all.intended, all.sent, all.missed, all.ok, all.unfinished), (5, 4, 1, 3, 1));
        assert_eq!(all.status, [0, 3, 0, 0, 0]);
        assert_eq!((recorder.lateness.len(), recorder.missed_own), (3, 1));
        let samples = recorder.samples.unwrap().concat();
        assert_eq!(samples[0], Sample { start_ns: 0, latency_ns: 20, outcome: 0 });
    }

    #[test]
    fn what_might_still_have_been_answered_is_told_from_what_is_lost() {
        let window = Window { from: 100, to: 300, interval: 200 };
        let mut recorder = Recorder::new(window, Nanos::from_millis(1), false);
        // Each also once in the warm-up, which isn't recorded.
        for start in [99, 100] {
            (0..4).for_each(|_| recorder.started(start, None));
            recorder.unfinished(start);
            (0..3).for_each(|_| recorder.cut_short(start));
            recorder.never_begun(start, true);
            recorder.never_begun(start, false);
        }
        recorder.close();
        let counts = &recorder.intervals[0].counts;
        assert_eq!((counts.intended, counts.sent, counts.unfinished, counts.missed), (6, 4, 4, 2));
        assert_eq!(counts.waiting, 4);
        let mut twice = counts.clone();
        twice.add(counts);
        assert_eq!(twice.waiting, 8);
    }

    #[test]
    fn what_becomes_of_a_request_is_written_down_where_it_began() {
        let window = Window { from: 100, to: 300, interval: 100 };
        let mut recorder = Recorder::new(window, Nanos::from_millis(1), false);
        for start in [99, 150, 160, 170, 199, 200, 299] {
            recorder.started(start, None);
        }
        recorder.tick(250);
        recorder.ended(99, 250, Outcome::Ok, 200);
        recorder.ended(150, 250, Outcome::ClientTimeout, 0);
        recorder.ended(160, 250, Outcome::Status, 503);
        recorder.ended(170, 400, Outcome::Ok, 200);
        recorder.ended(200, 250, Outcome::Ok, 200);
        recorder.unfinished(199);
        recorder.cut_short(299);
        recorder.never_begun(298, true);
        recorder.close();
        let errors = Errors { client_timeout: 1, status: 1, ..Errors::default() };
        let status = [0, 1, 0, 0, 1];
        let first = Begun { sent: 4, ok: 1, errors, unfinished: 1, status, ..Begun::default() };
        let status = [0, 1, 0, 0, 0];
        let (unfinished, waiting) = (1, 2);
        let second = Begun { sent: 2, missed: 1, ok: 1, unfinished, waiting, status, ..Begun::default() };
        assert_eq!(recorder.begun, [first, second]);
    }

    /// A load waits for answers after its end: their bytes would be more than its time had.
    #[test]
    fn what_comes_after_the_end_is_no_part_of_the_rates() {
        let window = Window { from: 100, to: 300, interval: 200 };
        let mut recorder = Recorder::new(window, Nanos::from_millis(1), false);
        for (now, bytes) in [(99, 1), (100, 10), (299, 100), (300, 1_000), (9_000, 10_000)] {
            recorder.connected(now);
            recorder.sent(now, bytes);
            recorder.received(now, 2 * bytes);
        }
        recorder.disconnected(299, false);
        // This one's request was recorded.
        recorder.disconnected(300, true);
        recorder.ended(299, 9_000, Outcome::Ok, 200);
        recorder.close();
        let SparseInterval { counts, connections, .. } = &recorder.intervals[0];
        assert_eq!((counts.bytes_sent, counts.bytes_received, counts.connects), (110, 220, 2));
        assert_eq!((connections.open, connections.broken, counts.ok), (2, 1, 1));
    }

    /// In a mild overload the answers of the wait after the end made a service seem to do more than it ever did.
    #[test]
    fn answers_are_counted_when_they_come_too() {
        let window = Window { from: 100, to: 300, interval: 100 };
        let ends = [(90, 99), (90, 100), (150, 200), (200, 299), (200, 300), (299, 400)];
        let answered = |stopped: Option<u64>| {
            let mut recorder = Recorder::new(window, Nanos::from_millis(1), false);
            if let Some(at) = stopped {
                recorder.stops(at);
            }
            for (start, end) in ends {
                recorder.started(start, None);
                recorder.ended(start, end, Outcome::Ok, 200);
            }
            recorder.ended(150, 200, Outcome::Status, 500);
            recorder.close();
            let begun: u64 = recorder.intervals.iter().map(|interval| interval.counts.ok).sum();
            (recorder.answered_in_time, begun)
        };
        assert_eq!((answered(None), answered(Some(250))), ((3, 4), (2, 4)));
    }

    #[test]
    fn replies_of_any_status_are_counted_where_they_come() {
        let window = Window { from: 100, to: 300, interval: 100 };
        let mut recorder = Recorder::new(window, Nanos::from_millis(1), false);
        for (start, end, outcome, status) in [
            (90, 99, Outcome::Ok, 200),
            (90, 100, Outcome::Ok, 200),
            (150, 160, Outcome::Status, 503),
            (150, 170, Outcome::ClientTimeout, 0),
            (150, 250, Outcome::Unexpected, 302),
            (299, 300, Outcome::Ok, 200),
        ] {
            recorder.tick(end);
            recorder.started(start, None);
            recorder.ended(start, end, outcome, status);
        }
        recorder.close();
        let replies: Vec<u64> = recorder.intervals.iter().map(|i| i.counts.replies_in_time).collect();
        assert_eq!(replies, [2, 1]);
    }

    /// Whole sessions take longer than each of their transfers may.
    #[test]
    fn latencies_beyond_the_timeout_are_not_cut() {
        let window = Window { from: 0, to: 10, interval: 10 };
        let mut recorder = Recorder::new(window, Nanos::from_secs(1), true);
        let times = [1_u64, 90, 1_000, 7_200].map(|seconds| seconds * 1_000_000_000);
        times.into_iter().for_each(|end| recorder.ended(0, end, Outcome::Ok, 0));
        recorder.close();
        let near = |found: u64, time: u64| found.abs_diff(time) <= time / 1_000;
        // Beyond an hour nothing is told apart.
        let expected = [times[0], times[1], times[2], LONGEST_NS];
        let found: Vec<u64> = recorder.intervals[0].latency.iter().map(|(latency, _)| *latency).collect();
        assert!(found.iter().zip(expected).all(|(found, time)| near(*found, time)), "{found:?}");
        let samples = recorder.samples.unwrap().concat();
        assert_eq!(samples.iter().map(|sample| sample.latency_ns).collect::<Vec<_>>(), times);
    }

    #[test]
    fn every_failure_has_its_class() {
        let window = Window { from: 0, to: 10, interval: 10 };
        let mut recorder = Recorder::new(window, Nanos::from_millis(1), true);
        let failures = [
            Outcome::ClientTimeout,
            Outcome::Refused,
            Outcome::Reset,
            Outcome::NoDescriptors,
            Outcome::NoAddresses,
            Outcome::Protocol,
            Outcome::Status,
            Outcome::Other,
            Outcome::Lost,
            Outcome::Stale,
            Outcome::Corrupt,
            Outcome::Unexpected,
        ];
        for failure in failures {
            recorder.ended(1, 2, failure, 0);
        }
        recorder.close();
        let classes = recorder.intervals[0].counts.errors.classes();
        assert!(classes.iter().all(|(_, count)| *count == 1), "{classes:?}");
        let outcomes: Vec<u8> = recorder.samples.unwrap()[0].iter().map(|s| s.outcome).collect();
        assert_eq!(outcomes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    }
}
