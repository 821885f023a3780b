//! A closed loop of reads with many under way, as the engine drives one, against a server that keeps what the test knows.

use std::time::{Duration, Instant};

use vtax_load::storage::{Failure, Kind, Operation, Target};
use vtax_sys::require::possible;

/// Operations under way at once: enough for answers to wait for each other.
pub(crate) const DEPTH: u16 = 32;
/// Bytes of each read: few, so that answers come quickly.
pub(crate) const RECORD: u32 = 512;
/// Answers a second from which on some surely wait for others.
const QUICK: f64 = 10_000.0;
/// Longest time until something is so, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The loop, and what came of its reads.
pub(crate) struct Reads<'a> {
    target: &'a mut dyn Target,
    content: Vec<u8>,
    /// Where each slot reads; `None` where nothing is under way.
    at: Vec<Option<u64>>,
    started: u64,
    pub(crate) right: u64,
    pub(crate) failures: Vec<Failure>,
}

impl<'a> Reads<'a> {
    /// Reads of what has this content.
    pub(crate) fn of(target: &'a mut dyn Target, content: Vec<u8>) -> Self {
        Self { target, content, at: vec![None; DEPTH.into()], started: 0, right: 0, failures: Vec::new() }
    }

    /// Sleeps for several answers so far.
    pub(crate) fn sleeps(&self) -> u64 {
        let counters = self.target.facts().counters;
        counters.iter().find(|counter| counter.0 == "waits for several answers").unwrap().1
    }

    /// Reads until answers have waited for each other; false, and why, where this machine gives them too slowly for that.
    pub(crate) fn until_they_wait(&mut self) -> bool {
        let (began, right) = (Instant::now(), self.right);
        while self.sleeps() <= 100 {
            self.some();
            let passed = began.elapsed();
            if passed > PATIENCE {
                let rate = (self.right - right) as f64 / passed.as_secs_f64();
                assert!(rate < QUICK, "{rate:.0} answers a second, and none waits for another");
                let lack =
                    format!("{rate:.0} answers a second are too few to wait for each other: it is too busy");
                return possible(Some(lack));
            }
        }
        true
    }

    /// Reads until this is so.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so(self) {
            self.some();
            assert!(Instant::now() < until, "{what}: {:?} {:?}", self.failures, self.target.first_failure());
        }
    }

    /// Starts nothing more, and takes what is under way.
    pub(crate) fn end(&mut self) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.at.iter().any(Option::is_some) {
            self.take();
            assert!(Instant::now() < until, "{:?}", self.at);
        }
    }

    fn some(&mut self) {
        for _ in 0..100 {
            self.start();
            self.take();
        }
    }

    fn start(&mut self) {
        let records = self.content.len() as u64 / u64::from(RECORD);
        for (slot, at) in (0..).zip(&mut self.at) {
            if at.is_some() {
                continue;
            }
            let offset = self.started * 7 % records * u64::from(RECORD);
            self.started += 1;
            *at = Some(offset);
            self.target.buffer(slot).fill(0xee);
            let read = Operation { slot, kind: Kind::Read, file: 0, offset, length: RECORD };
            self.target.submit(&read).unwrap();
        }
    }

    fn take(&mut self) {
        let mut done = Vec::with_capacity(DEPTH.into());
        self.target.wait(100_000_000, &mut done).unwrap();
        for done in done {
            let from = self.at[usize::from(done.slot)].take().expect("a read that is under way") as usize;
            match done.result {
                Ok(length) => {
                    assert_eq!(length, RECORD);
                    let to = RECORD as usize;
                    assert!(self.target.buffer(done.slot)[..to] == self.content[from..from + to]);
                    self.right += 1;
                }
                Err(failure) => self.failures.push(failure),
            }
        }
    }
}
