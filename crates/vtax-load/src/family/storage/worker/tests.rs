//! Processes on a record of which only they know.

use vtax_plan::model::{StorageOperation, StorageShape};
use vtax_units::{Bytes, Share};

use super::*;
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

/// Buffers that are all full of data before anything starts.
struct FullBeforeStarts(Buffers);

impl Target for FullBeforeStarts {
    fn facts(&self) -> Facts {
        self.0.facts()
    }

    fn prepare(&mut self) -> Result<(), StorageError> {
        self.0.prepare()
    }

    fn buffer(&mut self, slot: u16) -> &mut [u8] {
        self.0.buffer(slot)
    }

    fn submit(&mut self, operation: &Operation) -> Result<(), StorageError> {
        let has_data = |buffer: &Vec<u8>| buffer.iter().any(|byte| *byte != 0);
        assert!(self.0.0.iter().all(has_data), "slot {} starts before all data is made", operation.slot);
        self.0.submit(operation)
    }

    fn wait(&mut self, sleep: u64, done: &mut Vec<Done>) -> Result<(), StorageError> {
        self.0.wait(sleep, done)
    }

    fn first_failure(&self) -> Option<&str> {
        self.0.first_failure()
    }

    fn remove(&mut self) -> Result<(), StorageError> {
        self.0.remove()
    }
}

/// Buffers that say whether what is under way was sent.
struct Unsent(Buffers, bool);

impl Target for Unsent {
    fn facts(&self) -> Facts {
        self.0.facts()
    }

    fn prepare(&mut self) -> Result<(), StorageError> {
        self.0.prepare()
    }

    fn buffer(&mut self, slot: u16) -> &mut [u8] {
        self.0.buffer(slot)
    }

    fn submit(&mut self, operation: &Operation) -> Result<(), StorageError> {
        self.0.submit(operation)
    }

    fn wait(&mut self, sleep: u64, done: &mut Vec<Done>) -> Result<(), StorageError> {
        self.0.wait(sleep, done)
    }

    fn first_failure(&self) -> Option<&str> {
        self.0.first_failure()
    }

    fn is_sent(&self, _: u16) -> bool {
        self.1
    }

    fn remove(&mut self) -> Result<(), StorageError> {
        self.0.remove()
    }
}

fn step(operation: StorageOperation) -> StorageStep {
    let shape = StorageShape { depth: 2, ..StorageShape::new(Bytes(RECORD), Bytes(RECORD)) };
    StorageStep::new(shape, operation, Nanos::from_secs(1))
}

fn buffers() -> Buffers {
    Buffers([vec![0; RECORD as usize], vec![0; RECORD as usize]])
}

/// A worker on one record, which was written once, with what it is to do.
fn with_worker(step: &StorageStep, act: impl FnOnce(Worker<'_>)) {
    with_target(&mut buffers(), step, act);
}

/// The same on this target.
fn with_target(target: &mut dyn Target, step: &StorageStep, act: impl FnOnce(Worker<'_>)) {
    let mut generations = Generations::new(1);
    generations.written(1);
    with_generations(target, &mut generations, step, act);
}

/// The same with these generations.
fn with_generations(
    target: &mut dyn Target,
    generations: &mut Generations,
    step: &StorageStep,
    act: impl FnOnce(Worker<'_>),
) {
    let duration = step.duration.0;
    let job = Job {
        step,
        pattern: Pattern::new(1, Share(0.0), Share(0.0)),
        window: Window { from: 0, to: duration, interval: duration },
        timeout: TIMEOUT,
        epoch: Nanos::ZERO,
    };
    let control = Control::new();
    act(Worker::new(&job, &control, 0, target, generations, None));
}

/// Starts the next operation on a slot, which was due at 0; no time has passed.
fn begin(worker: &mut Worker<'_>, slot: u16) {
    assert!(worker.prepare(slot));
    worker.start_prepared(Some(0)).unwrap();
    worker.time.now = 0;
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
        begin(&mut worker, 0);
        // The only record there is: the write can take no other.
        turn(&mut worker, StorageOperation::RandomWrite);
        begin(&mut worker, 1);
        let written = worker.target.buffer(1).to_vec();
        // Half of it was there when the read came by.
        worker.job.pattern.fill(worker.target.buffer(0), Place { worker: 0, file: 0, sector: 0 }, 1);
        worker.target.buffer(0)[2048..].copy_from_slice(&written[2048..]);
        worker.done = [1, 0].map(|slot| Done { slot, result: Ok(RECORD as u32), sent: true }).to_vec();
        worker.take_done().unwrap();
        let (verified, done) = (worker.verified, worker.process.operations);
        assert_eq!((done, verified.records, verified.uncertain, verified.wrong()), (2, 1, 1, 0));
    });
}

#[test]
fn writes_in_order_come_again_to_what_is_under_way() {
    let step = step(StorageOperation::Rewrite);
    with_worker(&step, |mut worker| {
        begin(&mut worker, 0);
        begin(&mut worker, 1);
        worker.done = [1, 0].map(|slot| Done { slot, result: Ok(RECORD as u32), sent: true }).to_vec();
        worker.take_done().unwrap();
        let expected = worker.generations.expected(0);
        assert_eq!(expected, Expected::Between { acknowledged: 2, newest: 3 }, "either may be there");
    });
}

/// What the slot's buffer holds is the only record in this generation.
fn holds(worker: &mut Worker<'_>, slot: u16, generation: u32) -> bool {
    let mut record = vec![0; RECORD as usize];
    worker.job.pattern.fill(&mut record, Place { worker: 0, file: 0, sector: 0 }, generation);
    worker.target.buffer(slot) == record
}

#[test]
fn a_write_starts_when_its_data_is_made() {
    let step = step(StorageOperation::RandomWrite);
    with_worker(&step, |mut worker| {
        assert!(worker.prepare(0));
        worker.time.tell();
        let made = worker.time.now;
        assert!(holds(&mut worker, 0, 2) && worker.slots[0].is_none());
        assert_eq!((worker.writes, worker.generations.expected(0)), ((0, 0), Expected::Generation(1)));
        worker.start_prepared(None).unwrap();
        let started = worker.slots[0].unwrap().start;
        assert!(started >= made, "making data would be in its latency");
        assert_eq!((worker.writes, worker.process.first), ((1, 0), Nanos(started)));
    });
}

#[test]
fn of_two_writes_that_were_made_together_the_second_is_newer() {
    let step = step(StorageOperation::Rewrite);
    with_worker(&step, |mut worker| {
        assert!(worker.prepare(0) && worker.prepare(1));
        worker.start_prepared(None).unwrap();
        worker.start_prepared(None).unwrap();
        assert!(holds(&mut worker, 0, 2) && holds(&mut worker, 1, 3));
    });
}

#[test]
fn a_closed_loop_makes_all_data_before_the_first_start() {
    let step = step(StorageOperation::Rewrite);
    with_target(&mut FullBeforeStarts(buffers()), &step, |mut worker| {
        worker.dispatch_closed().unwrap();
        let starts: Vec<u64> = worker.slots.iter().flatten().map(|under_way| under_way.start).collect();
        assert!(starts.len() == 2 && starts.is_sorted(), "{starts:?}");
        assert!(worker.prepared.is_empty() && worker.free.is_empty() && !worker.is_idle());
    });
}

#[test]
fn a_write_that_nobody_answered_may_come_after_a_later_one() {
    let step = step(StorageOperation::RandomWrite);
    with_worker(&step, |mut worker| {
        for (result, expected) in [
            (Err(Failure::TimedOut), Expected::Between { acknowledged: 1, newest: 2 }),
            (Ok(RECORD as u32), Expected::Overtaken { oldest: 2, newest: 3 }),
        ] {
            worker.free.clear();
            begin(&mut worker, 0);
            worker.end(Done { slot: 0, result, sent: true }).unwrap();
            assert_eq!(worker.generations.expected(0), expected, "{result:?}");
        }
    });
    // What the far end refused is over.
    with_worker(&step, |mut worker| {
        for result in [Err(Failure::NoSpace), Ok(RECORD as u32)] {
            worker.free.clear();
            begin(&mut worker, 0);
            worker.end(Done { slot: 0, result, sent: true }).unwrap();
        }
        assert_eq!(worker.generations.expected(0), Expected::Generation(3));
    });
}

/// Whatever was acknowledged after a failover could be gone without a fault being told.
#[test]
fn a_write_that_was_never_sent_leaves_the_record_as_it_was() {
    let step = step(StorageOperation::RandomWrite);
    with_worker(&step, |mut worker| {
        // More of them than could be told apart.
        for _ in 0..100 {
            worker.free.clear();
            begin(&mut worker, 0);
            worker.end(Done { slot: 0, result: Err(Failure::TimedOut), sent: false }).unwrap();
            assert_eq!(worker.generations.expected(0), Expected::Generation(1));
        }
        worker.free.clear();
        begin(&mut worker, 0);
        worker.end(Done { slot: 0, result: Ok(RECORD as u32), sent: true }).unwrap();
        assert_eq!(worker.generations.expected(0), Expected::Generation(2));
        assert_eq!(worker.writes, (101, 1));
    });
}

#[test]
fn what_is_left_at_the_end_may_come_late_only_where_it_was_sent() {
    let step = step(StorageOperation::RandomWrite);
    for (sent, expected) in
        [(true, Expected::Between { acknowledged: 1, newest: 2 }), (false, Expected::Generation(1))]
    {
        let mut target = Unsent(buffers(), sent);
        let mut generations = Generations::new(1);
        generations.written(1);
        with_generations(&mut target, &mut generations, &step, |mut worker| {
            begin(&mut worker, 0);
            worker.finish().unwrap();
        });
        assert_eq!(generations.expected(0), expected, "sent: {sent}");
    }
}

#[test]
fn what_takes_longer_than_it_may_has_failed_but_is_written() {
    let step = step(StorageOperation::RandomWrite);
    with_worker(&step, |mut worker| {
        for (took, operations, late) in [(TIMEOUT, 1, 0), (TIMEOUT + 1, 1, 1)] {
            worker.free.clear();
            begin(&mut worker, 0);
            worker.time.now = took;
            worker.end(Done { slot: 0, result: Ok(RECORD as u32), sent: true }).unwrap();
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
