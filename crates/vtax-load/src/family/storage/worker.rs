//! One process: a loop over its slots.
//!
//! Nothing here allocates, locks or shares on the path of an operation. All times are nanoseconds since the step's epoch. A start
//! that finds no idle slot is not queued: the arrival process isn't asked for the next one until it has gone out or timed out.
//!
//! What a write writes is made before it starts, and while nothing waits to be sent: making it is the generator's work, and no part
//! of its own latency; what ends meanwhile is noticed after it.

use std::collections::VecDeque;

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
use crate::requests::{Finding, Lateness, Outcome, Recorder, Timetable, Window};
use crate::{Control, StartTimes};

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

/// An operation that has a slot and, where it writes, its data, but hasn't started.
#[derive(Debug, Clone, Copy)]
struct Prepared {
    operation: Operation,
    record: u64,
    /// Of a write: what its data says.
    generation: u32,
}

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
    /// What is to start next, in its order; of an open loop at most one.
    prepared: VecDeque<Prepared>,
    /// Slots without an operation, under way or prepared.
    free: Vec<u16>,
    /// Since when there was always a slot with nothing under way.
    available_since: u64,
    /// Something was submitted that may not have been sent yet.
    queued: bool,
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
        arrivals: Option<StartTimes>,
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
            prepared: VecDeque::with_capacity(usize::from(depth)),
            free: (0..depth).rev().collect(),
            available_since: 0,
            queued: false,
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
            self.queued = false;
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
        let idle = self.is_idle();
        let enough = self.course.is_over() && idle && self.prepared.is_empty();
        self.time.pass(&mut self.recorder, self.pacer.polled, enough).map_err(|e| refused(&e))?;
        if self.time.goes_on() {
            return Ok(true);
        }
        // A start that was late on its way still goes out; what is under way is waited for after a cancellation, too.
        let overdue = !self.control.is_cancelled() && self.time.next_start().is_some();
        Ok((!idle || overdue) && self.time.now < self.time.last())
    }

    /// Nothing is under way.
    fn is_idle(&self) -> bool {
        self.free.len() + self.prepared.len() == self.slots.len()
    }

    /// There is a slot with nothing under way.
    fn has_room(&self) -> bool {
        !(self.free.is_empty() && self.prepared.is_empty())
    }

    /// Starts every operation that is due and finds an idle slot.
    fn dispatch(&mut self) -> Result<(), StorageError> {
        if self.time.is_open() { self.dispatch_open() } else { self.dispatch_closed() }
    }

    fn dispatch_open(&mut self) -> Result<(), StorageError> {
        for _ in 0..STARTS_MAX {
            let now = self.time.now;
            let Some(due) = self.time.next_start().filter(|due| *due <= now) else { break };
            let mut is_carried_out = false;
            if due + self.job.timeout <= now {
                self.recorder.missed(due, self.has_room() && self.available_since <= due);
            } else {
                if self.prepared.is_empty() && !self.prepare_next()? {
                    return Ok(());
                }
                is_carried_out = self.start_prepared(Some(due))?;
            }
            self.pacer.started(due);
            self.time.started();
            if is_carried_out {
                self.send_queued()?;
            } else {
                self.time.tell();
            }
        }
        self.prepare_ahead()
    }

    /// Starts an operation on each idle slot. The data of all is made before the first starts.
    fn dispatch_closed(&mut self) -> Result<(), StorageError> {
        for _ in 0..STARTS_MAX.max(self.slots.len()) {
            if !self.time.goes_on() || !self.prepare_next()? {
                return Ok(());
            }
            let kind = self.prepared.front().map(|prepared| prepared.operation.kind);
            if kind.is_some_and(|kind| self.target.at_once(kind)) {
                self.start_prepared(None)?;
                self.send_queued()?;
                continue;
            }
            while self.prepare_next()? {}
            while !self.prepared.is_empty() {
                self.start_prepared(None)?;
            }
            return Ok(());
        }
        Ok(())
    }

    /// Makes the data of an open loop's next operation before that is due. One is enough: its data has to be made before that of
    /// any later one.
    fn prepare_ahead(&mut self) -> Result<(), StorageError> {
        let now = self.time.now;
        let is_ahead = self.time.next_start().is_some_and(|due| due > now);
        let writes = self.job.step.operation.writes();
        if is_ahead && writes && self.prepared.is_empty() && self.prepare_next()? {
            self.time.tell();
        }
        Ok(())
    }

    /// Sends what is queued, and takes what is done by now.
    fn send_queued(&mut self) -> Result<(), StorageError> {
        self.target.wait(0, &mut self.done)?;
        self.queued = false;
        self.time.tell();
        self.take_done()
    }

    /// Prepares an operation for an idle slot; false where there is none, or at the end of the course.
    fn prepare_next(&mut self) -> Result<bool, StorageError> {
        if self.free.is_empty() || self.course.is_over() {
            return Ok(false);
        }
        // What has started doesn't wait for others' data.
        if self.queued && self.job.step.operation.writes() {
            self.send_queued()?;
        }
        let Some(slot) = self.free.pop() else { return Ok(false) };
        let is_prepared = self.prepare(slot);
        if !is_prepared {
            self.free.push(slot);
        }
        Ok(is_prepared)
    }

    /// Draws the next operation, for a slot, and makes its data; false at the end of the course.
    fn prepare(&mut self, slot: u16) -> bool {
        let Some(mut next) = self.course.next() else { return false };
        let may_meet = self.course.may_meet();
        let mut draws = 0;
        while may_meet && draws < DRAWS && self.is_taken(next.record) {
            next = self.course.draw();
            draws += 1;
        }
        let operation = self.operation(slot, next.record, next.write);
        let mut generation = 0;
        if matches!(operation.kind, Kind::Write | Kind::WriteDurable | Kind::Create) {
            generation = self.generations.following(next.record);
            self.fill(slot, next.record, generation);
        }
        self.prepared.push_back(Prepared { operation, record: next.record, generation });
        true
    }

    /// Starts what was prepared first, in an open loop where it was `due`; whether it is carried out already.
    fn start_prepared(&mut self, due: Option<u64>) -> Result<bool, StorageError> {
        let Some(Prepared { operation, record, generation }) = self.prepared.pop_front() else {
            return Ok(false);
        };
        // Two at once on one record: what it holds afterwards can't be known.
        let crowded = self.course.may_meet() && self.is_under_way(record);
        let mut under_way = UnderWay {
            start: 0,
            record,
            kind: operation.kind,
            generation: 0,
            expected: Expected::Any,
            syncing: false,
        };
        match operation.kind {
            Kind::Write | Kind::WriteDurable | Kind::Create => {
                self.writes.0 += 1;
                under_way.generation = self.generations.begin(record);
                if under_way.generation != generation {
                    // Another of the record has begun since its data was made.
                    self.fill(operation.slot, record, under_way.generation);
                }
                if crowded {
                    under_way.generation = 0;
                    self.expect_anything_of(record);
                }
            }
            Kind::Read if !crowded => under_way.expected = self.generations.expected(record),
            _ => {}
        }
        self.time.tell();
        let now = self.time.now;
        let late = due.map(|due| Lateness::of(due, self.available_since, now));
        self.recorder.started(due.unwrap_or(now), late);
        self.process.first = self.process.first.min(Nanos(now));
        under_way.start = due.unwrap_or(now);
        self.slots[usize::from(operation.slot)] = Some(under_way);
        self.submit(&operation)?;
        Ok(self.target.at_once(operation.kind))
    }

    fn submit(&mut self, operation: &Operation) -> Result<(), StorageError> {
        self.queued = true;
        self.target.submit(operation)
    }

    /// Whether an operation on the record is under way or is to start.
    fn is_taken(&self, record: u64) -> bool {
        self.is_under_way(record) || self.prepared.iter().any(|prepared| prepared.record == record)
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
            self.submit(&flush)?;
            if self.target.at_once(Kind::Flush) {
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
            Err(failure) => {
                let may_land_late = self.target.may_land_late(failure);
                self.unacknowledged(&under_way, end.sent, may_land_late);
                self.failed(failure)
            }
        };
        if outcome == Outcome::Ok {
            self.count(&under_way);
        }
        self.recorder.ended(under_way.start, self.time.now, outcome, 0);
        self.slots[place] = None;
        if !self.has_room() {
            self.available_since = self.time.now;
        }
        self.free.push(end.slot);
        Ok(())
    }

    /// An operation ends without success. Where it writes, that may still happen if it `may_land_late`, and never will if it wasn't
    /// sent.
    fn unacknowledged(&mut self, under_way: &UnderWay, sent: bool, may_land_late: bool) {
        let writes = matches!(under_way.kind, Kind::Write | Kind::WriteDurable | Kind::Create);
        if !writes || under_way.syncing {
            return;
        }
        let (record, generation) = (under_way.record, under_way.generation);
        if !sent {
            self.generations.withdrawn(record, generation);
        } else if may_land_late {
            self.generations.unanswered(record, generation);
        }
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
            let idle = self.is_idle();
            let more = now < self.time.stop && !self.free.is_empty() && !self.course.is_over();
            return (
                if more || (idle && self.course.is_over()) { 0 } else { wake.saturating_sub(now) },
                false,
            );
        }
        let available = self.has_room();
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
        let slots = (0..).zip(&self.slots);
        let left: Vec<(u16, UnderWay)> = slots.filter_map(|(slot, of)| Some((slot, (*of)?))).collect();
        let may_land_late = self.target.may_land_late(Failure::TimedOut);
        for (slot, under_way) in &left {
            self.recorder.unfinished(under_way.start);
            let sent = self.target.is_sent(*slot);
            self.unacknowledged(under_way, sent, may_land_late);
        }
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
mod tests;
