//! Waiting for company before looking for messages, where waking up for each costs more than the messages
//! do.
//!
//! A thread that is woken for a single datagram spends most of its time on being woken, and has its peer
//! spend as much on waking it. At high rates it is better to look now and then.

use std::ops::RangeInclusive;

use rustix::thread::{Timespec, nanosleep};

/// How many messages one look is to find: being woken costs as much as handling some twenty, and is to be a
/// small part of it all.
const COMPANY: u64 = 128;
/// How often it is decided, in nanoseconds.
const PERIOD: u64 = 20_000_000;

/// Decides how a thread that handles messages waits for them.
#[derive(Debug)]
pub struct Gathering {
    /// Messages per second beyond which they are many.
    many: u64,
    /// Shortest and longest wait, in nanoseconds.
    waits: RangeInclusive<u64>,
    /// Messages since `from`.
    messages: u64,
    from: u64,
    /// The present wait, where there is one.
    wait: Option<u64>,
}

impl Gathering {
    /// Beyond `many` messages per second, waits for at least and at most so many nanoseconds. The longest is
    /// what a message may be kept waiting.
    #[must_use]
    pub fn new(many: u64, waits: RangeInclusive<u64>) -> Self {
        Self { many, waits, messages: 0, from: 0, wait: None }
    }

    /// Says that messages were handled.
    pub fn handled(&mut self, messages: u64) {
        self.messages += messages;
    }

    /// Says what time it is, in nanoseconds of any clock: now and then it is decided anew.
    pub fn tell(&mut self, now: u64) {
        let passed = now.saturating_sub(self.from);
        if passed >= PERIOD {
            self.decide(passed);
            self.from = now;
        }
    }

    /// Says that the thread is about to wait for messages. Where it should rather be given company, sleeps for
    /// a while, whatever comes, and returns true: what has come by then is looked for without waiting.
    pub fn rest(&mut self, now: u64) -> bool {
        self.tell(now);
        let Some(wait) = self.wait else { return false };
        // At most some hundred microseconds; a signal may end it early, and then there is less company.
        let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: wait as i64 });
        true
    }

    /// Whether messages are many enough to be given company.
    #[must_use]
    pub fn gathers(&self) -> bool {
        self.wait.is_some()
    }

    /// Decides after some time. The rate of messages doesn't depend on how they are waited for, so neither
    /// decision brings the other about.
    fn decide(&mut self, passed: u64) {
        let messages = std::mem::take(&mut self.messages);
        let gathers = messages * 1_000_000_000 > self.many * passed;
        let wait = (passed * COMPANY).checked_div(messages).filter(|_| gathers);
        self.wait = wait.map(|wait| wait.clamp(*self.waits.start(), *self.waits.end()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wait after a while with so many messages per second.
    fn after(rate: u64, gathering: &mut Gathering) -> Option<u64> {
        gathering.messages = rate * PERIOD / 1_000_000_000;
        gathering.decide(PERIOD);
        gathering.wait
    }

    #[test]
    fn only_many_messages_are_gathered() {
        let mut gathering = Gathering::new(40_000, 50_000..=400_000);
        assert_eq!(after(40_000, &mut gathering), None);
        // 128 of them would take 2.6 ms.
        assert_eq!(after(50_000, &mut gathering), Some(400_000));
        assert_eq!(after(800_000, &mut gathering), Some(160_000));
        assert_eq!(after(20_000_000, &mut gathering), Some(50_000));
        assert_eq!(after(0, &mut gathering), None);
    }

    #[test]
    fn it_sleeps_only_where_it_gathers() {
        let mut gathering = Gathering::new(40_000, 1_000..=1_000);
        let mut sleeps = 0;
        for now in 0..=400 {
            sleeps += u32::from(gathering.rest(now * 100_000));
            gathering.handled(5);
        }
        // From the 200th on, when 1,000 messages had come in 20 ms.
        assert_eq!(sleeps, 201);
        assert!(!gathering.rest(10_000_000_000));
    }
}
