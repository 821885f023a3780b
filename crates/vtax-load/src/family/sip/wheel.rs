//! Timers: set, changed and cancelled in constant time.

/// Length of one slot of the wheel, in nanoseconds. A timer ends up to so much late.
pub(crate) const TICK: u64 = 1_000_000;
/// Slots: a revolution takes 16 s, so that most timers are looked at once.
const SLOTS: usize = 1 << 14;
const NONE: u32 = u32::MAX;

/// A hashed timer wheel (Varghese & Lauck 1987, scheme 6). A timer is a number, given by whatever
/// uses it; all that are used lie close together.
#[derive(Debug)]
pub(crate) struct Wheel {
    slots: Box<[u32]>,
    timers: Vec<Timer>,
    /// The tick that is looked at next.
    next: u64,
    /// How many are set.
    armed: usize,
}

#[derive(Debug, Clone, Copy)]
struct Timer {
    /// In nanoseconds; 0: not set.
    due: u64,
    previous: u32,
    following: u32,
}

const UNSET: Timer = Timer { due: 0, previous: NONE, following: NONE };

impl Wheel {
    /// Without a timer; `timers` is how many there may be before memory grows.
    pub(crate) fn new(now: u64, timers: usize) -> Self {
        Self {
            slots: vec![NONE; SLOTS].into_boxed_slice(),
            timers: Vec::with_capacity(timers),
            next: now / TICK,
            armed: 0,
        }
    }

    /// Sets a timer, or sets it anew.
    pub(crate) fn set(&mut self, timer: u32, due: u64) {
        self.cancel(timer);
        if self.timers.len() <= timer as usize {
            self.timers.resize(timer as usize + 1, UNSET);
        }
        // One that is due already is found with the next tick.
        let due = due.max(1);
        let slot = slot_of((due.div_ceil(TICK)).max(self.next));
        let first = std::mem::replace(&mut self.slots[slot], timer);
        if first != NONE {
            self.timers[first as usize].previous = timer;
        }
        // Where a timer is first in its slot, `previous` names the slot.
        self.timers[timer as usize] = Timer { due, previous: HEAD | slot as u32, following: first };
        self.armed += 1;
    }

    /// Cancels a timer, if it is set.
    pub(crate) fn cancel(&mut self, timer: u32) {
        let Some(found) = self.timers.get_mut(timer as usize).filter(|t| t.due != 0) else { return };
        let Timer { previous, following, .. } = std::mem::replace(found, UNSET);
        if previous & HEAD != 0 {
            self.slots[(previous & !HEAD) as usize] = following;
        } else {
            self.timers[previous as usize].following = following;
        }
        if following != NONE {
            self.timers[following as usize].previous = previous;
        }
        self.armed -= 1;
    }

    /// Whether nothing is set.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.armed == 0
    }

    /// Puts the timers that are due into `due` and takes them off the wheel.
    pub(crate) fn advance(&mut self, now: u64, due: &mut Vec<u32>) {
        let until = now / TICK;
        // After a pause of more than a revolution every slot is looked at once.
        self.next = self.next.max(until.saturating_sub(SLOTS as u64 - 1));
        while self.next <= until {
            let mut timer = self.slots[slot_of(self.next)];
            while timer != NONE {
                let found = self.timers[timer as usize];
                if found.due <= now {
                    self.cancel(timer);
                    due.push(timer);
                }
                timer = found.following;
            }
            self.next += 1;
        }
    }

    /// When to look again at the latest: the next tick with a timer, or `most`.
    pub(crate) fn wake(&self, most: u64) -> u64 {
        let last = most / TICK;
        let found = (self.next..=last).find(|tick| self.slots[slot_of(*tick)] != NONE);
        found.map_or(most, |tick| most.min(tick * TICK))
    }
}

/// Marks `previous` as the number of a slot. No worker has as many timers.
const HEAD: u32 = 1 << 31;

fn slot_of(tick: u64) -> usize {
    tick as usize & (SLOTS - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_timer_ends_once_and_in_time(
            steps in proptest::collection::vec((0_u32..40, prop_oneof![0..50 * TICK, 0..40_000 * TICK], 0..30 * TICK, any::<bool>()), 0..300),
        ) {
            let mut wheel = Wheel::new(0, 0);
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = 0;
            for (timer, delay, pause, cancel) in steps {
                if cancel {
                    wheel.cancel(timer);
                    model.remove(&timer);
                } else {
                    wheel.set(timer, now + delay);
                    model.insert(timer, now + delay);
                }
                now += pause;
                let mut due = Vec::new();
                wheel.advance(now, &mut due);
                for timer in due {
                    let at = model.remove(&timer);
                    prop_assert!(at.is_some_and(|at| at <= now), "{:?} at {}", at, now);
                }
                prop_assert!(model.values().all(|at| *at + TICK > now), "{:?} at {}", model, now);
                prop_assert_eq!(wheel.is_empty(), model.is_empty());
                let wake = wheel.wake(now + 20 * TICK);
                prop_assert!(model.values().all(|at| wake <= (*at + TICK).max(now + 20 * TICK)));
            }
            let mut due = Vec::new();
            wheel.advance(now + 50_000 * TICK, &mut due);
            prop_assert_eq!(due.len(), model.len());
        }
    }
}
