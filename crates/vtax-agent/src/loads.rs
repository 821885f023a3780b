//! The node's load: at most one is open at a time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use vtax_load::{Control, LoadSpec, Progress, Session, Step};
use vtax_sys::chain;
use vtax_sys::clock::unix_time;
use vtax_sys::sync::lock;
use vtax_units::Nanos;

use crate::message::Event;
use crate::writer::Writer;

/// Time between two reports of a step's progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// A time to begin is a moment ahead; a clock that was set meanwhile must not hold a step for ever.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How often a step that waits looks whether it was cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits for a time since 1970 on this node's clock, unless the step is cancelled.
fn wait_until(at: Nanos, control: &Control) {
    let until = Instant::now() + Duration::from(at.saturating_sub(unix_time())).min(LONGEST_WAIT);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || control.is_cancelled() {
            return;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

/// The load that is open, and what ends the step that runs.
pub(crate) struct Loads {
    writer: Writer,
    open: Mutex<Option<Box<dyn Session>>>,
    running: Mutex<Option<Arc<Control>>>,
    /// True once the node ends: also a step that is about to begin is to end.
    ending: AtomicBool,
}

impl Loads {
    pub(crate) fn new(writer: Writer) -> Self {
        Self { writer, open: Mutex::default(), running: Mutex::default(), ending: AtomicBool::new(false) }
    }

    /// Opens a load in place of the one before, which is closed first: both may want the same ports.
    pub(crate) fn open(&self, spec: &LoadSpec) -> Result<(), String> {
        let mut open = self.session()?;
        drop(open.take());
        *open = Some(spec.open().map_err(|e| chain(&e))?);
        Ok(())
    }

    /// Runs a step to its end, on the caller's thread, and not before `at` of this node's clock; the bytes of what it found.
    /// Progress is reported under the request's id.
    pub(crate) fn run(&self, id: u32, step: &Step, at: Option<Nanos>) -> Result<Vec<u8>, String> {
        let mut open = self.session()?;
        let session = open.as_mut().ok_or("no load is open")?;
        let control = Arc::new(Control::new());
        *lock(&self.running) = Some(Arc::clone(&control));
        // After it can be found: who ends the node meanwhile finds it, or is seen here.
        if self.ending.load(Ordering::SeqCst) {
            control.cancel();
        }
        let ended = AtomicBool::new(false);
        if let Some(at) = at {
            wait_until(at, &control);
        }
        let result = std::thread::scope(|scope| {
            let reporter = scope.spawn(|| self.report(id, &control, &ended));
            let result = catch_unwind(AssertUnwindSafe(|| session.run(step, &control)));
            // After a panic too: the scope waits for its thread.
            ended.store(true, Ordering::Relaxed);
            reporter.thread().unpark();
            result
        });
        *lock(&self.running) = None;
        match result {
            Ok(result) => result.map_err(|e| chain(&e)),
            // It leaves the session poisoned.
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Closes the load; that none is open is no error.
    pub(crate) fn close(&self) -> Result<(), String> {
        self.session().map(|mut open| drop(open.take()))
    }

    /// Ends the step that runs, and each that is still to begin; the load ends with the node.
    pub(crate) fn cancel(&self) {
        self.ending.store(true, Ordering::SeqCst);
        if let Some(control) = lock(&self.running).take() {
            control.cancel();
        }
    }

    /// The session, which its opening and a step that runs keep for themselves: to wait for them would keep the agent from hearing
    /// that it is to end.
    fn session(&self) -> Result<MutexGuard<'_, Option<Box<dyn Session>>>, String> {
        match self.open.try_lock() {
            Ok(open) => Ok(open),
            Err(TryLockError::Poisoned(_)) => Err("an earlier step panicked".to_owned()),
            Err(TryLockError::WouldBlock) => {
                Err("the load is still being opened, or a step of it runs".to_owned())
            }
        }
    }

    /// Reports every second, and once more at the end, so that a short step is seen too.
    fn report(&self, id: u32, control: &Control, ended: &AtomicBool) {
        let mut last = Progress::default();
        loop {
            std::thread::park_timeout(PROGRESS_EVERY);
            let ended = ended.load(Ordering::Relaxed);
            let progress = control.progress();
            if progress != last {
                self.writer.event_of(id, &Event::Progress { progress });
                last = progress;
            }
            if ended {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::mpsc::channel;

    use vtax_load::{LoadError, Model, RequestStep};

    use super::*;

    struct Bug;

    impl Session for Bug {
        fn run(&mut self, _: &Step, _: &Control) -> Result<Vec<u8>, LoadError> {
            panic!("a bug")
        }
    }

    /// Tells whether its step was cancelled.
    struct Obedient;

    impl Session for Obedient {
        fn run(&mut self, _: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
            Ok(vec![control.is_cancelled().into()])
        }
    }

    fn open(session: impl Session + 'static) -> Loads {
        let nobody = File::options().write(true).open("/dev/null").unwrap();
        let loads = Loads::new(Writer::new(nobody));
        *lock(&loads.open) = Some(Box::new(session));
        loads
    }

    fn step() -> Step {
        let second = Nanos::from_secs(1);
        Step::Requests(RequestStep {
            model: Model::Closed,
            warmup: Nanos::ZERO,
            duration: second,
            seed: 1,
            samples: false,
            interval: second,
            drain: second,
        })
    }

    /// One that began a moment after the node was to end was made to its end, and the node waited for it.
    #[test]
    fn a_step_that_begins_after_the_nodes_end_is_cancelled() {
        let loads = open(Obedient);
        assert_eq!(loads.run(1, &step(), None), Ok(vec![0]));
        loads.cancel();
        assert_eq!(loads.run(2, &step(), None), Ok(vec![1]));
    }

    #[test]
    fn a_step_that_panics_ends_and_no_other_begins() {
        let (loads, step) = (Arc::new(open(Bug)), step());
        let (tell, told) = channel();
        let (of_thread, of_step) = (Arc::clone(&loads), step.clone());
        std::thread::spawn(move || {
            let ended = catch_unwind(AssertUnwindSafe(|| of_thread.run(1, &of_step, None)));
            tell.send(ended.is_err())
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(true), "it panicked, and its end is seen");
        assert_eq!(loads.run(2, &step, None), Err("an earlier step panicked".to_owned()));
    }
}
