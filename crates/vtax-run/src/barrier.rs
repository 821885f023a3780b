//! Where two trials that are made at the same time wait for each other.

use std::sync::{Arc, Condvar, Mutex};

use vtax_sys::sync::{lock, wait};
use vtax_units::Nanos;

/// One of the two parties of a barrier. Dropped, it lets the other one go for good, whatever ended this one.
#[derive(Debug)]
pub(crate) struct Party {
    barrier: Arc<Barrier>,
    me: usize,
}

#[derive(Debug, Default)]
struct Barrier {
    state: Mutex<[Arrivals; 2]>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Arrivals {
    /// What the party said each time it arrived.
    said: Vec<Nanos>,
    left: bool,
}

/// The two parties of a new barrier.
pub(crate) fn parties() -> [Party; 2] {
    let barrier = Arc::new(Barrier::default());
    [Party { barrier: Arc::clone(&barrier), me: 0 }, Party { barrier, me: 1 }]
}

impl Party {
    /// Waits until the other party is here too and returns what it said; `None` where it will not come.
    ///
    /// The wait is as long as the other party takes: each of its steps has a limit of its own, and it
    /// leaves when one fails.
    pub(crate) fn exchange(&self, say: Nanos) -> Option<Nanos> {
        let mut state = lock(&self.barrier.state);
        let turn = state[self.me].said.len();
        state[self.me].said.push(say);
        self.barrier.changed.notify_all();
        loop {
            let other = &state[1 - self.me];
            if let Some(said) = other.said.get(turn) {
                return Some(*said);
            }
            if other.left {
                return None;
            }
            state = wait(&self.barrier.changed, state);
        }
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        lock(&self.barrier.state)[self.me].left = true;
        self.barrier.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_wait_and_hear_each_other() {
        let [one, other] = parties();
        let heard = std::thread::scope(|scope| {
            let theirs = scope.spawn(move || {
                let first = other.exchange(Nanos(2));
                std::thread::sleep(std::time::Duration::from_millis(5));
                (first, other.exchange(Nanos(20)))
            });
            let ours = (one.exchange(Nanos(1)), one.exchange(Nanos(10)));
            (ours, theirs.join().unwrap())
        });
        assert_eq!(heard, ((Some(Nanos(2)), Some(Nanos(20))), (Some(Nanos(1)), Some(Nanos(10)))));
    }

    #[test]
    fn a_party_that_left_is_not_waited_for() {
        let [one, other] = parties();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(5));
                drop(other);
            });
            assert_eq!(one.exchange(Nanos(1)), None);
            assert_eq!(one.exchange(Nanos(1)), None);
        });
        // One that was here before it left has been met.
        let [one, other] = parties();
        std::thread::scope(|scope| {
            scope.spawn(move || other.exchange(Nanos(7)));
            assert_eq!(one.exchange(Nanos(1)), Some(Nanos(7)));
        });
    }
}
