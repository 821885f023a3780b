//! When several answers are taken by one wake-up.
//!
//! Where answers come one by one, being woken for each and sending a request for each costs a client more than all else it does. In a
//! closed loop with many operations under way it therefore sleeps until a few answers are there, and sends their successors together.
//! An answer then waits for those that come after it, and its latency includes that. The first of them waits in the mean for at most a
//! sixteenth of a round trip and [`WAIT`], the mean one for half of that. Where the far end stops answering in between, an answer
//! waits for as long as a sleep of [`LOOK`](super::stream::LOOK) lasts, since it ends then whatever is there: 5 ms at most with a
//! kernel's clock of 1000 Hz, 8 ms with 250 Hz, 20 ms with 100 Hz. A timer for less would cost more than is saved. All others that are
//! under way wait longer than that.

/// Of so many operations under way, an answer waits for one other.
const SHARE: u64 = 16;
/// Most others that are waited for: more gain little.
const OTHERS_MAX: u64 = 3;
/// How long the first of several answers waits for the others in the mean, at most, in nanoseconds.
const WAIT: u64 = 100_000;
/// Longer answers cost more to copy than to be woken for.
const BYTES_MAX: u64 = 16 << 10;
/// How often it is decided, in nanoseconds.
const PERIOD: u64 = 10_000_000;
/// Periods until it is tried again where it brought too few answers.
const REST: u32 = 100;
/// Sleeps in a period from which on they are judged.
const JUDGED: u64 = 16;

/// Decides how many answers a client waits for at a time.
#[derive(Debug, Default)]
pub(super) struct AnswerBatching {
    /// Operations that are under way at once.
    depth: u64,
    /// Somebody said that answers may wait for each other.
    allowed: bool,
    /// Bytes that a sleep for several answers waits for.
    bytes: Option<u32>,
    /// The last sleep brought nothing: the next ends with the first byte.
    nothing: bool,
    period: Period,
    /// Periods to come without.
    rest: u32,
    /// Sleeps for several answers, and answers that they brought.
    pub(super) sleeps: u64,
    pub(super) answers: u64,
}

/// What was counted since the last decision.
#[derive(Debug, Default, Clone, Copy)]
struct Period {
    from: u64,
    /// Bytes that had arrived by then.
    bytes: u64,
    answers: u64,
    /// Of sleeps for several.
    sleeps: u64,
    brought: u64,
}

impl AnswerBatching {
    pub(super) fn new(depth: u16) -> Self {
        Self { depth: depth.into(), ..Self::default() }
    }

    /// From now on answers may wait for each other.
    pub(super) fn allow(&mut self) {
        self.allowed = self.depth >= SHARE;
    }

    /// Another connection: nothing is known of it.
    pub(super) fn forget(&mut self) {
        (self.bytes, self.nothing, self.period) = (None, false, Period::default());
    }

    /// Bytes that a sleep waits for while the far end is asked for so many operations; `None` where the first is to end it.
    pub(super) fn bytes(&self, asked: usize) -> Option<u32> {
        // Towards a load's end, or where the far end takes fewer at once, answers are further apart than was thought.
        let many = asked as u64 * 4 >= self.depth * 3;
        self.bytes.filter(|_| many && !self.nothing)
    }

    /// A sleep for several answers has ended with so many whole ones, and with `any` byte or none.
    pub(super) fn slept(&mut self, answers: usize, any: bool) {
        self.nothing = !any;
        self.period.sleeps += 1;
        self.period.brought += answers as u64;
        self.sleeps += 1;
        self.answers += answers as u64;
    }

    /// Something arrived that wasn't slept for with others.
    pub(super) fn heard(&mut self) {
        self.nothing = false;
    }

    /// So many operations ended, at this time in nanoseconds; `received` bytes have arrived in all. Now and then decides anew.
    pub(super) fn ended(&mut self, now: u64, answers: usize, received: u64) {
        if !self.allowed {
            return;
        }
        self.period.answers += answers as u64;
        let passed = now.saturating_sub(self.period.from);
        if passed < PERIOD {
            return;
        }
        if self.period.from > 0 {
            self.decide(passed, received - self.period.bytes);
        }
        self.period = Period { from: now, bytes: received, ..Period::default() };
    }

    fn decide(&mut self, passed: u64, bytes: u64) {
        let Period { answers, sleeps, brought, .. } = self.period;
        if sleeps >= JUDGED && brought * 2 < sleeps * 3 {
            self.rest = REST;
        }
        self.rest = self.rest.saturating_sub(1);
        self.bytes = if self.rest > 0 || answers == 0 { None } else { self.planned(passed, answers, bytes) };
    }

    /// As many operations are always under way, so the time between answers tells the round trip, too.
    fn planned(&self, passed: u64, answers: u64, bytes: u64) -> Option<u32> {
        let (gap, length) = (passed / answers, bytes / answers);
        // One answer comes each `gap`, so that so many others come while the first waits.
        let others = (self.depth / SHARE).min(WAIT / gap.max(1)).min(OTHERS_MAX);
        // Half an answer less, since they aren't all equally long.
        let bytes = (1 + others) * length - length / 2;
        (others > 0 && (1..=BYTES_MAX).contains(&length)).then_some(bytes as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: u64 = 4144;

    /// Answers at this distance for three periods, each of them so long.
    fn after(depth: u16, gap: u64, length: u64) -> AnswerBatching {
        let mut batching = AnswerBatching::new(depth);
        batching.allow();
        go_on(&mut batching, 1, gap, length);
        batching
    }

    fn go_on(batching: &mut AnswerBatching, from: u64, gap: u64, length: u64) {
        let already = batching.period.bytes;
        for at in 0..=3 * PERIOD / gap {
            batching.ended(from + at * gap, 1, already + at * length);
        }
    }

    #[test]
    fn quick_answers_of_many_operations_wait_for_each_other() {
        for (depth, wanted) in [(16, 2), (31, 2), (32, 3), (64, 4), (1000, 4)] {
            let bytes = after(depth, 10_000, ANSWER).bytes(depth.into()).unwrap();
            assert_eq!(u64::from(bytes), wanted * ANSWER - ANSWER / 2, "{depth}");
            let most = (10_000 * u64::from(depth) / SHARE).min(WAIT);
            // The first of them waits for the others.
            assert!((wanted - 1) * 10_000 <= most, "{depth}");
        }
    }

    #[test]
    fn others_do_not() {
        assert!(after(15, 10_000, ANSWER).bytes(15).is_none(), "few at once");
        assert!(after(1, 1_000, ANSWER).bytes(1).is_none());
        assert!(after(32, 110_000, ANSWER).bytes(32).is_none(), "far apart");
        assert!(after(32, 10_000, 65_536).bytes(32).is_none(), "long ones");
        assert!(after(32, 10_000, ANSWER).bytes(23).is_none(), "most are over");
        let mut batching = AnswerBatching::new(32);
        go_on(&mut batching, 1, 10_000, ANSWER);
        assert!(batching.bytes(32).is_none(), "nobody allowed it");
    }

    #[test]
    fn a_sleep_that_brought_nothing_is_followed_by_one_that_ends_with_the_first_byte() {
        let mut batching = after(32, 10_000, ANSWER);
        batching.slept(0, true);
        assert!(batching.bytes(32).is_some(), "a part of an answer");
        batching.slept(0, false);
        assert!(batching.bytes(32).is_none());
        batching.heard();
        assert!(batching.bytes(32).is_some());
        batching.forget();
        assert!(batching.bytes(32).is_none(), "another connection");
        assert_eq!((batching.sleeps, batching.answers), (2, 0));
    }

    #[test]
    fn where_it_brings_too_few_it_is_left_for_a_while() {
        let mut batching = after(32, 10_000, ANSWER);
        let mut now = batching.period.from;
        let mut without = 0;
        for _ in 0..2 * REST {
            for _ in 0..1000 {
                now += 10_000;
                if batching.bytes(32).is_some() {
                    batching.slept(1, true);
                }
                batching.ended(now, 1, batching.period.bytes + (batching.period.answers + 1) * ANSWER);
            }
            without += u32::from(batching.bytes(32).is_none());
        }
        assert!((2 * (REST - 2)..2 * REST).contains(&without), "{without}");
    }
}
