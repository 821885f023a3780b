//! Carries out a step: a thread for each process, which opens its target, gets its files ready, and waits for the others.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use vtax_plan::model::{StorageCache, StorageOperation, StorageSync};
use vtax_sys::sched;
use vtax_sys::sync::lock;
use vtax_units::Nanos;

use super::counters::Moment;
use super::generations::Generations;
use super::mounted::Mounted;
use super::pattern::{Pattern, Place, SECTOR};
use super::readback::Log;
use super::result::ReadBack;
use super::spec::{StorageSpec, StorageStep};
use super::target::{CacheDropped, Done, Facts, Kind, Operation, Shape, StorageError, Target};
use super::worker::{Found, Job, Worker};
use crate::requests::Window;
use crate::{Control, Model, StartTimes};

/// From when all are ready to the start: time for all threads to be awake.
const LEAD_IN: Nanos = Nanos::from_millis(5);
/// Bytes of one operation where files are laid out or read ahead of a step.
const CHUNK: u64 = 1 << 20;
/// Operations under way then.
const CHUNKS: u16 = 2;
/// The longest try to open a target whose data is read back.
const OPENING: Duration = Duration::from_secs(3);
/// Bytes with vtax's mark in the data file beside small files: a page, as direct I/O writes no less.
const MARKED: u64 = 4096;
/// How long one of these may take.
const CHUNK_WAIT: u64 = 20_000_000;

/// What a process's files hold, from step to step.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) data: Generations,
    pub(super) names: Generations,
    /// The process has made the one file that the target is, which is to be removed with the others.
    pub(super) made_target: bool,
    /// The process has found its files to be vtax's, or has made them: only then are they emptied or removed.
    pub(super) own: bool,
}

/// What one process has at the end of a step.
pub(super) struct Made {
    pub(super) found: Found,
    pub(super) facts: Facts,
    pub(super) first_failure: Option<String>,
    pub(super) dropped: Option<CacheDropped>,
    pub(super) before: Option<u64>,
    pub(super) after: Option<u64>,
    pub(super) read_back: Option<ReadBack>,
}

/// Where processes wait until all are ready. Then it says when they start.
pub(super) struct Gate {
    expected: usize,
    ready: AtomicUsize,
    failed: AtomicBool,
    /// CLOCK_MONOTONIC; 0: not yet.
    epoch: AtomicU64,
    /// What the kernel had counted then.
    pub(super) counted: Mutex<Option<Moment>>,
}

impl Gate {
    pub(super) fn new(expected: usize) -> Self {
        Self {
            expected,
            ready: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            counted: Mutex::new(None),
        }
    }

    /// Passes it with the others; the start, or `None` where one of them failed or the load was cancelled.
    fn pass(&self, control: &Control, count: impl FnOnce() -> Moment) -> Option<Nanos> {
        if self.ready.fetch_add(1, SeqCst) + 1 == self.expected {
            *lock(&self.counted) = Some(count());
            self.epoch.store(sched::monotonic().0 + LEAD_IN.0, SeqCst);
        }
        loop {
            let epoch = self.epoch.load(SeqCst);
            if self.failed.load(SeqCst) || control.is_cancelled() {
                return None;
            }
            if epoch > 0 {
                return Some(Nanos(epoch));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn fail(&self) {
        self.failed.store(true, SeqCst);
    }
}

/// What processes do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Carry out the step.
    CarryOut,
    /// Lay out the files that it needs, or empty those that it makes anew.
    LayOut,
    /// Remove the files there are.
    Remove,
}

/// One process of a step.
pub(super) struct Process<'a> {
    pub(super) number: usize,
    pub(super) spec: &'a StorageSpec,
    /// The volume that its files are on, where the load has mounted it.
    pub(super) mounted: Option<&'a Mounted>,
    pub(super) step: &'a StorageStep,
    pub(super) pattern: Pattern,
    pub(super) files: &'a mut Files,
    pub(super) gate: &'a Gate,
    pub(super) control: &'a Control,
    pub(super) task: Task,
}

impl<'a> Process<'a> {
    /// Does its part; `None` where another process failed or the load was cancelled before the start.
    pub(super) fn run(mut self) -> Result<Option<Made>, StorageError> {
        let made = self.carry_out();
        if made.is_err() {
            self.gate.fail();
        }
        made
    }

    fn carry_out(&mut self) -> Result<Option<Made>, StorageError> {
        if self.task == Task::Remove {
            return self.remove().map(|()| None);
        }
        self.get_ready()?;
        if self.task == Task::LayOut {
            return self.empty_ahead().map(|()| None);
        }
        let mut target = self.open(self.step.shape.record.0, self.step.shape.depth)?;
        self.prepare(&mut *target)?;
        if self.begins_empty() && !self.is_mounted_anew() {
            self.empty(&mut *target)?;
        }
        let dropped = match self.step.cache {
            StorageCache::Cold => Some(target.drop_cache()?),
            StorageCache::Warm | StorageCache::AsIs => None,
        };
        if matches!(self.step.model, Model::Closed) {
            target.gather();
        }
        if self.step.shape.sync == StorageSync::Each {
            target.sync_each();
        }
        let before = target.cached();
        let (path, mounted) = (self.spec.target.path(), self.mounted);
        let Some(epoch) = self.gate.pass(self.control, || Moment::now(path, mounted)) else {
            return Ok(None);
        };
        let job = self.job(epoch);
        let names = self.step.operation.of_names();
        let generations = if names { &mut self.files.names } else { &mut self.files.data };
        let arrivals = arrivals(self.step, self.number);
        let worker = Worker::new(&job, self.control, self.number, &mut *target, generations, arrivals);
        let found = worker.run()?;
        let after = target.cached();
        let first_failure = target.first_failure().map(str::to_owned);
        let facts = target.facts();
        let finished = target.finish();
        drop(target);
        let read_back = self.step.read_back.map(|within| self.read_back(found.writes, within));
        if read_back.is_none() {
            // What breaks under a load may well be gone at its end.
            finished?;
        }
        if self.step.operation == StorageOperation::Remove {
            self.files.names.emptied();
        }
        Ok(Some(Made { found, facts, first_failure, dropped, before, after, read_back }))
    }

    /// Removes the process's files. What it has refused as somebody else's stays.
    fn remove(&self) -> Result<(), StorageError> {
        if !self.files.own && !self.files.made_target {
            return Ok(());
        }
        let mut target = self.open(self.step.shape.record.0, 1)?;
        if self.files.own {
            target.remove()?;
        }
        if self.files.made_target { target.remove_target() } else { Ok(()) }
    }

    /// Reads back what was written.
    fn read_back(&self, (begun, acknowledged): (u64, u64), within: Nanos) -> ReadBack {
        let shape = &self.step.shape;
        let log = Log {
            worker: self.number,
            pattern: self.pattern,
            generations: &self.files.data,
            record: shape.record.0,
            size: shape.file.0,
        };
        let until = Instant::now() + Duration::from(within);
        // Where nobody answers, the next try may: one must not take all of the time.
        let timeout = Duration::from(self.spec.timeout).min(OPENING);
        let read_back = log.read_back(self.control, until, |record, depth| {
            self.spec.target.open(shape, self.shape(u64::from(record), depth), timeout, self.files.own)
        });
        ReadBack { acknowledged, unacknowledged: begun - acknowledged, ..read_back }
    }

    fn job(&self, epoch: Nanos) -> Job<'a> {
        let (warmup, duration) = (self.step.warmup.0, self.step.duration.0);
        let window =
            Window { from: warmup, to: warmup + duration, interval: self.step.interval.0.min(duration) };
        Job { step: self.step, pattern: self.pattern, window, timeout: self.spec.timeout.0, epoch }
    }

    fn shape(&self, record: u64, depth: u16) -> Shape {
        let size = self.step.shape.file.0;
        Shape { worker: self.number, files: 1, size, record: record as u32, depth }
    }

    fn open(&self, record: u64, depth: u16) -> Result<Box<dyn Target>, StorageError> {
        let (files, shape) = (&self.step.shape, self.shape(record, depth));
        self.spec.target.open(files, shape, self.spec.timeout.into(), self.files.own)
    }

    /// Has a target prepare itself, and remembers what it made and what is vtax's, also where something else went wrong.
    fn prepare(&mut self, target: &mut dyn Target) -> Result<(), StorageError> {
        let prepared = target.prepare();
        self.files.made_target |= target.has_made_target();
        self.files.own |= target.owns_files();
        prepared
    }

    /// The step makes its files anew.
    fn begins_empty(&self) -> bool {
        matches!(self.step.operation, StorageOperation::Write | StorageOperation::Create)
    }

    /// Before the step is carried out, the volume is mounted anew, so that nothing of it is in the client's caches.
    fn is_mounted_anew(&self) -> bool {
        self.mounted.is_some() && self.step.cache == StorageCache::Cold
    }

    fn empty(&mut self, target: &mut dyn Target) -> Result<(), StorageError> {
        target.empty()?;
        self.files.data.emptied();
        self.files.names.emptied();
        if self.step.operation.of_names() { self.mark(target) } else { Ok(()) }
    }

    /// Has the empty data file begin with vtax's mark: it says whose the small files beside it are, and without it the next load
    /// would refuse them. As data it doesn't count: whoever needs some lays the file out first.
    fn mark(&self, target: &mut dyn Target) -> Result<(), StorageError> {
        let length = self.step.shape.record.0.min(MARKED);
        let place = Place { worker: self.number, file: 0, sector: 0 };
        self.pattern.fill(&mut target.buffer(0)[..length as usize], place, 1);
        one(target, Kind::Write, 0, length as u32)
    }

    /// Empties what the step makes anew: done after the mount, that would be in its caches.
    fn empty_ahead(&mut self) -> Result<(), StorageError> {
        if !self.begins_empty() {
            return Ok(());
        }
        let mut target = self.open(self.step.shape.record.0, 1)?;
        self.prepare(&mut *target)?;
        self.empty(&mut *target)?;
        target.finish()
    }

    /// Lays files out where the step needs what isn't there, and reads them where the cache is to be warm.
    fn get_ready(&mut self) -> Result<(), StorageError> {
        use StorageOperation as Op;
        let operation = self.step.operation;
        let lay_out = operation.needs_data() && !self.files.data.complete();
        let make_names = matches!(operation, Op::List | Op::Remove) && !self.files.names.complete();
        let warm = self.step.is_warmed();
        if !lay_out && !make_names && !warm {
            return Ok(());
        }
        let mut target = self.open(CHUNK.max(self.step.shape.record.0), self.chunks())?;
        self.prepare(&mut *target)?;
        if lay_out {
            target.empty()?;
            self.over_file(&mut *target, Kind::Write)?;
            self.files.data.written(1);
        }
        if make_names {
            target.empty()?;
            self.mark(&mut *target)?;
            self.make_names(&mut *target)?;
            self.files.names.written(1);
            self.files.data.emptied();
        }
        if warm {
            self.over_file(&mut *target, Kind::Read)?;
        }
        target.finish()
    }

    fn chunks(&self) -> u16 {
        CHUNKS.min(self.step.shape.depth)
    }

    /// Writes or reads the whole file in large operations, and makes it durable.
    fn over_file(&self, target: &mut dyn Target, kind: Kind) -> Result<(), StorageError> {
        let size = self.step.shape.file.0;
        let mut free: Vec<u16> = (0..self.chunks()).collect();
        let mut done = Vec::with_capacity(free.len());
        let mut offset = 0;
        while (offset < size || free.len() < usize::from(self.chunks())) && !self.control.is_cancelled() {
            while offset < size {
                let Some(slot) = free.pop() else { break };
                let length = CHUNK.min(size - offset) as u32;
                if kind == Kind::Write {
                    let place = Place { worker: self.number, file: 0, sector: offset / SECTOR as u64 };
                    self.pattern.fill(&mut target.buffer(slot)[..length as usize], place, 1);
                }
                target.submit(&Operation { slot, kind, file: 0, offset, length })?;
                offset += u64::from(length);
            }
            target.wait(CHUNK_WAIT, &mut done)?;
            for end in done.drain(..) {
                ended(&end, target)?;
                free.push(end.slot);
            }
        }
        if kind == Kind::Write { one(target, Kind::Flush, 0, 0) } else { Ok(()) }
    }

    /// Makes all small files.
    fn make_names(&self, target: &mut dyn Target) -> Result<(), StorageError> {
        let length = self.step.shape.file.0 as u32;
        for file in 0..self.step.shape.files {
            let place = Place { worker: self.number, file: file + 1, sector: 0 };
            self.pattern.fill(&mut target.buffer(0)[..length as usize], place, 1);
            one(target, Kind::Create, file, length)?;
            if self.control.is_cancelled() {
                break;
            }
        }
        Ok(())
    }
}

/// One operation on slot 0, to its end.
fn one(target: &mut dyn Target, kind: Kind, file: u32, length: u32) -> Result<(), StorageError> {
    target.submit(&Operation { slot: 0, kind, file, offset: 0, length })?;
    let mut done = Vec::with_capacity(1);
    while done.is_empty() {
        target.wait(CHUNK_WAIT, &mut done)?;
    }
    ended(&done[0], target)
}

fn ended(done: &Done, target: &dyn Target) -> Result<(), StorageError> {
    done.result.map(|_| ()).map_err(|failure| {
        let words = target.first_failure().map_or_else(|| failure.words().to_owned(), str::to_owned);
        StorageError::Refused { reason: format!("laying out files: {words}") }
    })
}

fn arrivals(step: &StorageStep, number: usize) -> Option<StartTimes> {
    match &step.model {
        Model::Open { arrivals, profile } => {
            Some(StartTimes::new(*arrivals, profile, step.seed, number, step.shape.processes as usize))
        }
        Model::Closed => None,
    }
}
