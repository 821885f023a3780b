//! Once a load is over, all that was written is read back and compared with the log of what was acknowledged.
//!
//! The target may have failed under the load and be on its way back, so it is opened anew, and reads are tried until a time is over.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::expect::compare;
use super::generations::{Expected, Generations};
use super::pattern::{Pattern, Place, SECTOR};
use super::result::ReadBack;
use super::target::{Done, Failure, Kind, Operation, StorageError, Target};
use crate::Control;

/// Bytes of one read, made of whole records.
const CHUNK: u64 = 256 << 10;
/// Reads under way.
const READS: u16 = 2;
/// How long one wait for a read may take.
const WAIT: u64 = 20_000_000;
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(100);
/// Tries of what is refused for a reason of its own rather than because nobody answers.
const TRIES: u32 = 5;

/// What one process wrote.
pub(super) struct Log<'a> {
    pub(super) worker: usize,
    pub(super) pattern: Pattern,
    pub(super) generations: &'a Generations,
    /// Bytes of a record, and of the file.
    pub(super) record: u64,
    pub(super) size: u64,
}

/// Reads of one file that are to be made.
struct Reads<'a> {
    log: &'a Log<'a>,
    control: &'a Control,
    until: Instant,
    /// The next offset that no read was made of.
    next: u64,
    /// Offsets whose read failed, with the number of tries that count.
    again: VecDeque<(u64, u32)>,
    under_way: Vec<Option<(u64, u32)>>,
    found: ReadBack,
}

impl Log<'_> {
    /// Bytes of one read.
    pub(super) const fn chunk(&self) -> u64 {
        let records = CHUNK / self.record;
        self.record * if records == 0 { 1 } else { records }
    }

    /// Reads it back from what `open` opens, for slots of so many, until this moment.
    pub(super) fn read_back(
        &self,
        control: &Control,
        until: Instant,
        mut open: impl FnMut(u32, u16) -> Result<Box<dyn Target>, StorageError>,
    ) -> ReadBack {
        let mut reads = Reads {
            log: self,
            control,
            until,
            next: 0,
            again: VecDeque::new(),
            under_way: vec![None; usize::from(READS)],
            found: ReadBack::default(),
        };
        let begun = Instant::now();
        while reads.are_left() {
            let tried = open(self.chunk() as u32, READS).and_then(|mut target| {
                target.prepare()?;
                let read = reads.make(&mut *target);
                if let Some(words) = target.first_failure() {
                    reads.found.trouble.get_or_insert_with(|| words.to_owned());
                }
                // All that was to be had of it is read.
                let _ = target.finish();
                read
            });
            if let Err(error) = tried {
                reads.found.trouble.get_or_insert_with(|| vtax_sys::chain(&error));
                reads.give_back();
                std::thread::sleep(AGAIN.min(until.saturating_duration_since(Instant::now())));
            }
        }
        reads.found.took = begun.elapsed().into();
        reads.end()
    }
}

impl Reads<'_> {
    /// Whether there is something to read, and time for it.
    fn are_left(&self) -> bool {
        let left = self.next < self.log.size || !self.again.is_empty() || self.is_busy();
        left && Instant::now() < self.until && !self.control.is_cancelled()
    }

    fn is_busy(&self) -> bool {
        self.under_way.iter().any(Option::is_some)
    }

    fn length(&self, offset: u64) -> u64 {
        self.log.chunk().min(self.log.size - offset)
    }

    /// Reads what is left as far as the target answers.
    fn make(&mut self, target: &mut dyn Target) -> Result<(), StorageError> {
        let mut done = Vec::with_capacity(self.under_way.len());
        while self.are_left() {
            for slot in 0..self.under_way.len() {
                if self.under_way[slot].is_some() {
                    continue;
                }
                let Some((offset, tries)) = self.take() else { break };
                self.under_way[slot] = Some((offset, tries));
                let length = self.length(offset) as u32;
                target.submit(&Operation { slot: slot as u16, kind: Kind::Read, file: 0, offset, length })?;
            }
            target.wait(WAIT, &mut done)?;
            let mut failed = false;
            for end in done.drain(..) {
                failed |= !self.ended(end, target);
            }
            if failed {
                std::thread::sleep(AGAIN);
            }
        }
        Ok(())
    }

    /// The next read, first tries first. What was never written needs none.
    fn take(&mut self) -> Option<(u64, u32)> {
        while self.next < self.log.size {
            let offset = self.next;
            self.next += self.length(offset);
            let (first, records) = (offset / self.log.record, self.length(offset) / self.log.record);
            let written = |record| self.log.generations.expected(record) != Expected::Nothing;
            if (first..first + records).any(written) {
                return Some((offset, 0));
            }
        }
        self.again.pop_front()
    }

    /// Takes the end of a read; false where it failed.
    fn ended(&mut self, end: Done, target: &mut dyn Target) -> bool {
        let Some((offset, tries)) = self.under_way[usize::from(end.slot)].take() else { return true };
        let length = self.length(offset) as usize;
        match end.result {
            Ok(bytes) => {
                let buffer = &mut target.buffer(end.slot)[..length];
                // What is beyond the end of a file was never written, or is lost.
                buffer[(bytes as usize).min(length)..].fill(0);
                self.compare(offset, target, end.slot);
                true
            }
            // Nobody answers yet: that is no try.
            Err(Failure::Lost | Failure::TimedOut | Failure::Busy | Failure::Stale) => {
                self.again.push_front((offset, tries));
                false
            }
            Err(_) if tries + 1 < TRIES => {
                self.again.push_back((offset, tries + 1));
                false
            }
            Err(_) => {
                self.found.unread += self.written(offset);
                false
            }
        }
    }

    fn compare(&mut self, offset: u64, target: &mut dyn Target, slot: u16) {
        let (log, length) = (self.log, self.length(offset));
        let buffer = &target.buffer(slot)[..length as usize];
        for (record, number) in buffer.chunks(log.record as usize).zip(offset / log.record..) {
            let expected = log.generations.expected(number);
            if expected != Expected::Nothing {
                let sector = number * (log.record / SECTOR as u64);
                let place = Place { worker: log.worker, file: 0, sector };
                compare(&log.pattern, record, place, expected, &mut self.found.verified);
            }
        }
    }

    /// Records in the read at this offset that hold something acknowledged.
    fn written(&self, offset: u64) -> u64 {
        let (first, records) = (offset / self.log.record, self.length(offset) / self.log.record);
        let holds = |record: &u64| match self.log.generations.expected(*record) {
            Expected::Generation(_)
            | Expected::Between { acknowledged: 1.., .. }
            | Expected::Overtaken { .. } => true,
            Expected::Nothing | Expected::Between { .. } | Expected::Any => false,
        };
        (first..first + records).filter(holds).count() as u64
    }

    /// What is under way goes back: its target is gone.
    fn give_back(&mut self) {
        for read in self.under_way.iter_mut().filter_map(Option::take) {
            self.again.push_front(read);
        }
    }

    /// What wasn't read by now can't be.
    fn end(mut self) -> ReadBack {
        self.give_back();
        while let Some((offset, _)) = self.take() {
            self.found.unread += self.written(offset);
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use vtax_units::Share;

    use super::super::target::{CacheDropped, Facts};
    use super::*;

    const RECORD: u64 = 4096;
    const RECORDS: u64 = 200;

    /// What a volume in memory holds, and what it does to reads.
    #[derive(Default)]
    struct Volume {
        bytes: Vec<u8>,
        /// Opening it fails so many times.
        closed: u32,
        /// So many reads end like this.
        failing: Vec<Failure>,
        /// So many waits end the target.
        broken: u32,
        /// Reads at this offset always fail.
        bad: Option<u64>,
        reads: u32,
    }

    struct Memory {
        volume: Rc<RefCell<Volume>>,
        buffers: Vec<Vec<u8>>,
        done: Vec<Done>,
    }

    impl Target for Memory {
        fn facts(&self) -> Facts {
            Facts::default()
        }
        fn prepare(&mut self) -> Result<(), StorageError> {
            Ok(())
        }
        fn buffer(&mut self, slot: u16) -> &mut [u8] {
            &mut self.buffers[usize::from(slot)]
        }
        fn submit(&mut self, operation: &Operation) -> Result<(), StorageError> {
            assert_eq!(operation.kind, Kind::Read);
            let mut volume = self.volume.borrow_mut();
            volume.reads += 1;
            let result = if volume.bad == Some(operation.offset) {
                Err(Failure::Check)
            } else if let Some(failure) = volume.failing.pop() {
                Err(failure)
            } else {
                let held = volume.bytes.get(operation.offset as usize..).unwrap_or_default();
                let length = held.len().min(operation.length as usize);
                self.buffers[usize::from(operation.slot)][..length].copy_from_slice(&held[..length]);
                Ok(length as u32)
            };
            self.done.push(Done { slot: operation.slot, result, sent: true });
            Ok(())
        }
        fn wait(&mut self, _: u64, done: &mut Vec<Done>) -> Result<(), StorageError> {
            let mut volume = self.volume.borrow_mut();
            if volume.broken > 0 {
                volume.broken -= 1;
                return Err(StorageError::Refused { reason: "gone".to_owned() });
            }
            done.append(&mut self.done);
            Ok(())
        }
        fn drop_cache(&mut self) -> Result<CacheDropped, StorageError> {
            Ok(CacheDropped::NoCache)
        }
        fn first_failure(&self) -> Option<&str> {
            None
        }
        fn remove(&mut self) -> Result<(), StorageError> {
            Ok(())
        }
    }

    /// A volume after a load: every record has generation 1, some were written again.
    struct Case {
        volume: Rc<RefCell<Volume>>,
        generations: Generations,
        pattern: Pattern,
    }

    impl Case {
        fn new() -> Self {
            let mut generations = Generations::new(RECORDS);
            generations.written(1);
            let mut case =
                Self { volume: Rc::default(), generations, pattern: Pattern::new(7, Share(0.0), Share(0.0)) };
            case.volume.borrow_mut().bytes = vec![0; (RECORDS * RECORD) as usize];
            (0..RECORDS).for_each(|record| case.put(record, record, 1));
            case
        }

        /// The volume holds at `record` what belongs to `of`.
        fn put(&mut self, record: u64, of: u64, generation: u32) {
            let mut volume = self.volume.borrow_mut();
            let bytes = &mut volume.bytes[(record * RECORD) as usize..][..RECORD as usize];
            self.pattern.fill(bytes, Place { worker: 3, file: 0, sector: of * 8 }, generation);
        }

        fn write(&mut self, record: u64, acknowledged: bool, arrives: bool) {
            let generation = self.generations.begin(record);
            if acknowledged {
                self.generations.acknowledged(record, generation);
            }
            if arrives {
                self.put(record, record, generation);
            }
        }

        fn zero(&mut self, from: u64, bytes: usize) {
            self.volume.borrow_mut().bytes[from as usize..][..bytes].fill(0);
        }

        fn read_back(&self, within: Duration) -> ReadBack {
            let log = Log {
                worker: 3,
                pattern: self.pattern,
                generations: &self.generations,
                record: RECORD,
                size: RECORDS * RECORD,
            };
            log.read_back(&Control::new(), Instant::now() + within, |bytes, slots| {
                let mut volume = self.volume.borrow_mut();
                if volume.closed > 0 {
                    volume.closed -= 1;
                    return Err(StorageError::Refused { reason: "nobody is there".to_owned() });
                }
                let buffers = vec![vec![0xaa; bytes as usize]; usize::from(slots)];
                Ok(Box::new(Memory { volume: Rc::clone(&self.volume), buffers, done: Vec::new() }))
            })
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn everything_that_was_acknowledged_is_there() {
        let mut case = Case::new();
        case.write(5, true, true);
        // Of these nobody knows.
        case.write(6, false, true);
        case.write(7, false, false);
        let found = case.read_back(LONG);
        assert_eq!((found.wrong(), found.unread, found.verified.records), (0, 0, RECORDS));
        assert_eq!(found.verified.uncertain, 2);
    }

    #[test]
    fn each_kind_of_loss_is_counted_by_itself() {
        let mut case = Case::new();
        case.write(10, true, false);
        case.write(11, true, true);
        case.zero(12 * RECORD, RECORD as usize);
        case.zero(13 * RECORD + 512, 512);
        case.put(14, 15, 1);
        case.volume.borrow_mut().bytes[16 * RECORD as usize + 700] ^= 1;
        // The acknowledged one is lost, however many came after it without an answer.
        case.write(17, true, false);
        case.write(17, false, false);
        let found = case.read_back(LONG);
        let verified = found.verified;
        assert_eq!((verified.stale, verified.lost, verified.torn), (2, 1, 1), "{verified:?}");
        assert_eq!((verified.misplaced, verified.corrupt, found.wrong()), (1, 1, 6), "{verified:?}");
    }

    #[test]
    fn a_volume_that_is_shorter_has_lost_its_end() {
        let case = Case::new();
        case.volume.borrow_mut().bytes.truncate(150 * RECORD as usize);
        let found = case.read_back(LONG);
        assert_eq!((found.verified.lost, found.unread), (50, 0));
    }

    #[test]
    fn a_target_on_its_way_back_is_waited_for() {
        let case = Case::new();
        {
            let mut volume = case.volume.borrow_mut();
            (volume.closed, volume.broken) = (2, 2);
            volume.failing = vec![Failure::Lost, Failure::Busy, Failure::Stale, Failure::TimedOut];
        }
        let found = case.read_back(LONG);
        assert_eq!((found.wrong(), found.verified.records), (0, RECORDS));
        assert!(found.trouble.unwrap().contains("nobody is there"));
    }

    #[test]
    fn what_stays_unreadable_is_no_pass() {
        let case = Case::new();
        let chunk = CHUNK;
        case.volume.borrow_mut().bad = Some(chunk);
        let found = case.read_back(LONG);
        assert_eq!((found.unread, found.wrong()), (chunk / RECORD, chunk / RECORD));
        assert_eq!(found.verified.records, RECORDS - chunk / RECORD);
        case.volume.borrow_mut().closed = u32::MAX;
        let found = case.read_back(Duration::from_millis(250));
        assert_eq!((found.unread, found.verified.records), (RECORDS, 0));
    }

    #[test]
    fn what_was_never_written_is_not_read() {
        let mut case = Case::new();
        case.generations = Generations::new(RECORDS);
        assert_eq!((case.read_back(LONG).verified.records, case.volume.borrow().reads), (0, 0));
        case.write(0, true, true);
        let found = case.read_back(LONG);
        assert_eq!((found.verified.records, found.wrong(), case.volume.borrow().reads), (1, 0, 1));
    }
}
