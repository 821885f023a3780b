//! One process: a loop over its slots.
//!
//! Nothing here allocates, locks or shares on the path of an operation. All times are nanoseconds since the step's epoch. A start
//! that finds no idle slot is not queued: the arrival process isn't asked for the next one until it has gone out or timed out.

use vtax_plan::model::StorageSync;
use vtax_sys::SysError;
use vtax_units::Nanos;

use super::course::Course;
use super::expect::compare;
use super::generations::{Expected, Generations};
use super::pattern::{Pattern, Place, SECTOR};
use super::result::{Process, Verified};
use super::spec::StorageStep;
use super::target::{Done, Failure, Kind, Operation, StorageError, Target};
use crate::pacing::Pacer;
use crate::requests::{Finding, Outcome, Recorder, Timetable, Window};
use crate::{Arrivals, Control};

/// Starts in a row before what is done is looked at: what is queued leaves only then.
const STARTS_MAX: usize = 16;
/// Longest wait for a sync, so that a cancellation is seen.
const SLEEP_MAX: u64 = 20_000_000;
/// Draws of a record that isn't under way before any is taken.
const DRAWS: usize = 8;

/// What all processes of a step have in common.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) step: &'a StorageStep,
    pub(super) pattern: Pattern,
    pub(super) window: Window,
    pub(super) timeout: u64,
    /// CLOCK_MONOTONIC at the start.
    pub(super) epoch: Nanos,
}

/// What one process found.
pub(super) struct Found {
    pub(super) finding: Finding,
    pub(super) process: Process,
    pub(super) verified: Verified,
    pub(super) failures: [u64; FAILURES.len()],
    /// Writes that began, and those of them that were acknowledged.
    pub(super) writes: (u64, u64),
    /// CLOCK_MONOTONIC at the start.
    pub(super) epoch: Nanos,
}

/// The kinds of failure in the order in which they are counted.
pub(super) const FAILURES: [Failure; 12] = [
    Failure::NoSpace,
    Failure::ReadOnly,
    Failure::Busy,
    Failure::Stale,
    Failure::Lost,
    Failure::TimedOut,
    Failure::Refused,
    Failure::Check,
    Failure::Missing,
    Failure::Protocol,
    Failure::Short,
    Failure::Other,
];

/// An operation under way.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    start: u64,
    record: u64,
    kind: Kind,
    /// Of a write: what it writes. Of a read: what it must find.
    generation: u32,
    expected: Expected,
    /// The write is done; its sync is under way.
    syncing: bool,
}

pub(super) struct Worker<'a> {
    job: &'a Job<'a>,
    control: &'a Control,
    number: usize,
    target: &'a mut dyn Target,
    generations: &'a mut Generations,
    course: Course,
    slots: Vec<Option<UnderWay>>,
    free: Vec<u16>,
    /// Since when there was always a free slot.
    available_since: u64,
    time: Timetable<'a>,
    recorder: Recorder,
    pacer: Pacer,
    done: Vec<Done>,
    process: Process,
    verified: Verified,
    failures: [u64; FAILURES.len()],
    writes: (u64, u64),
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        job: &'a Job<'a>,
        control: &'a Control,
        number: usize,
        target: &'a mut dyn Target,
        generations: &'a mut Generations,
        arrivals: Option<Arrivals>,
    ) -> Self {
        let (step, depth) = (job.step, job.step.shape.depth);
        Self {
            job,
            control,
            number,
            target,
            generations,
            course: Course::new(step.operation, step.records(), step.once, step.seed, number),
            slots: vec![None; usize::from(depth)],
            free: (0..depth).rev().collect(),
            available_since: 0,
            // An operation that is under way is waited for as long as it may take.
            time: Timetable::new(control, job.window, job.timeout, job.epoch, arrivals),
            recorder: Recorder::new(job.window, Nanos(job.timeout), step.samples),
            pacer: Pacer::new(),
            done: Vec::with_capacity(usize::from(depth)),
            process: Process { first: Nanos(u64::MAX), ..Process::default() },
            verified: Verified::default(),
            failures: [0; FAILURES.len()],
            writes: (0, 0),
        }
    }

    /// Carries out this process's share of the step.
    pub(super) fn run(mut self) -> Result<Found, StorageError> {
        self.time.tell();
        while self.time.now == 0 {
            // The epoch is still to come.
            std::thread::sleep(std::time::Duration::from_micros(50));
            self.time.tell();
        }
        while self.go_on()? {
            self.dispatch()?;
            let (sleep, for_start) = self.rest();
            let before = self.time.now;
            self.target.wait(sleep, &mut self.done)?;
            self.time.tell();
            if self.done.is_empty() && for_start {
                match sleep {
                    0 => self.pacer.polled += self.time.now - before,
                    _ => self.pacer.slept(before, sleep, self.time.now),
                }
            }
            self.take_done()?;
        }
        self.finish()
    }

    /// Passes the marks of the step's course; false once it is over.
    fn go_on(&mut self) -> Result<bool, StorageError> {
        let idle = self.free.len() == self.slots.len();
        let enough = self.course.is_over() && idle;
        self.time.pass(&mut self.recorder, self.pacer.polled, enough).map_err(|e| refused(&e))?;
        if self.time.goes_on() {
            return Ok(true);
        }
        // A start that was late on its way still goes out; what is under way is waited for after a cancellation, too.
        let overdue = !self.control.is_cancelled() && self.time.next_start().is_some();
        Ok((!idle || overdue) && self.time.now < self.time.last())
    }

    /// Starts every operation that is due and finds an idle slot.
    fn dispatch(&mut self) -> Result<(), StorageError> {
        let at_once = self.target.at_once();
        for _ in 0..STARTS_MAX.max(if self.time.is_open() { 0 } else { self.slots.len() }) {
            let now = self.time.now;
            let start = if self.time.is_open() {
                self.time.next_start().filter(|start| *start <= now)
            } else {
                self.time.goes_on().then_some(now)
            };
            let Some(start) = start else { return Ok(()) };
            if self.time.is_open() && start + self.job.timeout <= self.time.now {
                self.recorder.missed(start, !self.free.is_empty() && self.available_since <= start);
            } else {
                let Some(slot) = self.free.pop() else { return Ok(()) };
                let late = self.time.is_open().then(|| {
                    let own = self.time.now - start.max(self.available_since).min(self.time.now);
                    (self.time.now - start, own)
                });
                if !self.begin(slot, start, late)? {
                    self.free.push(slot);
                    return Ok(());
                }
            }
            if self.time.is_open() {
                self.pacer.started(start);
                self.time.started();
            }
            if at_once {
                self.target.wait(0, &mut self.done)?;
                self.time.tell();
                self.take_done()?;
            } else if self.time.is_open() {
                self.time.tell();
            }
        }
        Ok(())
    }

    /// Starts an operation; false at the end of the course.
    fn begin(&mut self, slot: u16, start: u64, late: Option<(u64, u64)>) -> Result<bool, StorageError> {
        let Some(mut next) = self.course.next() else { return Ok(false) };
        let may_meet = self.course.may_meet();
        let mut draws = 0;
        while may_meet && draws < DRAWS && self.is_under_way(next.record) {
            next = self.course.draw();
            draws += 1;
        }
        // Two at once on one record: what it holds afterwards can't be known.
        let crowded = may_meet && draws == DRAWS && self.is_under_way(next.record);
        let operation = self.operation(slot, next.record, next.write);
        let mut under_way = UnderWay {
            start,
            record: next.record,
            kind: operation.kind,
            generation: 0,
            expected: Expected::Any,
            syncing: false,
        };
        match operation.kind {
            Kind::Write | Kind::WriteDurable | Kind::Create => {
                self.writes.0 += 1;
                under_way.generation = self.generations.begin(next.record);
                self.fill(slot, next.record, under_way.generation);
                if crowded {
                    under_way.generation = 0;
                    self.expect_anything_of(next.record);
                }
            }
            Kind::Read if !crowded => under_way.expected = self.generations.expected(next.record),
            _ => {}
        }
        self.recorder.started(start, late);
        self.process.first = self.process.first.min(Nanos(self.time.now));
        self.slots[usize::from(slot)] = Some(under_way);
        self.target.submit(&operation)?;
        Ok(true)
    }

    fn is_under_way(&self, record: u64) -> bool {
        self.slots.iter().flatten().any(|other| other.record == record)
    }

    /// Reads of the record that are under way may find what a write that begins now writes, or what was there before.
    fn expect_anything_of(&mut self, record: u64) {
        for other in self.slots.iter_mut().flatten().filter(|other| other.record == record) {
            other.expected = Expected::Any;
        }
    }

    fn operation(&self, slot: u16, record: u64, write: bool) -> Operation {
        use vtax_plan::model::StorageOperation as Op;
        let shape = &self.job.step.shape;
        let durable = matches!(shape.sync, StorageSync::Data | StorageSync::Each);
        let of_name = |kind, length, offset| Operation { slot, kind, file: record as u32, offset, length };
        match self.job.step.operation {
            Op::Create => of_name(Kind::Create, shape.file.0 as u32, u64::from(durable)),
            Op::Remove => of_name(Kind::Remove, 0, 0),
            Op::List => of_name(Kind::List, 0, 0),
            _ => {
                let kind = match (write, shape.sync) {
                    (true, StorageSync::Data) => Kind::WriteDurable,
                    (true, _) => Kind::Write,
                    (false, _) => Kind::Read,
                };
                Operation {
                    slot,
                    kind,
                    file: 0,
                    offset: record * shape.record.0,
                    length: shape.record.0 as u32,
                }
            }
        }
    }

    /// The place of a record in the data.
    fn place(&self, record: u64) -> Place {
        if self.job.step.operation.of_names() {
            return Place { worker: self.number, file: record as u32 + 1, sector: 0 };
        }
        let sector = record * (self.job.step.shape.record.0 / SECTOR as u64);
        Place { worker: self.number, file: 0, sector }
    }

    fn length(&self) -> usize {
        let shape = &self.job.step.shape;
        if self.job.step.operation.of_names() { shape.file.0 as usize } else { shape.record.0 as usize }
    }

    fn fill(&mut self, slot: u16, record: u64, generation: u32) {
        let (place, length) = (self.place(record), self.length());
        let buffer = self.target.buffer(slot);
        let length = length.min(buffer.len());
        self.job.pattern.fill(&mut buffer[..length], place, generation);
    }

    /// Takes what is done.
    fn take_done(&mut self) -> Result<(), StorageError> {
        let mut done = std::mem::take(&mut self.done);
        for end in &done {
            self.end(*end)?;
        }
        done.clear();
        self.done = done;
        Ok(())
    }

    /// One operation has ended, or the first half of a write that is followed by a sync.
    fn end(&mut self, end: Done) -> Result<(), StorageError> {
        let place = usize::from(end.slot);
        let Some(mut under_way) = self.slots.get(place).copied().flatten() else { return Ok(()) };
        let whole =
            matches!(under_way.kind, Kind::Read | Kind::Write | Kind::WriteDurable) && !under_way.syncing;
        let result = match end.result {
            Ok(bytes) if whole && bytes as usize != self.length() => Err(Failure::Short),
            other => other,
        };
        let each = self.job.step.shape.sync == StorageSync::Each;
        if each && under_way.kind == Kind::Write && !under_way.syncing && result.is_ok() {
            under_way.syncing = true;
            self.slots[place] = Some(under_way);
            let flush = Operation { slot: end.slot, kind: Kind::Flush, file: 0, offset: 0, length: 0 };
            self.target.submit(&flush)?;
            if self.target.at_once() {
                let mut synced = Vec::with_capacity(1);
                self.target.wait(0, &mut synced)?;
                self.time.tell();
                for done in synced {
                    self.end(done)?;
                }
            }
            return Ok(());
        }
        let is_late = self.time.now.saturating_sub(under_way.start) > self.job.timeout;
        let outcome = match result {
            Ok(found) => match self.succeeded(end.slot, under_way, found) {
                // The kernel waits for as long as it takes, and what is done then is done: a write is there.
                Outcome::Ok if is_late => self.failed(Failure::TimedOut),
                outcome => outcome,
            },
            Err(failure) => self.failed(failure),
        };
        if outcome == Outcome::Ok {
            self.count(&under_way);
        }
        self.recorder.ended(under_way.start, self.time.now, outcome, 0);
        self.slots[place] = None;
        if self.free.is_empty() {
            self.available_since = self.time.now;
        }
        self.free.push(end.slot);
        Ok(())
    }

    /// Counts an operation that succeeded in time.
    fn count(&mut self, under_way: &UnderWay) {
        self.process.operations += 1;
        self.process.last = Nanos(self.time.now);
        let bytes = self.length();
        match under_way.kind {
            Kind::Read => {
                self.recorder.received(under_way.start, bytes);
                self.process.read += bytes as u64;
            }
            Kind::Write | Kind::WriteDurable | Kind::Create => self.recorder.sent(under_way.start, bytes),
            Kind::Flush | Kind::Remove | Kind::List => return,
        }
        self.process.bytes += bytes as u64;
    }

    fn succeeded(&mut self, slot: u16, under_way: UnderWay, found: u32) -> Outcome {
        match under_way.kind {
            Kind::Read => self.verify(slot, under_way),
            Kind::Write | Kind::WriteDurable | Kind::Create => {
                self.writes.1 += 1;
                if under_way.generation > 0 {
                    self.generations.acknowledged(under_way.record, under_way.generation);
                }
                Outcome::Ok
            }
            Kind::List if u64::from(found) != u64::from(self.job.step.shape.files) => {
                self.verified.records += 1;
                self.verified.lost += 1;
                Outcome::Lost
            }
            _ => Outcome::Ok,
        }
    }

    fn verify(&mut self, slot: u16, under_way: UnderWay) -> Outcome {
        if !self.job.step.shape.verify {
            return Outcome::Ok;
        }
        let (place, length) = (self.place(under_way.record), self.length());
        let buffer = self.target.buffer(slot);
        let length = length.min(buffer.len());
        compare(&self.job.pattern, &buffer[..length], place, under_way.expected, &mut self.verified)
    }

    fn failed(&mut self, failure: Failure) -> Outcome {
        if let Some(place) = FAILURES.iter().position(|kind| *kind == failure) {
            self.failures[place] += 1;
        }
        match failure {
            Failure::TimedOut => Outcome::ClientTimeout,
            Failure::Lost => Outcome::Reset,
            Failure::Protocol => Outcome::Protocol,
            Failure::Missing => Outcome::Lost,
            _ => Outcome::Other,
        }
    }

    /// How long to wait, and whether for a start.
    fn rest(&mut self) -> (u64, bool) {
        let now = self.time.now;
        let wake = self.time.next_mark(&self.recorder);
        if !self.time.is_open() {
            // With room, more is to be started; at the end of the course there is none to start.
            let idle = self.free.len() == self.slots.len();
            let more = now < self.time.stop && !self.free.is_empty() && !self.course.is_over();
            return (
                if more || (idle && self.course.is_over()) { 0 } else { wake.saturating_sub(now) },
                false,
            );
        }
        let available = !self.free.is_empty();
        if let Some(start) = self.time.next_start() {
            let due = if available { start } else { start + self.job.timeout };
            if due <= wake {
                return (self.pacer.sleep(now, due), available && due > now);
            }
        }
        (wake.saturating_sub(now), false)
    }

    /// Syncs where that is part of the step, and counts what is left over.
    fn finish(mut self) -> Result<Found, StorageError> {
        let left: Vec<u64> = self.slots.iter().flatten().map(|under_way| under_way.start).collect();
        left.iter().for_each(|start| self.recorder.unfinished(*start));
        let writes = self.job.step.operation.writes() && !self.job.step.operation.of_names();
        if writes && self.job.step.shape.sync == StorageSync::End && left.is_empty() {
            self.sync_at_end()?;
        }
        if writes && matches!(self.job.step.shape.sync, StorageSync::Data | StorageSync::Each) {
            self.process.durable = Some(self.process.last);
        }
        let finding = self.time.finish(self.recorder, self.pacer.polled).map_err(|e| refused(&e))?;
        self.process.first = self.process.first.min(self.process.last);
        Ok(Found {
            finding,
            process: self.process,
            verified: self.verified,
            failures: self.failures,
            writes: self.writes,
            epoch: self.job.epoch,
        })
    }

    fn sync_at_end(&mut self) -> Result<(), StorageError> {
        let flush = Operation { slot: 0, kind: Kind::Flush, file: 0, offset: 0, length: 0 };
        self.target.submit(&flush)?;
        while self.done.is_empty() && !self.control.is_cancelled() {
            self.target.wait(SLEEP_MAX, &mut self.done)?;
        }
        self.time.tell();
        let synced = self.done.pop().map(|done| done.result);
        match synced {
            Some(Ok(_)) => self.process.durable = Some(Nanos(self.time.now)),
            Some(Err(failure)) => {
                self.failed(failure);
            }
            None => {}
        }
        Ok(())
    }
}

/// The kernel doesn't tell the thread's CPU time.
fn refused(error: &SysError) -> StorageError {
    StorageError::Refused { reason: vtax_sys::chain(error) }
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::{StorageCache, StorageEngine, StorageOperation, StorageShape};
    use vtax_units::{Bytes, Share};

    use super::*;
    use crate::Model;
    use crate::family::storage::Facts;

    const RECORD: u64 = 4096;
    const TIMEOUT: u64 = 1_000_000;

    /// Two buffers. What is submitted is under way until the test ends it.
    struct Buffers([Vec<u8>; 2]);

    impl Target for Buffers {
        fn facts(&self) -> Facts {
            Facts::default()
        }

        fn prepare(&mut self) -> Result<(), StorageError> {
            Ok(())
        }

        fn buffer(&mut self, slot: u16) -> &mut [u8] {
            &mut self.0[usize::from(slot)]
        }

        fn submit(&mut self, _: &Operation) -> Result<(), StorageError> {
            Ok(())
        }

        fn wait(&mut self, _: u64, _: &mut Vec<Done>) -> Result<(), StorageError> {
            Ok(())
        }

        fn first_failure(&self) -> Option<&str> {
            None
        }

        fn remove(&mut self) -> Result<(), StorageError> {
            Ok(())
        }
    }

    fn step(operation: StorageOperation) -> StorageStep {
        StorageStep {
            shape: StorageShape {
                file: Bytes(RECORD),
                record: Bytes(RECORD),
                processes: 1,
                depth: 2,
                engine: StorageEngine::IoUring,
                direct: false,
                sync: StorageSync::None,
                verify: true,
                dedupe: Share(0.0),
                compressible: Share(0.0),
                files: 1,
            },
            operation,
            model: Model::Closed,
            warmup: Nanos::ZERO,
            duration: Nanos::from_secs(1),
            once: false,
            cache: StorageCache::AsIs,
            seed: 1,
            samples: false,
            interval: Nanos::from_secs(1),
            read_back: None,
        }
    }

    /// A worker on one record, which was written once, with what it is to do.
    fn with_worker(step: &StorageStep, act: impl FnOnce(Worker<'_>)) {
        let duration = step.duration.0;
        let job = Job {
            step,
            pattern: Pattern::new(1, Share(0.0), Share(0.0)),
            window: Window { from: 0, to: duration, interval: duration },
            timeout: TIMEOUT,
            epoch: Nanos::ZERO,
        };
        let mut target = Buffers([vec![0; RECORD as usize], vec![0; RECORD as usize]]);
        let (control, mut generations) = (Control::new(), Generations::new(1));
        generations.written(1);
        act(Worker::new(&job, &control, 0, &mut target, &mut generations, None));
    }

    /// The next operations are these.
    fn turn(worker: &mut Worker<'_>, operation: StorageOperation) {
        worker.course = Course::new(operation, 1, false, 1, 0);
    }

    #[test]
    fn a_read_may_find_what_a_write_beside_it_writes() {
        let step = step(StorageOperation::Mix { reads: 50 });
        with_worker(&step, |mut worker| {
            turn(&mut worker, StorageOperation::Mix { reads: 100 });
            assert!(worker.begin(0, 0, None).unwrap());
            // The only record there is: the write can take no other.
            turn(&mut worker, StorageOperation::RandomWrite);
            assert!(worker.begin(1, 0, None).unwrap());
            let written = worker.target.buffer(1).to_vec();
            // Half of it was there when the read came by.
            worker.job.pattern.fill(worker.target.buffer(0), Place { worker: 0, file: 0, sector: 0 }, 1);
            worker.target.buffer(0)[2048..].copy_from_slice(&written[2048..]);
            worker.done = [1, 0].map(|slot| Done { slot, result: Ok(RECORD as u32) }).to_vec();
            worker.take_done().unwrap();
            let (verified, done) = (worker.verified, worker.process.operations);
            assert_eq!((done, verified.records, verified.uncertain, verified.wrong()), (2, 1, 1, 0));
        });
    }

    #[test]
    fn writes_in_order_come_again_to_what_is_under_way() {
        let step = step(StorageOperation::Rewrite);
        with_worker(&step, |mut worker| {
            assert!(worker.begin(0, 0, None).unwrap() && worker.begin(1, 0, None).unwrap());
            worker.done = [1, 0].map(|slot| Done { slot, result: Ok(RECORD as u32) }).to_vec();
            worker.take_done().unwrap();
            let expected = worker.generations.expected(0);
            assert_eq!(expected, Expected::Between { acknowledged: 2, newest: 3 }, "either may be there");
        });
    }

    #[test]
    fn what_takes_longer_than_it_may_has_failed_but_is_written() {
        let step = step(StorageOperation::RandomWrite);
        with_worker(&step, |mut worker| {
            for (took, operations, late) in [(TIMEOUT, 1, 0), (TIMEOUT + 1, 1, 1)] {
                worker.free.clear();
                assert!(worker.begin(0, 0, None).unwrap());
                worker.time.now = took;
                worker.end(Done { slot: 0, result: Ok(RECORD as u32) }).unwrap();
                let timed_out = FAILURES.iter().position(|failure| *failure == Failure::TimedOut).unwrap();
                assert_eq!((worker.process.operations, worker.failures[timed_out]), (operations, late));
                assert_eq!(worker.process.bytes, RECORD);
            }
            assert_eq!(worker.writes, (2, 2));
            assert_eq!(worker.generations.expected(0), Expected::Generation(3));
            worker.recorder.close();
            let counts = &worker.recorder.intervals[0].counts;
            assert_eq!((counts.ok, counts.errors.client_timeout), (1, 1));
        });
    }
}
