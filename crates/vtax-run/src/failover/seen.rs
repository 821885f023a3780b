//! What clients saw of a fault, from what the generator kept of each attempt. Pure.

use vtax_load::ConnectionCounts;
use vtax_store::failover::{Connections, Normal, Seen};
use vtax_units::Nanos;

use super::silence::{Around, Silences, Stretch};

/// How far back the latency is looked at that counts as normal.
const BEFORE: u64 = 5_000_000_000;
/// Answers without which nothing can be said about it.
const LEAST_ANSWERS: usize = 20;
/// Time over which latency must be normal to count as back.
const STEADY: u64 = 1_000_000_000;
/// Answers in that time without which it says nothing.
const LEAST_STEADY: usize = 3;
/// Share of attempts in it that may leave the band: twice what did before.
const OUTSIDE: f64 = 0.1;

/// An answer, with the times of its request. From the start of the recorded load, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    asked: u64,
    came: u64,
}

impl Answer {
    const fn took(self) -> u64 {
        self.came.saturating_sub(self.asked)
    }
}

/// An attempt that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Attempt {
    started: u64,
    ended: u64,
    failed: bool,
}

/// The course of a load, as clients saw it.
#[derive(Debug, Default)]
pub(crate) struct Course {
    duration: u64,
    /// In the order in which they came.
    answers: Vec<Answer>,
    attempts: Vec<Attempt>,
    /// Attempts that never began, because no connection was free: end of an interval and their number.
    missed: Vec<(u64, u64)>,
    /// When something was sent again.
    repeated: Vec<u64>,
    /// End of an interval and its connections.
    connections: Vec<(u64, ConnectionCounts)>,
    silences: Silences,
}

impl Course {
    /// Of a load with this recorded time, in which nothing was seen yet.
    pub(crate) fn new(duration: Nanos) -> Self {
        Self { duration: duration.0, ..Self::default() }
    }

    /// An answer came. Times count from the start of the recorded load.
    pub(crate) fn answered(&mut self, asked: Nanos, came: Nanos) {
        self.answers.push(Answer { asked: asked.0, came: came.0 });
    }

    /// An attempt ended.
    pub(crate) fn ended(&mut self, started: Nanos, ended: Nanos, failed: bool) {
        self.attempts.push(Attempt { started: started.0, ended: ended.0, failed });
    }

    /// Something was sent again.
    pub(crate) fn sent_again(&mut self, at: Nanos) {
        self.repeated.push(at.0);
    }

    /// An interval ended, in which so many attempts never began.
    pub(crate) fn interval(&mut self, end: Nanos, missed: u64, connections: Option<ConnectionCounts>) {
        self.missed.push((end.0, missed));
        self.connections.extend(connections.map(|counts| (end.0, counts)));
    }

    /// In the order that questions about it need.
    pub(crate) fn sorted(mut self) -> Self {
        self.answers.sort_by_key(|answer| answer.came);
        self.attempts.sort_by_key(|attempt| attempt.started);
        let answers: Vec<_> = self.answers.iter().map(|a| (a.asked, a.came)).collect();
        let failed: Vec<_> =
            self.attempts.iter().filter(|a| a.failed).map(|a| (a.started, a.ended)).collect();
        self.silences = Silences::of(&answers, &failed, self.duration);
        self
    }

    /// What was seen of what broke in this stretch. `dead` is the time in which the guest did not run, where that is
    /// known.
    pub(crate) fn seen(&self, stretch: &Stretch, dead: Option<(u64, u64)>, delayed_beyond: Nanos) -> Seen {
        let Stretch { before, asked_from, at, next, .. } = *stretch;
        let end = next.min(self.duration);
        let usual_from = before.max(at.saturating_sub(BEFORE));
        let normal = self.normal(usual_from, at);
        let outage = match dead {
            Some(dead) => Some(self.silences.around(dead, next)),
            None => self.silences.outage(stretch, usual_from, delayed_beyond.0),
        };
        let (last_before, first_answer): Around = outage.unwrap_or_else(|| self.silences.answers(at, next));
        let normal_again = match (normal, first_answer) {
            (Some(normal), Some(first)) => self.normal_again(first.max(at), end, normal.p95.0),
            _ => None,
        };
        let until = normal_again.unwrap_or(end);
        // What lived through two faults belongs to the first in whose outage it was asked.
        let own = asked_from..first_answer.unwrap_or(next);
        let mine = |started: u64, ended: u64| {
            let under_way = started < until && ended >= at;
            under_way && started >= own.start && (ended < next || started < own.end)
        };
        let attempts = || self.attempts.iter().filter(|a| mine(a.started, a.ended));
        let missed: u64 = self.missed.iter().filter(|(t, _)| *t > at && *t <= until).map(|(_, n)| n).sum();
        let delayed = |a: &&Answer| mine(a.asked, a.came) && a.took() > delayed_beyond.0;
        Seen {
            last_before: last_before.map(Nanos),
            first_answer: first_answer.map(Nanos),
            outage: Some(outage.is_some()),
            until: Nanos(until),
            attempts: attempts().count() as u64 + missed,
            failed: attempts().filter(|a| a.failed).count() as u64 + missed,
            delayed: self.answers.iter().filter(delayed).count() as u64,
            retransmissions: self.repeated.iter().filter(|t| **t >= at && **t < until).count() as u64,
            connections: self.connections(stretch, first_answer),
            normal,
            normal_again: normal_again.map(Nanos),
            silence_arming: None,
        }
    }

    /// When the first answer after this came.
    pub(super) fn first_answer(&self, after: Nanos) -> Option<Nanos> {
        let next = self.answers.partition_point(|answer| answer.came <= after.0);
        self.answers.get(next).map(|answer| Nanos(answer.came))
    }

    /// The longest time between two answers that begins within this time.
    pub(super) fn longest_silence(&self, from: Nanos, to: Nanos) -> Option<Nanos> {
        self.silences.longest(from.0, to.0).map(Nanos)
    }

    /// The latency of answers to what was asked in this time and answered in it.
    fn normal(&self, from: u64, to: u64) -> Option<Normal> {
        let mut took: Vec<u64> =
            self.answers.iter().filter(|a| a.asked >= from && a.came < to).map(|a| a.took()).collect();
        if took.len() < LEAST_ANSWERS {
            return None;
        }
        took.sort_unstable();
        let p95 = took[((took.len() - 1) as f64 * 0.95).round() as usize];
        Some(Normal { from: Nanos(from), answers: took.len() as u64, p95: Nanos(p95) })
    }

    /// The first time from `from` on after which for a second nothing failed and no more answers than may
    /// were beyond the band.
    fn normal_again(&self, from: u64, end: u64, band: u64) -> Option<u64> {
        let mut asked: Vec<(u64, bool)> =
            self.answers.iter().filter(|a| a.asked >= from).map(|a| (a.asked, a.took() > band)).collect();
        asked.sort_unstable();
        let mut failed: Vec<u64> = self.attempts.iter().filter(|a| a.failed).map(|a| a.started).collect();
        failed.sort_unstable();
        let candidates = std::iter::once(from).chain(asked.iter().map(|(t, _)| *t));
        // What is within the second after a candidate, and how much of it is beyond the band: all of it only goes on with them.
        let (mut first, mut last, mut outside) = (0, 0, 0_usize);
        for start in candidates {
            let stop = start.saturating_add(STEADY);
            if stop > end {
                return None;
            }
            while last < asked.len() && asked[last].0 < stop {
                outside += usize::from(asked[last].1);
                last += 1;
            }
            while first < last && asked[first].0 < start {
                outside -= usize::from(asked[first].1);
                first += 1;
            }
            let within = &asked[first..last];
            // What was asked as latency came back must have been answered at once itself.
            let settled = within.first().is_some_and(|(_, outside)| !outside);
            if !settled || within.len() < LEAST_STEADY || outside as f64 > OUTSIDE * within.len() as f64 {
                continue;
            }
            let broken = failed.get(failed.partition_point(|t| *t < start)).is_some_and(|t| *t < stop);
            if !broken {
                return Some(start);
            }
        }
        None
    }

    /// Connections open before the fault, and of those the ones that broke of it: until the first answer, and of
    /// requests sent before that until the last of them has ended, which may be at their timeout. `None` also where
    /// another fault's can't be told from them.
    fn connections(&self, stretch: &Stretch, first_answer: Option<u64>) -> Option<Connections> {
        let Stretch { asked_from, at, next, .. } = *stretch;
        let first = self.connections.iter().position(|(end, _)| *end > at)?;
        let open = self.connections[first.saturating_sub(1)].1.open;
        let Some(answered) = first_answer else {
            // Where nobody answers any more, none of them is of any use.
            return (next > self.duration).then_some(Connections { open, kept: 0, lost: open });
        };
        let hit = || self.attempts.iter().filter(|a| a.started < answered && a.ended >= at);
        let last = hit().map(|a| a.ended).fold(answered, u64::max);
        if last >= next || hit().any(|a| a.started < asked_from) {
            return None;
        }
        let begins = |interval: usize| interval.checked_sub(1).map_or(0, |i| self.connections[i].0);
        let concerned = (first..self.connections.len()).take_while(|i| begins(*i) <= last);
        let broken: u64 = concerned.map(|i| self.connections[i].1.broken).sum();
        let lost = broken.min(open);
        Some(Connections { open, kept: open - lost, lost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// An answer after 2 ms to a request every 10 ms, but for a stretch in which they wait for its end, or fail.
    fn course(outage: (u64, u64), failing: bool) -> Course {
        let mut course = Course { duration: 10_000 * MS, ..Course::default() };
        for i in 0..1_000 {
            let started = i * 10 * MS;
            let hit = started >= outage.0 && started < outage.1;
            let ended = if hit { outage.1 + i % 7 * MS } else { started + 2 * MS };
            course.attempts.push(Attempt { started, ended, failed: hit && failing });
            if !(hit && failing) {
                course.answers.push(Answer { asked: started, came: ended });
            }
        }
        course.sorted()
    }

    fn stretch(before: u64, at: u64, next: u64) -> Stretch {
        let next = next.saturating_mul(MS);
        Stretch { before: before * MS, asked_from: 0, at: at * MS, mended: u64::MAX, next }
    }

    #[test]
    fn an_outage_is_the_silence_around_the_fault() {
        let course = course((5_000 * MS, 5_240 * MS), false);
        let seen = course.seen(&stretch(0, 5_001, 9_000), None, Nanos(100 * MS));
        assert_eq!(seen.last_before, Some(Nanos(4_992 * MS)));
        assert!(seen.first_answer.is_some_and(|t| (5_240 * MS..5_250 * MS).contains(&t.0)), "{seen:?}");
        assert_eq!(seen.normal.map(|n| n.p95), Some(Nanos(2 * MS)));
        assert_eq!(seen.normal_again, Some(Nanos(5_240 * MS)));
        // Asked up to 100 ms before the end of the outage and answered after it.
        assert!((14..=16).contains(&seen.delayed), "{seen:?}");
        assert_eq!((seen.attempts, seen.failed, seen.connections), (24, 0, None));
    }

    #[test]
    fn a_fault_that_keeps_nobody_waiting_has_no_outage() {
        let course = course((8_000 * MS, 8_240 * MS), false);
        let seen = |at, next, dead| {
            let seen = course.seen(&stretch(0, at, next), dead, Nanos(100 * MS));
            (seen.outage, seen.first_answer.map(|first| first.0 / MS))
        };
        assert_eq!(seen(5_001, 8_000, None), (Some(false), Some(5_002)));
        assert_eq!(seen(8_000, u64::MAX, None), (Some(true), Some(8_240)));
        // A guest that did not run answered nobody, however short that was.
        assert_eq!(seen(5_001, 8_000, Some((5_003 * MS, 5_011 * MS))).0, Some(true));
    }

    #[test]
    fn what_fails_is_lost() {
        let course = course((5_000 * MS, 5_240 * MS), true);
        let seen = course.seen(&stretch(0, 5_000, 9_000), None, Nanos(100 * MS));
        assert_eq!((seen.failed, seen.delayed), (24, 0));
        assert_eq!(seen.first_answer, Some(Nanos(5_242 * MS)));
    }

    #[test]
    fn a_service_that_never_comes_back_has_no_first_answer() {
        let course = course((5_000 * MS, 20_000 * MS), true);
        let seen = course.seen(&stretch(0, 5_000, u64::MAX), None, Nanos(100 * MS));
        assert_eq!((seen.first_answer, seen.normal_again), (None, None));
        assert_eq!((seen.failed, seen.until), (500, Nanos(10_000 * MS)));
        assert_eq!(seen.last_before, Some(Nanos(4_992 * MS)));
    }

    #[test]
    fn each_request_is_counted_with_one_fault() {
        // All that is asked from 5000 ms on waits until 5240 ms, and two more faults come meanwhile.
        let course = course((5_000 * MS, 5_240 * MS), false);
        let times = [5_000, 5_100, 5_200, u64::MAX];
        let mut asked_from = 0;
        let mut counted = 0;
        for pair in times.windows(2) {
            let stretch = Stretch { asked_from, ..stretch(0, pair[0], pair[1]) };
            let seen = course.seen(&stretch, None, Nanos(100 * MS));
            asked_from = seen.first_answer.map_or(stretch.next, |t| t.0);
            counted += seen.attempts;
        }
        let all = course.attempts.iter().filter(|a| a.ended >= 5_000 * MS && a.started < 5_240 * MS);
        assert_eq!(counted, all.count() as u64);
    }

    #[test]
    fn too_little_before_a_fault_says_nothing_about_normal() {
        let course = course((100 * MS, 340 * MS), false);
        let seen = course.seen(&stretch(0, 100, 9_000), None, Nanos(100 * MS));
        assert_eq!((seen.normal, seen.normal_again), (None, None));
        assert_eq!(seen.first_answer.map(|t| t.0 / MS), Some(340));
        assert_eq!(Course::default().seen(&stretch(0, 0, 1), None, Nanos(1)).attempts, 0);
    }

    /// Eight connections in intervals of 100 ms, and how many broke in those that begin then.
    fn connected(course: Course, broken: &[(u64, u64)]) -> Course {
        let of = |end: u64| broken.iter().find(|(begin, _)| begin + 100 == end).map_or(0, |(_, n)| *n);
        let intervals = (1..=100).map(|i| i * 100);
        let connections =
            intervals.map(|end| (end * MS, ConnectionCounts { open: 8, broken: of(end) })).collect();
        Course { connections, ..course }
    }

    #[test]
    fn connections_that_break_are_lost() {
        let course = course((5_000 * MS, 5_240 * MS), false);
        let course = connected(course, &[(4_900, 1), (5_000, 2), (5_200, 1), (9_900, 4)]);
        let seen = course.seen(&stretch(0, 5_050, 9_000), None, Nanos(100 * MS));
        assert_eq!(seen.connections, Some(Connections { open: 8, kept: 5, lost: 3 }));
    }

    #[test]
    fn connections_are_lost_when_their_requests_time_out() {
        let mut course = course((5_000 * MS, 5_240 * MS), false);
        // Sent on a connection that died with the old side: given up 2 s later.
        course.attempts.push(Attempt { started: 4_995 * MS, ended: 6_995 * MS, failed: true });
        let course = connected(course.sorted(), &[(6_900, 6), (8_000, 1)]);
        let kept = |next: u64| course.seen(&stretch(0, 5_000, next), None, Nanos(100 * MS)).connections;
        assert_eq!(kept(9_000), Some(Connections { open: 8, kept: 2, lost: 6 }));
        assert_eq!(kept(6_000), None, "what breaks then may be of the next fault");
        let next = Stretch { asked_from: 5_240 * MS, ..stretch(0, 6_000, u64::MAX) };
        assert_eq!(course.seen(&next, None, Nanos(100 * MS)).connections, None, "and the other way round");
    }

    #[test]
    fn of_a_service_that_does_not_come_back_no_connection_is_kept() {
        let course = connected(course((5_000 * MS, 20_000 * MS), false), &[]);
        let course = Course {
            answers: course.answers.iter().copied().filter(|a| a.came < 5_000 * MS).collect(),
            ..course
        };
        let seen = course.sorted().seen(&stretch(0, 5_000, u64::MAX), None, Nanos(100 * MS));
        assert_eq!(seen.connections, Some(Connections { open: 8, kept: 0, lost: 8 }));
    }
}
