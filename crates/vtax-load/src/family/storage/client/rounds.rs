//! How a client is driven: in rounds, with a look at its deadlines now and then.

use vtax_sys::sched::monotonic;

use super::super::target::Done;

/// A client that is driven in rounds.
pub(in crate::family::storage) trait Rounds {
    /// What ends a connection.
    type Error;

    /// Results that are known already.
    fn take_ready(&mut self, done: &mut Vec<Done>);

    fn is_connected(&self) -> bool;

    /// Operations under way.
    fn under_way(&self) -> usize;

    /// Waits for the next connection, at most so many nanoseconds; without it, everything under way is lost.
    fn reconnected(&mut self, sleep: u64, done: &mut Vec<Done>);

    /// Sends, waits at most so many nanoseconds, receives.
    fn round(&mut self, sleep: u64, done: &mut Vec<Done>) -> Result<(), Self::Error>;

    /// Looks at deadlines, now and then.
    fn look(&mut self, now: u64, done: &mut Vec<Done>) -> Result<(), Self::Error>;

    /// The connection is gone: everything under way is lost, and another is made.
    fn lost(&mut self, error: &Self::Error, done: &mut Vec<Done>);

    /// Goes on until something is done, at most so many nanoseconds; with `u64::MAX` as long as anything is under way.
    fn go_on(&mut self, sleep: u64, done: &mut Vec<Done>) {
        let before = done.len();
        self.take_ready(done);
        let begun = monotonic().0;
        let mut left = if done.len() > before { 0 } else { sleep };
        loop {
            if !self.is_connected() {
                self.reconnected(left, done);
            } else if let Err(error) = self.round(left, done) {
                self.lost(&error, done);
            }
            let now = monotonic().0;
            if let Err(error) = self.look(now, done) {
                self.lost(&error, done);
            }
            let gone = now.saturating_sub(begun);
            let nothing_comes = sleep == u64::MAX && self.under_way() == 0;
            if done.len() > before || nothing_comes || gone >= sleep {
                return;
            }
            left = sleep - gone;
        }
    }
}
