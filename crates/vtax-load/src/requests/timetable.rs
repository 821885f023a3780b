//! Where a worker is in the course of its load: what time it is, which starts are due, when recording begins and ends.

use std::iter::Peekable;

use vtax_sys::{SysError, sched};
use vtax_units::Nanos;

use super::recorder::{Recorder, Window};
use crate::drive::{Usage, Used};
use crate::{Control, Details, StartTimes};

/// Longest sleep, so that a cancellation is seen.
const SLEEP_MAX: u64 = 20_000_000;
/// How often progress is handed over.
const PROGRESS: u64 = 20_000_000;

/// The course of one worker's share of a load. All times are nanoseconds since the load's epoch.
#[derive(Debug)]
pub(crate) struct Timetable<'a> {
    control: &'a Control,
    window: Window,
    /// How long ends are waited for after the window's.
    drain: u64,
    /// CLOCK_MONOTONIC at the start of the load.
    epoch: Nanos,
    /// `None` in a closed loop.
    arrivals: Option<Peekable<StartTimes>>,
    /// The time, as it was last told.
    pub(crate) now: u64,
    /// When nothing more starts.
    pub(crate) stop: u64,
    next_progress: u64,
    /// What the thread had used when recording began, and when it ended.
    from: Option<Usage>,
    to: Option<Usage>,
}

/// The marks that a worker has just passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Recording has begun.
    pub(crate) began: bool,
    /// Nothing more starts.
    pub(crate) ended: bool,
}

/// What one worker found.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) recorder: Recorder,
    /// End of the recorded time; earlier than asked for where the load was cancelled.
    pub(crate) end: u64,
    pub(crate) used: Used,
    /// What its dialogue found besides.
    pub(crate) details: Option<Details>,
}

/// The time since a load's epoch, of which [`Timetable`] tells.
pub(crate) fn time_since(epoch: Nanos) -> u64 {
    sched::monotonic().saturating_sub(epoch).0
}

/// The time until a load's epoch; 0 once it has come.
pub(crate) fn time_until(epoch: Nanos) -> u64 {
    epoch.saturating_sub(sched::monotonic()).0
}

impl<'a> Timetable<'a> {
    pub(crate) fn new(
        control: &'a Control,
        window: Window,
        drain: u64,
        epoch: Nanos,
        arrivals: Option<StartTimes>,
    ) -> Self {
        Self {
            control,
            window,
            drain,
            epoch,
            arrivals: arrivals.map(Iterator::peekable),
            now: 0,
            stop: window.to,
            next_progress: 0,
            from: None,
            to: None,
        }
    }

    /// Asks the clock.
    pub(crate) fn tell(&mut self) {
        self.now = time_since(self.epoch);
    }

    /// Whether starts have times of their own.
    pub(crate) const fn is_open(&self) -> bool {
        self.arrivals.is_some()
    }

    /// The next intended start of an open loop, if the load still has one.
    pub(crate) fn next_start(&mut self) -> Option<u64> {
        let stop = self.stop;
        self.arrivals.as_mut()?.peek().map(|start| start.0).filter(|start| *start < stop)
    }

    /// The next intended start is dealt with.
    pub(crate) fn started(&mut self) {
        self.arrivals.as_mut().and_then(Iterator::next);
    }

    /// Passes the marks that are due. Where `enough` was done, nothing more starts from now on. `polled` is how long the
    /// worker has polled for starts so far.
    pub(crate) fn pass(
        &mut self,
        recorder: &mut Recorder,
        polled: u64,
        enough: bool,
    ) -> Result<Passed, SysError> {
        let now = self.now;
        if now >= recorder.next_flush() {
            recorder.tick(now);
        }
        if now >= self.next_progress {
            self.control.add(&recorder.take_progress(now));
            self.next_progress = now + PROGRESS;
        }
        if (enough || self.control.is_cancelled()) && self.stop > now {
            self.stop = now;
            recorder.stops(now);
        }
        let passed = Passed {
            began: now >= self.window.from && self.from.is_none(),
            ended: now >= self.stop && self.to.is_none(),
        };
        if passed.began {
            self.from = Some(Usage::now(now, polled)?);
        }
        if passed.ended {
            self.to = Some(Usage::now(now, polled)?);
        }
        Ok(passed)
    }

    /// Whether more may start.
    pub(crate) const fn goes_on(&self) -> bool {
        self.now < self.stop
    }

    /// Whether what is still under way after the end is waited for.
    pub(crate) fn waits(&self) -> bool {
        self.now < self.last() && !self.control.is_cancelled()
    }

    /// When nothing is waited for any more.
    pub(crate) const fn last(&self) -> u64 {
        self.stop.saturating_add(self.drain)
    }

    /// When a worker has to look again at the latest: at the next mark, or to see a cancellation.
    pub(crate) fn next_mark(&self, recorder: &Recorder) -> u64 {
        let now = self.now;
        let end = if self.goes_on() { self.stop } else { self.last() };
        let wake = end.min(now + SLEEP_MAX).min(recorder.next_flush().max(now + 1));
        if now < self.window.from { wake.min(self.window.from) } else { wake }
    }

    /// Counts the starts that never came about, where they might still have within the timeout.
    pub(crate) fn cut_short(&mut self, recorder: &mut Recorder, timeout: u64) {
        while let Some(start) = self.next_start() {
            recorder.never_begun(start, start.saturating_add(timeout) > self.now);
            self.started();
        }
    }

    /// Counts the starts that never came about; what was recorded, and what the thread used meanwhile.
    pub(crate) fn finish(mut self, mut recorder: Recorder, polled: u64) -> Result<Finding, SysError> {
        while let Some(start) = self.next_start() {
            recorder.missed(start, false);
            self.started();
        }
        recorder.close();
        self.control.add(&recorder.take_progress(self.now));
        let to = match self.to {
            Some(to) => to,
            None => Usage::now(self.now, polled)?,
        };
        let used = to.since(self.from.unwrap_or(to));
        Ok(Finding { end: self.stop, used, recorder, details: None })
    }
}

#[cfg(test)]
mod tests {
    use vtax_units::Rate;

    use super::*;
    use crate::{ArrivalProcess, Segment};

    const WINDOW: Window = Window { from: 100, to: 300, interval: 100 };

    fn recorder() -> Recorder {
        Recorder::new(WINDOW, Nanos::from_millis(1), false)
    }

    #[test]
    fn each_mark_is_passed_once_and_in_its_time() {
        let (control, mut recorder) = (Control::new(), recorder());
        let mut time = Timetable::new(&control, WINDOW, 50, Nanos::ZERO, None);
        let mut pass = |now| {
            time.now = now;
            let passed = time.pass(&mut recorder, 0, false).unwrap();
            (passed.began, passed.ended, time.goes_on(), time.waits())
        };
        assert_eq!(pass(99), (false, false, true, true));
        assert_eq!(pass(120), (true, false, true, true));
        assert_eq!(pass(299), (false, false, true, true));
        assert_eq!(pass(300), (false, true, false, true));
        assert_eq!(pass(349), (false, false, false, true));
        assert_eq!(pass(350), (false, false, false, false));
        let finding = time.finish(recorder, 0).unwrap();
        assert_eq!((finding.end, finding.recorder.intervals.len()), (300, 2));
    }

    /// After the recorded time workers looked again at once, and again, as long as they waited for what was under way.
    #[test]
    fn there_is_no_mark_between_the_end_and_the_last_moment() {
        let (control, mut recorder) = (Control::new(), recorder());
        let mut time = Timetable::new(&control, WINDOW, 50, Nanos::ZERO, None);
        let mut mark = |now| {
            time.now = now;
            time.pass(&mut recorder, 0, false).unwrap();
            time.next_mark(&recorder)
        };
        assert_eq!([0, 100, 150, 200, 250].map(&mut mark), [100, 200, 200, 300, 300]);
        assert_eq!([300, 310, 349].map(&mut mark), [350, 350, 350]);
    }

    #[test]
    fn starts_that_never_came_about_are_told_by_whether_they_still_might_have() {
        let (control, mut recorder) = (Control::new(), recorder());
        let profile = [Segment { from: Rate(1e9), to: Rate(1e9), duration: Nanos(300) }];
        let arrivals = StartTimes::new(ArrivalProcess::Constant, &profile, 1, 0, 1);
        let mut time = Timetable::new(&control, WINDOW, 50, Nanos::ZERO, Some(arrivals));
        // One a nanosecond until 300, of which those after 250 are younger than the timeout at 350.
        time.now = 350;
        time.cut_short(&mut recorder, 100);
        let finding = time.finish(recorder, 0).unwrap();
        let sum = |count: fn(&crate::Counts) -> u64| -> u64 {
            finding.recorder.intervals.iter().map(|interval| count(&interval.counts)).sum()
        };
        assert!((195..=205).contains(&sum(|counts| counts.missed)), "{}", sum(|counts| counts.missed));
        assert!((45..=55).contains(&sum(|counts| counts.waiting)), "{}", sum(|counts| counts.waiting));
    }

    #[test]
    fn enough_or_a_cancellation_ends_it_and_the_starts_left_are_missed() {
        for cancelled in [false, true] {
            let (control, mut recorder) = (Control::new(), recorder());
            let profile = [Segment { from: Rate(1e9), to: Rate(1e9), duration: Nanos(300) }];
            let arrivals = StartTimes::new(ArrivalProcess::Constant, &profile, 1, 0, 1);
            let mut time = Timetable::new(&control, WINDOW, 50, Nanos::ZERO, Some(arrivals));
            time.now = 150;
            if cancelled {
                control.cancel();
            }
            let passed = time.pass(&mut recorder, 0, !cancelled).unwrap();
            assert_eq!((passed, time.goes_on()), (Passed { began: true, ended: true }, false));
            assert_eq!(time.waits(), !cancelled);
            // A start of before is still due.
            assert!(time.next_start().is_some_and(|start| start < 150));
            let finding = time.finish(recorder, 0).unwrap();
            let missed: u64 = finding.recorder.intervals.iter().map(|i| i.counts.missed).sum();
            assert_eq!(finding.end, 150);
            assert!((45..=55).contains(&missed), "{missed}");
        }
    }
}
