//! What clients saw of a fault, from what the generator kept of each attempt. Pure.

use vtax_load::ConnectionCounts;
use vtax_store::failover::{Connections, Normal, Seen};
use vtax_units::Nanos;

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
/// Where the lab doesn't know when the guest did not run: a fault's silence is the longest that begins within
/// this time of it.
const AT_ONCE: u64 = 1_000_000_000;

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
        self
    }

    /// What was seen of a fault at `at`. `before` is when the one before was over, `end` when the next one
    /// comes, `dead` the time in which the guest did not run, where that is known.
    pub(crate) fn seen(
        &self,
        (before, at, end): (u64, u64, u64),
        dead: Option<(u64, u64)>,
        delayed_beyond: Nanos,
    ) -> Seen {
        let end = end.min(self.duration);
        let normal = self.normal(before.max(at.saturating_sub(BEFORE)), at);
        let (last_before, first_answer) = match dead {
            Some(dead) => self.around(dead),
            None => self.silence(at, at.saturating_add(AT_ONCE).min(end)),
        };
        let normal_again = match (normal, first_answer) {
            (Some(normal), Some(first)) => self.normal_again(first.max(at), end, normal.p95.0),
            _ => None,
        };
        let until = normal_again.unwrap_or(end);
        let under_way = |started: u64, ended: u64| started < until && ended >= at;
        let attempts = || self.attempts.iter().filter(|a| under_way(a.started, a.ended));
        let missed: u64 = self.missed.iter().filter(|(t, _)| *t > at && *t <= until).map(|(_, n)| n).sum();
        let delayed = |a: &&Answer| under_way(a.asked, a.came) && a.took() > delayed_beyond.0;
        Seen {
            last_before: last_before.map(Nanos),
            first_answer: first_answer.map(Nanos),
            until: Nanos(until),
            attempts: attempts().count() as u64 + missed,
            failed: attempts().filter(|a| a.failed).count() as u64 + missed,
            delayed: self.answers.iter().filter(delayed).count() as u64,
            retransmissions: self.repeated.iter().filter(|t| **t >= at && **t < until).count() as u64,
            connections: self.connections(at, until),
            normal,
            normal_again: normal_again.map(Nanos),
            silence_arming: None,
        }
    }

    /// The longest time between two answers that begins within this time.
    pub(super) fn longest_silence(&self, from: Nanos, to: Nanos) -> Option<Nanos> {
        let within = |came: u64| (from.0..=to.0).contains(&came);
        let pairs = self.answers.windows(2).filter(|pair| within(pair[0].came));
        pairs.map(|pair| Nanos(pair[1].came - pair[0].came)).max()
    }

    /// The last answer that came before a time in which nothing could answer, and the first after it.
    fn around(&self, (from, to): (u64, u64)) -> (Option<u64>, Option<u64>) {
        let after = self.answers.partition_point(|a| a.came < to);
        let before = self.answers[..after].iter().rposition(|a| a.came <= from);
        let came = |answer: &Answer| answer.came;
        (before.map(|i| self.answers[i].came), self.answers.get(after).map(came))
    }

    /// The longest silence that begins by `latest` and ends after `at`: the answers before and after it.
    fn silence(&self, at: u64, latest: u64) -> (Option<u64>, Option<u64>) {
        let mut longest: Option<(u64, Option<u64>, Option<u64>)> = None;
        let came = self.answers.iter().map(|a| Some(a.came));
        let pairs = std::iter::once(None).chain(came.clone()).zip(came.chain([None]));
        for (last, next) in pairs {
            if last.is_some_and(|last| last > latest) || next.is_some_and(|next| next < at) {
                continue;
            }
            let length = next.unwrap_or(self.duration.max(latest)) - last.unwrap_or(0);
            if longest.is_none_or(|(known, ..)| length > known) {
                longest = Some((length, last, next));
            }
        }
        longest.map_or((None, None), |(_, last, next)| (last, next))
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
        let failed: Vec<u64> = self.attempts.iter().filter(|a| a.failed).map(|a| a.started).collect();
        let candidates = std::iter::once(from).chain(asked.iter().map(|(t, _)| *t));
        for start in candidates {
            let stop = start.saturating_add(STEADY);
            if stop > end {
                return None;
            }
            let within = &asked[asked.partition_point(|(t, _)| *t < start)..];
            let within = &within[..within.partition_point(|(t, _)| *t < stop)];
            let outside = within.iter().filter(|(_, outside)| *outside).count();
            // What was asked as latency came back must have been answered at once itself.
            let settled = within.first().is_some_and(|(_, outside)| !outside);
            let broken = failed.iter().any(|t| (start..stop).contains(t));
            if within.len() >= LEAST_STEADY
                && settled
                && !broken
                && outside as f64 <= OUTSIDE * within.len() as f64
            {
                return Some(start);
            }
        }
        None
    }

    /// Connections open before `at`, and of those the ones that broke until then.
    fn connections(&self, at: u64, until: u64) -> Option<Connections> {
        let first = self.connections.iter().position(|(end, _)| *end > at)?;
        let open = self.connections[first.saturating_sub(1)].1.open;
        let broken =
            self.connections[first..].iter().take_while(|(end, _)| *end <= until.saturating_add(STEADY));
        let lost = broken.map(|(_, counts)| counts.broken).sum::<u64>().min(open);
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

    #[test]
    fn an_outage_is_the_silence_around_the_fault() {
        let course = course((5_000 * MS, 5_240 * MS), false);
        let seen = course.seen((0, 5_001 * MS, 9_000 * MS), None, Nanos(100 * MS));
        assert_eq!(seen.last_before, Some(Nanos(4_992 * MS)));
        assert!(seen.first_answer.is_some_and(|t| (5_240 * MS..5_250 * MS).contains(&t.0)), "{seen:?}");
        assert_eq!(seen.normal.map(|n| n.p95), Some(Nanos(2 * MS)));
        assert_eq!(seen.normal_again, Some(Nanos(5_240 * MS)));
        // Asked up to 100 ms before the end of the outage and answered after it.
        assert!((14..=16).contains(&seen.delayed), "{seen:?}");
        assert_eq!((seen.attempts, seen.failed, seen.connections), (24, 0, None));
    }

    #[test]
    fn where_the_guests_death_is_known_chance_finds_no_longer_silence() {
        let mut course = course((5_000 * MS, 5_240 * MS), false);
        // No client had anything to ask.
        course.answers.retain(|a| !(5_500 * MS..5_900 * MS).contains(&a.asked));
        let dead = Some((5_105 * MS, 5_150 * MS));
        let seen = course.seen((0, 5_001 * MS, 9_000 * MS), dead, Nanos(100 * MS));
        assert_eq!(seen.last_before, Some(Nanos(4_992 * MS)));
        assert_eq!(seen.first_answer, Some(Nanos(5_240 * MS)));
        let guessed = course.seen((0, 5_001 * MS, 9_000 * MS), None, Nanos(100 * MS));
        assert_eq!(guessed.first_answer, Some(Nanos(5_902 * MS)));
    }

    #[test]
    fn what_fails_is_lost() {
        let course = course((5_000 * MS, 5_240 * MS), true);
        let seen = course.seen((0, 5_000 * MS, 9_000 * MS), None, Nanos(100 * MS));
        assert_eq!((seen.failed, seen.delayed), (24, 0));
        assert_eq!(seen.first_answer, Some(Nanos(5_242 * MS)));
    }

    #[test]
    fn a_service_that_never_comes_back_has_no_first_answer() {
        let course = course((5_000 * MS, 20_000 * MS), true);
        let seen = course.seen((0, 5_000 * MS, u64::MAX), None, Nanos(100 * MS));
        assert_eq!((seen.first_answer, seen.normal_again), (None, None));
        assert_eq!((seen.failed, seen.until), (500, Nanos(10_000 * MS)));
        assert_eq!(seen.last_before, Some(Nanos(4_992 * MS)));
    }

    #[test]
    fn the_silence_while_a_guest_is_copied_is_the_one_that_begins_then() {
        let course = course((5_000 * MS, 5_240 * MS), false);
        let silence = |from: u64, to: u64| course.longest_silence(Nanos(from * MS), Nanos(to * MS));
        assert_eq!(silence(4_000, 4_500), Some(Nanos(10 * MS)));
        assert_eq!(silence(4_000, 5_100), Some(Nanos(248 * MS)), "it may end later");
        assert_eq!(silence(5_250, 6_000), Some(Nanos(10 * MS)), "the outage itself is another");
        assert_eq!(silence(9_999, 20_000), None);
    }

    #[test]
    fn too_little_before_a_fault_says_nothing_about_normal() {
        let course = course((100 * MS, 340 * MS), false);
        let seen = course.seen((0, 100 * MS, 9_000 * MS), None, Nanos(100 * MS));
        assert_eq!((seen.normal, seen.normal_again), (None, None));
        assert!(seen.first_answer.is_some());
        assert_eq!(Course::default().seen((0, 0, 1), None, Nanos(1)).attempts, 0);
    }

    #[test]
    fn connections_that_break_are_lost() {
        let mut course = course((5_000 * MS, 5_240 * MS), false);
        let counts = |open, broken| ConnectionCounts { open, broken };
        course.connections = vec![
            (4_900 * MS, counts(8, 1)),
            (5_000 * MS, counts(8, 0)),
            (5_100 * MS, counts(6, 2)),
            (5_200 * MS, counts(8, 1)),
            (9_900 * MS, counts(8, 4)),
        ];
        let seen = course.seen((0, 5_050 * MS, 9_000 * MS), None, Nanos(100 * MS));
        assert_eq!(seen.connections, Some(Connections { open: 8, kept: 5, lost: 3 }));
    }
}
