//! One process: a loop over its slots.
//!
//! Nothing here allocates, locks or shares on the path of an operation. All times are nanoseconds since the step's epoch. A start
//! that finds no idle slot is not queued: the arrival process isn't asked for the next one until it has gone out or timed out.

use std::iter::Peekable;

use vtax_plan::model::StorageSync;
use vtax_sys::sched;
use vtax_units::Nanos;

use super::course::Course;
use super::expect::compare;
use super::generations::{Expected, Generations};
use super::pattern::{Pattern, Place, SECTOR};
use super::result::{Process, Verified};
use super::spec::StorageStep;
use super::target::{Done, Failure, Kind, Operation, StorageError, Target};
use crate::drive::Usage;
use crate::pacing::Pacer;
use crate::requests::{Finding, Outcome, Recorder, Window};
use crate::{Arrivals, Control};

/// Starts in a row before what is done is looked at: what is queued leaves only then.
const STARTS_MAX: usize = 16;
/// Longest sleep, so that a cancellation is seen.
const SLEEP_MAX: u64 = 20_000_000;
/// How often progress is handed over.
const PROGRESS: u64 = 20_000_000;
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
    /// `None` in a closed loop.
    arrivals: Option<Peekable<Arrivals>>,
    recorder: Recorder,
    pacer: Pacer,
    done: Vec<Done>,
    now: u64,
    /// When no more operations start.
    stop: u64,
    next_progress: u64,
    from: Option<Usage>,
    to: Option<Usage>,
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
            arrivals: arrivals.map(Iterator::peekable),
            recorder: Recorder::new(job.window, Nanos(job.timeout), step.samples),
            pacer: Pacer::new(),
            done: Vec::with_capacity(usize::from(depth)),
            now: 0,
            stop: job.window.to,
            next_progress: 0,
            from: None,
            to: None,
            process: Process { first: Nanos(u64::MAX), ..Process::default() },
            verified: Verified::default(),
            failures: [0; FAILURES.len()],
            writes: (0, 0),
        }
    }

    /// Carries out this process's share of the step.
    pub(super) fn run(mut self) -> Result<Found, StorageError> {
        self.tell_time();
        while self.now == 0 {
            // The epoch is still to come.
            std::thread::sleep(std::time::Duration::from_micros(50));
            self.tell_time();
        }
        while self.go_on()? {
            self.dispatch()?;
            let (sleep, for_start) = self.rest();
            let before = self.now;
            self.target.wait(sleep, &mut self.done)?;
            self.tell_time();
            if self.done.is_empty() && for_start {
                match sleep {
                    0 => self.pacer.polled += self.now - before,
                    _ => self.pacer.slept(before, sleep, self.now),
                }
            }
            self.take_done()?;
        }
        self.finish()
    }

    fn tell_time(&mut self) {
        self.now = sched::monotonic().saturating_sub(self.job.epoch).0;
    }

    fn usage(&self) -> Result<Usage, StorageError> {
        Usage::now(self.now, self.pacer.polled)
            .map_err(|e| StorageError::Refused { reason: vtax_sys::chain(&e) })
    }

    /// Passes the marks of the step's course; false once it is over.
    fn go_on(&mut self) -> Result<bool, StorageError> {
        let now = self.now;
        if now >= self.recorder.next_flush() {
            self.recorder.tick(now);
        }
        if now >= self.next_progress {
            self.control.add(&self.recorder.take_progress(now));
            self.next_progress = now + PROGRESS;
        }
        let idle = self.free.len() == self.slots.len();
        if (self.control.is_cancelled() || (self.course.is_over() && idle)) && self.stop > now {
            self.stop = now;
        }
        if now >= self.job.window.from && self.from.is_none() {
            self.from = Some(self.usage()?);
        }
        if now < self.stop {
            return Ok(true);
        }
        if self.to.is_none() {
            self.to = Some(self.usage()?);
        }
        // A start that was late on its way still goes out.
        let overdue = !self.control.is_cancelled() && self.next_start().is_some();
        Ok((!idle || overdue) && now < self.stop.saturating_add(self.job.timeout))
    }

    /// The next intended start of an open loop, if there is still one.
    fn next_start(&mut self) -> Option<u64> {
        let stop = self.stop;
        self.arrivals.as_mut()?.peek().map(|start| start.0).filter(|start| *start < stop)
    }

    /// Starts every operation that is due and finds an idle slot.
    fn dispatch(&mut self) -> Result<(), StorageError> {
        let at_once = self.target.at_once();
        for _ in 0..STARTS_MAX.max(if self.arrivals.is_none() { self.slots.len() } else { 0 }) {
            let start = match self.arrivals {
                None if self.now < self.stop => self.now,
                None => return Ok(()),
                Some(_) => match self.next_start().filter(|start| *start <= self.now) {
                    Some(start) => start,
                    None => return Ok(()),
                },
            };
            if self.arrivals.is_some() && start + self.job.timeout <= self.now {
                self.recorder.missed(start, !self.free.is_empty() && self.available_since <= start);
            } else {
                let Some(slot) = self.free.pop() else { return Ok(()) };
                let late = self.arrivals.is_some().then(|| {
                    let own = self.now - start.max(self.available_since).min(self.now);
                    (self.now - start, own)
                });
                if !self.begin(slot, start, late)? {
                    self.free.push(slot);
                    return Ok(());
                }
            }
            if let Some(arrivals) = &mut self.arrivals {
                self.pacer.started(start);
                arrivals.next();
            }
            if at_once {
                self.target.wait(0, &mut self.done)?;
                self.tell_time();
                self.take_done()?;
            } else if self.arrivals.is_some() {
                self.tell_time();
            }
        }
        Ok(())
    }

    /// Starts an operation; false at the end of the course.
    fn begin(&mut self, slot: u16, start: u64, late: Option<(u64, u64)>) -> Result<bool, StorageError> {
        let Some(mut next) = self.course.next() else { return Ok(false) };
        let exclusive = self.course.is_random_write();
        let mut draws = 0;
        while exclusive && draws < DRAWS && self.is_under_way(next.record) {
            next = self.course.draw();
            draws += 1;
        }
        // Two at once on one record: what it holds afterwards can't be known.
        let crowded = exclusive && draws == DRAWS && self.is_under_way(next.record);
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
                }
            }
            Kind::Read if !crowded => under_way.expected = self.generations.expected(next.record),
            _ => {}
        }
        self.recorder.started(start, late);
        self.process.first = self.process.first.min(Nanos(self.now));
        self.slots[usize::from(slot)] = Some(under_way);
        self.target.submit(&operation)?;
        Ok(true)
    }

    fn is_under_way(&self, record: u64) -> bool {
        self.slots.iter().flatten().any(|other| other.record == record)
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
                self.tell_time();
                for done in synced {
                    self.end(done)?;
                }
            }
            return Ok(());
        }
        let outcome = match result {
            Ok(found) => self.succeeded(end.slot, under_way, found),
            Err(failure) => self.failed(failure),
        };
        if outcome == Outcome::Ok {
            self.process.operations += 1;
            self.process.last = Nanos(self.now);
        }
        self.recorder.ended(under_way.start, self.now, outcome, 0);
        self.slots[place] = None;
        if self.free.is_empty() {
            self.available_since = self.now;
        }
        self.free.push(end.slot);
        Ok(())
    }

    fn succeeded(&mut self, slot: u16, under_way: UnderWay, found: u32) -> Outcome {
        let bytes = self.length();
        let record = under_way.record;
        match under_way.kind {
            Kind::Read => {
                self.recorder.received(under_way.start, bytes);
                self.process.bytes += bytes as u64;
                self.process.read += bytes as u64;
                self.verify(slot, under_way)
            }
            Kind::Write | Kind::WriteDurable | Kind::Create => {
                self.recorder.sent(under_way.start, bytes);
                self.process.bytes += bytes as u64;
                self.writes.1 += 1;
                if under_way.generation > 0 {
                    self.generations.acknowledged(record, under_way.generation);
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
        let now = self.now;
        let mark = if now < self.stop { self.stop } else { self.stop.saturating_add(self.job.timeout) };
        let mut wake = mark.min(now + SLEEP_MAX).min(self.recorder.next_flush().max(now + 1));
        if now < self.job.window.from {
            wake = wake.min(self.job.window.from);
        }
        if self.arrivals.is_none() {
            // With room, more is to be started; at the end of the course there is none to start.
            let idle = self.free.len() == self.slots.len();
            let more = now < self.stop && !self.free.is_empty() && !self.course.is_over();
            return (
                if more || (idle && self.course.is_over()) { 0 } else { wake.saturating_sub(now) },
                false,
            );
        }
        let available = !self.free.is_empty();
        if let Some(start) = self.next_start() {
            let due = if available { start } else { start + self.job.timeout };
            if due <= wake {
                return (self.pacer.sleep(now, due), available && due > now);
            }
        }
        (wake.saturating_sub(now), false)
    }

    /// Syncs where that is part of the step, and counts what is left over.
    fn finish(mut self) -> Result<Found, StorageError> {
        while let Some(start) = self.next_start() {
            self.recorder.missed(start, false);
            self.arrivals.as_mut().and_then(Iterator::next);
        }
        let left: Vec<u64> = self.slots.iter().flatten().map(|under_way| under_way.start).collect();
        left.iter().for_each(|start| self.recorder.unfinished(*start));
        let writes = self.job.step.operation.writes() && !self.job.step.operation.of_names();
        if writes && self.job.step.shape.sync == StorageSync::End && left.is_empty() {
            self.sync_at_end()?;
        }
        if writes && matches!(self.job.step.shape.sync, StorageSync::Data | StorageSync::Each) {
            self.process.durable = Some(self.process.last);
        }
        self.recorder.close();
        let progress = self.recorder.take_progress(self.now);
        self.control.add(&progress);
        let to = match self.to {
            Some(to) => to,
            None => self.usage()?,
        };
        let used = to.since(self.from.unwrap_or(to));
        let finding = Finding { end: self.stop, used, recorder: self.recorder };
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
        self.tell_time();
        let synced = self.done.pop().map(|done| done.result);
        match synced {
            Some(Ok(_)) => self.process.durable = Some(Nanos(self.now)),
            Some(Err(failure)) => {
                self.failed(failure);
            }
            None => {}
        }
        Ok(())
    }
}
