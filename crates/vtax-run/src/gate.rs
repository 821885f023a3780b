//! Where two trials that are made at the same time wait for each other.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use vtax_units::Nanos;

/// One side's place at a gate. Dropped, it lets the other side go for good, whatever ended this one.
#[derive(Debug)]
pub(crate) struct Seat {
    gate: Arc<Gate>,
    me: usize,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<[Side; 2]>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Side {
    /// What it said each time it arrived.
    said: Vec<Nanos>,
    left: bool,
}

/// A gate's two seats.
pub(crate) fn seats() -> [Seat; 2] {
    let gate = Arc::new(Gate::default());
    [Seat { gate: Arc::clone(&gate), me: 0 }, Seat { gate, me: 1 }]
}

impl Seat {
    /// Waits until the other side is here too and returns what it said; `None` where it will not come.
    ///
    /// The wait is as long as the other side takes: each of its steps has a limit of its own, and it
    /// leaves when one fails.
    pub(crate) fn meet(&self, say: Nanos) -> Option<Nanos> {
        let mut state = self.lock();
        let turn = state[self.me].said.len();
        state[self.me].said.push(say);
        self.gate.changed.notify_all();
        loop {
            let other = &state[1 - self.me];
            if let Some(said) = other.said.get(turn) {
                return Some(*said);
            }
            if other.left {
                return None;
            }
            state = self.gate.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, [Side; 2]> {
        self.gate.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.lock()[self.me].left = true;
        self.gate.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_wait_and_hear_each_other() {
        let [one, other] = seats();
        let heard = std::thread::scope(|scope| {
            let theirs = scope.spawn(move || {
                let first = other.meet(Nanos(2));
                std::thread::sleep(std::time::Duration::from_millis(5));
                (first, other.meet(Nanos(20)))
            });
            let ours = (one.meet(Nanos(1)), one.meet(Nanos(10)));
            (ours, theirs.join().unwrap())
        });
        assert_eq!(heard, ((Some(Nanos(2)), Some(Nanos(20))), (Some(Nanos(1)), Some(Nanos(10)))));
    }

    #[test]
    fn nobody_waits_for_one_who_left() {
        let [one, other] = seats();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(5));
                drop(other);
            });
            assert_eq!(one.meet(Nanos(1)), None);
            assert_eq!(one.meet(Nanos(1)), None);
        });
        // One who was here before it left has been met.
        let [one, other] = seats();
        std::thread::scope(|scope| {
            scope.spawn(move || other.meet(Nanos(7)));
            assert_eq!(one.meet(Nanos(1)), Some(Nanos(7)));
        });
    }
}
