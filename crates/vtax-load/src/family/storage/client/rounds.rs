//! How a client is driven: in rounds, with a look at its deadlines now and then.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use vtax_sys::sched::monotonic;

use super::super::target::Done;
use super::PATIENCE;
use super::base::{Base, Streamed};
use super::reconnect::Reconnect;
use super::stream::{LOOK, LOOK_LASTS};

/// A client that is driven in rounds.
pub(in crate::family::storage) trait Rounds {
    /// What goes over a connection.
    type Link: Streamed + Send + 'static;
    /// What is remembered of an operation.
    type Task: Copy;
    /// What ends a connection.
    type Error: Display + From<io::Error>;

    fn base(&mut self) -> &mut Base<Self::Link, Self::Task>;

    /// Appends what may be sent now of the operations that wait.
    fn issue(&mut self);

    /// Receives once, and takes what came; false where that is nothing.
    fn receive(&mut self, wait: bool, done: &mut Vec<Done>) -> Result<bool, Self::Error>;

    /// Looks at deadlines, now and then.
    fn look(&mut self, now: u64, done: &mut Vec<Done>) -> Result<(), Self::Error>;

    /// Forgets what was of the connection that is gone, and has another made.
    fn renew(&mut self) -> Reconnect<Self::Link>;

    /// Waits for the next connection, at most so many nanoseconds; where it waited in vain, everything under way is lost.
    fn reconnected(&mut self, sleep: u64, done: &mut Vec<Done>) {
        let wait = PATIENCE.min(Duration::from_nanos(sleep));
        let base = self.base();
        match base.reconnect.as_mut().and_then(|reconnect| reconnect.wait(wait)) {
            Some(link) => {
                base.connected(link);
                self.issue();
            }
            // Who only looks has waited for nothing yet.
            None if sleep == 0 => {}
            None => base.fail_all(done),
        }
    }

    /// Sends, waits at most so many nanoseconds, receives.
    fn round(&mut self, sleep: u64, done: &mut Vec<Done>) -> Result<(), Self::Error> {
        let base = self.base();
        base.send()?;
        let Some(link) = &base.link else { return Ok(()) };
        let look = LOOK.as_nanos() as u64;
        let all_sent = base.outgoing.is_empty();
        let wait = all_sent && in_one_call(sleep, base.punctual);
        let several = base.batching.bytes(base.sent()).filter(|_| wait);
        if sleep > 0 {
            link.stream().wake_at(several.unwrap_or(1))?;
        }
        if sleep > 0 && !wait {
            link.stream().poll(true, !all_sent, sleep.min(look))?;
        }
        let before = done.len();
        let any = self.receive(wait, done)?;
        if any {
            self.issue();
            self.base().send()?;
        }
        let base = self.base();
        match several {
            Some(_) => base.batching.slept(done.len() - before, any),
            None if any => base.batching.heard(),
            None => {}
        }
        base.release_held(done);
        Ok(())
    }

    /// The connection is gone: everything under way is lost, and another is made.
    fn lost(&mut self, error: &Self::Error, done: &mut Vec<Done>) {
        self.base().lost(error, done);
        let reconnect = self.renew();
        self.base().reconnect = Some(reconnect);
    }

    /// Goes on until something is done, at most so many nanoseconds; with `u64::MAX` as long as anything is under way.
    fn go_on(&mut self, sleep: u64, done: &mut Vec<Done>) {
        let before = done.len();
        done.append(&mut self.base().ready);
        let begun = monotonic().0;
        let mut counted = before;
        let mut left = if done.len() > before { 0 } else { sleep };
        loop {
            if self.base().link.is_none() {
                self.reconnected(left, done);
            } else if let Err(error) = self.round(left, done) {
                self.lost(&error, done);
            }
            let now = monotonic().0;
            let base = self.base();
            base.batching.ended(now, done.len() - counted, base.received_bytes);
            counted = done.len();
            if let Err(error) = self.look(now, done) {
                self.lost(&error, done);
            }
            let gone = now.saturating_sub(begun);
            let nothing_comes = sleep == u64::MAX && self.base().slots.under_way() == 0;
            if done.len() > before || nothing_comes || gone >= sleep {
                return;
            }
            left = sleep - gone;
        }
    }
}

/// Whether one system call may sleep for so many nanoseconds and read. It ends by the kernel's own timer, which need not be set each
/// time, but keeps time in ticks: where the next start has a time of its own, it must not be slept through.
fn in_one_call(sleep: u64, punctual: bool) -> bool {
    let longest = if punctual { LOOK_LASTS } else { LOOK };
    sleep >= longest.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Instant;

    use super::super::super::target::{Failure, Shape};
    use super::super::Stream;
    use super::*;

    struct Connection(Stream);

    impl Streamed for Connection {
        fn stream(&self) -> &Stream {
            &self.0
        }
    }

    /// A client that nobody answers.
    struct Client(Base<Connection, ()>);

    impl Rounds for Client {
        type Link = Connection;
        type Task = ();
        type Error = io::Error;

        fn base(&mut self) -> &mut Base<Connection, ()> {
            &mut self.0
        }

        fn issue(&mut self) {
            self.0.pending.clear();
        }

        fn receive(&mut self, _: bool, _: &mut Vec<Done>) -> io::Result<bool> {
            Ok(false)
        }

        fn look(&mut self, _: u64, _: &mut Vec<Done>) -> io::Result<()> {
            Ok(())
        }

        fn renew(&mut self) -> Reconnect<Connection> {
            Reconnect::begin(|| None)
        }
    }

    /// Writes of an open loop are sent with a look before the data of the next is made. Each failed at once while a connection was
    /// being made.
    #[test]
    fn while_a_connection_is_made_only_a_wait_loses_what_is_under_way() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let longest = Duration::from_secs(10);
        let connect = move || Stream::connect(address, Instant::now() + longest).ok().map(Connection);
        let shape = Shape { worker: 0, files: 1, size: 4096, record: 4096, depth: 2 };
        let mut client = Client(Base::new(connect().unwrap(), &shape, longest));
        let (allow, allowed) = mpsc::channel();
        let next = move || {
            allowed.recv().ok()?;
            connect()
        };
        (client.0.link, client.0.reconnect) = (None, Some(Reconnect::begin(next)));
        client.0.accept(0, ());
        let mut done = Vec::new();
        client.go_on(0, &mut done);
        assert!(done.is_empty() && client.0.pending.len() == 1, "{done:?}");
        allow.send(()).unwrap();
        let until = Instant::now() + longest;
        while client.0.link.is_none() && Instant::now() < until {
            client.go_on(0, &mut done);
            thread::sleep(Duration::from_millis(1));
        }
        assert!(client.0.link.is_some() && client.0.pending.is_empty(), "it went out");
        assert!(done.is_empty() && client.0.slots.under_way() == 1, "{done:?}");
        (client.0.link, client.0.reconnect) = (None, Some(client.renew()));
        client.go_on(1_000_000, &mut done);
        assert_eq!(done, [Done { slot: 0, result: Err(Failure::Lost), sent: false }]);
    }

    /// What never left came after what was acknowledged later, or so it was told: nothing that was lost was seen.
    #[test]
    fn the_end_says_whether_an_operation_had_gone_out() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let longest = Duration::from_secs(10);
        let stream = Stream::connect(listener.local_addr().unwrap(), Instant::now() + longest).unwrap();
        let shape = Shape { worker: 0, files: 1, size: 4096, record: 4096, depth: 4 };
        let mut base = Base::new(Connection(stream), &shape, longest);
        (0..4).for_each(|slot| base.accept(slot, ()));
        for slot in [0, 2] {
            base.slots.issue(slot);
            base.pending.retain(|waiting| *waiting != slot);
        }
        let mut done = Vec::new();
        base.give_up(0, &mut done);
        base.give_up(1, &mut done);
        base.fail_all(&mut done);
        let ended = |slot, failure, sent| Done { slot, result: Err(failure), sent };
        let (late, lost) = (Failure::TimedOut, Failure::Lost);
        let all = [ended(0, late, true), ended(1, late, false), ended(2, lost, true), ended(3, lost, false)];
        assert_eq!(done, all);
    }

    /// A wait that ended after the next start made one in a hundred 3.5 ms late, at 60 starts per second and 250 Hz.
    #[test]
    fn no_start_is_slept_through() {
        for hertz in [100, 250, 300, 1000] {
            let tick = 1_000_000_000 / hertz;
            // Rounded up to whole ticks, of which the one that runs already doesn't count.
            let ends = (LOOK.as_nanos() as u64).div_ceil(tick) * tick + tick;
            for sleep in (0..30_000_000).step_by(100_000) {
                assert!(!in_one_call(sleep, true) || ends <= sleep, "{sleep} ns at {hertz} Hz");
            }
        }
        assert!(in_one_call(20_000_000, true) && in_one_call(u64::MAX, true));
        assert!(in_one_call(4_000_000, false) && !in_one_call(3_999_999, false));
    }
}
