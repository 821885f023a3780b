//! The keys of one worker, and what each of them may hold.
//!
//! Every worker has keys of its own, so that it knows all writes to them. The order in which a server carries
//! out two writes that are under way at once is unknown, so a key is written by one request at a time: a read
//! that began after a write was acknowledged must see that write or a later one (it would be linearizable,
//! Herlihy and Wing, TOPLAS 12(3), 1990).

use crate::Part;

/// Set in a key's oldest version: a write of it was given up and may yet happen.
const UNSURE: u32 = 1 << 31;

/// What one key may hold.
#[derive(Debug, Clone, Copy, Default)]
struct Key {
    /// Oldest version that a read may still see, 0 for none at all; with [`UNSURE`].
    oldest: u32,
    /// Newest version that was sent.
    newest: u32,
    /// A write is under way.
    writing: bool,
}

/// The keys of one worker.
#[derive(Debug)]
pub(super) struct Keys {
    keys: Box<[Key]>,
    /// Which of its generator's keys is the first, and the distance from one to the next.
    first: u64,
    stride: u64,
    /// Which of all keys are its generator's.
    part: Part,
}

/// What was wrong with the answer to a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    /// There is no value where one was written.
    Lost,
    /// The value of another key, or of no write at all.
    Foreign,
    /// A value that a later write, acknowledged before the read began, had replaced.
    Stale,
}

impl Keys {
    /// Of `count` keys those of this part, and of these every `workers`-th, from number `worker` on.
    pub(super) fn new(count: u64, part: Part, worker: usize, workers: usize) -> Self {
        let (worker, workers) = (worker as u64, workers as u64);
        let count = part.amount(count);
        let own = count / workers + u64::from(worker < count % workers);
        let keys = vec![Key::default(); own as usize].into_boxed_slice();
        Self { keys, first: worker, stride: workers, part }
    }

    /// How many they are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The number of the key at `place`, unique among all workers of all generators.
    pub(super) fn number(&self, place: u32) -> u64 {
        self.part.place(self.first + u64::from(place) * self.stride)
    }

    /// Begins a write: its version; `None` where one is under way already.
    pub(super) fn begin_write(&mut self, place: u32) -> Option<u32> {
        let key = &mut self.keys[place as usize];
        if key.writing || key.newest + 1 == UNSURE {
            return None;
        }
        key.newest += 1;
        key.writing = true;
        Some(key.newest)
    }

    /// The server acknowledged the write under way.
    pub(super) fn written(&mut self, place: u32) {
        let key = &mut self.keys[place as usize];
        key.writing = false;
        // A write that was given up may come later than this one.
        if key.oldest & UNSURE == 0 {
            key.oldest = key.newest;
        }
    }

    /// The server refused the write under way: it did not happen.
    pub(super) fn refused(&mut self, place: u32) {
        let key = &mut self.keys[place as usize];
        key.writing = false;
        // Its version stays used, so that no two writes have the same.
    }

    /// The write under way had no answer: it may have happened, or happen yet.
    pub(super) fn given_up(&mut self, place: u32) {
        let key = &mut self.keys[place as usize];
        key.writing = false;
        key.oldest |= UNSURE;
    }

    /// The step is over, and with it the connections: writes under way are given up.
    pub(super) fn end_of_step(&mut self) {
        for key in self.keys.iter_mut().filter(|key| key.writing) {
            key.writing = false;
            key.oldest |= UNSURE;
        }
    }

    /// Begins a read: the oldest version that it may see.
    pub(super) fn begin_read(&self, place: u32) -> u32 {
        self.keys[place as usize].oldest & !UNSURE
    }

    /// Judges the answer to a read that was to see `oldest` or later: a value of key number `key` and
    /// this version, or of nothing (`None`).
    pub(super) fn judge(&mut self, place: u32, oldest: u32, value: Option<(u64, u32)>) -> Result<(), Wrong> {
        let number = self.number(place);
        let state = &mut self.keys[place as usize];
        match value {
            None if oldest == 0 => Ok(()),
            None => {
                // What is lost is told once; nothing more is expected of the key until it is written again.
                let was_known = state.oldest & !UNSURE != 0;
                state.oldest &= UNSURE;
                if was_known { Err(Wrong::Lost) } else { Ok(()) }
            }
            Some((key, version)) if key != number || version > state.newest => Err(Wrong::Foreign),
            // After a loss, older writes can't come back.
            Some((_, version)) if version < oldest => Err(Wrong::Stale),
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shared_out_without_gaps() {
        // Generators on hosts with different numbers of CPUs.
        for workers_of in [&[3][..], &[2, 1], &[1, 4, 2]] {
            let mut all = Vec::new();
            for (number, workers) in workers_of.iter().enumerate() {
                let part = Part { number: number as u32, of: workers_of.len() as u32 };
                for worker in 0..*workers {
                    let keys = Keys::new(20, part, worker, *workers);
                    all.extend((0..keys.len() as u32).map(|place| keys.number(place)));
                }
            }
            all.sort_unstable();
            assert_eq!(all, (0..20).collect::<Vec<_>>(), "{workers_of:?}");
        }
    }

    #[test]
    fn a_read_sees_the_last_acknowledged_write_or_a_later_one() {
        let mut keys = Keys::new(4, Part::default(), 0, 1);
        assert_eq!(keys.judge(2, keys.begin_read(2), None), Ok(()), "nothing was written");
        assert_eq!(keys.begin_write(2), Some(1));
        let before = keys.begin_read(2);
        assert_eq!(keys.begin_write(2), None, "one write at a time");
        keys.written(2);
        assert_eq!(keys.judge(2, before, Some((2, 1))), Ok(()));
        assert_eq!(keys.begin_write(2), Some(2));
        let during = keys.begin_read(2);
        keys.written(2);
        let after = keys.begin_read(2);
        assert_eq!(keys.judge(2, during, Some((2, 1))), Ok(()), "the write was under way");
        assert_eq!(keys.judge(2, after, Some((2, 1))), Err(Wrong::Stale));
        assert_eq!(keys.judge(2, after, Some((2, 2))), Ok(()));
        assert_eq!(keys.judge(2, after, Some((2, 3))), Err(Wrong::Foreign), "no such write yet");
        assert_eq!(keys.judge(2, after, Some((1, 2))), Err(Wrong::Foreign));
    }

    #[test]
    fn a_write_that_was_given_up_may_happen_at_any_time() {
        let mut keys = Keys::new(1, Part::default(), 0, 1);
        keys.begin_write(0);
        keys.written(0);
        keys.begin_write(0);
        keys.given_up(0);
        assert_eq!(keys.begin_write(0), Some(3));
        keys.written(0);
        let read = keys.begin_read(0);
        for version in [1, 2, 3] {
            assert_eq!(keys.judge(0, read, Some((0, version))), Ok(()), "{version}");
        }
    }

    #[test]
    fn a_refused_write_did_not_happen() {
        let mut keys = Keys::new(1, Part::default(), 0, 1);
        keys.begin_write(0);
        keys.written(0);
        keys.begin_write(0);
        keys.refused(0);
        let read = keys.begin_read(0);
        assert_eq!(keys.judge(0, read, Some((0, 1))), Ok(()));
        assert_eq!(keys.begin_write(0), Some(3));
    }

    #[test]
    fn a_lost_value_is_told_once() {
        let mut keys = Keys::new(1, Part::default(), 0, 1);
        keys.begin_write(0);
        keys.written(0);
        let (one, other) = (keys.begin_read(0), keys.begin_read(0));
        assert_eq!(keys.judge(0, one, None), Err(Wrong::Lost));
        assert_eq!(keys.judge(0, other, None), Ok(()));
        assert_eq!(keys.judge(0, keys.begin_read(0), None), Ok(()));
        keys.begin_write(0);
        keys.written(0);
        assert_eq!(keys.judge(0, keys.begin_read(0), None), Err(Wrong::Lost));
    }
}
